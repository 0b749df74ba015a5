//! Which setting is advised, and which best practices are told.

#[path = "support/mod.rs"]
#[expect(dead_code, reason = "the other tests use the rest")]
mod support;

use mantissa_core::{Axis, Event, ExecutedVerdict, Metric, MetricName, Record, Samples, Status, Workload};
use mantissa_report::{Advice, Budget, Evidence, Fired, Goal, OfGroup, OfWork, Report, Run, advise};
use support::{Add, cell, matmul, record, run, suite, train_metrics, workload};

/// Five processes that differ a little.
const FIVE: [f64; 5] = [1.0, 1.001, 0.999, 1.002, 0.998];

type Axes<'t> = &'t [(Axis, &'t str)];

const F32: Axes<'static> = &[(Axis::Precision, "32-true")];
const HIGH: Axes<'static> = &[(Axis::Precision, "32-true"), (Axis::Matmul, "high")];
const BF16: Axes<'static> = &[(Axis::Precision, "bf16-mixed")];
const HALF: Axes<'static> = &[(Axis::Precision, "16-true")];
const MIXED: Axes<'static> = &[(Axis::Precision, "16-mixed")];

fn empty() -> Run {
    run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Matmul])])
}

/// Of 1,000 examples, those from the start on that were wrong.
fn right_but(wrong: usize) -> Samples {
    let bit = |at| if at < wrong { '0' } else { '1' };
    Samples {
        test_correct: Some((0..1000).map(bit).collect()),
        ..Samples::default()
    }
}

fn of(axes: Axes<'_>) -> Record {
    record(&cell("s", &workload("w"), axes), Status::Ok, None)
}

/// A setting in five processes.
fn trained(run: &mut Run, axes: Axes<'_>, seconds: f64, wrong: usize, bytes: f64) {
    let first = of(axes);
    run.plan(&first.cell, None);
    for (repeat, factor) in (0..).zip(FIVE) {
        let mut record = first.clone();
        train_metrics(&mut record, seconds * factor, 1000 - wrong as u64, bytes);
        record.repeat = repeat;
        run.measured(record, Some(right_but(wrong)));
    }
}

/// One process, with what is to be said of it.
fn tried(run: &mut Run, axes: Axes<'_>, change: impl FnOnce(&mut Record)) {
    let mut record = of(axes);
    train_metrics(&mut record, 10.0, 900, 1e9);
    change(&mut record);
    run.add(record, None);
}

fn set(record: &mut Record, metric: MetricName, value: f64) {
    record
        .metrics
        .insert(metric, Metric::reading(metric, value, "invented"));
}

fn event(kind: &str, value: f64, detail: &str) -> Event {
    Event {
        kind: kind.into(),
        step: Some(1),
        value: Some(value),
        detail: detail.into(),
    }
}

fn advice(run: &Run, budget: &Budget) -> Advice {
    advise(&Report::new(run).unwrap(), budget)
}

fn first(run: &Run, budget: &Budget) -> OfGroup {
    advice(run, budget).workloads.remove(0)
}

fn chosen(run: &Run, budget: &Budget) -> OfWork {
    first(run, budget).choices.remove(0)
}

fn points(points: f64) -> Budget {
    Budget {
        accuracy_loss: points / 100.0,
        ..Budget::default()
    }
}

fn setting<'w>(work: &'w OfWork, name: &str) -> &'w Evidence {
    let found = work.evidence.iter().find(|one| one.setting == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", work.evidence))
}

/// 4 of 1,000 lost: 0.4 points, up to 0.88.
fn a_faster_setting() -> Run {
    let mut run = empty();
    trained(&mut run, F32, 10.0, 100, 4e9);
    trained(&mut run, HIGH, 5.0, 104, 4e9);
    trained(&mut run, BF16, 4.0, 200, 2e9);
    run
}

#[test]
fn the_fastest_setting_whose_loss_is_shown_to_be_within_the_budget_is_advised() {
    let work = chosen(&a_faster_setting(), &points(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"));
    assert!(work.shown && work.equals.is_empty(), "{work:?}");
    let answer = work.answer.join(" ");
    assert!(
        answer.starts_with(
            "Use 32-true · high: 2.00× (1.99–2.01) as fast as 32-true · highest, 1.00× (1.00–1.00) its \
             peak memory, accuracy −0.40 points (−0.88 to 0.08)."
        ),
        "{answer}"
    );
    // What is faster still is told, with why it is not advised.
    assert!(
        answer.contains("bf16-mixed · highest costs least") && answer.contains("−10.0 points"),
        "{answer}"
    );
    assert!(answer.contains("one seed"), "{answer}");
}

#[test]
fn the_end_of_the_interval_counts_and_not_the_estimate() {
    let work = chosen(&a_faster_setting(), &points(0.5));
    assert_eq!(work.chosen.as_deref(), Some("32-true · highest"));
    let high = setting(&work, "32-true · high");
    assert!(high.accuracy_loss.as_ref().unwrap().value < 0.005);
    assert_eq!(
        high.reasons,
        ["not shown to keep accuracy: it may lose up to 0.88 points (example by example)"]
    );
}

#[test]
fn without_an_interval_nothing_is_shown() {
    let mut run = empty();
    tried(&mut run, F32, |_| ());
    tried(&mut run, HIGH, |record| {
        set(record, MetricName::TrainSeconds, 1.0);
        set(record, MetricName::TestAccuracy, 0.95);
    });
    tried(&mut run, BF16, |record| {
        record.metrics.remove(&MetricName::TestAccuracy);
    });
    let work = chosen(&run, &points(100.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · highest"));
    assert!(setting(&work, "32-true · high").reasons[0].contains("has no interval"));
    assert!(setting(&work, "bf16-mixed · highest").reasons[0].contains("none was measured"));
}

#[test]
fn equal_predictions_are_equally_right() {
    let mut run = empty();
    tried(&mut run, F32, |_| ());
    tried(&mut run, HIGH, |record| {
        let share = Metric::estimate(MetricName::Agreement, 0.998, (0.996, 0.999), 1000, "invented");
        record.metrics.insert(MetricName::Agreement, share);
    });
    tried(&mut run, BF16, |_| ());
    let work = chosen(&run, &points(1.0));
    let high = setting(&work, "32-true · high");
    assert!(high.kept && (high.accuracy_loss.as_ref().unwrap().high.unwrap() - 0.004).abs() < 1e-12);
    // From the intervals of two accuracies alone, of 1,000 examples, nothing so narrow follows.
    let bf16 = setting(&work, "bf16-mixed · highest");
    assert!(
        !bf16.kept && bf16.accuracy_loss.as_ref().unwrap().high.unwrap() > 0.03,
        "{bf16:?}"
    );
}

#[test]
fn memory_is_limited_by_the_highest_peak() {
    let limit = |bytes| Budget {
        memory_bytes: Some(bytes),
        ..points(1.0)
    };
    let run = a_faster_setting();
    assert_eq!(
        chosen(&run, &limit(4e9)).chosen.as_deref(),
        Some("32-true · high")
    );
    let work = chosen(&run, &limit(3e9));
    assert_eq!(work.chosen, None);
    assert_eq!(
        work.answer[0],
        "No setting is shown to be within the budget, so none is advised."
    );
    assert_eq!(
        setting(&work, "32-true · high").reasons,
        ["it peaks at 4.00 GB, above 3.00 GB"]
    );
    let mut run = a_faster_setting();
    let last = run
        .records
        .iter_mut()
        .rfind(|record| record.requested.operand_bits == 11)
        .unwrap();
    set(last, MetricName::HostPeakBytes, 5e9);
    assert_eq!(
        chosen(&run, &limit(4e9)).chosen.as_deref(),
        Some("32-true · highest")
    );
}

#[test]
fn the_leanest_is_advised_where_memory_is_to_be_little_and_no_energy_is_said_to_be_none() {
    let goal = |minimise| Budget {
        minimise,
        ..points(20.0)
    };
    let run = a_faster_setting();
    assert_eq!(
        chosen(&run, &goal(Goal::Memory)).chosen.as_deref(),
        Some("bf16-mixed · highest")
    );
    let work = chosen(&run, &goal(Goal::Energy));
    assert_eq!(
        (work.chosen, work.answer.join(" ")),
        (
            None,
            "No energy was recorded, so no setting can be chosen by it.".into()
        )
    );
}

#[test]
fn energy_decides_where_it_was_recorded() {
    let mut run = empty();
    for (axes, joules) in [(F32, 900.0), (HIGH, 300.0)] {
        tried(&mut run, axes, |record| {
            set(record, MetricName::EnergyCounterJoules, joules)
        });
    }
    let budget = Budget {
        minimise: Goal::Energy,
        ..points(100.0)
    };
    let work = chosen(&run, &budget);
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"));
    assert!(work.answer[0].contains("0.33× its energy"), "{:?}", work.answer);
}

#[test]
fn what_costs_as_much_is_named_beside_the_choice() {
    let mut run = empty();
    trained(&mut run, F32, 10.0, 100, 1e9);
    trained(&mut run, HIGH, 5.0, 100, 1e9);
    trained(&mut run, BF16, 5.01, 100, 1e9);
    let work = chosen(&run, &points(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"));
    assert_eq!(work.equals, ["bf16-mixed · highest"]);
    assert!(
        work.answer
            .contains(&"Equal to within 2 %: bf16-mixed · highest (2.00×).".to_owned()),
        "{:?}",
        work.answer
    );
}

#[test]
fn one_process_shows_nothing_to_be_faster() {
    let mut run = empty();
    tried(&mut run, F32, |_| ());
    tried(&mut run, HIGH, |record| {
        set(record, MetricName::TrainSeconds, 9.0)
    });
    let work = chosen(&run, &points(100.0));
    assert_eq!(
        (work.chosen.as_deref(), work.shown),
        (Some("32-true · high"), false)
    );
    assert_eq!(work.equals, ["32-true · highest"]);
    let answer = work.answer.join(" ");
    assert!(
        answer.starts_with("By its median, 32-true · high is cheapest"),
        "{answer}"
    );
    assert!(
        answer.contains("is not shown, so that nothing yet speaks against 32-true · highest"),
        "{answer}"
    );
}

#[test]
fn seeds_of_a_setting_are_one_candidate_and_their_spread_counts() {
    let mut run = empty();
    // By seed 0, 10 and 20 more are wrong: 1 point, deviation 1, over three seeds ± 2.48.
    for (seed, lost) in [("1", 0), ("2", 10), ("3", 20)] {
        for (axes, seconds, wrong) in [(F32, 10.0, 100), (HIGH, 5.0, 100 + lost)] {
            let mut cell = cell("s", &workload("w"), axes);
            cell = mantissa_core::Cell::new("s", cell.workload, cell.setting, seed.parse().unwrap());
            let mut record = record(&cell, Status::Ok, None);
            train_metrics(&mut record, seconds, 900, 1e9);
            run.add(record, Some(right_but(wrong)));
        }
    }
    let work = chosen(&run, &points(3.0));
    assert_eq!(work.evidence.len(), 2);
    let high = setting(&work, "32-true · high");
    assert_eq!((high.cells.len(), high.processes), (3, 3));
    let loss = high.accuracy_loss.as_ref().unwrap();
    assert!(
        (loss.value - 0.01).abs() < 1e-12 && (loss.high.unwrap() - 0.034_84).abs() < 1e-4,
        "{loss:?}"
    );
    assert!(!high.kept && chosen(&run, &points(3.5)).chosen.as_deref() == Some("32-true · high"));
}

#[test]
fn what_diverged_or_was_another_arithmetic_is_out() {
    let mut run = a_faster_setting();
    tried(&mut run, HALF, |record| {
        record.status = Status::Diverged;
        record.reason = Some("the loss is not finite".into());
        set(record, MetricName::TrainSeconds, 1.0);
    });
    tried(&mut run, MIXED, |record| {
        record.executed.verdict = ExecutedVerdict::Differs;
        record.executed.operand_bits = Some(24);
        record.executed.exponent_bits = Some(8);
        record.executed.accumulator = Some("f32".into());
        set(record, MetricName::TrainSeconds, 1.0);
    });
    let work = chosen(&run, &points(100.0));
    assert_eq!(work.chosen.as_deref(), Some("bf16-mixed · highest"));
    let diverged = setting(&work, "16-true");
    assert_eq!(diverged.reasons, ["diverged: the loss is not finite"]);
    assert_eq!(
        (diverged.speed.as_ref(), diverged.cost),
        (None, None),
        "no number of what did not end"
    );
    assert_eq!(
        setting(&work, "16-mixed · highest").reasons,
        ["not what was asked for: executed f32 → f32"]
    );
}

#[test]
fn a_run_without_an_end_has_no_advice() {
    let mut run = empty();
    tried(&mut run, F32, |record| record.status = Status::Oom);
    let work = chosen(&run, &points(1.0));
    assert_eq!(
        (work.chosen, work.answer.join(" ")),
        (
            None,
            "No setting ran to its end, so there is none to advise.".into()
        )
    );
    let planned = cell("s", &workload("w"), F32);
    let mut run = empty();
    run.plan(&planned, Some("no weights"));
    let group = first(&run, &points(1.0));
    assert!(
        group.choices.is_empty()
            && group
                .untested
                .iter()
                .any(|gap| gap == "1 planned cell: no weights."),
        "{group:?}"
    );
    assert!(
        advice(&run, &points(1.0))
            .text(|_| String::new())
            .contains("nothing to advise")
    );
}

fn products() -> Run {
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

#[test]
fn kernels_are_chosen_by_their_error() {
    let within = |error| Budget {
        error: Some(error),
        ..Budget::default()
    };
    let name = |error| chosen(&products(), &within(error)).chosen;
    assert_eq!(name(1e-2).as_deref(), Some("bf16-true"));
    assert_eq!(name(1e-6).as_deref(), Some("32-true · highest"));
    assert_eq!(name(1e-17), None);
    let work = chosen(&products(), &Budget::default());
    assert_eq!(work.chosen, None);
    // f16 is slower than bf16 here and no nearer.
    assert!(
        work.answer[0].ends_with(
            "as: bf16-true (4.00 GFLOP/s, error 2.00×10⁻³), \
             32-true · highest (1.00 GFLOP/s, error 1.00×10⁻⁷), 64-true (0.50 GFLOP/s, error 1.00×10⁻¹⁶)."
        ),
        "{:?}",
        work.answer
    );
}

#[test]
fn what_was_not_tested_is_listed() {
    let mut run = a_faster_setting();
    let undefined = cell(
        "s",
        &workload("w"),
        &[(Axis::Precision, "64-true"), (Axis::Matmul, "high")],
    );
    run.plan(&undefined, Some("not defined"));
    let gaps = first(&run, &points(1.0)).untested;
    // Of twelve settings, three ran.
    assert!(
        gaps[0].starts_with("9 settings of arithmetic: 64-true, 32-true · medium, 16-mixed · highest"),
        "{gaps:?}"
    );
    let all = gaps.join(" ");
    for gap in [
        "Other seeds",
        "batch 8",
        "A GPU",
        "Real data: it was synthetic reviews",
        "Energy",
        "which precision the hardware used",
    ] {
        assert!(all.contains(gap), "{gap}: {all}");
    }
    assert!(
        !all.contains("not defined") && !all.contains("How much processes differ"),
        "{all}"
    );
}

#[test]
fn what_the_advice_is_about_stands_above_it() {
    let run = a_faster_setting();
    let advice = advice(&run, &points(1.0));
    let titles: Vec<&str> = advice
        .warnings
        .iter()
        .map(|banner| banner.title.as_str())
        .collect();
    assert_eq!(titles, ["These are CPU times.", "This is advice about this CPU."]);
    assert_eq!(advice.workloads[0].warnings[0].title, "The data is synthetic.");
    let text = advice.text(|table| table.rows.iter().map(|row| row.join("|") + "\n").collect());
    let place = |what: &str| text.find(what).unwrap_or_else(|| panic!("{what}: {text}"));
    assert!(place("This is advice about this CPU.") < place("Use 32-true · high"));
    assert!(place("32-true · high|advised|") < place("Not tested:"));
    assert_eq!(
        text,
        self::advice(&run, &points(1.0)).text(|table| table
            .rows
            .iter()
            .map(|row| row.join("|") + "\n")
            .collect())
    );
    let json = serde_json::to_value(&advice).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["workloads"][0]["choices"][0]["chosen"], "32-true · high");
    assert_eq!(json["workloads"][0]["cost"], "train_seconds");
    assert_eq!(json["budget"]["minimise"], "time");
}

fn fired(run: &Run, rule: &str) -> Option<Fired> {
    let all = first(run, &points(1.0)).rules;
    all.into_iter().find(|fired| fired.rule == rule)
}

/// What is said of one setting, by a rule.
fn of_one(axes: Axes<'_>, rule: &str, change: impl FnOnce(&mut Record)) -> Option<Vec<String>> {
    let mut run = empty();
    tried(&mut run, axes, change);
    fired(&run, rule).map(|fired| fired.evidence)
}

fn diverge(record: &mut Record) {
    record.status = Status::Diverged;
    record.reason = Some("not finite".into());
}

const EPSILON: &str = "`adam_eps=1e-8` is 0 in f16: an update may be zero over zero";

#[test]
fn overflow_of_f16_speaks_for_bf16() {
    let rule = "overflow-to-bf16";
    let shares = |axes, share| of_one(axes, rule, |record| set(record, MetricName::OverflowShare, share));
    assert_eq!(
        shares(HALF, 0.02).unwrap(),
        ["16-true: 2.0 % of observed values are not finite"]
    );
    assert_eq!(shares(HALF, 0.0), None);
    assert_eq!(shares(BF16, 0.02), None);
    // A loss scale seeks overflow.
    assert_eq!(shares(MIXED, 0.02), None);
    let scale = |to| {
        of_one(MIXED, rule, |record| {
            record.events.push(event("loss-scale", to, "halved"))
        })
    };
    assert!(scale(0.5).unwrap()[0].ends_with("the loss scale fell to 0.5"));
    assert_eq!(scale(1024.0), None);
    assert_eq!(
        of_one(HALF, rule, diverge).unwrap(),
        ["16-true: diverged: not finite"]
    );
    let epsilon = of_one(HALF, rule, |record| {
        diverge(record);
        record.events.push(event("warning", 1e-8, EPSILON));
    });
    assert_eq!(epsilon, None, "that has another cause");
}

#[test]
fn an_epsilon_that_vanishes_is_told_with_how_it_ended() {
    let rule = "vanishing-epsilon";
    let told = of_one(HALF, rule, |record| {
        diverge(record);
        record.events.push(event("warning", 1e-8, EPSILON));
    });
    assert_eq!(
        told.unwrap(),
        [format!("16-true: {EPSILON}; it diverged: not finite")]
    );
    assert_eq!(
        of_one(HALF, rule, |record| record
            .events
            .push(event("warning", 1.0, "hot"))),
        None
    );
}

#[test]
fn underflow_without_a_loss_scale_speaks_for_one() {
    let share = |axes, share| {
        of_one(axes, "loss-scaling", |record| {
            set(record, MetricName::UnderflowShare, share)
        })
    };
    assert_eq!(
        share(HALF, 0.03).unwrap(),
        ["16-true: 3.0 % of observed values became 0"]
    );
    assert_eq!(share(HALF, 0.01), None);
    assert_eq!(share(MIXED, 0.03), None);
    let overflowed = of_one(HALF, "loss-scaling", |record| {
        set(record, MetricName::UnderflowShare, 0.03);
        set(record, MetricName::OverflowShare, 0.1);
    });
    assert_eq!(overflowed, None);
}

#[test]
fn lost_changes_speak_for_weights_in_f32() {
    let share = |axes, share| {
        of_one(axes, "f32-weights", |record| {
            set(record, MetricName::LostUpdateShare, share)
        })
    };
    assert_eq!(
        share(HALF, 0.7).unwrap(),
        ["16-true: 70.0 % of the changes were lost"]
    );
    assert_eq!(share(HALF, 0.5), None);
    assert_eq!(share(MIXED, 0.7), None);
    assert_eq!(share(F32, 0.7), None);
}

#[test]
fn another_precision_than_asked_for_is_told() {
    let verdict = |verdict| {
        of_one(HIGH, "executed-differs", |record| {
            record.executed.operand_bits = Some(24);
            record.executed.exponent_bits = Some(8);
            record.executed.accumulator = Some("f32".into());
            record.executed.verdict = verdict;
        })
    };
    assert_eq!(
        verdict(ExecutedVerdict::Differs).unwrap(),
        ["32-true · high: asked for tf32 → f32, executed f32 → f32"]
    );
    assert_eq!(verdict(ExecutedVerdict::AsRequested), None);
    assert_eq!(verdict(ExecutedVerdict::Unverified), None);
}

#[test]
fn matmul_high_is_told_where_it_is_faster_and_keeps_accuracy() {
    let with = |seconds, wrong| {
        let mut run = empty();
        trained(&mut run, F32, 10.0, 100, 1e9);
        trained(&mut run, HIGH, seconds, wrong, 1e9);
        fired(&run, "matmul-high").map(|fired| fired.evidence)
    };
    assert_eq!(
        with(5.0, 100).unwrap(),
        ["32-true · high: 2.00× (1.99–2.01) as fast as highest"]
    );
    assert_eq!(with(11.0, 100), None);
    assert_eq!(with(9.99, 100), None, "as fast");
    assert_eq!(with(5.0, 200), None, "less accurate");
    assert!(fired(&products(), "matmul-high").is_none());
}

fn held(run: &mut Run, axes: Axes<'_>, weights: f64, activations: f64) {
    let parts = [
        (MetricName::WeightsBytes, weights),
        (MetricName::WeightCopiesBytes, 0.0),
        (MetricName::GradientsBytes, weights),
        (MetricName::OptimizerBytes, 2.0 * weights),
        (MetricName::ActivationsBytes, activations),
    ];
    tried(run, axes, |record| {
        parts
            .into_iter()
            .for_each(|(metric, bytes)| set(record, metric, bytes))
    });
}

#[test]
fn mixed_precision_that_saves_less_than_half_is_explained() {
    let with = |of_mixed| {
        let mut run = empty();
        held(&mut run, F32, 100.0, 600.0);
        held(&mut run, MIXED, of_mixed, 300.0);
        fired(&run, "mixed-memory").map(|fired| fired.evidence)
    };
    assert_eq!(
        with(100.0).unwrap(),
        [
            "16-mixed · highest: 0.70× of what 32-true · highest holds; 57 % of it are weights, gradients and optimizer \
             state in f32, 0 % copies of weights"
        ]
    );
    assert_eq!(with(40.0), None);
}

fn batches(rule: &str, axes: [Axes<'_>; 2], bytes: f64) -> Option<Vec<String>> {
    let mut run = empty();
    tried(&mut run, axes[0], |_| ());
    tried(&mut run, axes[1], |record| {
        set(record, MetricName::HostPeakBytes, bytes);
        set(record, MetricName::TrainSeconds, 13.0);
    });
    fired(&run, rule).map(|fired| fired.evidence)
}

#[test]
fn accumulation_that_lowers_memory_is_told_with_its_time() {
    const WHOLE: Axes<'static> = &[(Axis::Batch, "16"), (Axis::Accumulate, "1")];
    const PARTS: Axes<'static> = &[(Axis::Batch, "4"), (Axis::Accumulate, "4")];
    const FEWER: Axes<'static> = &[(Axis::Batch, "4"), (Axis::Accumulate, "2")];
    let with = |parts, bytes| batches("accumulation", [WHOLE, parts], bytes);
    assert_eq!(
        with(PARTS, 0.5e9).unwrap(),
        ["accumulate 4 · batch 4: 0.50× the peak memory of accumulate 1 · batch 16, 1.30× its time"]
    );
    assert_eq!(with(PARTS, 0.99e9), None);
    assert_eq!(with(FEWER, 0.5e9), None, "another effective batch");
}

#[test]
fn checkpointing_that_lowers_memory_is_told_with_its_time() {
    const OFF: Axes<'static> = &[(Axis::Checkpointing, "off")];
    const ON: Axes<'static> = &[(Axis::Checkpointing, "on")];
    let with = |bytes| batches("checkpointing", [OFF, ON], bytes);
    assert_eq!(
        with(0.5e9).unwrap(),
        ["checkpointing on: 0.50× the peak memory of checkpointing off, 1.30× its time"]
    );
    assert_eq!(with(1e9), None);
}

#[test]
fn every_rule_has_a_source_and_stands_on_cells() {
    let mut run = empty();
    let workload: Workload = workload("w");
    support::article(&mut run, &workload);
    // The invented article is of a suite of its own.
    run.plan.suites[0].name = "article".into();
    run.records.iter_mut().for_each(|record| record.samples = None);
    let rules = first(&run, &points(1.0)).rules;
    assert!(!rules.is_empty());
    for rule in rules {
        assert!(
            rule.sources.iter().all(|source| source.contains("https://")),
            "{rule:?}"
        );
        assert!(!rule.cells.is_empty() && !rule.evidence.is_empty(), "{rule:?}");
    }
}
