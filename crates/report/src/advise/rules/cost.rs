//! Rules about time and memory.

use mantissa_analysis::{Groups, Verdict, hodges_lehmann_ratio, judge};
use mantissa_core::{Axis, Better, MatmulPrecision, Precision, Switch};

use super::{Context, Finding, alike};
use crate::{
    Row,
    advise::{candidate::Candidate, words},
    baseline::SPEED_MATTERS,
    parts, units,
};

/// A peak that is lower by less than this share is no saving.
const SAVING_MATTERS: f64 = parts::WORTH_NAMING;

pub(super) fn matmul_high<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let mut findings = Vec::new();
    for choice in context.choices {
        let of = |candidate: &Candidate<'_, '_>, matmul| {
            let setting = &candidate.row().cell.setting;
            setting.precision() == Precision::True32 && setting.matmul() == matmul
        };
        // Without a bound of the error, nothing tells whether a kernel may have that of TF32.
        let judged = choice.chosen.is_some();
        let all = &choice.assessed;
        let high = all
            .iter()
            .filter(|one| judged && one.is_kept() && of(&one.candidate, MatmulPrecision::High));
        for high in high.map(|one| &one.candidate) {
            let same = |candidate: &&Candidate<'_, '_>| {
                alike(candidate.row(), high.row(), &[Axis::Matmul, Axis::Seed])
            };
            let mut highest = all.iter().map(|one| &one.candidate);
            let highest =
                highest.find(|one| of(one, MatmulPrecision::Highest) && one.ended().is_none() && same(one));
            let faster = highest.and_then(|highest| faster(context, highest, high));
            findings.extend(faster.map(|text| (high.row(), text)));
        }
    }
    findings
}

/// How much faster the second is, with how sure that is; nothing if it is not.
fn faster(
    context: &Context<'_, '_, '_>,
    slow: &Candidate<'_, '_>,
    fast: &Candidate<'_, '_>,
) -> Option<String> {
    let speed = context.group.speed;
    let (slow, fast) = (slow.values(speed), fast.values(speed));
    let groups = Groups {
        baseline: &slow,
        candidate: &fast,
        better: speed.better(),
        threshold: SPEED_MATTERS,
    };
    let verdict = judge(&[groups]).first()?.verdict;
    let ratio = match speed.better() {
        Better::Higher => hodges_lehmann_ratio(&fast, &slow),
        Better::Lower => hodges_lehmann_ratio(&slow, &fast),
    }?;
    (verdict == Verdict::Improved).then(|| format!("{} as fast as highest", words::times(&ratio)))
}

pub(super) fn mixed_memory<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    /// What mixed precision would hold if it halved everything.
    const HALF: f64 = 0.5;
    let found = parts::leanest_mixed(context.group)
        .filter(|(_, base, ratio)| base.cell.setting.precision() == Precision::True32 && *ratio > HALF);
    let told = found.and_then(|(row, base, ratio)| {
        let [weights, optimizer, gradients, copies, _] = parts::parts(row)?;
        let kept = (weights + optimizer + gradients) / parts::total(row)?;
        let text = format!(
            "{} of what {} holds; {:.0} % of it are weights, gradients and optimizer state in f32, {:.0} % copies of weights",
            units::times(ratio),
            context.group.label(base, &[Axis::Seed]),
            100.0 * kept,
            100.0 * copies / parts::total(row)?
        );
        Some((row, text))
    });
    told.into_iter().collect()
}

/// Beside the same effective batch in fewer micro-batches.
pub(super) fn accumulation<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let effective = |row: &Row<'_>| {
        let setting = &row.cell.setting;
        u64::from(setting.batch()) * u64::from(setting.accumulate())
    };
    let fewer = |row: &Row<'_>, other: &Row<'_>| {
        other.cell.setting.accumulate() < row.cell.setting.accumulate()
            && effective(row) == effective(other)
            && alike(row, other, &[Axis::Batch, Axis::Accumulate])
    };
    leaner(context, fewer, |other| other.cell.setting.accumulate())
}

pub(super) fn checkpointing<'r, 'a>(context: &Context<'_, 'r, 'a>) -> Vec<Finding<'r, 'a>> {
    let (on, off) = (Switch::On.name(), Switch::Off.name());
    let without = |row: &Row<'_>, other: &Row<'_>| {
        row.axis(Axis::Checkpointing) == on
            && other.axis(Axis::Checkpointing) == off
            && alike(row, other, &[Axis::Checkpointing])
    };
    leaner(context, without, |_| 0)
}

/// Rows that peak lower than another row, of which there may be several, the one of the least rank, with what that costs.
fn leaner<'r, 'a>(
    context: &Context<'_, 'r, 'a>,
    pairs: impl Fn(&Row<'_>, &Row<'_>) -> bool,
    rank: impl Fn(&Row<'_>) -> u32,
) -> Vec<Finding<'r, 'a>> {
    let group = context.group;
    let ratio = |metric, row: &Row<'_>, other: &Row<'_>| {
        hodges_lehmann_ratio(&row.values(metric), &other.values(metric))
    };
    let found = |row: &'r Row<'a>| {
        let other = group
            .ok()
            .filter(|other| pairs(row, other))
            .min_by_key(|other| rank(other))?;
        let memory = ratio(group.memory?, row, other)?;
        let time = ratio(group.speed, row, other)
            .map(|time| format!(", {} its time", words::times(&time)))
            .unwrap_or_default();
        (memory.value < 1.0 - SAVING_MATTERS).then(|| {
            let text = format!(
                "{} the peak memory of {}{time}",
                words::times(&memory),
                group.label(other, &[Axis::Seed])
            );
            (row, text)
        })
    };
    group.ok().filter_map(found).collect()
}
