//! Markdown page with a limited length.

/// Maximum length of a GitHub comment, in characters. A [`Page`] has at most this many bytes, so it cannot exceed the limit.
pub const MAX_COMMENT_LENGTH: usize = 65_536;
/// Space reserved for the number of omitted rows and the end of the page, in bytes.
const RESERVE: usize = 1000;

/// Escapes text for HTML.
pub(crate) fn html(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Page that does not exceed [`MAX_COMMENT_LENGTH`].
pub(crate) struct Page {
    out: String,
    footer: String,
}

impl Page {
    /// Creates an empty page and reserves space for the footer.
    pub fn new(footer: String) -> Self {
        Self {
            out: String::new(),
            footer,
        }
    }

    /// Returns the number of bytes that can still be written.
    fn remaining(&self) -> usize {
        MAX_COMMENT_LENGTH.saturating_sub(self.out.len() + self.footer.len() + RESERVE)
    }

    /// Adds a paragraph if it fits.
    pub fn paragraph_if_it_fits(&mut self, text: &str) {
        if text.len() + 2 <= self.remaining() {
            self.paragraph(text);
        }
    }

    /// Adds a paragraph even if only the reserved space is left. Use it for short texts, such as the number of omitted rows.
    pub fn paragraph(&mut self, text: &str) {
        self.out.push_str(text);
        self.out.push_str("\n\n");
    }

    /// Adds a table of at most half of the remaining space. Rows that do not fit are counted. `right`: the right-aligned columns.
    pub fn table(&mut self, title: &str, head: &[&str], right: &[&str], rows: Vec<String>) {
        if rows.is_empty() {
            return;
        }
        let mut table = match title {
            "" => String::new(),
            _ => format!("#### {title}\n\n"),
        };
        let alignments = head.iter().map(|name| match right.contains(name) {
            true => "---:",
            false => "---",
        });
        let alignments: Vec<&str> = alignments.collect();
        table += &format!("| {} |\n|{}|\n", head.join(" | "), alignments.join("|"));
        let limit = self.remaining() / 2;
        let mut shown = 0;
        for row in &rows {
            if table.len() + row.len() > limit {
                break;
            }
            table.push_str(row);
            shown += 1;
        }
        if shown > 0 {
            self.paragraph(table.trim_end());
        }
        match (rows.len() - shown, title) {
            (0, _) => {}
            (more, "") => self.paragraph(&format!("… and {more} more.")),
            (more, title) => self.paragraph(&format!("… and {more} more: {}.", title.to_lowercase())),
        }
    }

    /// Returns the whole page.
    pub fn finish(mut self) -> String {
        self.out.push_str(&self.footer);
        self.out
    }
}
