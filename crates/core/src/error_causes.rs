//! Formatting of an error with its causes.

use std::error::Error;

/// Formats an error and its causes. A cause that the message does not quote becomes a line `caused by: …` before the hint of the message.
pub fn error_with_causes(error: &dyn Error) -> String {
    let text = error.to_string();
    let (message, hint) = match text.find("\n  hint:") {
        Some(at) => text.split_at(at),
        None => (text.as_str(), ""),
    };
    let mut lines = message.to_owned();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !lines.contains(&text) && !text.is_empty() {
            lines += "\n  caused by: ";
            lines += &text;
        }
        cause = error.source();
    }
    lines + hint
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (text, rest) = texts.split_first().unwrap();
        Layer {
            text,
            source: (!rest.is_empty()).then(|| Box::new(layers(rest))),
        }
    }

    #[test]
    fn causes_come_before_the_hint() {
        let error = layers(&[
            "cannot read `x`\n  hint: name another file",
            "line 3",
            "no such key",
        ]);
        assert_eq!(
            error_with_causes(&error),
            "cannot read `x`\n  caused by: line 3\n  caused by: no such key\n  hint: name another file"
        );
    }

    #[test]
    fn quoted_causes_are_not_repeated() {
        let error = layers(&["cannot read `x`: permission denied", "permission denied"]);
        assert_eq!(error_with_causes(&error), "cannot read `x`: permission denied");
    }
}
