//! Gaps in a run: settings, seeds and conditions that were not tested. They limit the scope of the advice.

use std::collections::BTreeMap;

use mantissa_analysis::MIN_PROCESSES;
use mantissa_core::{
    Accumulator, Axis, AxisValue, Backend, ExecutedVerdict, Format, MatmulPrecision, Precision, Setting,
    TaskKind,
};

use super::{
    choice::{Choice, cost},
    sentences::listed,
};
use crate::{Goal, Group, Report, Row, setting::SettingResult};

/// Lists the gaps, one sentence each.
pub(crate) fn gaps(report: &Report<'_>, group: &Group<'_>, choices: &[Choice<'_, '_>]) -> Vec<String> {
    let mut gaps: Vec<String> = Vec::new();
    gaps.extend(missing_arithmetic(group));
    gaps.extend(not_run(group));
    gaps.extend(too_few_processes(choices));
    gaps.extend(single_seed(group));
    gaps.extend(fixed_axes(group));
    gaps.extend(unverified(group));
    if report.run.environment.backend == Backend::Flex {
        gaps.push("A GPU: settings that are fast on this CPU may be slow on a GPU.".to_owned());
    }
    let data = group
        .rows
        .iter()
        .flat_map(|row| &row.records)
        .filter_map(|record| record.data.as_ref());
    if let Some(data) = data.into_iter().find(|data| data.synthetic) {
        gaps.push(format!("Real data: the run used {}.", data.name));
    }
    if matches!(group.kind, TaskKind::Train | TaskKind::Evaluate) && cost(group, Goal::Energy).is_none() {
        gaps.push("Energy: not recorded.".to_owned());
    }
    gaps
}

/// Lists the valid combinations of precision, matmul and accumulator that did not run.
fn missing_arithmetic(group: &Group<'_>) -> Option<String> {
    let template = &group.rows.iter().find(|row| row.ran())?.cell.setting;
    let arithmetic = |setting: &Setting| (setting.precision(), setting.matmul(), setting.accumulator());
    let tested: Vec<_> = group
        .rows
        .iter()
        .filter(|row| row.ran())
        .map(|row| arithmetic(&row.cell.setting))
        .collect();
    let mut missing = Vec::new();
    for setting in arithmetic_variants(template) {
        let (precision, matmul, accumulator) = arithmetic(&setting);
        if tested.contains(&(precision, matmul, accumulator)) {
            continue;
        }
        let mut name = precision.name().to_owned();
        if precision.allows(MatmulPrecision::High) && setting.get(Axis::Matmul).is_some() {
            name = format!("{name} · {matmul}");
        }
        if accumulator == Accumulator::F16 {
            name += " with f16 accumulation";
        }
        missing.push(name);
    }
    (!missing.is_empty()).then(|| {
        format!(
            "{}: {}.",
            arithmetic_settings(missing.len()),
            listed(&missing, ", ")
        )
    })
}

fn arithmetic_settings(count: usize) -> String {
    match count {
        1 => "1 arithmetic setting".to_owned(),
        count => format!("{count} arithmetic settings"),
    }
}

/// Returns the settings that can run and that differ from `template` only in their arithmetic.
fn arithmetic_variants(template: &Setting) -> Vec<Setting> {
    let mut settings = Vec::new();
    for precision in Precision::ALL {
        for matmul in MatmulPrecision::ALL {
            for accumulator in Accumulator::ALL {
                let values = [
                    (Axis::Precision, precision.name()),
                    (Axis::Matmul, matmul.name()),
                    (Axis::Accumulator, accumulator.name()),
                ];
                let mut setting = template.clone();
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
    // Leave out undefined combinations, which cannot run.
    let untested = group.rows.iter().filter(|row| !row.ran() && !is_undefined(row));
    for row in untested {
        *reasons
            .entry(row.reason.as_deref().unwrap_or("no reason given"))
            .or_default() += 1;
    }
    let gap = |(reason, count): (&str, usize)| match count {
        1 => format!("1 planned cell: {reason}."),
        count => format!("{count} planned cells: {reason}."),
    };
    reasons.into_iter().map(gap).collect()
}

fn is_undefined(row: &Row<'_>) -> bool {
    let setting = &row.cell.setting;
    let bf16 = setting.precision().compute() == Format::Bf16;
    let sums = setting.accumulator() == Accumulator::F16
        && (!setting.precision().allows_f16_accumulator() || (bf16 && setting.backend() != Backend::Flex));
    !setting.precision().allows(setting.matmul()) || sums
}

/// Reports that no setting ran in enough processes for an interval between processes. Processes are counted over all seeds.
fn too_few_processes(choices: &[Choice<'_, '_>]) -> Option<String> {
    let settings = choices.iter().flat_map(|choice| &choice.assessed);
    let ran = settings
        .map(|one| &one.candidate)
        .filter(|one| one.failure().is_none());
    let most = ran.map(SettingResult::processes).max()?;
    let processes = match most {
        1 => "one process".to_owned(),
        most => format!("{most} processes"),
    };
    (most < MIN_PROCESSES).then(|| {
        format!(
            "Variation between processes: no setting ran in more than {processes}; an interval needs {MIN_PROCESSES} \
             (`--repeats`)."
        )
    })
}

/// Reports a training with a single seed. Evaluations of given weights do not depend on the seed.
fn single_seed(group: &Group<'_>) -> Option<String> {
    let single = group.kind == TaskKind::Train && !group.varies(Axis::Seed) && group.ok().next().is_some();
    single.then(|| "Other seeds: the variation of accuracy between seeds is unknown.".to_owned())
}

fn unverified(group: &Group<'_>) -> Option<String> {
    let is = |row: &&Row<'_>| row.verdict() == Some(ExecutedVerdict::Unverified);
    match group.ok().filter(is).count() {
        0 => None,
        1 => Some("The executed precision of 1 cell.".to_owned()),
        count => Some(format!("The executed precision of {count} cells.")),
    }
}

/// Lists the axes that affect speed or memory and have one value in the whole run.
fn fixed_axes(group: &Group<'_>) -> Option<String> {
    const PERFORMANCE_AXES: [Axis; 8] = [
        Axis::Batch,
        Axis::Accumulate,
        Axis::Checkpointing,
        Axis::Optimizer,
        Axis::Fusion,
        Axis::ReduceFormat,
        Axis::Staleness,
        Axis::Threads,
    ];
    let row = group.rows.first()?;
    let fixed = PERFORMANCE_AXES.iter().filter(|axis| !group.varies(**axis));
    let fixed: Vec<String> = fixed
        .filter_map(|axis| Some(format!("{axis} {}", row.cell.setting.get(*axis)?)))
        .collect();
    (!fixed.is_empty()).then(|| format!("Other values of the fixed axes: {}.", fixed.join(", ")))
}
