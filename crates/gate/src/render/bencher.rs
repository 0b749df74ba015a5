//! Bencher Metric Format: JSON of benchmarks with their measures.

use std::collections::BTreeMap;

use mantissa_core::MetricName;
use serde::Serialize;

use super::Measurements;

#[derive(Serialize)]
struct Metric {
    value: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lower_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upper_value: Option<f64>,
}

/// Renders a benchmark per cell and a measure per metric, in the units of records. The name of a benchmark has at most 1,024 bytes. The
/// name of a measure is the slug of its metric (`step-seconds`).
pub fn bencher(measurements: &Measurements<'_>) -> String {
    let benchmarks: BTreeMap<String, BTreeMap<String, Metric>> = measurements
        .cells
        .iter()
        .map(|cell| {
            let measures = cell.estimates.iter().map(|(metric, estimate)| {
                let values = Metric {
                    value: estimate.value,
                    lower_value: estimate.interval.map(|interval| interval.low),
                    upper_value: estimate.interval.map(|interval| interval.high),
                };
                (slug(*metric), values)
            });
            (cell.series(), measures.collect())
        })
        .collect();
    let mut text = serde_json::to_string_pretty(&benchmarks).expect("benchmarks serialize as JSON");
    text.push('\n');
    text
}

fn slug(metric: MetricName) -> String {
    metric.name().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_have_at_most_64_lowercase_letters_and_hyphens() {
        for metric in MetricName::ALL {
            let slug = slug(*metric);
            assert!(
                slug.len() <= 64 && slug.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{slug}"
            );
        }
    }
}
