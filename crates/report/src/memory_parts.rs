//! Memory of a training by part, such as weights and activations, and the changes under mixed precision.

use mantissa_analysis::Sample;
use mantissa_core::{Axis, MetricName};

use crate::{Group, Row, comparability::is_comparable, setting::SettingResult, units};

/// Parts with their names, from the longest-lived to the shortest-lived.
pub(crate) const PARTS: [(MetricName, &str); 5] = [
    (MetricName::WeightsBytes, "weights"),
    (MetricName::OptimizerBytes, "optimizer state"),
    (MetricName::GradientsBytes, "gradients"),
    (MetricName::WeightCopiesBytes, "copies of weights"),
    (MetricName::ActivationsBytes, "activations"),
];

/// Metrics that estimate each part from tensor shapes, in the order of [`PARTS`].
const ESTIMATES: [MetricName; PARTS.len()] = [
    MetricName::EstimatedWeightsBytes,
    MetricName::EstimatedOptimizerBytes,
    MetricName::EstimatedGradientsBytes,
    MetricName::EstimatedWeightCopiesBytes,
    MetricName::EstimatedActivationsBytes,
];

/// Bytes of each part, in the order of [`PARTS`].
pub(crate) type Bytes = [f64; PARTS.len()];

/// Smallest change of a part that is reported, as a share of the baseline's total.
pub(crate) const MIN_REPORTED_SHARE: f64 = 0.02;

/// Returns the measured bytes of each part of a row; `None` unless all are known.
pub(crate) fn parts(row: &Row<'_>) -> Option<Bytes> {
    values(row, PARTS.map(|(metric, _)| metric))
}

/// Returns the bytes of each part estimated from shapes; `None` unless all are known.
pub(crate) fn estimated(row: &Row<'_>) -> Option<Bytes> {
    values(row, ESTIMATES)
}

fn values(row: &Row<'_>, metrics: [MetricName; PARTS.len()]) -> Option<Bytes> {
    let mut bytes = [0.0; PARTS.len()];
    for (byte, metric) in bytes.iter_mut().zip(metrics) {
        *byte = row.metric(metric)?.value;
    }
    Some(bytes)
}

/// Returns the median of each part over the seeds.
pub(crate) fn over_seeds(
    setting: &SettingResult<'_, '_>,
    parts: fn(&Row<'_>) -> Option<Bytes>,
) -> Option<Bytes> {
    let known: Vec<Bytes> = setting.effective_seeds().filter_map(parts).collect();
    let mut medians = [0.0; PARTS.len()];
    for (part, median) in medians.iter_mut().enumerate() {
        *median = Sample::new(known.iter().map(|bytes| bytes[part]))?.median();
    }
    Some(medians)
}

/// Returns the sum of all parts of a setting in bytes.
pub(crate) fn total(setting: &SettingResult<'_, '_>) -> Option<f64> {
    over_seeds(setting, parts).map(|bytes| bytes.iter().sum())
}

/// Returns `true` if overviews show the sum of all parts instead of the peak memory, because that peak is the one of a process, which also
/// contains the program.
pub(crate) fn replace_peak(group: &Group<'_>) -> bool {
    let is_known = |row: &Row<'_>| parts(row).is_some();
    group.memory == Some(MetricName::HostPeakBytes) && group.ok().any(is_known)
}

/// Returns the ratio of the sum of all parts to that of the baseline; `None` for the baseline and for another number of devices.
pub(crate) fn total_ratio(group: &Group<'_>, setting: &SettingResult<'_, '_>) -> Option<f64> {
    let settings = SettingResult::all(group, Row::is_ok);
    let is_base = |other: &&SettingResult<'_, '_>| other.is_baseline() && other.work() == setting.work();
    let base = settings.iter().find(is_base).filter(|_| !setting.is_baseline())?;
    if !is_comparable(MetricName::WeightsBytes, setting.row(), base.row()) {
        return None;
    }
    Some(total(setting)? / total(base)?).filter(|ratio| ratio.is_finite())
}

/// Describes the savings and additions of mixed precision by part.
pub(crate) fn describe_saving(group: &Group<'_>) -> Option<String> {
    let (mixed, base, ratio) = leanest_mixed(group)?;
    Some(format!(
        "{} {}; in total it needs {} the memory of {}.",
        group.setting_label(mixed.row()),
        changes(&over_seeds(&mixed, parts)?, &over_seeds(&base, parts)?),
        units::times(ratio),
        group.setting_label(base.row())
    ))
}

/// Summarizes the change in total memory under mixed precision: `16-mixed · highest needs 0.81× the memory of 32-true · highest`.
pub(crate) fn saving_title(group: &Group<'_>) -> Option<String> {
    let (mixed, base, ratio) = leanest_mixed(group)?;
    let (name, base) = (group.setting_label(mixed.row()), group.setting_label(base.row()));
    Some(format!(
        "{name} needs {} the memory of {base}",
        units::times(ratio)
    ))
}

/// Returns the mixed-precision setting with the smallest ratio of total memory to its baseline, the baseline, and the ratio. The two
/// settings differ only in precision and matmul.
pub(crate) fn leanest_mixed<'g, 'a>(
    group: &'g Group<'a>,
) -> Option<(SettingResult<'g, 'a>, SettingResult<'g, 'a>, f64)> {
    let settings = SettingResult::all(group, Row::is_ok);
    let is_mixed = |setting: &SettingResult<'_, '_>| setting.row().cell.setting.precision().is_mixed();
    let other_axes = |setting: &SettingResult<'_, '_>| {
        group.label(setting.row(), &[Axis::Precision, Axis::Matmul, Axis::Seed])
    };
    let candidates = settings.iter().filter_map(|mixed| {
        let is_base = |other: &&SettingResult<'_, '_>| other.is_baseline() && other.work() == mixed.work();
        let base = settings.iter().find(is_base)?;
        let compared = is_mixed(mixed) && !is_mixed(base) && other_axes(mixed) == other_axes(base);
        compared.then_some((mixed, base, total(mixed)? / total(base)?))
    });
    let known = candidates.filter(|(.., ratio)| ratio.is_finite());
    let leanest = known.min_by(|a, b| a.2.total_cmp(&b.2));
    leanest.map(|(mixed, base, ratio)| (mixed.clone(), base.clone(), ratio))
}

/// Formats the changes by part: `needs 0.51× the activations and adds copies of weights (8 % of the baseline's total)`.
fn changes(mine: &[f64], theirs: &[f64]) -> String {
    let all: f64 = theirs.iter().sum();
    let (mut scaled, mut added) = (Vec::new(), Vec::new());
    for ((_, name), (mine, theirs)) in PARTS.iter().zip(mine.iter().zip(theirs)) {
        let change = (mine - theirs) / all;
        if change.abs() < MIN_REPORTED_SHARE {
            continue;
        }
        if *theirs > MIN_REPORTED_SHARE * all {
            scaled.push(format!("{} the {name}", units::times(mine / theirs)));
        } else {
            added.push(format!(
                "{name} ({:.0} % of the baseline's total)",
                100.0 * change
            ));
        }
    }
    let [scaled, added] = [("needs", scaled), ("adds", added)]
        .map(|(verb, names)| (!names.is_empty()).then(|| format!("{verb} {}", names.join(" and "))));
    match (scaled, added) {
        (None, None) => "needs about as much of each part".to_owned(),
        (scaled, added) => scaled.into_iter().chain(added).collect::<Vec<_>>().join(" and "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn savings_and_additions_are_listed_with_their_shares() {
        let base = [30.0, 60.0, 30.0, 0.0, 80.0];
        assert_eq!(
            changes(&[30.0, 60.0, 30.0, 14.0, 40.0], &base),
            "needs 0.50× the activations and adds copies of weights (7 % of the baseline's total)"
        );
        assert_eq!(
            changes(&[30.0, 60.0, 30.0, 3.0, 80.0], &base),
            "needs about as much of each part"
        );
        assert_eq!(
            changes(&[30.0, 60.0, 15.0, 0.0, 96.0], &base),
            "needs 0.50× the gradients and 1.20× the activations"
        );
    }
}
