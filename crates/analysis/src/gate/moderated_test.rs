//! Welch's t-test with a prior on the noise, which is learned from all cells of the same metric.

use std::collections::BTreeMap;

use mantissa_core::MetricName;

use super::{compared::Compared, draft::Draft};
use crate::{
    Prior, Scale, Welch, WelchTerms, prior, welch,
    welch::{logarithms, within},
    welch_ratio,
};

/// Minimum relative standard deviation of measurements, the same as for labels of outliers. If five measurements agree more closely, that
/// is due to a coarse clock or chance.
pub const GATE_LEAST_DEVIATION: f64 = 0.001;

/// Prior of a metric, and the number of cells it was learned from.
pub(super) type Kin = (Prior, usize);

/// Learns a prior of the noise of each metric from the variances within both sides of all cells.
pub(super) fn priors(family: &[Compared<'_>], drafts: &[Draft]) -> BTreeMap<MetricName, Kin> {
    let mut variances: BTreeMap<MetricName, (Vec<f64>, f64)> = BTreeMap::new();
    let tested = family
        .iter()
        .zip(drafts)
        .filter(|(_, draft)| matches!(draft, Draft::Test));
    for (compared, _) in tested {
        if let Some((variance, freedom)) = within_sides(compared) {
            let (of, total) = variances.entry(compared.metric).or_default();
            of.push(variance);
            *total += freedom;
        }
    }
    variances
        .into_iter()
        .filter_map(|(metric, (of, freedom))| {
            let learned = prior(&of, freedom / of.len() as f64)?;
            Some((metric, (learned, of.len())))
        })
        .collect()
}

/// Returns the variance within both sides, and its degrees of freedom.
fn within_sides(compared: &Compared<'_>) -> Option<(f64, f64)> {
    let levels = |values: &[f64]| match compared.floor.scale {
        Scale::Ratio => logarithms(values),
        Scale::Difference => Some(values.to_vec()),
    };
    within(&levels(compared.baseline)?, &levels(compared.candidate)?)
}

/// Tests a comparison. Returns `None` if the test cannot be computed.
pub(super) fn test(compared: &Compared<'_>, kin: Option<&Kin>) -> Option<Welch> {
    let of_this = |(prior, kin): &Kin| {
        let (variance, freedom) = within_sides(compared)?;
        Some(prior.for_one(variance, freedom, *kin))
    };
    let terms = WelchTerms {
        prior: kin.and_then(of_this),
        shared_error: compared.shared_error,
        ..WelchTerms::default()
    };
    match compared.floor.scale {
        Scale::Ratio => {
            let least_deviation = GATE_LEAST_DEVIATION;
            welch_ratio(
                compared.baseline,
                compared.candidate,
                &WelchTerms {
                    least_deviation,
                    ..terms
                },
            )
        }
        Scale::Difference => welch(compared.baseline, compared.candidate, &terms),
    }
}
