//! Changes of a cell that are not metrics: its status, executed precision, kernels and lost metrics.

use std::collections::BTreeSet;

use mantissa_core::{MetricName, Status};

use crate::{
    ChangeVerdict, Finding, FindingKind, MeasuredCell, executed_precision::ExecutedPrecision, pair::Pair,
};

/// Returns the findings about a cell. `judged`: the metrics that the policy judges. `repeats`: the minimum number of processes for a
/// verdict.
pub(crate) fn findings(pair: &Pair<'_>, judged: &BTreeSet<MetricName>, repeats: usize) -> Vec<Finding> {
    let finding = |kind, verdict, text: String| Finding { kind, verdict, text };
    let (before, after) = match (pair.before, pair.after) {
        (Some(before), Some(after)) => (before, after),
        (None, _) => {
            let text = "not in the baseline".to_owned();
            return vec![finding(FindingKind::New, ChangeVerdict::Changed, text)];
        }
        (Some(_), None) => {
            let text = match pair.skipped {
                Some(reason) => format!("skipped: {reason}"),
                None => "not in the candidate".to_owned(),
            };
            return vec![finding(FindingKind::Vanished, ChangeVerdict::Regressed, text)];
        }
    };
    let mut findings = vec![];
    findings.extend(status_change(before, after, repeats));
    findings.extend(executed_change(before, after));
    findings.extend(kernel_change(before, after));
    findings.extend(lost_metrics(before, after, judged));
    findings
}

/// Compares the statuses of the processes. If all processes fail on both sides, the verdict is `Unchanged` with at least `repeats`
/// processes on each side, and `Inconclusive` with fewer.
fn status_change(before: &MeasuredCell, after: &MeasuredCell, repeats: usize) -> Option<Finding> {
    let failed_of_all = |measured: &MeasuredCell| {
        let all = measured.processes.len();
        (all - measured.completed().count(), all)
    };
    let ((failed_before, all_before), (failed_after, all_after)) =
        (failed_of_all(before), failed_of_all(after));
    let first_failure = |measured: &MeasuredCell| {
        let failed = measured
            .processes
            .iter()
            .find(|process| process.status != Status::Ok)?;
        let reason = failed.reason.as_deref().unwrap_or("no reason recorded");
        Some((failed.status, reason.to_owned()))
    };
    let all_fail = failed_before == all_before && failed_after == all_after;
    let verdict = match (failed_before, failed_after) {
        (0, 0) => return None,
        (0, _) => ChangeVerdict::Regressed,
        (_, 0) => ChangeVerdict::Improved,
        _ if all_fail && all_before.min(all_after) >= repeats => ChangeVerdict::Unchanged,
        _ if all_fail => ChangeVerdict::Inconclusive,
        // All processes of the candidate failed, but not all of the baseline.
        _ if failed_after == all_after => ChangeVerdict::Regressed,
        // Some processes failed on both sides. With so few processes, a change of the failure rate cannot be shown.
        _ => ChangeVerdict::Inconclusive,
    };
    let describe = |measured: &MeasuredCell, count: usize, all: usize| match first_failure(measured) {
        Some((status, reason)) => format!("{status} in {count} of {all} processes ({reason})"),
        None => format!("ok in all {all} processes"),
    };
    Some(Finding {
        kind: FindingKind::Status,
        verdict,
        text: format!(
            "{}; before: {}",
            describe(after, failed_after, all_after),
            describe(before, failed_before, all_before)
        ),
    })
}

/// Finds judged metrics, and the executed precision, that only the baseline has. The verdict is inconclusive because the records do not
/// contain the reason.
fn lost_metrics(
    before: &MeasuredCell,
    after: &MeasuredCell,
    judged: &BTreeSet<MetricName>,
) -> Option<Finding> {
    after.completed().next()?;
    let has = |measured: &MeasuredCell, metric| !measured.values(metric).is_empty();
    let metrics = judged
        .iter()
        .filter(|metric| has(before, **metric) && !has(after, **metric))
        .map(|metric| metric.name().to_owned());
    let observed = |measured: &MeasuredCell| {
        let mut executed = measured.processes.iter().map(|process| &process.executed);
        executed.any(|executed| ExecutedPrecision::of(executed).is_some())
    };
    let precision = (observed(before) && !observed(after)).then(|| "the executed precision".to_owned());
    let all: Vec<String> = metrics.chain(precision).collect();
    (!all.is_empty()).then(|| Finding {
        kind: FindingKind::Lost,
        verdict: ChangeVerdict::Inconclusive,
        text: format!("no longer measured: {}", all.join(", ")),
    })
}

/// Compares the executed precision that was observed in the processes.
fn executed_change(before: &MeasuredCell, after: &MeasuredCell) -> Option<Finding> {
    let observed = |measured: &MeasuredCell| -> BTreeSet<ExecutedPrecision> {
        measured
            .processes
            .iter()
            .filter_map(|process| ExecutedPrecision::of(&process.executed))
            .collect()
    };
    let (old, new) = (observed(before), observed(after));
    if old.is_empty() || new.is_empty() || old == new {
        return None;
    }
    let join = |observed: &BTreeSet<ExecutedPrecision>| {
        observed
            .iter()
            .map(ExecutedPrecision::to_string)
            .collect::<Vec<_>>()
            .join(" or ")
    };
    // If only the requested precision changed, both texts are equal. In that case, append the verdict on the executed precision compared
    // with the requested one, such as `differs`.
    let is_ambiguous = join(&old) == join(&new);
    let describe = |observed: &BTreeSet<ExecutedPrecision>| match is_ambiguous {
        true => observed
            .iter()
            .map(|observed| format!("{observed}, {}", observed.verdict))
            .collect::<Vec<_>>()
            .join(" or "),
        false => join(observed),
    };
    let worse = new.iter().any(|new| old.iter().all(|old| new.is_less_than(old)));
    let better = old.iter().any(|old| new.iter().all(|new| old.is_less_than(new)));
    Some(Finding {
        kind: FindingKind::Executed,
        verdict: match (worse, better) {
            (true, _) => ChangeVerdict::Regressed,
            (false, true) => ChangeVerdict::Improved,
            (false, false) => ChangeVerdict::Changed,
        },
        text: format!("executed {}; before: {}", describe(&new), describe(&old)),
    })
}

/// Compares the names of the kernels that ran.
fn kernel_change(before: &MeasuredCell, after: &MeasuredCell) -> Option<Finding> {
    let observed = |measured: &MeasuredCell| -> BTreeSet<String> {
        let processes = measured.processes.iter();
        processes
            .filter_map(|process| process.executed.kernel.clone())
            .collect()
    };
    let (old, new) = (observed(before), observed(after));
    if old.is_empty() || new.is_empty() || old == new {
        return None;
    }
    let join = |observed: &BTreeSet<String>| observed.iter().cloned().collect::<Vec<_>>().join(" or ");
    Some(Finding {
        kind: FindingKind::Kernel,
        verdict: ChangeVerdict::Changed,
        text: format!("kernel {}; before: {}", join(&new), join(&old)),
    })
}
