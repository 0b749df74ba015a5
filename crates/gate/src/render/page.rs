//! Markdown page with a limited length.

/// Maximum length of a GitHub comment, in characters. The code limits the bytes, which are at least as many.
pub const LONGEST_COMMENT: usize = 65_536;
/// Space reserved for the number of omitted rows and the end of the page, in bytes.
const RESERVE: usize = 1000;

/// Escapes text for HTML.
pub(crate) fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Page that does not exceed [`LONGEST_COMMENT`].
pub(crate) struct Page {
    out: String,
    foot: String,
}

impl Page {
    /// Creates an empty page and reserves space for its foot.
    pub fn new(foot: String) -> Self {
        Self {
            out: String::new(),
            foot,
        }
    }

    /// Returns the number of bytes that can still be written.
    fn room(&self) -> usize {
        LONGEST_COMMENT.saturating_sub(self.out.len() + self.foot.len() + RESERVE)
    }

    /// Adds a paragraph if it fits.
    pub fn line(&mut self, text: &str) {
        if text.len() + 2 <= self.room() {
            self.end(text);
        }
    }

    /// Adds a paragraph in the reserved space, such as the number of omitted rows.
    pub fn end(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push_str("\n\n");
    }

    /// Adds a table. Counts the rows that do not fit into half of the remaining space.
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

    /// Returns the whole page.
    pub fn finish(mut self) -> String {
        self.out.push_str(&self.foot);
        self.out
    }
}
