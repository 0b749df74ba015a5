//! Welch's t-test with a prior on the noise, which is learned from all cells of the same metric.

use std::collections::BTreeMap;

use mantissa_core::MetricName;

use super::{compared::Compared, method::Method};
use crate::{
    Prior, Scale, Welch, WelchTerms, prior, welch,
    welch::{logarithms, pooled_variance},
    welch_ratio,
};

/// Minimum relative standard deviation of measurements, the same as for outlier labels. If five measurements agree more closely, the reason
/// is a coarse clock or chance.
pub const GATE_MIN_DEVIATION: f64 = 0.001;

/// Prior of a metric, and the number of cells it was learned from.
pub(super) type LearnedPrior = (Prior, usize);

/// Learns a prior on the noise of each metric from the within-side variances of all tested cells.
pub(super) fn priors(family: &[Compared<'_>], methods: &[Method]) -> BTreeMap<MetricName, LearnedPrior> {
    let mut variances: BTreeMap<MetricName, (Vec<f64>, f64)> = BTreeMap::new();
    let tested = family
        .iter()
        .zip(methods)
        .filter(|(_, method)| matches!(method, Method::Test));
    for (compared, _) in tested {
        if let Some((variance, freedom)) = within_sides(compared) {
            let (values, total) = variances.entry(compared.metric).or_default();
            values.push(variance);
            *total += freedom;
        }
    }
    variances
        .into_iter()
        .filter_map(|(metric, (values, freedom))| {
            let learned = prior(&values, freedom / values.len() as f64)?;
            Some((metric, (learned, values.len())))
        })
        .collect()
}

/// Returns the variance within the sides, pooled over both, and its degrees of freedom.
fn within_sides(compared: &Compared<'_>) -> Option<(f64, f64)> {
    let levels = |values: &[f64]| match compared.floor.scale {
        Scale::Ratio => logarithms(values),
        Scale::Difference => Some(values.to_vec()),
    };
    pooled_variance(&levels(compared.baseline)?, &levels(compared.candidate)?)
}

/// Tests a comparison, with the prior of its metric if there is one. Returns `None` if the test cannot be computed.
pub(super) fn moderated_welch(compared: &Compared<'_>, learned: Option<&LearnedPrior>) -> Option<Welch> {
    let prior_of_cell = |(prior, cells): &LearnedPrior| {
        let (variance, freedom) = within_sides(compared)?;
        Some(prior.for_group(variance, freedom, *cells))
    };
    let terms = WelchTerms {
        prior: learned.and_then(prior_of_cell),
        shared_error: compared.shared_error,
        ..WelchTerms::default()
    };
    match compared.floor.scale {
        Scale::Ratio => {
            let min_deviation = GATE_MIN_DEVIATION;
            welch_ratio(
                compared.baseline,
                compared.candidate,
                &WelchTerms {
                    min_deviation,
                    ..terms
                },
            )
        }
        Scale::Difference => welch(compared.baseline, compared.candidate, &terms),
    }
}
