//! Claims of articles as statements that a run can test.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Axis, AxisValue, MetricName, Status};

/// Claim of an article, with the measurement that would confirm it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Quotation from the article.
    pub says: String,
    /// Source of the claim.
    pub source: ClaimSource,
    /// Workload of the claim; absent: every workload of the suite.
    pub workload: Option<String>,
    /// Setting of the claim. Axes that are not listed may have any value.
    pub of: BTreeMap<Axis, AxisValue>,
    /// Claimed result for that setting.
    pub claimed: Claimed,
}

/// Source of a claim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimSource {
    /// Author, title and year.
    pub title: String,
    /// URL of the publication.
    pub url: String,
    /// Hardware of the published measurements; absent if the source does not name any.
    pub hardware: Option<String>,
}

/// Claimed result for a setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Claimed {
    /// Most trainings or processes end with one of these statuses. `failed` never counts, because it is a fault of the
    /// program.
    Status(Vec<Status>),
    /// Ratio of a metric to that of another setting.
    Ratio(Comparison),
    /// Difference of a metric from that of another setting.
    Difference(Comparison),
}

/// Comparison of a metric between two settings that agree in every axis except those that the claim lists for both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Setting to compare with.
    pub against: BTreeMap<Axis, AxisValue>,
    /// Metrics in order of preference: the first one that both settings have is compared.
    pub metrics: Vec<MetricName>,
    /// Interval of the ratio or difference if the claim is true.
    pub within: Bounds,
}

/// Open interval with at least one end.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bounds {
    /// Lower end.
    pub above: Option<f64>,
    /// Upper end.
    pub below: Option<f64>,
}

impl Bounds {
    /// Returns true if the interval from `low` to `high` lies within the bounds.
    pub fn contain(self, low: f64, high: f64) -> bool {
        self.above.is_none_or(|bound| low > bound) && self.below.is_none_or(|bound| high < bound)
    }

    /// Returns the bound beyond which the interval from `low` to `high` lies completely.
    pub fn violated(self, low: f64, high: f64) -> Option<f64> {
        let under = self.above.filter(|bound| high <= *bound);
        under.or(self.below.filter(|bound| low >= *bound))
    }

    /// Returns the ends that are not absent.
    pub fn ends(self) -> impl Iterator<Item = f64> {
        self.above.into_iter().chain(self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_open() {
        let above = Bounds {
            above: Some(1.0),
            below: None,
        };
        assert!(above.contain(1.1, 2.0) && !above.contain(1.0, 2.0));
        assert_eq!(above.violated(0.5, 1.0), Some(1.0), "equal is not above");
        assert_eq!(above.violated(0.5, 1.1), None);
        let both = Bounds {
            above: Some(0.4),
            below: Some(0.6),
        };
        assert!(both.contain(0.45, 0.55) && !both.contain(0.45, 0.65));
        assert_eq!(
            (both.violated(0.7, 0.8), both.violated(0.1, 0.2)),
            (Some(0.6), Some(0.4))
        );
        assert_eq!(both.violated(0.3, 0.7), None);
    }

    #[test]
    fn claim_round_trips_through_json() {
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
