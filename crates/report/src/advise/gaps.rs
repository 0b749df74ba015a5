//! Gaps in a run: settings, seeds and conditions that were not tested. They show how far the advice can be trusted.

use std::collections::BTreeMap;

use mantissa_analysis::MIN_PROCESSES;
use mantissa_core::{
    Accumulator, Axis, AxisValue, Backend, ExecutedVerdict, Format, MatmulPrecision, Precision, Setting,
    Status, TaskKind,
};

use super::{
    candidate::Candidate,
    choice::{Choice, cost},
    sentences::listed,
};
use crate::{Goal, Group, Report, Row};

/// Lists the gaps, one sentence each.
pub(crate) fn gaps(report: &Report<'_>, group: &Group<'_>, choices: &[Choice<'_, '_>]) -> Vec<String> {
    let mut gaps: Vec<String> = Vec::new();
    gaps.extend(settings(group));
    gaps.extend(not_run(group));
    gaps.extend(repeats(choices));
    gaps.extend(seeds(group));
    gaps.extend(held(group));
    gaps.extend(unverified(group));
    if report.run.environment.backend == Backend::Flex {
        gaps.push("A GPU: what is fast on this CPU may be slow there.".to_owned());
    }
    let data = group
        .rows
        .iter()
        .flat_map(|row| &row.records)
        .filter_map(|record| record.data.as_ref());
    if let Some(data) = data.into_iter().find(|data| data.synthetic) {
        gaps.push(format!("Real data: it was {}.", data.name));
    }
    if matches!(group.kind, TaskKind::Train | TaskKind::Evaluate) && cost(group, Goal::Energy).is_none() {
        gaps.push("Energy: none was recorded.".to_owned());
    }
    gaps
}

fn ran(row: &Row<'_>) -> bool {
    row.status.is_some_and(|status| status != Status::Skipped)
}

/// Lists the combinations of precision, matmul and accumulator that can run but did not.
fn settings(group: &Group<'_>) -> Option<String> {
    let like = &group.rows.iter().find(|row| ran(row))?.cell.setting;
    let arithmetic = |setting: &Setting| (setting.precision(), setting.matmul(), setting.accumulator());
    let done: Vec<_> = group
        .rows
        .iter()
        .filter(|row| ran(row))
        .map(|row| arithmetic(&row.cell.setting))
        .collect();
    let mut missing = Vec::new();
    for setting in every(like) {
        let (precision, matmul, accumulator) = arithmetic(&setting);
        if done.contains(&(precision, matmul, accumulator)) {
            continue;
        }
        let mut name = precision.name().to_owned();
        if precision.allows(MatmulPrecision::High) && setting.get(Axis::Matmul).is_some() {
            name = format!("{name} · {matmul}");
        }
        if accumulator == Accumulator::F16 {
            name += " with sums in f16";
        }
        missing.push(name);
    }
    (!missing.is_empty()).then(|| {
        format!(
            "{} of arithmetic: {}.",
            settings_of(missing.len()),
            listed(&missing, ", ")
        )
    })
}

fn settings_of(count: usize) -> String {
    match count {
        1 => "1 setting".to_owned(),
        count => format!("{count} settings"),
    }
}

/// Returns the settings that differ from the given one only in their arithmetic and that can run.
fn every(like: &Setting) -> Vec<Setting> {
    let mut settings = Vec::new();
    for precision in Precision::ALL {
        for matmul in MatmulPrecision::ALL {
            for accumulator in Accumulator::ALL {
                let values = [
                    (Axis::Precision, precision.name()),
                    (Axis::Matmul, matmul.name()),
                    (Axis::Accumulator, accumulator.name()),
                ];
                let mut setting = like.clone();
                let set = values
                    .into_iter()
                    .try_for_each(|(axis, name)| setting.set(axis, AxisValue::Text(name.to_owned())));
                let mixed = precision.is_mixed() || setting.keep_f32().is_empty();
                if set.is_ok() && mixed && setting.skip_reason().is_none() && !settings.contains(&setting) {
                    settings.push(setting);
                }
            }
        }
    }
    settings
}

/// Counts the planned cells that did not run, by reason.
fn not_run(group: &Group<'_>) -> Vec<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    // Combinations that are undefined cannot be tested.
    let meant = group.rows.iter().filter(|row| !ran(row) && !is_undefined(row));
    for row in meant {
        *reasons
            .entry(row.reason.as_deref().unwrap_or("no reason given"))
            .or_default() += 1;
    }
    let told = |(reason, count): (&str, usize)| match count {
        1 => format!("1 planned cell: {reason}."),
        count => format!("{count} planned cells: {reason}."),
    };
    reasons.into_iter().map(told).collect()
}

fn is_undefined(row: &Row<'_>) -> bool {
    let setting = &row.cell.setting;
    let bf16 = setting.precision().compute() == Format::Bf16;
    let sums = setting.accumulator() == Accumulator::F16
        && (!setting.precision().allows_f16_sums() || (bf16 && setting.backend() != Backend::Flex));
    !setting.precision().allows(setting.matmul()) || sums
}

/// Reports that the settings ran in too few processes, over their seeds, for an interval between processes.
fn repeats(choices: &[Choice<'_, '_>]) -> Option<String> {
    let settings = choices.iter().flat_map(|choice| &choice.assessed);
    let ran = settings
        .map(|one| &one.candidate)
        .filter(|one| one.ended().is_none());
    let most = ran.map(Candidate::processes).max()?;
    let processes = match most {
        1 => "one process".to_owned(),
        most => format!("{most} processes"),
    };
    (most < MIN_PROCESSES).then(|| {
        format!(
            "How much processes differ: a setting ran in {processes}, and an interval between them takes {MIN_PROCESSES} \
             (`--repeats`)."
        )
    })
}

/// Reports a training with a single seed. Evaluations of given weights do not depend on the seed.
fn seeds(group: &Group<'_>) -> Option<String> {
    let single = group.kind == TaskKind::Train && !group.varies(Axis::Seed) && group.ok().next().is_some();
    single.then(|| {
        "Other seeds: how much the accuracy of one setting changes from seed to seed is not known.".to_owned()
    })
}

fn unverified(group: &Group<'_>) -> Option<String> {
    let is = |row: &&Row<'_>| row.verdict() == Some(ExecutedVerdict::Unverified);
    match group.ok().filter(is).count() {
        0 => None,
        1 => Some("Of 1 cell, which precision the hardware used.".to_owned()),
        count => Some(format!("Of {count} cells, which precision the hardware used.")),
    }
}

/// Lists the axes that affect speed or memory and have one value in the whole run.
fn held(group: &Group<'_>) -> Option<String> {
    const DECIDE: [Axis; 5] = [
        Axis::Batch,
        Axis::Accumulate,
        Axis::Checkpointing,
        Axis::Optimizer,
        Axis::Fusion,
    ];
    let row = group.rows.first()?;
    let held = DECIDE.iter().filter(|axis| !group.varies(**axis));
    let held: Vec<String> = held
        .filter_map(|axis| Some(format!("{axis} {}", row.cell.setting.get(*axis)?)))
        .collect();
    (!held.is_empty()).then(|| format!("Other values of what was held: {}.", held.join(", ")))
}
