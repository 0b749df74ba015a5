//! Rules about time and memory.

use mantissa_analysis::{Estimate, Groups, Judgement, Verdict, hodges_lehmann_ratio, judge};
use mantissa_core::{Axis, Better, MatmulPrecision, MetricName, Precision, Switch};

use super::{Context, Finding, alike};
use crate::{
    Row,
    advise::sentences,
    comparability::is_comparable,
    memory_parts,
    setting::{SPEED_THRESHOLD, SettingResult, memory_text, ratio_text, speeds},
    units,
};

/// Smallest reduction of peak memory that counts as a saving, as a share.
const MIN_SAVING: f64 = memory_parts::MIN_REPORTED_SHARE;

pub(super) fn matmul_high<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let mut findings = Vec::new();
    for choice in context.choices {
        let is_f32_with = |candidate: &SettingResult<'_, '_>, matmul| {
            let setting = &candidate.row().cell.setting;
            setting.precision() == Precision::True32 && setting.matmul() == matmul
        };
        // Without an error limit, no setting is chosen for a kernel. TF32 is then not recommended either, because its error may be too large.
        let has_choice = choice.chosen.is_some();
        let all = &choice.assessed;
        let high = all.iter().filter(|one| {
            has_choice && one.is_within_budget() && is_f32_with(&one.candidate, MatmulPrecision::High)
        });
        for high in high.map(|one| &one.candidate) {
            let same = |candidate: &&SettingResult<'_, '_>| {
                alike(candidate.row(), high.row(), &[Axis::Matmul, Axis::Seed])
            };
            let mut highest = all.iter().map(|one| &one.candidate);
            let highest = highest.find(|one| {
                is_f32_with(one, MatmulPrecision::Highest) && one.failure().is_none() && same(one)
            });
            let speed_up = highest.and_then(|highest| describe_speed_up(context, highest, high));
            findings.extend(speed_up.map(|text| (high.row(), text)));
        }
    }
    findings
}

/// Formats the speed-up of the second setting over the first; `None` unless it is significant.
fn describe_speed_up(
    context: &Context<'_, '_, '_>,
    slow: &SettingResult<'_, '_>,
    fast: &SettingResult<'_, '_>,
) -> Option<String> {
    let speed = context.group.speed;
    if !is_comparable(speed, slow.row(), fast.row()) {
        return None;
    }
    let (slow, fast) = (slow.values(speed), fast.values(speed));
    let verdict = judge(&[comparison(&fast, &slow, speed.better(), SPEED_THRESHOLD)])
        .first()?
        .verdict;
    let ratio = match speed.better() {
        Better::Higher => hodges_lehmann_ratio(&fast, &slow),
        Better::Lower => hodges_lehmann_ratio(&slow, &fast),
    }?;
    (verdict == Verdict::Improved).then(|| format!("{} as fast as with matmul highest", ratio_text(&ratio)))
}

pub(super) fn mixed_memory<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    /// Memory ratio that mixed precision would reach if it halved everything.
    const HALF: f64 = 0.5;
    let found = memory_parts::leanest_mixed(context.group)
        .filter(|(_, base, ratio)| base.row().cell.setting.precision() == Precision::True32 && *ratio > HALF);
    let finding = found.and_then(|(mixed, base, ratio)| {
        let bytes = memory_parts::over_seeds(&mixed, memory_parts::parts)?;
        let [weights, optimizer, gradients, copies, _] = bytes;
        let kept = (weights + optimizer + gradients) / memory_parts::total(&mixed)?;
        let text = format!(
            "{} the memory of {}; {:.0} % of its own memory is weights, gradients and optimizer state in f32, {:.0} % is copies of weights",
            units::times(ratio),
            context.group.setting_label(base.row()),
            100.0 * kept,
            100.0 * copies / memory_parts::total(&mixed)?
        );
        Some((mixed.row(), text))
    });
    finding.into_iter().collect()
}

/// Finds rows whose peak memory is lower than that of a row with the same effective batch in fewer, larger micro-batches.
pub(super) fn accumulation<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let effective = |row: &Row<'_>| row.cell.setting.effective_batch();
    let fewer = |row: &Row<'_>, other: &Row<'_>| {
        other.cell.setting.accumulate() < row.cell.setting.accumulate()
            && effective(row) == effective(other)
            && alike(row, other, &[Axis::Batch, Axis::Accumulate])
    };
    with_lower_peak(context, fewer, |other| other.cell.setting.accumulate())
}

pub(super) fn checkpointing<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let (on, off) = (Switch::On.name(), Switch::Off.name());
    let without = |row: &Row<'_>, other: &Row<'_>| {
        row.axis(Axis::Checkpointing) == on
            && other.axis(Axis::Checkpointing) == off
            && alike(row, other, &[Axis::Checkpointing])
    };
    with_lower_peak(context, without, |_| 0)
}

/// Pairs each row with the row of the lowest `rank` among those for which `pairs(row, other)` is true. Returns the rows whose peak memory
/// is shown to be lower than that of the other row, with a description of the saving and the change in time.
fn with_lower_peak<'r, 'a>(
    context: &Context<'_, 'r, 'a>,
    pairs: impl Fn(&Row<'_>, &Row<'_>) -> bool,
    rank: impl Fn(&Row<'_>) -> u32,
) -> Vec<Finding<'r, 'a>> {
    let group = context.group;
    let Some(memory) = group.memory else {
        return Vec::new();
    };
    let pair = |row: &'r Row<'a>| {
        let others = group.ok().filter(|other| pairs(row, other));
        Some((row, others.min_by_key(|other| rank(other))?))
    };
    let pairs: Vec<(&Row<'_>, &Row<'_>)> = group.ok().filter_map(pair).collect();
    let finding = |((row, other), saved): ((&'r Row<'a>, &'r Row<'a>), Option<Estimate>)| {
        let text = format!(
            "{} the peak memory of {}; {}",
            memory_text(memory, &saved?),
            group.setting_label(other),
            time_change(group.speed, row, other)
        );
        Some((row, text))
    };
    let savings = shown_savings(memory, &pairs);
    pairs.into_iter().zip(savings).filter_map(finding).collect()
}

fn comparison<'v>(values: &'v [f64], others: &'v [f64], better: Better, threshold: f64) -> Groups<'v> {
    Groups {
        baseline: others,
        candidate: values,
        better,
        threshold,
    }
}

/// Returns the ratio of the first to the second peak of each pair; `None` unless the first is shown to be lower. Bytes that the program
/// counts ([`MetricName::is_counted`]) are identical in every process, so one process is enough. Measured peaks need enough processes for a
/// significant difference.
fn shown_savings(metric: MetricName, pairs: &[(&Row<'_>, &Row<'_>)]) -> Vec<Option<Estimate>> {
    let values: Vec<[Vec<f64>; 2]> = pairs
        .iter()
        .map(|(row, other)| [row, other].map(|row| row.values(metric)))
        .collect();
    let family: Vec<Groups<'_>> = values
        .iter()
        .map(|[mine, theirs]| comparison(mine, theirs, metric.better(), MIN_SAVING))
        .collect();
    let shown = |judgement: Judgement| {
        let lower = |ratio: &Estimate| ratio.value < 1.0 - MIN_SAVING;
        let shown = judgement.verdict == Verdict::Improved;
        judgement
            .ratio
            .filter(|ratio| shown || (metric.is_counted() && lower(ratio)))
    };
    judge(&family).into_iter().map(shown).collect()
}

/// Formats the ratio of the row's time to that of the other row, or the reason why the ratio is unknown.
fn time_change(metric: MetricName, row: &Row<'_>, other: &Row<'_>) -> String {
    if !is_comparable(metric, row, other) {
        return "its time is not comparable: more threads than cores".to_owned();
    }
    let speeds = [row, other].map(|row| speeds(row, metric));
    let seconds = speeds.map(|speeds| speeds.iter().map(|speed| 1.0 / speed).collect::<Vec<f64>>());
    let [mine, theirs] = &seconds;
    let judgement = judge(&[comparison(mine, theirs, Better::Lower, SPEED_THRESHOLD)]).pop();
    let known = judgement.and_then(|judgement| Some((judgement.verdict, judgement.ratio?)));
    match known {
        None => "its time was not measured".to_owned(),
        Some((Verdict::Improved | Verdict::Regressed, ratio)) => {
            format!("{} the time", ratio_text(&ratio))
        }
        Some((Verdict::Unchanged, _)) => {
            format!("the same time within {:.0} %", 100.0 * SPEED_THRESHOLD)
        }
        Some((verdict @ Verdict::Inconclusive(_), _)) => {
            format!(
                "the change in time is inconclusive: {}",
                sentences::doubt(verdict)
            )
        }
    }
}
