//! Field value of an exported row, independent of the output format.

use std::borrow::Cow;

use mantissa_core::AxisValue;

/// Column type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8 text.
    Text,
    /// Unsigned integer.
    Integer,
    /// 64-bit float.
    Number,
    /// Boolean.
    Truth,
}

/// A field value. Unknown and non-finite values are absent; they are never written as 0 or as text in a numeric column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Unknown value.
    Absent,
    /// Text.
    Text(Cow<'a, str>),
    /// Unsigned integer.
    Integer(u64),
    /// Finite number.
    Number(f64),
    /// Boolean.
    Truth(bool),
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::Text(Cow::Owned(text))
    }
}

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Self::Integer(number)
    }
}

impl From<u32> for Value<'_> {
    fn from(number: u32) -> Self {
        Self::Integer(number.into())
    }
}

impl From<f64> for Value<'_> {
    fn from(number: f64) -> Self {
        match number.is_finite() {
            true => Self::Number(number),
            false => Self::Absent,
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(truth: bool) -> Self {
        Self::Truth(truth)
    }
}

impl From<AxisValue> for Value<'_> {
    fn from(value: AxisValue) -> Self {
        match value {
            AxisValue::Integer(number) => number.into(),
            AxisValue::Number(number) => number.into(),
            AxisValue::Text(text) => text.into(),
            AxisValue::List(_) => value.to_string().into(),
        }
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Absent, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_numbers_are_absent_and_zero_is_zero() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Value::from(number), Value::Absent);
        }
        assert_eq!(Value::from(0.0), Value::Number(0.0));
        assert_eq!(Value::from(None::<f64>), Value::Absent);
    }
}
