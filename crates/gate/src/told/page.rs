//! A Markdown page that fits into a comment.

/// What a comment may hold on GitHub, in characters. It is kept in bytes, which are no fewer.
pub const LONGEST_COMMENT: usize = 65_536;
/// What is kept free for the words that say how many rows are missing, and for the end, in bytes.
const RESERVE: usize = 1000;

/// Keeps text from being read as HTML.
pub(crate) fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// A page that does not grow beyond what a comment may hold.
pub(crate) struct Page {
    out: String,
    foot: String,
}

impl Page {
    /// An empty one, for whose end there will be room.
    pub fn new(foot: String) -> Self {
        Self {
            out: String::new(),
            foot,
        }
    }

    /// Bytes that can still be written.
    fn room(&self) -> usize {
        LONGEST_COMMENT.saturating_sub(self.out.len() + self.foot.len() + RESERVE)
    }

    /// A paragraph, if there is room for it.
    pub fn line(&mut self, text: &str) {
        if text.len() + 2 <= self.room() {
            self.end(text);
        }
    }

    /// A line for which room is kept: the end of something, or how much of it is missing.
    pub fn end(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push_str("\n\n");
    }

    /// A table with as many of its rows as take half of the room that is left, and the number of the others.
    pub fn table(&mut self, title: &str, head: &[&str], right: &[&str], rows: Vec<String>) {
        if rows.is_empty() {
            return;
        }
        let mut table = match title {
            "" => String::new(),
            _ => format!("#### {title}\n\n"),
        };
        let sides = head.iter().map(|name| match right.contains(name) {
            true => "---:",
            false => "---",
        });
        let sides: Vec<&str> = sides.collect();
        table += &format!("| {} |\n|{}|\n", head.join(" | "), sides.join("|"));
        let room = self.room() / 2;
        let mut shown = 0;
        for row in &rows {
            if table.len() + row.len() > room {
                break;
            }
            table.push_str(row);
            shown += 1;
        }
        if shown > 0 {
            self.end(table.trim_end());
        }
        match (rows.len() - shown, title) {
            (0, _) => {}
            (more, "") => self.end(&format!("… and {more} more.")),
            (more, title) => self.end(&format!("… and {more} more: {}.", title.to_lowercase())),
        }
    }

    /// The whole page.
    pub fn finish(mut self) -> String {
        self.out.push_str(&self.foot);
        self.out
    }
}
