//! Writes UTF-8 CSV as in RFC 4180, except that lines end in a line feed. An absent value is an empty field.

use std::{borrow::Cow, io};

use super::{column::Column, line::Line, value::Value};
use crate::ReportError;

/// Returns a header and one row per line.
pub(super) fn write(columns: &[Column], lines: &[Line<'_>]) -> Result<Vec<u8>, ReportError> {
    let mut bytes = Vec::new();
    write_to(&mut bytes, columns, lines)?;
    Ok(bytes)
}

/// Writes a header and one row per line to a stream.
pub(super) fn write_to(
    to: impl io::Write,
    columns: &[Column],
    lines: &[Line<'_>],
) -> Result<(), ReportError> {
    let mut writer = ::csv::Writer::from_writer(to);
    writer.write_record(columns.iter().map(|column| &column.name))?;
    for line in lines {
        for column in columns {
            writer.write_field(field(&column.value(line)).as_bytes())?;
        }
        writer.write_record(None::<&[u8]>)?;
    }
    writer.flush().map_err(ReportError::Csv)
}

fn field<'a>(value: &'a Value<'_>) -> Cow<'a, str> {
    match value {
        Value::Absent => "".into(),
        Value::Text(text) => escape_formula(text),
        Value::Integer(value) => value.to_string().into(),
        Value::Number(value) => number(*value).into(),
        Value::Truth(truth) => truth.to_string().into(),
    }
}

/// Formats a number with the fewest digits that parse to the same bits, and with an exponent if most digits would be zeros.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size != 0.0 && !(1e-4..1e16).contains(&size) => format!("{value:e}"),
        _ => value.to_string(),
    }
}

/// Adds an apostrophe in front of text that a spreadsheet would evaluate as a formula, as OWASP recommends. Names of suites and failure
/// reasons come from untrusted files. Numbers are never escaped.
pub(crate) fn escape_formula(text: &str) -> Cow<'_, str> {
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
    fn formulas_are_prefixed_with_an_apostrophe_and_negative_numbers_are_not() {
        for text in [
            "=HYPERLINK(\"x\")",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
        ] {
            assert_eq!(escape_formula(text), format!("'{text}"));
        }
        assert_eq!(escape_formula("a=b"), "a=b");
        assert_eq!(field(&Value::Number(-0.5)), "-0.5");
    }
}
