//! Finding that answers the question of a suite: changed predictions, perplexities, bandwidths, growth of errors, or the rate of a training.

use mantissa_analysis::Sample;
use mantissa_core::{Axis, Kernel, MatmulShape, MetricName, TaskKind};

use crate::{
    Group, Row, Suite,
    figures::changed_predictions,
    headline::{LargestSize, error_exponents},
    setting::{SettingResult, precision_label},
    shape, units,
};

/// Returns the finding as a sentence; `None` if the advice on speed, memory and accuracy answers the question.
pub(super) fn finding(suite: &Suite<'_>, group: &Group<'_>) -> Option<String> {
    let sentence = match group.kind {
        TaskKind::Evaluate => {
            let settings = SettingResult::all(group, Row::is_ok);
            changed_predictions(&settings)
                .filter(|_| !predicts_tokens(group))
                .or_else(|| perplexities(&settings))
        }
        TaskKind::Kernel => copy_shares(suite).or_else(|| growth(group)),
        TaskKind::Train => throughput(group),
        TaskKind::Generate => None,
    };
    sentence.map(|sentence| format!("{sentence}."))
}

fn predicts_tokens(group: &Group<'_>) -> bool {
    group.rows.iter().any(|row| row.cell.workload.predicts_tokens())
}

/// Formats the throughput of the baseline if only the precision setting varies: `32-true · highest trains on 678.3 samples/s`.
fn throughput(group: &Group<'_>) -> Option<String> {
    let is_precision = |axis: &Axis| matches!(axis, Axis::Precision | Axis::Matmul | Axis::Seed);
    if !group.varying.iter().all(is_precision) {
        return None;
    }
    let settings = SettingResult::all(group, Row::is_ok);
    let base = settings.iter().find(|setting| setting.is_baseline());
    let base = base.filter(|base| !base.is_oversubscribed())?;
    let metric = MetricName::SamplesPerSecond;
    let rate = base.value(metric)?;
    let text = group.scale(metric, rate).text(rate);
    Some(format!("{} trains on {text}", precision_label(base.row())))
}

/// Formats the range of the changes of perplexity: `The perplexity changes by −0.01 % (16-mixed) to +0.83 % (bf16-true)`.
fn perplexities(settings: &[SettingResult<'_, '_>]) -> Option<String> {
    let changes = settings
        .iter()
        .filter_map(|setting| Some((setting.perplexity_change()?, setting.label.as_str())));
    let changes = range(changes.collect(), units::signed_percent)?;
    Some(format!("The perplexity changes by {changes}"))
}

/// Formats the smallest and the largest value with their labels: `45 % (gelu) to 98 % (softmax)`. `None` without values.
fn range(mut values: Vec<(f64, &str)>, text: impl Fn(f64) -> String) -> Option<String> {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let text = |(value, label): &(f64, &str)| format!("{} ({label})", text(*value));
    match values.as_slice() {
        [] => None,
        [only] => Some(text(only)),
        [least, .., most] => Some(format!("{} to {}", text(least), text(most))),
    }
}

/// Formats the largest bandwidth of each kernel of a suite at its largest size, relative to a copy:
/// `The kernels reach at most 45 % (gelu) to 98 % (softmax) of the bandwidth of a copy`.
fn copy_shares(suite: &Suite<'_>) -> Option<String> {
    let largest = |group: &Group<'_>| {
        let settings = LargestSize::of(group)?.settings;
        let shares = settings.iter().filter_map(SettingResult::copy_share);
        shares.max_by(f64::total_cmp)
    };
    let shares = suite
        .groups
        .iter()
        .filter_map(|group| Some((largest(group)?, group.workload)));
    let shares = range(shares.collect(), |share| format!("{:.0} %", 100.0 * share))?;
    Some(format!(
        "The kernels reach at most {shares} of the bandwidth of a copy"
    ))
}

/// Formats the range of the exponents with which errors grow with the length of a matmul's sums. `None` for square matmuls, whose length
/// grows together with their other dimensions.
fn growth(group: &Group<'_>) -> Option<String> {
    let kernel = shape::kernel(&group.rows.first()?.cell.workload)?;
    let is_square = matches!(kernel, Kernel::Matmul(MatmulShape::SQUARE));
    if is_square || !shape::sums_grow(kernel) || !group.varies(Axis::Size) {
        return None;
    }
    let exponents = Sample::new(error_exponents(group))?;
    let [least, most] = [0.0, 1.0].map(|end| units::with_minus(&format!("{:.2}", exponents.quantile(end))));
    let range = match least == most {
        true => least,
        false => format!("{least} to {most}, depending on the setting"),
    };
    Some(format!(
        "The relative error grows with the inner dimension to the power of {range}"
    ))
}
