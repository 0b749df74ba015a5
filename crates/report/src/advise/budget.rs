//! Budget of `mantissa advise`: limits on accuracy loss, error and memory, and the quantity to minimize.

use std::fmt;

use mantissa_analysis::TOLERATED_LOSS;
use mantissa_core::{MetricName, nearest};
use serde::Serialize;

use crate::units;

/// Limits on a setting, and the quantity to minimize.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Budget {
    /// Maximum loss of test accuracy against the baseline, as a share of the examples.
    pub accuracy_loss: f64,
    /// Maximum relative error of a kernel. If `None`, no setting is chosen for kernels.
    pub error: Option<f64>,
    /// Maximum peak memory in bytes.
    pub memory_bytes: Option<f64>,
    /// Quantity to minimize.
    pub minimise: Goal,
}

impl Default for Budget {
    /// Tolerates [`TOLERATED_LOSS`] of accuracy, sets no other limit and minimizes time.
    fn default() -> Self {
        Self {
            accuracy_loss: TOLERATED_LOSS,
            error: None,
            memory_bytes: None,
            minimise: Goal::Time,
        }
    }
}

impl fmt::Display for Budget {
    /// Formats the budget: `Goal: minimum time, at most 1 point of accuracy loss, peak memory at most 24.00 GB.`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goal = match self.minimise {
            Goal::Time => "time",
            Goal::Energy => "energy",
            Goal::Memory => "memory",
        };
        let points = 100.0 * self.accuracy_loss;
        let unit = if points == 1.0 { "point" } else { "points" };
        write!(
            f,
            "Goal: minimum {goal}, at most {points} {unit} of accuracy loss"
        )?;
        if let Some(error) = self.error {
            write!(f, ", relative error at most {}", units::scientific(error))?;
        }
        if let Some(bytes) = self.memory_bytes {
            let metric = MetricName::HostPeakBytes;
            write!(
                f,
                ", peak memory at most {}",
                units::Scale::of(metric, bytes).text(bytes)
            )?;
        }
        f.write_str(".")
    }
}

/// Quantity to minimize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Time of the work.
    Time,
    /// Energy.
    Energy,
    /// Peak memory.
    Memory,
}

impl Goal {
    /// Returns the superlative for the setting with the lowest cost, capitalized for the start of a sentence.
    pub(crate) fn superlative(self) -> &'static str {
        match self {
            Self::Time => "Fastest",
            Self::Energy => "Most energy-efficient",
            Self::Memory => "Most memory-efficient",
        }
    }

    /// Returns the comparative for a setting with a lower cost.
    pub(crate) fn comparative(self) -> &'static str {
        match self {
            Self::Time => "faster",
            Self::Energy => "more energy-efficient",
            Self::Memory => "more memory-efficient",
        }
    }
}

/// Error when parsing a limit.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum BudgetError {
    /// Not a number, or not between 0 and 100.
    #[error(
        "`{0}` is not a valid accuracy loss\n  hint: pass percentage points from 0 to 100; 0.5 allows a drop from 92.0 % to 91.5 %"
    )]
    Points(String),
    /// Not a number, or not a positive finite number.
    #[error("`{0}` is not a valid relative error\n  hint: pass a number above 0, e.g. 1e-3")]
    Error(String),
    /// The amount before the unit is not a positive finite number.
    #[error(
        "`{0}` is not a valid amount of memory\n  hint: pass a number above 0 with a unit, e.g. 24GiB or 40GB"
    )]
    Memory(String),
    /// Unknown or missing unit of memory.
    #[error("unknown or missing memory unit in `{given}`\n  hint: {hint}")]
    Unit {
        /// Rejected text.
        given: String,
        /// Suggested correction, or the list of units.
        hint: String,
    },
}

/// Parses percentage points as a share: `0.5` is 0.005.
pub fn parse_points(text: &str) -> Result<f64, BudgetError> {
    let points = text.trim().parse::<f64>().ok();
    let valid = points.filter(|points| (0.0..=100.0).contains(points));
    let share = valid.map(|points| points / 100.0);
    share.ok_or_else(|| BudgetError::Points(text.to_owned()))
}

/// Parses a relative error.
pub fn parse_error(text: &str) -> Result<f64, BudgetError> {
    let error = text.trim().parse::<f64>().ok();
    let valid = error.filter(|error| *error > 0.0 && error.is_finite());
    valid.ok_or_else(|| BudgetError::Error(text.to_owned()))
}

/// Units of memory and their size in bytes.
const UNITS: [(&str, f64); 9] = [
    ("GB", 1e9),
    ("GiB", 1_073_741_824.0),
    ("MB", 1e6),
    ("MiB", 1_048_576.0),
    ("TB", 1e12),
    ("TiB", 1_099_511_627_776.0),
    ("kB", 1e3),
    ("KiB", 1024.0),
    ("B", 1.0),
];

/// Parses an amount of memory with its unit and returns bytes: `24GiB`, `40 GB`. Units are case-insensitive.
pub fn parse_memory(text: &str) -> Result<f64, BudgetError> {
    let trimmed = text.trim();
    // Only trailing letters belong to the unit, because `1e9B` has an exponent.
    let number = trimmed.trim_end_matches(|c: char| c.is_alphabetic() || c.is_whitespace());
    let unit = trimmed[number.len()..].trim();
    let amount = number.parse::<f64>().ok();
    let amount = amount.filter(|amount| *amount > 0.0 && amount.is_finite());
    let amount = amount.ok_or_else(|| BudgetError::Memory(text.to_owned()))?;
    let known = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let bytes = known.map(|(_, bytes)| bytes * amount);
    bytes.ok_or_else(|| BudgetError::Unit {
        given: text.to_owned(),
        hint: hint(number, unit),
    })
}

fn hint(number: &str, unit: &str) -> String {
    let names = UNITS.map(|(name, _)| name);
    let near = match unit {
        "" => Some("GB"),
        unit => nearest(&unit.to_uppercase(), names),
    };
    match near {
        Some(near) => format!("did you mean `{number}{near}`?"),
        None => format!("valid units are `{}`", names.join("`, `")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_are_read_with_decimal_and_binary_units() {
        let bytes = |given| parse_memory(given).unwrap();
        assert_eq!(bytes("24GiB"), 24.0 * 1024.0 * 1024.0 * 1024.0);
        assert_eq!(bytes("40 gb"), 40e9);
        assert_eq!(bytes("1.5MB"), 1.5e6);
        assert_eq!(bytes("1e9B"), 1e9);
    }

    #[test]
    fn an_invalid_amount_suggests_a_correction() {
        let text = |given| parse_memory(given).unwrap_err().to_string();
        assert!(text("24").contains("did you mean `24GB`?"));
        assert!(text("24Gb/s").contains("is not a valid amount of memory"));
        assert!(text("24G").contains("did you mean `24GB`?"), "{}", text("24G"));
        assert!(
            text("3lightyears").contains("valid units are `GB`"),
            "{}",
            text("3lightyears")
        );
        for given in ["0GB", "-1GB", "GiB", "", "NaNGB", "infGB"] {
            assert_eq!(parse_memory(given), Err(BudgetError::Memory(given.into())));
        }
    }

    #[test]
    fn points_from_0_to_100_become_a_share() {
        assert_eq!(parse_points("0.5"), Ok(0.005));
        assert_eq!(parse_points("0"), Ok(0.0));
        for given in ["-1", "NaN", "101", "inf", "one", ""] {
            assert_eq!(parse_points(given), Err(BudgetError::Points(given.into())));
        }
    }

    #[test]
    fn a_relative_error_must_be_above_zero() {
        assert_eq!(parse_error("1e-3"), Ok(1e-3));
        for given in ["0", "-1e-3", "NaN", "inf", "small"] {
            assert_eq!(parse_error(given), Err(BudgetError::Error(given.into())));
        }
    }
}
