//! Tests of findings that are not metrics: status, executed precision, kernels and lost metrics.

use mantissa_core::{MetricName, Status};
use mantissa_gate::{ChangeVerdict, FindingKind};

use crate::six_cells::{compare_runs, gate_runs, run, unchanged};

#[test]
fn failed_missing_and_skipped_cells_are_regressions() {
    let mut after = run(2, unchanged);
    let ids: Vec<_> = after.cells.iter().map(|cell| cell.id.clone()).collect();
    for record in after.records.iter_mut().filter(|record| record.cell.id == ids[0]) {
        record.status = Status::Oom;
        record.reason = Some("out of memory".into());
    }
    after.records.retain(|record| record.cell.id != ids[1]);
    for record in after.records.iter_mut().filter(|record| record.cell.id == ids[2]) {
        record.status = Status::Skipped;
        record.reason = Some("no such backend".into());
    }
    let report = gate_runs(run(1, unchanged), after);
    let texts: Vec<&str> = report
        .failures
        .iter()
        .map(|failure| failure.text.as_str())
        .collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(
        texts
            .iter()
            .any(|text| text.contains("oom in 5 of 5 processes (out of memory)")),
        "{texts:?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("not in the candidate")),
        "{texts:?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("skipped: no such backend")),
        "{texts:?}"
    );
}

#[test]
fn fewer_bits_are_regressions_and_other_kernels_are_changes() {
    let mut after = run(2, unchanged);
    let id = after.cells[0].id.clone();
    for record in after.records.iter_mut().filter(|record| record.cell.id == id) {
        record.executed.operand_bits = Some(11);
        record.executed.kernel = Some("tf32 gemm".into());
    }
    let report = gate_runs(run(1, unchanged), after);
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    assert!(
        report.failures[0].text.contains("11 significand bits"),
        "{}",
        report.failures[0].text
    );
    let kinds: Vec<_> = report
        .comparison
        .cells
        .iter()
        .flat_map(|cell| &cell.findings)
        .map(|finding| finding.kind)
        .collect();
    assert_eq!(kinds, [FindingKind::Executed, FindingKind::Kernel]);
}

#[test]
fn accumulators_are_compared_by_their_significand_bits() {
    let run_with = |seed, accumulator: &str| {
        let mut run = run(seed, unchanged);
        let id = run.cells[0].id.clone();
        for record in run.records.iter_mut().filter(|record| record.cell.id == id) {
            record.executed.accumulator = Some(accumulator.into());
        }
        run
    };
    assert_eq!(
        gate_runs(run_with(1, "f16"), run_with(2, "bf16")).failures.len(),
        1
    );
    assert_eq!(
        gate_runs(run_with(1, "bf16"), run_with(2, "7 bits"))
            .failures
            .len(),
        1
    );
    assert!(
        gate_runs(run_with(1, "7 bits"), run_with(2, "f16"))
            .failures
            .is_empty()
    );
}

#[test]
fn failures_on_both_sides_need_five_processes_for_a_verdict() {
    let failing_first_cell = |seed, processes| {
        let mut run = run(seed, unchanged);
        let first = run.records[0].cell.id.clone();
        for record in run.records.iter_mut().filter(|record| record.cell.id == first) {
            record.status = Status::Diverged;
            record.reason = Some("the loss is NaN".into());
        }
        run.records.retain(|record| record.repeat < processes);
        run
    };
    for (processes, verdict) in [
        (1, ChangeVerdict::Inconclusive),
        (4, ChangeVerdict::Inconclusive),
        (5, ChangeVerdict::Unchanged),
    ] {
        let report = gate_runs(failing_first_cell(1, processes), failing_first_cell(2, processes));
        let mut findings = report.comparison.cells.iter().flat_map(|cell| &cell.findings);
        let finding = findings
            .find(|finding| finding.kind == FindingKind::Status)
            .unwrap();
        assert_eq!(finding.verdict, verdict, "{}", finding.text);
        assert_eq!(report.has_verdict(), processes == 5, "{processes}");
    }
}

#[test]
fn failing_always_is_a_regression_from_failing_sometimes() {
    let failing = |seed, fails: fn(u32) -> bool| {
        let mut run = run(seed, unchanged);
        let id = run.cells[0].id.clone();
        for record in run
            .records
            .iter_mut()
            .filter(|record| record.cell.id == id && fails(record.repeat))
        {
            record.status = Status::Timeout;
        }
        run
    };
    let report = gate_runs(failing(1, |repeat| repeat == 0), failing(2, |_| true));
    assert_eq!(report.failures.len(), 1, "{:?}", report.failures);
    assert!(
        report.failures[0].text.contains("timeout in 5 of 5"),
        "{:?}",
        report.failures
    );
}

#[test]
fn metrics_that_are_no_longer_measured_are_inconclusive() {
    let mut after = run(2, unchanged);
    let id = after.cells[0].id.clone();
    for record in after.records.iter_mut().filter(|record| record.cell.id == id) {
        record.metrics.remove(&MetricName::RelativeError);
        record.executed.operand_bits = None;
    }
    let comparison = compare_runs(run(1, unchanged), after);
    let findings: Vec<_> = comparison.cells.iter().flat_map(|cell| &cell.findings).collect();
    let [finding] = findings.as_slice() else {
        panic!("{findings:?}");
    };
    assert_eq!(
        (finding.kind, finding.verdict),
        (FindingKind::Lost, ChangeVerdict::Inconclusive)
    );
    assert_eq!(
        finding.text,
        "no longer measured: relative_error, the executed precision"
    );
}

#[test]
fn regressed_cells_are_not_measured_again() {
    let mut after = run(2, unchanged);
    let id = after.cells[0].id.clone();
    let one = after
        .records
        .iter_mut()
        .find(|record| record.cell.id == id)
        .unwrap();
    one.status = Status::Failed;
    let report = gate_runs(run(1, unchanged), after);
    assert_eq!(report.failures.len(), 1);
    assert!(
        report.inconclusive > 0,
        "four processes are too few for a verdict"
    );
    assert_eq!(report.inconclusive_cells().count(), 0);
    assert!(report.has_verdict());
}
