//! Sanitization of untrusted text.

/// Returns the text as one line, without characters that terminals, XML or GitHub interpret. Line breaks and tabs become spaces. Other
/// control characters, and those that change the text direction, become `�`.
pub(crate) fn sanitize(text: &str) -> String {
    let replacement = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{2028}' | '\u{2029}' => '\u{fffd}',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    // GitHub's runner interprets `##[` anywhere in a line as a command.
    let text: String = text.chars().map(replacement).collect();
    text.replace("##[", "# #[")
}

/// Truncates text to `max_chars` characters. The last character of a truncated text is `…`.
pub(crate) fn truncate(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some(_) => text
            .chars()
            .take(max_chars.saturating_sub(1))
            .chain(['…'])
            .collect(),
        None => text.to_owned(),
    }
}

/// Applies [`sanitize`], then [`truncate`].
pub(crate) fn shorten(text: &str, max_chars: usize) -> String {
    // Keep one character more than `max_chars`, so that `truncate` detects a longer text.
    let end = text
        .char_indices()
        .nth(max_chars + 1)
        .map_or(text.len(), |(end, _)| end);
    truncate(&sanitize(&text[..end]), max_chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_line_breaks_are_replaced() {
        assert_eq!(
            sanitize("a\nb\r\tc\u{1b}[31m\0\u{202e}\u{85}é🦀"),
            "a b  c�[31m���é🦀"
        );
    }

    #[test]
    fn truncated_text_has_the_maximum_length() {
        assert_eq!(truncate("éèê", 3), "éèê");
        assert_eq!(truncate("éèêë", 3), "éè…");
        assert_eq!(truncate("ab", 0), "…");
        assert_eq!(truncate("", 0), "");
        assert_eq!(
            (shorten("é\në", 3), shorten("éèê\n", 3)),
            ("é ë".into(), "éè…".into())
        );
    }
}
