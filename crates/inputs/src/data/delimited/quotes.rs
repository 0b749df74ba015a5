//! Quoted fields: detection of quotes, and repair of quotes that are escaped by a backslash.

use std::borrow::Cow;

/// Returns true for a quoted field with a doubled quote inside, which only occurs in CSV.
pub(super) fn is_doubled(field: &str) -> bool {
    let inner = field
        .trim_end_matches('\r')
        .strip_prefix('"')
        .and_then(|field| field.strip_suffix('"'));
    inner.is_some_and(|inner| inner.contains("\"\"") && !inner.replace("\"\"", "").contains('"'))
}

/// Returns true if the last field of a record is quoted.
pub(super) fn ends_in_quotes(fields: &[String]) -> bool {
    let last = fields.last().map_or("", |field| field.trim());
    last.len() >= 2 && last.starts_with('"') && last.ends_with('"')
}

/// Doubles quotes that are escaped by a backslash, as Spark and MySQL write them, if the file has such quotes.
pub(super) fn with_doubled_quotes(text: &str, separator: u8) -> Cow<'_, str> {
    if text.contains("\\\"") && quote_in_quotes(text, separator).is_some() {
        let doubled = doubled_quotes(text, separator);
        if quote_in_quotes(&doubled, separator).is_none() {
            return doubled.into();
        }
    }
    text.into()
}

/// Replaces `\"` by `""` in quoted fields.
fn doubled_quotes(text: &str, separator: u8) -> String {
    let (mut doubled, mut quoted, mut begins) = (String::with_capacity(text.len()), false, true);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied();
        match (quoted, letter, next) {
            (true, '\\', Some('"')) => {
                doubled.push_str("\"\"");
                letters.next();
            }
            (true, '\\', Some('\\')) => {
                doubled.push_str("\\\\");
                letters.next();
            }
            (true, '"', _) => {
                quoted = false;
                doubled.push(letter);
            }
            (false, '"', _) if begins => {
                quoted = true;
                doubled.push(letter);
            }
            _ => doubled.push(letter),
        }
        begins = !quoted && (letter == char::from(separator) || matches!(letter, '\r' | '\n'));
    }
    doubled
}

/// Returns the line of a quoted field that continues after its closing quote. The CSV reader would append the rest to the field.
pub(super) fn quote_in_quotes(text: &str, separator: u8) -> Option<u64> {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut begins) = (0, 1, true);
    while at < bytes.len() {
        if begins && bytes[at] == b'"' {
            let first_line = line;
            at += 1;
            loop {
                match bytes.get(at) {
                    // A field without a closing quote is reported as another error.
                    None => return None,
                    Some(b'"') if bytes.get(at + 1) == Some(&b'"') => at += 2,
                    Some(b'"') => break,
                    Some(byte) => {
                        line += u64::from(*byte == b'\n');
                        at += 1;
                    }
                }
            }
            at += 1;
            // Spaces and tabs after the quote belong to the field.
            while bytes
                .get(at)
                .is_some_and(|byte| matches!(byte, b' ' | b'\t') && *byte != separator)
            {
                at += 1;
            }
            match bytes.get(at) {
                None | Some(b'\r' | b'\n') => {}
                Some(byte) if *byte == separator => {}
                Some(_) => return Some(first_line),
            }
            begins = false;
            continue;
        }
        begins = bytes[at] == separator || matches!(bytes[at], b'\r' | b'\n');
        line += u64::from(bytes[at] == b'\n');
        at += 1;
    }
    None
}
