//! Formatting of command lines.

/// Joins words to a command line, quoted for a POSIX shell.
pub fn command_line<W: AsRef<str>>(words: &[W]) -> String {
    let quoted_words = words.iter().map(|word| quote(word.as_ref()));
    quoted_words.collect::<Vec<_>>().join(" ")
}

fn quote(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=./,:+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_special_characters_are_quoted() {
        let words = ["a=b.toml", "my data", "it's*", ""];
        assert_eq!(command_line(&words), r"a=b.toml 'my data' 'it'\''s*' ''");
    }
}
