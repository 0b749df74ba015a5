//! Memory breakdown of each setting: bytes measured and bytes estimated from tensor shapes, with explanations of the differences.

use std::collections::HashMap;

use mantissa_core::{Axis, MatmulPrecision, MetricName, Precision};
use serde::Serialize;

use crate::{
    Group, Row,
    memory_parts::{Bytes, MIN_REPORTED_SHARE, PARTS, estimated, over_seeds, parts},
    setting::SettingResult,
    table::Field,
    units::{self, Scale},
};

/// Table of memory by part, one line per setting.
#[derive(Debug, Serialize)]
pub(crate) struct MemoryTable {
    /// Titles of the fields.
    pub headings: Vec<&'static str>,
    /// Settings, each with its fields.
    pub lines: Vec<(String, Vec<Field>)>,
    /// `true` if any line has an estimate next to the measured value.
    pub estimated: bool,
    /// Sentences below the table.
    pub remarks: Vec<String>,
}

/// Builds the table of the settings whose parts are known; `None` without such settings.
pub(crate) fn memory_table(group: &Group<'_>, settings: &[SettingResult<'_, '_>]) -> Option<MemoryTable> {
    let all = SettingResult::all(group, |_| true);
    let known = settings
        .iter()
        .filter_map(|setting| Some((setting, over_seeds(setting, parts)?)));
    let known: Vec<(&SettingResult<'_, '_>, Bytes)> = known.collect();
    let largest = known.iter().map(|(_, bytes)| sum(bytes)).reduce(f64::max)?;
    // Choose the scale for a tenth of the largest total. On the scale of that total, parts of this size would have too few digits.
    let scale = Scale::of(MetricName::WeightsBytes, largest / 10.0);
    let line = |(setting, bytes): &(&SettingResult<'_, '_>, Bytes)| {
        let is_base = |other: &&SettingResult<'_, '_>| other.is_baseline() && other.work() == setting.work();
        let base = all.iter().find(is_base);
        (
            group.setting_label(setting.row()),
            fields(setting, base, bytes, scale),
        )
    };
    let ratios = group.rows.iter().filter_map(estimate_ratio);
    let estimate_note = describe_estimate_ratios(&ratios.collect::<Vec<_>>());
    let saving = compared_settings(group).map(|(base, others)| {
        let savings = Some(describe_savings(&base, &others, scale));
        [savings, why_not_half(&base, &others, scale)]
    });
    let names = PARTS.iter().map(|(_, name)| *name);
    Some(MemoryTable {
        headings: names.chain(["total", "relative to baseline"]).collect(),
        lines: known.iter().map(line).collect(),
        estimated: known
            .iter()
            .any(|(setting, _)| over_seeds(setting, estimated).is_some()),
        remarks: estimate_note
            .into_iter()
            .chain(saving.into_iter().flatten().flatten())
            .collect(),
    })
}

fn sum(bytes: &Bytes) -> f64 {
    bytes.iter().sum()
}

/// Returns fields for the parts of a setting, for their total, and for the ratio of the total to that of the baseline.
fn fields(
    setting: &SettingResult<'_, '_>,
    base: Option<&SettingResult<'_, '_>>,
    bytes: &Bytes,
    scale: Scale,
) -> Vec<Field> {
    let shapes = over_seeds(setting, estimated);
    let part = |index: usize| field(bytes[index], shapes.map(|shapes| shapes[index]), scale);
    let mut fields: Vec<Field> = (0..PARTS.len()).map(part).collect();
    fields.push(field(sum(bytes), shapes.as_ref().map(sum), scale));
    let of_base = |parts| base.and_then(|base| over_seeds(base, parts)).as_ref().map(sum);
    let ratio = |mine: Option<f64>, theirs: Option<f64>| {
        let ratio = mine? / theirs?;
        ratio.is_finite().then(|| units::times(ratio))
    };
    let measured = ratio(Some(sum(bytes)), of_base(parts));
    let estimate = ratio(shapes.as_ref().map(sum), of_base(estimated));
    fields.push(Field {
        text: measured.unwrap_or_else(|| units::ABSENT.to_owned()),
        detail: estimate
            .map(|text| format!("estimated {text}"))
            .unwrap_or_default(),
        ..Field::default()
    });
    fields
}

/// Formats measured bytes with their ratio to the estimate from shapes.
fn field(measured: f64, shapes: Option<f64>, scale: Scale) -> Field {
    let detail = match shapes {
        Some(shapes) if measured > 0.0 && shapes > 0.0 => {
            let times = units::times(measured / shapes);
            format!("{times} the estimated {}", scale.text(shapes))
        }
        Some(shapes) if measured != shapes => format!("estimated {}", scale.text(shapes)),
        _ => String::new(),
    };
    Field {
        text: scale.text(measured),
        detail,
        ..Field::default()
    }
}

/// Returns the ratio of a row's measured memory to the estimate from shapes.
fn estimate_ratio(row: &Row<'_>) -> Option<f64> {
    let ratio = sum(&parts(row)?) / sum(&estimated(row)?);
    ratio.is_finite().then_some(ratio)
}

/// Formats the range of ratios: `Estimates are computed from tensor shapes; the measured total is 1.00× to 1.03× the estimate.`
fn describe_estimate_ratios(ratios: &[f64]) -> Option<String> {
    let least = units::times(ratios.iter().copied().reduce(f64::min)?);
    let most = units::times(ratios.iter().copied().reduce(f64::max)?);
    let range = match least == most {
        true => least,
        false => format!("{least} to {most}"),
    };
    Some(format!(
        "Estimates are computed from tensor shapes; the measured total is {range} the estimate."
    ))
}

/// Memory breakdown of a setting.
#[derive(Debug)]
struct SettingMemory {
    name: String,
    precision: Precision,
    bytes: Bytes,
}

/// Returns a `32-true` setting, preferably with matmul `highest`, and the first setting of each other precision that differs from it only
/// in precision and matmul.
fn compared_settings(group: &Group<'_>) -> Option<(SettingMemory, Vec<SettingMemory>)> {
    let mut alike: HashMap<String, Vec<SettingMemory>> = HashMap::new();
    let mut bases: Vec<(MatmulPrecision, String, SettingMemory)> = Vec::new();
    for setting in SettingResult::all(group, Row::is_ok) {
        let Some(bytes) = over_seeds(&setting, parts) else {
            continue;
        };
        let row = setting.row();
        let (precision, matmul) = (row.cell.setting.precision(), row.cell.setting.matmul());
        let other_axes = group.label(row, &[Axis::Precision, Axis::Matmul, Axis::Seed]);
        let memory = SettingMemory {
            name: group.setting_label(row),
            precision,
            bytes,
        };
        if precision == Precision::True32 {
            bases.push((matmul, other_axes, memory));
            continue;
        }
        let others = alike.entry(other_axes).or_default();
        if others.iter().all(|known| known.precision != precision) {
            others.push(memory);
        }
    }
    bases.sort_by_key(|(matmul, ..)| *matmul != MatmulPrecision::Highest);
    bases.into_iter().find_map(|(_, other_axes, base)| {
        let others = alike.remove(&other_axes)?;
        (sum(&base.bytes) > 0.0).then_some((base, others))
    })
}

/// Formats the savings:
/// `Compared with 32-true (640.0 MB), 16-mixed needs 124.0 MB less (150.0 MB less activations, 26.0 MB more copies of weights).`
fn describe_savings(base: &SettingMemory, others: &[SettingMemory], scale: Scale) -> String {
    let all = sum(&base.bytes);
    let describe = |other: &SettingMemory| {
        let parts = PARTS.iter().zip(other.bytes.iter().zip(&base.bytes));
        let mut changes: Vec<(f64, &str)> = parts
            .map(|((_, name), (mine, theirs))| (mine - theirs, *name))
            .filter(|(change, _)| change.abs() >= MIN_REPORTED_SHARE * all)
            .collect();
        if changes.is_empty() {
            return format!("{} needs about as much of each part", other.name);
        }
        changes.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let named = changes
            .iter()
            .map(|(change, name)| format!("{} {name}", less_or_more(*change, scale)));
        format!(
            "{} needs {} ({})",
            other.name,
            less_or_more(sum(&other.bytes) - all, scale),
            named.collect::<Vec<_>>().join(", ")
        )
    };
    format!(
        "Compared with {} ({}), {}.",
        base.name,
        scale.text(all),
        others.iter().map(describe).collect::<Vec<_>>().join("; ")
    )
}

/// Formats a change: `150.0 MB less`.
fn less_or_more(change: f64, scale: Scale) -> String {
    let way = if change < 0.0 { "less" } else { "more" };
    format!("{} {way}", scale.text(change.abs()))
}

/// Explains why the mixed setting with the least memory needs more than half of the memory of f32; `None` if it needs at most half.
fn why_not_half(base: &SettingMemory, others: &[SettingMemory], scale: Scale) -> Option<String> {
    /// Ratios below this are shown as 0.50 or less.
    const HALF: f64 = 0.505;
    let all = sum(&base.bytes);
    let mixed = others.iter().filter(|other| other.precision.is_mixed());
    let mixed = mixed.min_by(|a, b| sum(&a.bytes).total_cmp(&sum(&b.bytes)))?;
    let ratio = sum(&mixed.bytes) / all;
    if ratio < HALF {
        return None;
    }
    let mut reasons = Vec::new();
    let mut unchanged: Vec<&str> = Vec::new();
    let mut unchanged_bytes = 0.0;
    for ((metric, name), (&mine, &theirs)) in PARTS.iter().zip(mixed.bytes.iter().zip(&base.bytes)) {
        match metric {
            MetricName::WeightCopiesBytes if mine > theirs => {
                let format = mixed.precision.compute();
                reasons.push(format!("{name} in {format} add {}", scale.text(mine - theirs)));
            }
            MetricName::ActivationsBytes if theirs > 0.0 => {
                let times = units::times(mine / theirs);
                reasons.push(match mine / theirs {
                    ratio if ratio >= 1.0 - MIN_REPORTED_SHARE => format!("{name} do not shrink ({times})"),
                    ratio if ratio >= HALF => format!("{name} shrink to {times}"),
                    _ => format!("only {name} shrink, to {times}"),
                });
            }
            _ if theirs > 0.0 && (mine / theirs - 1.0).abs() < MIN_REPORTED_SHARE => {
                unchanged.push(*name);
                unchanged_bytes += mine;
            }
            _ => {}
        }
    }
    if let Some((last, rest)) = unchanged.split_last() {
        let names = match rest {
            [] => (*last).to_owned(),
            _ => format!("{} and {last}", rest.join(", ")),
        };
        let text = format!(
            "{names} stay in {} ({}, {:.0} % of the 32-true total)",
            mixed.precision.parameters(),
            scale.text(unchanged_bytes),
            100.0 * unchanged_bytes / all
        );
        reasons.insert(0, text);
    }
    (!reasons.is_empty()).then(|| {
        format!(
            "{} needs {} the memory of {} instead of half: {}.",
            mixed.name,
            units::times(ratio),
            base.name,
            reasons.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes in MB: weights, optimizer state, gradients, copies of weights and activations.
    fn memory(precision: Precision, megabytes: Bytes) -> SettingMemory {
        SettingMemory {
            name: precision.name().to_owned(),
            precision,
            bytes: megabytes.map(|megabytes| megabytes * 1e6),
        }
    }

    fn scale() -> Scale {
        Scale::of(MetricName::WeightsBytes, 100e6)
    }

    fn f32_memory() -> SettingMemory {
        memory(Precision::True32, [60.0, 120.0, 60.0, 0.0, 400.0])
    }

    #[test]
    fn a_part_is_shown_with_its_estimate_from_shapes() {
        let detail = |measured, shapes| field(measured, shapes, scale()).detail;
        assert_eq!(detail(63e6, Some(60e6)), "1.05× the estimated 60.0 MB");
        assert_eq!(detail(0.0, Some(60e6)), "estimated 60.0 MB");
        assert_eq!(detail(60e6, Some(0.0)), "estimated 0.0 MB");
        assert_eq!(detail(0.0, Some(0.0)), "");
        assert_eq!(detail(63e6, None), "");
        assert_eq!(field(63e6, None, scale()).text, "63.0 MB");
    }

    #[test]
    fn the_ratio_to_the_estimates_is_one_number_or_a_range() {
        let text = |ratios: &[f64]| describe_estimate_ratios(ratios).unwrap();
        assert!(text(&[1.03, 0.99, 1.0]).contains("is 0.99× to 1.03× the estimate"));
        assert!(text(&[1.001, 1.002]).contains("is 1.00× the estimate"));
        assert_eq!(describe_estimate_ratios(&[]), None);
    }

    #[test]
    fn savings_are_listed_by_part_the_largest_first() {
        let others = [
            memory(Precision::Mixed16, [60.0, 120.0, 60.0, 26.0, 250.0]),
            memory(Precision::TrueBf16, [30.0, 60.0, 60.0, 0.0, 200.0]),
            memory(Precision::MixedBf16, [60.0, 120.0, 60.0, 1.0, 400.0]),
        ];
        assert_eq!(
            describe_savings(&f32_memory(), &others, scale()),
            "Compared with 32-true (640.0 MB), 16-mixed needs 124.0 MB less (150.0 MB less activations, 26.0 MB more \
             copies of weights); bf16-true needs 290.0 MB less (200.0 MB less activations, 60.0 MB less optimizer \
             state, 30.0 MB less weights); bf16-mixed needs about as much of each part."
        );
    }

    #[test]
    fn reasons_for_saving_less_than_half_have_numbers() {
        let why = |mixed| why_not_half(&f32_memory(), &[memory(Precision::Mixed16, mixed)], scale());
        assert_eq!(
            why([60.0, 120.0, 60.0, 26.0, 250.0]).unwrap(),
            "16-mixed needs 0.81× the memory of 32-true instead of half: weights, optimizer state and gradients stay in \
             f32 (240.0 MB, 38 % of the 32-true total); copies of weights in f16 add 26.0 MB; activations shrink to 0.62×."
        );
        let kept = why([60.0, 120.0, 30.0, 0.0, 400.0]).unwrap();
        assert!(kept.contains(
            "weights and optimizer state stay in f32 (180.0 MB, 28 % of the 32-true total); activations do"
        ));
        let halved = why([60.0, 120.0, 60.0, 26.0, 200.0]).unwrap();
        assert!(halved.contains("only activations shrink, to 0.50×"), "{halved}");
        // Half of the memory needs no explanation, and a setting without mixed precision is not considered.
        assert_eq!(why([60.0, 60.0, 30.0, 0.0, 150.0]), None);
        let half = memory(Precision::TrueBf16, [30.0, 60.0, 60.0, 0.0, 200.0]);
        assert_eq!(why_not_half(&f32_memory(), &[half], scale()), None);
    }
}
