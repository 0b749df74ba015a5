//! Subject of a claim with the result of its test.

use mantissa_analysis::Finding;
use mantissa_core::MetricName;

use crate::Row;

/// Subject of a test: a pair of settings, or one setting.
pub(crate) struct Subject<'g, 'a> {
    pub label: String,
    pub rows: Vec<&'g Row<'a>>,
    pub metric: Option<MetricName>,
    /// `Some(true)` if a setting predicts better than chance; `None` if unknown or not applicable.
    pub learned: Option<bool>,
    pub outcome: ClaimOutcome,
}

/// Result of a test.
pub(crate) enum ClaimOutcome {
    Tested {
        finding: Finding,
        /// Name of the test.
        test: String,
        evidence: String,
    },
    NotTested(String),
}

impl ClaimOutcome {
    /// Returns the finding of the test; `None` if nothing was tested.
    pub fn finding(&self) -> Option<Finding> {
        match self {
            Self::Tested { finding, .. } => Some(*finding),
            Self::NotTested(_) => None,
        }
    }
}
