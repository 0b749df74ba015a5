//! Errors of a suite file with their positions. All errors are reported at once, in the order of the file.

use std::{cell::RefCell, collections::BTreeSet, fmt, ops::Range};

/// Error in a suite file. Prints as `file:line:column: message`, followed by the `hint:` line if the message has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Path of the file, as passed to [`crate::load`].
    pub file: String,
    /// Line and column, both from 1, the column in characters; absent if the file could not be read.
    pub position: Option<(usize, usize)>,
    /// The message; its hint is on a separate line.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.position {
            Some((line, column)) => write!(f, "{}:{line}:{column}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// All errors of a suite file, in the order of the file. Contains at least one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Diagnostic::to_string).collect::<Vec<_>>().join("\n"))]
pub struct SuiteErrors(Vec<Diagnostic>);

impl SuiteErrors {
    /// Creates the error of a file that could not be read at all.
    pub(crate) fn unreadable(file: String, reason: &std::io::Error) -> Self {
        Self(vec![Diagnostic {
            file,
            position: None,
            message: format!("cannot read the file: {reason}"),
        }])
    }

    /// Iterates over the errors.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter()
    }
}

/// Collector of errors. It allows the parser to continue after an error.
pub(crate) struct Sink<'a> {
    file: &'a str,
    text: &'a str,
    // A set because the parser reads the file once per profile, so most errors are found three times.
    found: RefCell<BTreeSet<(usize, String)>>,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        Self {
            file,
            text,
            found: RefCell::default(),
        }
    }

    /// Records an error at `span`.
    pub(crate) fn error(&self, span: &Range<usize>, message: impl fmt::Display) {
        self.found.borrow_mut().insert((span.start, message.to_string()));
    }

    /// Returns the text at `span`, shortened for a message.
    pub(crate) fn snippet(&self, span: &Range<usize>) -> String {
        const MAX_CHARACTERS: usize = 40;
        let whole = self.text.get(span.clone()).unwrap_or_default();
        let line = whole.lines().next().unwrap_or_default();
        let short: String = line.chars().take(MAX_CHARACTERS).collect();
        if short.len() < whole.len() {
            short + "…"
        } else {
            short
        }
    }

    /// Returns `value` if there were no errors.
    pub(crate) fn finish<T>(self, value: Option<T>) -> Result<T, SuiteErrors> {
        let found = self.found.into_inner();
        let diagnostics = || {
            found.iter().map(|(offset, message)| Diagnostic {
                file: self.file.to_owned(),
                position: Some(position(self.text, *offset)),
                message: message.clone(),
            })
        };
        match value {
            Some(value) if found.is_empty() => Ok(value),
            _ => Err(SuiteErrors(diagnostics().collect())),
        }
    }
}

/// Returns line and column of a byte offset, both from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        assert_eq!(position("a\nß = b", "a\nß = ".len()), (2, 5));
        assert_eq!(position("", 0), (1, 1));
    }

    #[test]
    fn errors_are_unique_and_in_the_order_of_the_file() {
        let sink = Sink::new("x.toml", "one\ntwo");
        for (span, message) in [(4..7, "second"), (0..3, "first"), (4..7, "second")] {
            sink.error(&span, message);
        }
        let errors = sink.finish(Some(())).unwrap_err();
        assert_eq!(errors.to_string(), "x.toml:1:1: first\nx.toml:2:1: second");
    }
}
