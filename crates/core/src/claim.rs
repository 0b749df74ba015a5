//! Sentences of articles as statements that a run can test.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Axis, AxisValue, MetricName, Status};

/// A sentence of an article, and what would have to be measured if it were true here.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The sentence.
    pub says: String,
    /// Who says it.
    pub source: ClaimSource,
    /// The only workload that it is about; absent: every one of its suite.
    pub workload: Option<String>,
    /// The setting that it is about. Axes that are not named may have any value.
    pub of: BTreeMap<Axis, AxisValue>,
    /// What it says of that setting.
    pub claimed: Claimed,
}

/// Where a claim is from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimSource {
    /// Author, work, year.
    pub title: String,
    /// Where it was published.
    pub url: String,
    /// What its numbers were measured on; absent if it names nothing.
    pub hardware: Option<String>,
}

/// What is claimed of a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Claimed {
    /// Most of its trainings, or processes, end in one of these statuses; never in `failed`, which is a fault of a program.
    Status(Vec<Status>),
    /// A quantity is so many times that of another setting.
    Ratio(Comparison),
    /// A quantity is so much more than that of another setting.
    Difference(Comparison),
}

/// A quantity of two settings that agree in every axis but those that a claim names for both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The other setting.
    pub against: BTreeMap<Axis, AxisValue>,
    /// The quantity: the first of these that both settings have.
    pub metrics: Vec<MetricName>,
    /// Where the ratio or the difference lies if the claim is true.
    pub within: Bounds,
}

/// An open interval; at least one end is there.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// It lies above this.
    pub above: Option<f64>,
    /// It lies below this.
    pub below: Option<f64>,
}

impl Bounds {
    /// Whether everything from `low` to `high` lies within.
    pub fn hold(self, low: f64, high: f64) -> bool {
        self.above.is_none_or(|bound| low > bound) && self.below.is_none_or(|bound| high < bound)
    }

    /// The bound that everything from `low` to `high` lies beyond, if there is one.
    pub fn broken(self, low: f64, high: f64) -> Option<f64> {
        let under = self.above.filter(|bound| high <= *bound);
        under.or(self.below.filter(|bound| low >= *bound))
    }

    /// The ends that are there.
    pub fn ends(self) -> impl Iterator<Item = f64> {
        self.above.into_iter().chain(self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_touches_a_bound_neither_holds_nor_breaks_it_unless_it_ends_there() {
        let above = Bounds {
            above: Some(1.0),
            below: None,
        };
        assert!(above.hold(1.1, 2.0) && !above.hold(1.0, 2.0));
        assert_eq!(above.broken(0.5, 1.0), Some(1.0), "equal is not above");
        assert_eq!(above.broken(0.5, 1.1), None);
        let both = Bounds {
            above: Some(0.4),
            below: Some(0.6),
        };
        assert!(both.hold(0.45, 0.55) && !both.hold(0.45, 0.65));
        assert_eq!(
            (both.broken(0.7, 0.8), both.broken(0.1, 0.2)),
            (Some(0.6), Some(0.4))
        );
        assert_eq!(both.broken(0.3, 0.7), None);
    }

    #[test]
    fn a_claim_survives_json_with_its_names() {
        let claim = Claim {
            says: "it is half".into(),
            source: ClaimSource {
                title: "t".into(),
                url: "https://example.org".into(),
                hardware: None,
            },
            workload: None,
            of: BTreeMap::from([(Axis::Precision, AxisValue::Text("bf16-true".into()))]),
            claimed: Claimed::Ratio(Comparison {
                against: BTreeMap::from([(Axis::Precision, AxisValue::Text("32-true".into()))]),
                metrics: vec![MetricName::WeightsBytes],
                within: Bounds {
                    above: None,
                    below: Some(0.6),
                },
            }),
        };
        let json = serde_json::to_string(&claim).unwrap();
        assert!(
            json.contains(r#""ratio":{"against":{"precision":"32-true"}"#),
            "{json}"
        );
        assert_eq!(serde_json::from_str::<Claim>(&json).unwrap(), claim);
    }
}
