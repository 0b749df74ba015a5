//! Invented runs for the tests of advice.

use mantissa_core::{Axis, Event, EventKind, Metric, MetricName, Record, Samples, Status};
use mantissa_report::{Advice, Budget, Evidence, FiredRule, Report, Run, WorkAdvice, WorkloadAdvice, advise};

use crate::support::{Add, cell, matmul, record, run, suite, train_metrics, workload};

/// Factors of five processes with slightly different times.
pub const FIVE: [f64; 5] = [1.0, 1.001, 0.999, 1.002, 0.998];

pub type Axes<'t> = &'t [(Axis, &'t str)];

pub const F32: Axes<'static> = &[(Axis::Precision, "32-true")];
pub const HIGH: Axes<'static> = &[(Axis::Precision, "32-true"), (Axis::Matmul, "high")];
pub const BF16: Axes<'static> = &[(Axis::Precision, "bf16-mixed")];
pub const HALF: Axes<'static> = &[(Axis::Precision, "16-true")];
pub const MIXED: Axes<'static> = &[(Axis::Precision, "16-mixed")];

pub fn empty() -> Run {
    run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Matmul])])
}

/// Creates the samples of 1,000 examples of which the first `wrong` were predicted wrongly.
pub fn right_but(wrong: usize) -> Samples {
    let bit = |at| if at < wrong { '0' } else { '1' };
    Samples {
        test_correct: Some((0..1000).map(bit).collect()),
        ..Samples::default()
    }
}

pub fn of(axes: Axes<'_>) -> Record {
    record(&cell("s", &workload("w"), axes), Status::Ok, None)
}

/// Adds a setting with five processes.
pub fn trained(run: &mut Run, axes: Axes<'_>, seconds: f64, wrong: usize, bytes: f64) {
    let first = of(axes);
    run.plan(&first.cell, None);
    for (repeat, factor) in (0..).zip(FIVE) {
        let mut record = first.clone();
        train_metrics(&mut record, seconds * factor, 1000 - wrong as u64, bytes);
        record.repeat = repeat;
        run.measured(record, Some(right_but(wrong)));
    }
}

/// Adds one process, modified by `change`.
pub fn tried(run: &mut Run, axes: Axes<'_>, change: impl FnOnce(&mut Record)) {
    let mut record = of(axes);
    train_metrics(&mut record, 10.0, 900, 1e9);
    change(&mut record);
    run.add(record, None);
}

pub fn set(record: &mut Record, metric: MetricName, value: f64) {
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

pub fn first(run: &Run, budget: &Budget) -> WorkloadAdvice {
    advice(run, budget).workloads.remove(0)
}

pub fn chosen(run: &Run, budget: &Budget) -> WorkAdvice {
    first(run, budget).choices.remove(0)
}

pub fn points(points: f64) -> Budget {
    Budget {
        accuracy_loss: points / 100.0,
        ..Budget::default()
    }
}

pub fn setting<'w>(work: &'w WorkAdvice, name: &str) -> &'w Evidence {
    let found = work.evidence.iter().find(|one| one.setting == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", work.evidence))
}

/// Creates a run whose faster setting loses 4 of 1,000 examples: 0.4 points, up to 0.88.
pub fn a_faster_setting() -> Run {
    let mut run = empty();
    trained(&mut run, F32, 10.0, 100, 4e9);
    trained(&mut run, HIGH, 5.0, 104, 4e9);
    trained(&mut run, BF16, 4.0, 200, 2e9);
    run
}

pub fn products() -> Run {
    let mut run = empty();
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
        set(&mut record, MetricName::FlopsPerSecond, flops);
        set(&mut record, MetricName::RelativeError, error);
        run.add(record, None);
    }
    run
}

pub fn fired(run: &Run, rule: &str) -> Option<FiredRule> {
    let all = first(run, &points(1.0)).rules;
    all.into_iter().find(|fired| fired.rule == rule)
}

/// Returns the evidence of a rule for a run with a single setting.
pub fn of_one(axes: Axes<'_>, rule: &str, change: impl FnOnce(&mut Record)) -> Option<Vec<String>> {
    let mut run = empty();
    tried(&mut run, axes, change);
    fired(&run, rule).map(|fired| fired.evidence)
}

pub fn diverge(record: &mut Record) {
    record.status = Status::Diverged;
    record.reason = Some("not finite".into());
}
