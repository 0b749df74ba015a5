//! Escapes text for LaTeX without additional packages. Special characters are escaped, and characters missing from the standard fonts are
//! replaced.

use std::fmt::Write as _;

/// Escapes text for LaTeX. Latin-1 letters stay UTF-8, which LaTeX supports since 2018. Special characters that reports use become
/// commands. All other characters become their code point, which keeps names in other scripts identifiable and the document compilable.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        if superscript(c).is_some() {
            let mut digits = String::new();
            digits.extend(superscript(c));
            while let Some(digit) = characters.peek().copied().and_then(superscript) {
                digits.push(digit);
                characters.next();
            }
            let _ = write!(escaped, "$^{{{digits}}}$");
        } else if escaped.is_empty() && matches!(c, '[' | '*') {
            // At the start of a row, LaTeX would parse these characters as arguments of the preceding `\\`.
            let _ = write!(escaped, "{{{c}}}");
        } else if c == '-' && characters.peek() == Some(&'-') {
            // Two hyphens would become one dash.
            escaped.push_str("-{}");
        } else if let Some(command) = command(c) {
            escaped.push_str(command);
        } else if c.is_control() {
            escaped.push(' ');
        } else if c.is_ascii() || is_latin(c) {
            escaped.push(c);
        } else {
            let _ = write!(escaped, "(U+{:04X})", u32::from(c));
        }
    }
    escaped
}

/// Returns `true` for letters that every standard font encoding has.
fn is_latin(c: char) -> bool {
    matches!(c, 'À'..='ÿ') && !matches!(c, 'Ð' | 'ð' | 'Þ' | 'þ' | '×' | '÷')
}

fn superscript(c: char) -> Option<char> {
    match c {
        '⁻' => Some('-'),
        '¹' => Some('1'),
        '²' => Some('2'),
        '³' => Some('3'),
        '⁰' | '⁴'..='⁹' => char::from_digit(u32::from(c) - 0x2070, 10),
        _ => None,
    }
}

fn command(c: char) -> Option<&'static str> {
    Some(match c {
        '\\' => "\\textbackslash{}",
        '{' => "\\{",
        '}' => "\\}",
        '$' => "\\$",
        '&' => "\\&",
        '#' => "\\#",
        '%' => "\\%",
        '_' => "\\_",
        '^' => "\\textasciicircum{}",
        '~' => "\\textasciitilde{}",
        '<' => "\\textless{}",
        '>' => "\\textgreater{}",
        '|' => "\\textbar{}",
        '"' => "{''}",
        '`' => "{`}",
        '\u{a0}' => "~",
        '–' => "--",
        '—' => "---",
        '“' => "``",
        '”' => "''",
        '‘' => "`",
        '’' => "'",
        '…' => "\\ldots{}",
        '·' => "$\\cdot$",
        '×' => "$\\times$",
        '÷' => "$\\div$",
        '±' => "$\\pm$",
        '−' => "$-$",
        '→' => "$\\rightarrow$",
        '≤' => "$\\leq$",
        '≥' => "$\\geq$",
        'µ' | 'μ' => "$\\mu$",
        'ε' => "$\\varepsilon$",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_escaped() {
        assert_eq!(
            escape("\\input{/etc/passwd} $x_1^2$ 100% #1 a&b ~"),
            "\\textbackslash{}input\\{/etc/passwd\\} \\$x\\_1\\textasciicircum{}2\\$ 100\\% \\#1 a\\&b \\textasciitilde{}"
        );
        assert_eq!(escape("[4pt] * --resume a\nb\u{1b}"), "{[}4pt] * -{}-resume a b ");
    }

    #[test]
    fn numbers_and_units_of_reports_become_commands() {
        assert_eq!(escape("2.30×10⁻¹²"), "2.30$\\times$10$^{-12}$");
        assert_eq!(escape("tf32 → f32"), "tf32 $\\rightarrow$ f32");
        assert_eq!(escape("4.2 µs"), "4.2 $\\mu$s");
    }

    #[test]
    fn letters_missing_from_standard_fonts_become_code_points() {
        assert_eq!(escape("Grüße ß"), "Grüße ß");
        assert_eq!(escape("中þ"), "(U+4E2D)(U+00FE)");
    }
}
