//! Comparison of two runs, cell by cell.

use std::collections::BTreeSet;

use mantissa_core::{CellId, MetricName};

use crate::{
    ComparedCell, Comparison, Fences, GateError, MeasuredCell, Mismatch, Part, Policy, RunMeasurements, Side,
    findings::findings, judge::judge_all, pair::Pair, setting_labels::SettingLabels,
};

/// Schema version of the output of `mantissa compare --json`.
const SCHEMA: u32 = 1;

/// Compares a candidate with a baseline. `allowed`: properties in which the runs may differ. `fences`: run-to-run noise from a history, see
/// [`History::fences`](crate::History::fences).
///
/// # Errors
/// Fails if the runs differ in a [`Part`] that is not in `allowed`, or if there is no cell that both runs tried.
pub fn compare(
    baseline: &RunMeasurements,
    candidate: &RunMeasurements,
    policy: &Policy,
    allowed: &BTreeSet<Part>,
    fences: &Fences,
) -> Result<Comparison, GateError> {
    let mismatches = Mismatch::between(baseline, candidate);
    if mismatches
        .iter()
        .any(|mismatch| !allowed.contains(&mismatch.part))
    {
        return Err(GateError::Mismatch { mismatches });
    }
    let tried_cells = |side: &RunMeasurements| -> BTreeSet<CellId> {
        let cells = side.cells.iter().filter(|(_, measured)| measured.was_tried());
        cells.map(|(id, _)| id.clone()).collect()
    };
    let (before, after) = (tried_cells(baseline), tried_cells(candidate));
    if before.is_disjoint(&after) {
        return Err(GateError::NothingInCommon {
            baseline: baseline.name.clone(),
            candidate: candidate.name.clone(),
        });
    }
    let all: Vec<&CellId> = before.union(&after).collect();
    let pairs: Vec<Pair<'_>> = all
        .iter()
        .map(|id| Pair {
            before: baseline.cells.get(*id).filter(|measured| measured.was_tried()),
            after: candidate.cells.get(*id).filter(|measured| measured.was_tried()),
            skipped: candidate.cells.get(*id).and_then(MeasuredCell::skip_reason),
        })
        .collect();
    let labels = SettingLabels::of(pairs.iter().map(Pair::either));
    let mut judged = judge_all(&pairs, policy, fences).into_iter();
    let judged_metrics: BTreeSet<MetricName> = policy.floors.keys().copied().collect();
    let mut cells: Vec<ComparedCell> = pairs
        .iter()
        .map(|pair| {
            let measured = pair.either();
            ComparedCell {
                id: measured.cell.id.clone(),
                suite: measured.cell.suite.clone(),
                workload: measured.cell.workload.name.clone(),
                setting: labels.label(measured),
                findings: findings(pair, &judged_metrics, policy.repeats as usize),
                changes: judged.next().unwrap_or_default(),
                command: measured.command.clone(),
                cell: measured.cell.clone(),
            }
        })
        .collect();
    cells.sort_by(|a, b| {
        (&a.suite, &a.workload, &a.setting, &a.id).cmp(&(&b.suite, &b.workload, &b.setting, &b.id))
    });
    Ok(Comparison {
        schema: SCHEMA,
        baseline: Side::of(baseline),
        candidate: Side::of(candidate),
        mismatches,
        cells,
    })
}

impl Side {
    fn of(measured: &RunMeasurements) -> Self {
        let fingerprint = &measured.fingerprint;
        let gpu = fingerprint.gpu.as_ref().map(|gpu| gpu.name.clone());
        Self {
            name: measured.name.clone(),
            started: measured.started.clone(),
            machine: gpu
                .or_else(|| fingerprint.cpu.clone())
                .unwrap_or_else(|| "unknown".to_owned()),
            profile: measured.profile,
            revision: fingerprint.revision.clone(),
            repeats: measured.repeats(),
        }
    }
}
