//! Values of axes, as text and typed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Switch, UnknownName, name::Named};

/// Value of an axis in suites, on the command line and in records. `Axis::value` checks a value, and `Axis::parse` parses one from text.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)] // unambiguous: each variant has its own JSON type
pub enum AxisValue {
    /// A whole number.
    Integer(u64),
    /// A real number.
    Number(f64),
    /// One of a closed list of names.
    Text(String),
    /// A list of patterns.
    List(Vec<String>),
}

impl fmt::Display for AxisValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => write!(f, "{value:e}"),
            Self::Text(value) => f.pad(value),
            Self::List(values) if values.is_empty() => f.pad("none"),
            Self::List(values) => f.pad(&values.join("+")),
        }
    }
}

/// Type of the values of an axis.
pub trait AxisType: Sized {
    /// Return type of the accessors of [`crate::Setting`].
    type Read<'a>
    where
        Self: 'a;

    /// Valid values, in words.
    const VALID: &'static str;

    /// Checks and converts a value. Returns `None` for a value of another type or outside the valid range.
    ///
    /// # Errors
    /// A name that is not in the list of the axis.
    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName>;

    /// Parses text, as in `-a accumulate=4`. Does not check the range.
    fn from_text(text: &str) -> Option<AxisValue>;

    /// Returns the canonical form of the value.
    fn to_value(&self) -> AxisValue;

    /// Returns the value for an accessor.
    fn read(&self) -> Self::Read<'_>;
}

impl<T: Named> AxisType for T {
    type Read<'a>
        = Self
    where
        Self: 'a;
    const VALID: &'static str = "the name of a value";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        match value {
            AxisValue::Text(name) => name.parse().map(Some),
            _ => Ok(None),
        }
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        Some(AxisValue::Text(text.to_owned()))
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Text(self.name().to_owned())
    }

    fn read(&self) -> Self {
        *self
    }
}

/// `on` or `off`.
impl AxisType for bool {
    type Read<'a> = Self;
    const VALID: &'static str = Switch::VALID;

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(Switch::from_value(value)?.map(|switch| switch == Switch::On))
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        Switch::from_text(text)
    }

    fn to_value(&self) -> AxisValue {
        if *self { Switch::On } else { Switch::Off }.to_value()
    }

    fn read(&self) -> Self {
        *self
    }
}

/// Counts.
impl AxisType for u32 {
    type Read<'a> = Self;
    const VALID: &'static str = "a whole number of 1 or more";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(whole_number(value).filter(|n| *n > 0))
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        text.parse().ok().map(AxisValue::Integer)
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Integer((*self).into())
    }

    fn read(&self) -> Self {
        *self
    }
}

/// Seed of a random generator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seed(pub u32);

impl AxisType for Seed {
    type Read<'a> = u32;
    const VALID: &'static str = "a whole number";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(whole_number(value).map(Self))
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        u32::from_text(text)
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Integer(self.0.into())
    }

    fn read(&self) -> u32 {
        self.0
    }
}

/// Learning rate; `None` is that of the workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate(pub Option<f64>);

impl Rate {
    const OF_WORKLOAD: &'static str = "default";
}

impl AxisType for Rate {
    type Read<'a> = Option<f64>;
    const VALID: &'static str = "a number above 0, or `default`";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(match value {
            AxisValue::Text(text) if text == Self::OF_WORKLOAD => Some(Self(None)),
            value => f64::from_value(value)?
                .filter(|rate| *rate > 0.0)
                .map(|rate| Self(Some(rate))),
        })
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        match text {
            Self::OF_WORKLOAD => Some(Self(None).to_value()),
            text => f64::from_text(text),
        }
    }

    fn to_value(&self) -> AxisValue {
        match self.0 {
            Some(rate) => AxisValue::Number(rate),
            None => AxisValue::Text(Self::OF_WORKLOAD.to_owned()),
        }
    }

    fn read(&self) -> Option<f64> {
        self.0
    }
}

/// Maximum number of optimizer steps between reading parameters and applying their gradient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staleness(pub u32);

impl AxisType for Staleness {
    type Read<'a> = u32;
    const VALID: &'static str = "a whole number";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(whole_number(value).map(Self))
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        u32::from_text(text)
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Integer(self.0.into())
    }

    fn read(&self) -> u32 {
        self.0
    }
}

/// Number of CPU threads of each device; `None` uses all cores, divided among the devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(pub Option<u32>);

impl Threads {
    const ALL: &'static str = "all";
}

impl AxisType for Threads {
    type Read<'a> = Option<u32>;
    const VALID: &'static str = "a whole number of 1 or more, or `all`";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(match value {
            AxisValue::Text(text) if text == Self::ALL => Some(Self(None)),
            value => whole_number(value).filter(|n| *n > 0).map(|n| Self(Some(n))),
        })
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        match text {
            Self::ALL => Some(Self(None).to_value()),
            text => u32::from_text(text),
        }
    }

    fn to_value(&self) -> AxisValue {
        match self.0 {
            Some(threads) => AxisValue::Integer(threads.into()),
            None => AxisValue::Text(Self::ALL.to_owned()),
        }
    }

    fn read(&self) -> Option<u32> {
        self.0
    }
}

fn whole_number(value: &AxisValue) -> Option<u32> {
    match value {
        AxisValue::Integer(n) => u32::try_from(*n).ok(),
        _ => None,
    }
}

impl AxisType for f64 {
    type Read<'a> = Self;
    const VALID: &'static str = "a number of 0 or more";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(match value {
            AxisValue::Integer(n) => Some(*n as Self),
            AxisValue::Number(x) if x.is_finite() && *x >= 0.0 => Some(*x),
            _ => None,
        })
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        text.parse().ok().map(AxisValue::Number)
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::Number(*self)
    }

    fn read(&self) -> Self {
        *self
    }
}

/// Patterns of layer names. In text, they are separated by `+`, and `none` is an empty list.
impl AxisType for Vec<String> {
    type Read<'a> = &'a [String];
    const VALID: &'static str = "a list of layer patterns";

    fn from_value(value: &AxisValue) -> Result<Option<Self>, UnknownName> {
        Ok(match value {
            AxisValue::List(patterns) => Some(patterns.clone()),
            _ => None,
        })
    }

    fn from_text(text: &str) -> Option<AxisValue> {
        Some(AxisValue::List(match text {
            "none" => vec![],
            patterns => patterns.split('+').map(str::to_owned).collect(),
        }))
    }

    fn to_value(&self) -> AxisValue {
        AxisValue::List(self.clone())
    }

    fn read(&self) -> &[String] {
        self
    }
}
