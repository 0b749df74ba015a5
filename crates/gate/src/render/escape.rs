//! Sanitization of untrusted text.

/// Returns the text as one line, without characters that terminals, XML or GitHub interpret. Control characters and characters that change
/// the text direction become `�`; line breaks and tabs become spaces.
pub(crate) fn plain(text: &str) -> String {
    let harmless = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => '\u{fffd}',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    // GitHub's runner interprets `##[` anywhere in a line as a command.
    let text: String = text.chars().map(harmless).collect();
    text.replace("##[", "# #[")
}

/// Truncates text to `room` characters, the last of which is then `…`.
pub(crate) fn cut(text: &str, room: usize) -> String {
    match text.char_indices().nth(room) {
        Some(_) => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Applies [`plain`], then [`cut`].
pub(crate) fn short(text: &str, room: usize) -> String {
    // One additional character shows [`cut`] that the text is longer.
    let end = text
        .char_indices()
        .nth(room + 1)
        .map_or(text.len(), |(end, _)| end);
    cut(&plain(&text[..end]), room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_line_breaks_do_not_come_through() {
        assert_eq!(
            plain("a\nb\r\tc\u{1b}[31m\0\u{202e}\u{85}é🦀"),
            "a b  c�[31m���é🦀"
        );
    }

    #[test]
    fn a_cut_text_is_as_long_as_its_room() {
        assert_eq!(cut("éèê", 3), "éèê");
        assert_eq!(cut("éèêë", 3), "éè…");
        assert_eq!(cut("ab", 0), "…");
        assert_eq!(cut("", 0), "");
        assert_eq!(
            (short("é\në", 3), short("éèê\n", 3)),
            ("é ë".into(), "éè…".into())
        );
    }
}
