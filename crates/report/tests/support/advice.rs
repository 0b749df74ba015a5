//! Invented runs for the tests of advice.

use mantissa_core::{Axis, Event, EventKind, Metric, MetricName, Record, Samples, Status};
use mantissa_report::{Advice, Budget, Evidence, FiredRule, Report, Run, WorkAdvice, WorkloadAdvice, advise};

use crate::support::{RunBuilder, cell, matmul, record, run, suite, train_metrics, workload};

/// Factors of five processes with slightly different times.
pub const FIVE: [f64; 5] = [1.0, 1.001, 0.999, 1.002, 0.998];

pub type Axes<'t> = &'t [(Axis, &'t str)];

pub const F32: Axes<'static> = &[(Axis::Precision, "32-true")];
pub const F32_HIGH: Axes<'static> = &[(Axis::Precision, "32-true"), (Axis::Matmul, "high")];
pub const BF16_MIXED: Axes<'static> = &[(Axis::Precision, "bf16-mixed")];
pub const F16: Axes<'static> = &[(Axis::Precision, "16-true")];
pub const F16_MIXED: Axes<'static> = &[(Axis::Precision, "16-mixed")];

pub fn empty_run() -> Run {
    run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Matmul])])
}

/// Creates the samples of a test with 1,000 examples, of which the first `wrong` were predicted wrongly.
pub fn samples_with_errors(wrong: usize) -> Samples {
    let bit = |at| if at < wrong { '0' } else { '1' };
    Samples {
        test_correct: Some((0..1000).map(bit).collect()),
        ..Samples::default()
    }
}

pub fn record_with(axes: Axes<'_>) -> Record {
    record(&cell("s", &workload("w"), axes), Status::Ok, None)
}

/// Adds five processes of a setting, with slightly different times.
pub fn add_five_processes(run: &mut Run, axes: Axes<'_>, seconds: f64, wrong: usize, bytes: f64) {
    let first = record_with(axes);
    run.plan(&first.cell, None);
    for (repeat, factor) in (0..).zip(FIVE) {
        let mut record = first.clone();
        train_metrics(&mut record, seconds * factor, 1000 - wrong as u64, bytes);
        record.repeat = repeat;
        run.measured(record, Some(samples_with_errors(wrong)));
    }
}

/// Adds one process of a setting, after applying `change` to its record.
pub fn add_process(run: &mut Run, axes: Axes<'_>, change: impl FnOnce(&mut Record)) {
    let mut record = record_with(axes);
    train_metrics(&mut record, 10.0, 900, 1e9);
    change(&mut record);
    run.add(record, None);
}

pub fn set_metric(record: &mut Record, metric: MetricName, value: f64) {
    record
        .metrics
        .insert(metric, Metric::reading(metric, value, "invented"));
}

pub fn event(kind: EventKind, value: f64, detail: &str) -> Event {
    Event {
        kind,
        step: Some(1),
        value: Some(value),
        detail: detail.into(),
    }
}

pub fn advice(run: &Run, budget: &Budget) -> Advice {
    advise(&Report::new(run).unwrap(), budget)
}

pub fn first_workload(run: &Run, budget: &Budget) -> WorkloadAdvice {
    advice(run, budget).workloads.remove(0)
}

pub fn first_choice(run: &Run, budget: &Budget) -> WorkAdvice {
    first_workload(run, budget).choices.remove(0)
}

pub fn points_budget(points: f64) -> Budget {
    Budget {
        accuracy_loss: points / 100.0,
        ..Budget::default()
    }
}

pub fn evidence_of<'w>(work: &'w WorkAdvice, name: &str) -> &'w Evidence {
    let found = work.evidence.iter().find(|evidence| evidence.setting == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", work.evidence))
}

/// Creates a run with two settings that are faster than the baseline. 32-true with matmul high loses 0.4 points of accuracy (interval up to
/// 0.88). bf16-mixed is the fastest and loses 10 points.
pub fn run_with_faster_setting() -> Run {
    let mut run = empty_run();
    add_five_processes(&mut run, F32, 10.0, 100, 4e9);
    add_five_processes(&mut run, F32_HIGH, 5.0, 104, 4e9);
    add_five_processes(&mut run, BF16_MIXED, 4.0, 200, 2e9);
    run
}

pub fn matmul_run() -> Run {
    let mut run = empty_run();
    for (precision, flops, error) in [
        ("32-true", 1e9, 1e-7),
        ("64-true", 0.5e9, 1e-16),
        ("bf16-true", 4e9, 2e-3),
        ("16-true", 2e9, 3e-3),
    ] {
        let mut record = record(
            &cell("s", &matmul(), &[(Axis::Precision, precision)]),
            Status::Ok,
            None,
        );
        set_metric(&mut record, MetricName::FlopsPerSecond, flops);
        set_metric(&mut record, MetricName::RelativeError, error);
        run.add(record, None);
    }
    run
}

pub fn fired_rule(run: &Run, rule: &str) -> Option<FiredRule> {
    let all = first_workload(run, &points_budget(1.0)).rules;
    all.into_iter().find(|fired| fired.rule == rule)
}

/// Returns the evidence of a rule for a run with a single process, after applying `change` to its record.
pub fn evidence_for(axes: Axes<'_>, rule: &str, change: impl FnOnce(&mut Record)) -> Option<Vec<String>> {
    let mut run = empty_run();
    add_process(&mut run, axes, change);
    fired_rule(&run, rule).map(|fired| fired.evidence)
}

pub fn diverge(record: &mut Record) {
    record.status = Status::Diverged;
    record.reason = Some("not finite".into());
}
