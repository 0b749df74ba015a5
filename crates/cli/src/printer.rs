//! Prints results to standard output and everything else to standard error.

use std::{
    borrow::Cow,
    cell::RefCell,
    io::{self, ErrorKind, IsTerminal, Write},
};

use mantissa_core::error_with_causes;

use crate::exit::Exit;

/// Maximum length of a message on standard error. Longer messages are truncated.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Writer for both streams. All output of the command goes through it.
#[derive(Debug)]
pub(crate) struct Printer {
    quiet: bool,
    output: RefCell<Output>,
}

/// State of standard output.
#[derive(Debug)]
enum Output {
    Open,
    /// The reader closed the pipe, as `head` does after ten lines.
    Closed,
    Failed(io::Error),
}

impl Printer {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            output: RefCell::new(Output::Open),
        }
    }

    /// Prints the result of a command. After a write error, it prints nothing more: the command continues, and [`finish`](Self::finish) reports the
    /// error.
    pub(crate) fn data(&self, text: &str) {
        let mut output = self.output.borrow_mut();
        if !matches!(*output, Output::Open) {
            return;
        }
        let mut out = io::stdout().lock();
        let text = escape_control_characters(text.trim_end_matches('\n'));
        if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
            *output = match error.kind() {
                ErrorKind::BrokenPipe => Output::Closed,
                _ => Output::Failed(error),
            };
        }
    }

    /// Prints progress and hints. `--quiet` silences it.
    pub(crate) fn note(&self, text: &str) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// Prints a warning, with or without `--quiet`.
    pub(crate) fn warn(&self, text: &str) {
        // An error of standard error itself cannot be reported.
        let _ = writeln!(io::stderr(), "{}", escape_control_characters(&truncate(text)));
    }

    /// Prints the error of a command with its causes and its hint.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        self.warn(&format!("error: {}", error_with_causes(error.as_ref())));
    }

    /// Returns true if progress may be drawn on standard error.
    pub(crate) fn shows_progress(&self) -> bool {
        !self.quiet && io::stderr().is_terminal()
    }

    /// Reports that the results could not be printed. A command that otherwise succeeded then exits with the code for a missing requirement; any
    /// other exit code is kept.
    pub(crate) fn finish(&self, exit: Exit) -> Exit {
        let output = self.output.borrow();
        let Output::Failed(error) = &*output else {
            return exit;
        };
        self.warn(&format!("error: cannot write to standard output: {error}"));
        match exit {
            Exit::Success => Exit::MissingRequirement,
            exit => exit,
        }
    }
}

/// Truncates a long message, such as one that quotes a file.
fn truncate(text: &str) -> Cow<'_, str> {
    if text.len() <= MAX_MESSAGE_BYTES {
        return text.into();
    }
    let end = text.floor_char_boundary(MAX_MESSAGE_BYTES);
    format!("{}… ({} bytes more)", &text[..end], text.len() - end).into()
}

/// Escapes characters that control a terminal or reorder text, as JSON does (`\u001b`), because names, paths and titles come from untrusted
/// files. Line feeds and tabs are kept.
pub(crate) fn escape_control_characters(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            character if is_control(character) => shown.push_str(&format!("\\u{:04x}", u32::from(character))),
            character => shown.push(character),
        }
    }
    shown.into()
}

fn is_control(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        // Invisible spaces, line separators, and marks and embeddings of direction. Joiners are kept because scripts and emoji need them.
        '\u{61c}'
        | '\u{200b}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => true,
        character => character.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_as_in_json() {
        for (text, shown) in [
            (
                "plain é 中 👩\u{200d}🔬\n\tagain",
                "plain é 中 👩\u{200d}🔬\n\tagain",
            ),
            ("\u{1b}[2J\u{7}\r\u{7f}", "\\u001b[2J\\u0007\\u000d\\u007f"),
            (
                "a\u{85}b\u{202e}c\u{2066}d\u{200f}",
                "a\\u0085b\\u202ec\\u2066d\\u200f",
            ),
        ] {
            assert_eq!(escape_control_characters(text), shown);
        }
        let json = serde_json::to_string("a\u{85}\u{202e}\u{1b}").unwrap();
        assert_eq!(
            serde_json::from_str::<String>(&escape_control_characters(&json)).unwrap(),
            "a\u{85}\u{202e}\u{1b}"
        );
    }

    #[test]
    fn long_messages_are_truncated() {
        let long = "é".repeat(MAX_MESSAGE_BYTES);
        let truncated = truncate(&long);
        assert!(truncated.len() < MAX_MESSAGE_BYTES + 50 && truncated.ends_with("bytes more)"));
        assert_eq!(truncate("short"), "short");
    }
}
