//! Magnitudes of the values of a training relative to the range of their format: one histogram of exponents per kind of tensor.

use std::collections::BTreeMap;

use mantissa_core::{Format, MetricName, Record, TensorClass, TensorRange};
use mantissa_run_folder::SampleSelection;

use super::{
    Canvas,
    histogram::{self, Axes, Histogram, MAX_PANELS, ShareAxis},
};
use crate::{Group, Row, Run, Suite, units};

/// Shares of the observed values that overflowed, underflowed or became subnormal.
const SHARES: [MetricName; 3] = [
    MetricName::OverflowShare,
    MetricName::UnderflowShare,
    MetricName::SubnormalShare,
];
/// Exponents of the finite values of f64.
const EXPONENTS: std::ops::RangeInclusive<i64> = -1_074..=1_023;

/// Returns the first record of the row with the largest sum of [`SHARES`], and that sum as the score.
pub fn choose<'r>(_: &Run, group: &'r Group<'_>) -> Option<(f64, &'r Row<'r>, &'r Record)> {
    let of_row = |row: &'r Row<'r>| {
        row.metric(MetricName::UnderflowShare)?;
        let shares = SHARES.iter().filter_map(|metric| row.metric(*metric));
        Some((
            shares.map(|share| share.value).sum::<f64>(),
            row,
            *row.records.first()?,
        ))
    };

    let known = group
        .rows
        .iter()
        .filter_map(of_row)
        .filter(|(score, ..)| score.is_finite());
    known.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Draws the exponents of one record; `None` if its samples cannot be read or no values were observed.
pub fn draw(
    run: &Run,
    _: &Suite<'_>,
    group: &Group<'_>,
    row: &Row<'_>,
    record: &Record,
) -> Option<(Canvas, String)> {
    let samples = run.samples.read(record, SampleSelection::RANGES).ok()??;
    let mut kinds: BTreeMap<(TensorClass, Format), Vec<&TensorRange>> = BTreeMap::new();
    for range in &samples.ranges {
        kinds.entry((range.class, range.format)).or_default().push(range);
    }
    let panels = kinds
        .iter()
        .filter_map(|((class, format), ranges)| panel(*class, *format, ranges));
    let panels: Vec<Histogram> = panels.take(MAX_PANELS).collect();
    if panels.is_empty() {
        return None;
    }
    let mut steps: Vec<u64> = samples.ranges.iter().map(|range| range.step).collect();
    steps.sort_unstable();
    steps.dedup();
    let name = group.label(row, &[]);
    let worst = kinds
        .iter()
        .map(|((class, _), ranges)| (lost_share(ranges), *class));
    let title = match worst.max_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((share, class)) if share > 0.0 => {
            let how = match class {
                TensorClass::WeightUpdate => "are lost next to larger weights or overflow",
                _ => "underflow to 0 or overflow",
            };
            format!("{name}: {} of {} {how}", percent(share), plural(class))
        }
        _ => format!("{name}: no observed value underflows to 0 or overflows"),
    };
    let subtitle = format!(
        "{} · share of values by power of two, observed in a wider format; shaded: below the smallest normal or above the largest value · {}",
        group.workload,
        match steps.len() {
            1 => "1 observed step".to_owned(),
            count => format!("{} observed steps", units::count(count as u64)),
        }
    );
    let caption = format!(
        "Magnitudes of the values of {} under {name}, in one process: the share of values at each power of two over all layers and \
         observed steps, observed in a wider format. A weight update is lost if the weight is much larger, at any magnitude, so its panel is \
         not shaded.",
        group.workload
    );
    let axes = Axes {
        name: "magnitude from",
        unit: "1",
        position: |exponent| (exponent as f64).exp2(),
        format: units::power_of_two,
        shares: ShareAxis::Log,
    };
    Some((histogram::draw(&title, &subtitle, &panels, axes), caption))
}

fn panel(class: TensorClass, format: Format, ranges: &[&TensorRange]) -> Option<Histogram> {
    let mut counts: BTreeMap<i64, f64> = BTreeMap::new();
    for range in ranges {
        let exponents = i64::from(range.counts.lowest_exponent)..;
        for (exponent, count) in exponents
            .zip(&range.counts.exponents)
            .filter(|(at, _)| EXPONENTS.contains(at))
        {
            *counts.entry(exponent).or_default() += *count as f64;
        }
    }
    let (first, last) = (*counts.first_key_value()?.0, *counts.last_key_value()?.0);
    let dense: Vec<f64> = (first..=last)
        .map(|exponent| counts.get(&exponent).copied().unwrap_or(0.0))
        .collect();
    let exponent = |value: f64| value.log2().floor() as i64;
    let most = ranges
        .iter()
        .map(|range| (lost_share(&[range]), range.layer.as_str()));
    let most = most
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(share, _)| *share > 0.0);
    // An update is lost if it is small compared with its weight, whatever its magnitude, so the range of the format is not shaded.
    let is_update = class == TensorClass::WeightUpdate;
    let lost = if is_update {
        "lost next to larger weights"
    } else {
        "lost"
    };
    let note = match most {
        None => "none lost".to_owned(),
        Some((share, layer)) => format!(
            "{} {lost}; up to {} in {}",
            percent(lost_share(ranges)),
            percent(share),
            tail(layer)
        ),
    };
    let limits = (
        Some(exponent(format.min_normal())),
        Some(exponent(format.max_finite()) + 1),
    );
    Some(Histogram {
        title: format!("{} · {format}", plural(class)),
        note,
        bars: Histogram::shares(first, &dense)?,
        out_of_range: if is_update { (None, None) } else { limits },
    })
}

/// Returns the share of values that underflowed to 0 or overflowed, over all tensors.
fn lost_share(ranges: &[&TensorRange]) -> f64 {
    let sum =
        |count: &dyn Fn(&TensorRange) -> u64| ranges.iter().map(|range| count(range) as f64).sum::<f64>();
    let lost = sum(&|range| range.counts.overflow) + sum(&|range| range.counts.underflow);
    let all = sum(&|range| range.counts.elements);
    if all > 0.0 { lost / all } else { 0.0 }
}

/// Returns the end of a layer's name, which is more specific than its beginning.
fn tail(layer: &str) -> String {
    const MAX_LENGTH: usize = 36;
    let all = layer.chars().count();
    if all <= MAX_LENGTH {
        return layer.to_owned();
    }
    format!("…{}", layer.chars().skip(all - MAX_LENGTH).collect::<String>())
}

fn percent(share: f64) -> String {
    match 100.0 * share {
        small if small < 0.01 => "less than 0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
    }
}

fn plural(class: TensorClass) -> &'static str {
    match class {
        TensorClass::Activation => "activations",
        TensorClass::Gradient => "gradients",
        TensorClass::OptimizerState => "optimizer state",
        TensorClass::WeightUpdate => "weight updates",
    }
}
