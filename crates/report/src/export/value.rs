//! A field of an exported row, before a format writes it.

use std::borrow::Cow;

use mantissa_core::AxisValue;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// From 0.
    Integer,
    /// A 64-bit float.
    Number,
    /// Yes or no.
    Truth,
}

/// One field. What is not known, or not finite, is absent: never 0, never a word among numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Nothing is known.
    Absent,
    /// A text.
    Text(Cow<'a, str>),
    /// An integer.
    Integer(u64),
    /// A finite number.
    Number(f64),
    /// Yes or no.
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

impl<'a> From<&'a AxisValue> for Value<'a> {
    fn from(value: &'a AxisValue) -> Self {
        match value {
            AxisValue::Integer(number) => (*number).into(),
            AxisValue::Number(number) => (*number).into(),
            AxisValue::Text(text) => text.as_str().into(),
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
    fn what_is_not_finite_is_absent_and_zero_is_zero() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Value::from(number), Value::Absent);
        }
        assert_eq!(Value::from(0.0), Value::Number(0.0));
        assert_eq!(Value::from(None::<f64>), Value::Absent);
    }
}
