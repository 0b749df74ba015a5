//! Variation of accuracy between seeds.

use mantissa_core::{Axis, MetricName};

use crate::Group;

/// Reports the variation of accuracy between seeds, which intervals over test examples do not cover.
pub(super) fn spread(group: &Group<'_>) -> Option<String> {
    if !group.varies(Axis::Seed) {
        return None;
    }
    let mut settings: Vec<(String, Vec<f64>)> = Vec::new();
    for row in group.ok() {
        let Some(accuracy) = row.metric(MetricName::TestAccuracy) else {
            continue;
        };
        let label = group.setting_label(row);
        match settings.iter_mut().find(|(known, _)| *known == label) {
            Some((_, values)) => values.push(accuracy.value),
            None => settings.push((label, vec![accuracy.value])),
        }
    }
    settings.retain(|(_, values)| values.len() > 1);
    let seeds = settings.iter().map(|(_, values)| values.len()).max()?;
    let points: Vec<f64> = settings
        .iter()
        .map(|(_, values)| 100.0 * standard_deviation(values))
        .collect();
    let (least, most) = points.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), x| {
        (least.min(*x), most.max(*x))
    });
    let spread = if settings.len() == 1 {
        format!("{most:.2} points")
    } else {
        format!("{least:.2} to {most:.2} points, depending on the setting")
    };
    Some(format!(
        "The standard deviation of the test accuracy between {seeds} seeds is {spread}."
    ))
}

/// Computes the standard deviation of a sample with Bessel's correction.
fn standard_deviation(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (n - 1.0)).sqrt()
}
