//! Tests of findings that are not metrics: status, executed precision, kernels and lost metrics.

use mantissa_core::{MetricName, Status};
use mantissa_gate::{ChangeVerdict, FindingKind};

use crate::six_cells::{compared, gated, run, same};

#[test]
fn a_cell_that_fails_or_vanishes_has_regressed() {
    let mut after = run(2, same);
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
    let gated = gated(run(1, same), after);
    let texts: Vec<&str> = gated
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
fn fewer_bits_than_before_have_regressed_and_another_kernel_is_told() {
    let mut after = run(2, same);
    let id = after.cells[0].id.clone();
    for record in after.records.iter_mut().filter(|record| record.cell.id == id) {
        record.executed.operand_bits = Some(11);
        record.executed.kernel = Some("tf32 gemm".into());
    }
    let gated = gated(run(1, same), after);
    assert_eq!(gated.failures.len(), 1, "{:?}", gated.failures);
    assert!(
        gated.failures[0].text.contains("11 significand bits"),
        "{}",
        gated.failures[0].text
    );
    let kinds: Vec<_> = gated
        .comparison
        .cells
        .iter()
        .flat_map(|cell| &cell.findings)
        .map(|finding| finding.kind)
        .collect();
    assert_eq!(kinds, [FindingKind::Executed, FindingKind::Kernel]);
}

#[test]
fn sums_in_bf16_are_fewer_bits_than_sums_in_f16() {
    let sums = |seed, accumulator: &str| {
        let mut run = run(seed, same);
        let id = run.cells[0].id.clone();
        for record in run.records.iter_mut().filter(|record| record.cell.id == id) {
            record.executed.accumulator = Some(accumulator.into());
        }
        run
    };
    assert_eq!(gated(sums(1, "f16"), sums(2, "bf16")).failures.len(), 1);
    assert_eq!(gated(sums(1, "bf16"), sums(2, "7 bits")).failures.len(), 1);
    assert!(gated(sums(1, "7 bits"), sums(2, "f16")).failures.is_empty());
}

#[test]
fn a_cell_that_fails_alike_on_both_sides_decides_nothing_of_fewer_processes_than_a_verdict_takes() {
    let failing_first_cell = |seed, processes| {
        let mut run = run(seed, same);
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
        let gated = gated(failing_first_cell(1, processes), failing_first_cell(2, processes));
        let mut findings = gated.comparison.cells.iter().flat_map(|cell| &cell.findings);
        let finding = findings
            .find(|finding| finding.kind == FindingKind::Status)
            .unwrap();
        assert_eq!(finding.verdict, verdict, "{}", finding.text);
        assert_eq!(gated.decides(), processes == 5, "{processes}");
    }
}

#[test]
fn a_cell_of_which_nothing_is_left_has_regressed_though_some_of_it_failed_before() {
    let failing = |seed, fails: fn(u32) -> bool| {
        let mut run = run(seed, same);
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
    let gated = gated(failing(1, |repeat| repeat == 0), failing(2, |_| true));
    assert_eq!(gated.failures.len(), 1, "{:?}", gated.failures);
    assert!(
        gated.failures[0].text.contains("timeout in 5 of 5"),
        "{:?}",
        gated.failures
    );
}

#[test]
fn what_is_no_longer_measured_or_seen_is_undecided_and_named() {
    let mut after = run(2, same);
    let id = after.cells[0].id.clone();
    for record in after.records.iter_mut().filter(|record| record.cell.id == id) {
        record.metrics.remove(&MetricName::RelativeError);
        record.executed.operand_bits = None;
    }
    let comparison = compared(run(1, same), after);
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
fn a_cell_that_is_worse_is_not_measured_again_for_what_else_is_undecided() {
    let mut after = run(2, same);
    let id = after.cells[0].id.clone();
    let one = after
        .records
        .iter_mut()
        .find(|record| record.cell.id == id)
        .unwrap();
    one.status = Status::Failed;
    let gated = gated(run(1, same), after);
    assert_eq!(gated.failures.len(), 1);
    assert!(gated.undecided > 0, "four processes are too few for a verdict");
    assert_eq!(gated.undecided_cells().count(), 0);
    assert!(gated.decides());
}
