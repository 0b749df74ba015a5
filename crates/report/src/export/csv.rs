//! Comma-separated values as RFC 4180 has them, in UTF-8; lines end in a line feed. An absent value is an empty field.

use std::{borrow::Cow, io};

use super::{column::Column, line::Line, value::Value};
use crate::ReportError;

/// A header, then a row for every line.
pub(super) fn write(columns: &[Column], lines: &[Line<'_>]) -> Result<Vec<u8>, ReportError> {
    let mut bytes = Vec::new();
    write_to(&mut bytes, columns, lines)?;
    Ok(bytes)
}

/// The same, written as it comes.
pub(super) fn write_to(
    to: impl io::Write,
    columns: &[Column],
    lines: &[Line<'_>],
) -> Result<(), ReportError> {
    let mut writer = ::csv::Writer::from_writer(to);
    writer.write_record(columns.iter().map(|column| &column.name))?;
    for line in lines {
        for column in columns {
            writer.write_field(field(&column.say(line)).as_bytes())?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush().map_err(ReportError::Csv)
}

fn field<'a>(value: &'a Value<'_>) -> Cow<'a, str> {
    match value {
        Value::Absent => "".into(),
        Value::Text(text) => inert(text),
        Value::Integer(value) => value.to_string().into(),
        Value::Number(value) => number(*value).into(),
        Value::Truth(truth) => truth.to_string().into(),
    }
}

/// The fewest digits that read back to the same bits; with an exponent where zeros would be most of them.
fn number(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && !(1e-4..1e16).contains(&size) => format!("{value:e}"),
        _ => value.to_string(),
    }
}

/// Text that a spreadsheet would take for a formula, with an apostrophe in front, as OWASP advises: names of suites and
/// reasons of failures come from files that others wrote. Numbers are ours and stay as they are.
fn inert(text: &str) -> Cow<'_, str> {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r', '\n']) {
        true => format!("'{text}").into(),
        false => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_back_to_the_same_bits() {
        for value in [
            0.0,
            -0.0,
            0.1,
            1e-8,
            -3.2e-300,
            5e-324,
            1e9,
            123_456_789.125,
            1e16,
            f64::MAX,
        ] {
            let text = number(value);
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), value.to_bits(), "{text}");
            assert!(text.len() < 25, "{text}");
        }
        assert_eq!(number(1e9), "1000000000");
        assert_eq!(number(1e-8), "1e-8");
    }

    #[test]
    fn text_that_looks_like_a_formula_is_made_inert_and_a_negative_number_is_not() {
        for text in [
            "=HYPERLINK(\"x\")",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
        ] {
            assert_eq!(inert(text), format!("'{text}"));
        }
        assert_eq!(inert("a=b"), "a=b");
        assert_eq!(field(&Value::Number(-0.5)), "-0.5");
    }
}
