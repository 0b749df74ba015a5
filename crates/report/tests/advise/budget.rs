//! Tests of the budget for accuracy, and of the choice among the settings within it.

use mantissa_core::{ExecutedVerdict, Metric, MetricName, Status};
use mantissa_report::{Budget, Goal};

use crate::{
    advice::{
        BF16_MIXED, F16, F16_MIXED, F32, F32_HIGH, add_process, advice, empty_run, evidence_of, first_choice,
        first_workload, points_budget, run_with_faster_setting, set_metric,
    },
    support::{RunBuilder, cell, workload},
};

#[test]
fn the_fastest_setting_within_the_budget_is_recommended() {
    let work = first_choice(&run_with_faster_setting(), &points_budget(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"));
    assert!(work.shown && work.equals.is_empty(), "{work:?}");
    let answer = work.answer.join(" ");
    assert!(
        answer.starts_with(
            "Use 32-true · high: 2.00× (1.99–2.01) as fast as 32-true · highest, 1.00× (1.00–1.00) the \
             peak memory, accuracy −0.40 points (−0.88 to 0.08)."
        ),
        "{answer}"
    );
    // A faster setting that is not advised is named with the reason.
    assert!(
        answer.contains("Fastest of all is bf16-mixed · highest ") && answer.contains("−10.0 points"),
        "{answer}"
    );
    assert!(answer.contains("one seed"), "{answer}");
}

#[test]
fn the_end_of_the_interval_is_compared_with_the_budget() {
    let work = first_choice(&run_with_faster_setting(), &points_budget(0.5));
    assert_eq!(work.chosen.as_deref(), Some("32-true · highest"));
    let high = evidence_of(&work, "32-true · high");
    assert!(high.accuracy_loss.as_ref().unwrap().value < 0.005);
    assert_eq!(
        high.reasons,
        ["its accuracy may drop by up to 0.88 points (example by example)"]
    );
}

#[test]
fn losses_without_an_interval_are_outside_the_budget() {
    let mut run = empty_run();
    add_process(&mut run, F32, |_| ());
    add_process(&mut run, F32_HIGH, |record| {
        set_metric(record, MetricName::TrainSeconds, 1.0);
        let accuracy = Metric::reading(MetricName::TestAccuracy, 0.95, "invented");
        let without_interval = Metric {
            n: Some(1_000),
            ..accuracy
        };
        record.metrics.insert(MetricName::TestAccuracy, without_interval);
    });
    add_process(&mut run, BF16_MIXED, |record| {
        record.metrics.remove(&MetricName::TestAccuracy);
    });
    let work = first_choice(&run, &points_budget(100.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · highest"));
    assert!(evidence_of(&work, "32-true · high").reasons[0].contains("has no confidence interval"));
    assert!(
        evidence_of(&work, "bf16-mixed · highest").reasons[0].contains("no comparable accuracy was measured")
    );
}

#[test]
fn the_agreement_bounds_the_accuracy_loss() {
    let mut run = empty_run();
    add_process(&mut run, F32, |_| ());
    add_process(&mut run, F32_HIGH, |record| {
        let share = Metric::estimate(MetricName::Agreement, 0.998, (0.996, 0.999), 1000, "invented");
        record.metrics.insert(MetricName::Agreement, share);
    });
    add_process(&mut run, BF16_MIXED, |_| ());
    let work = first_choice(&run, &points_budget(1.0));
    let high = evidence_of(&work, "32-true · high");
    assert!(high.kept && (high.accuracy_loss.as_ref().unwrap().high.unwrap() - 0.004).abs() < 1e-12);
    // Without an agreement, the bound comes from the intervals of both accuracies, which are too wide with 1,000 examples.
    let bf16 = evidence_of(&work, "bf16-mixed · highest");
    assert!(
        !bf16.kept && bf16.accuracy_loss.as_ref().unwrap().high.unwrap() > 0.03,
        "{bf16:?}"
    );
}

#[test]
fn memory_is_limited_by_the_highest_peak() {
    let limit = |bytes| Budget {
        memory_bytes: Some(bytes),
        ..points_budget(1.0)
    };
    let run = run_with_faster_setting();
    assert_eq!(
        first_choice(&run, &limit(4e9)).chosen.as_deref(),
        Some("32-true · high")
    );
    let work = first_choice(&run, &limit(3e9));
    assert_eq!(work.chosen, None);
    assert_eq!(
        work.answer[0],
        "No setting is shown to be within the budget, so none is recommended."
    );
    assert_eq!(
        evidence_of(&work, "32-true · high").reasons,
        ["its peak memory of 4.00 GB is above 3.00 GB"]
    );
    let mut run = run_with_faster_setting();
    let last = run
        .records
        .iter_mut()
        .rfind(|record| record.requested.operand_bits == 11)
        .unwrap();
    set_metric(last, MetricName::HostPeakBytes, 5e9);
    assert_eq!(
        first_choice(&run, &limit(4e9)).chosen.as_deref(),
        Some("32-true · highest")
    );
}

#[test]
fn memory_can_be_minimised_and_missing_energy_is_reported() {
    let goal = |minimise| Budget {
        minimise,
        ..points_budget(20.0)
    };
    let run = run_with_faster_setting();
    assert_eq!(
        first_choice(&run, &goal(Goal::Memory)).chosen.as_deref(),
        Some("bf16-mixed · highest")
    );
    let work = first_choice(&run, &goal(Goal::Energy));
    assert_eq!(
        (work.chosen, work.answer.join(" ")),
        (
            None,
            "No energy was recorded, so no setting can be chosen by energy.".into()
        )
    );
}

#[test]
fn recorded_energy_can_be_minimised() {
    let mut run = empty_run();
    for (axes, joules) in [(F32, 900.0), (F32_HIGH, 300.0)] {
        add_process(&mut run, axes, |record| {
            set_metric(record, MetricName::EnergyCounterJoules, joules)
        });
    }
    let budget = Budget {
        minimise: Goal::Energy,
        ..points_budget(100.0)
    };
    let work = first_choice(&run, &budget);
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"));
    assert!(
        work.answer[0].contains("0.33× (measured once) the energy"),
        "{:?}",
        work.answer
    );
}

#[test]
fn settings_that_diverged_or_executed_another_precision_are_excluded() {
    let mut run = run_with_faster_setting();
    add_process(&mut run, F16, |record| {
        record.status = Status::Diverged;
        record.reason = Some("the loss is not finite".into());
        set_metric(record, MetricName::TrainSeconds, 1.0);
    });
    add_process(&mut run, F16_MIXED, |record| {
        record.executed.verdict = ExecutedVerdict::Differs;
        record.executed.operand_bits = Some(24);
        record.executed.exponent_bits = Some(8);
        record.executed.accumulator = Some("f32".into());
        set_metric(record, MetricName::TrainSeconds, 1.0);
    });
    let work = first_choice(&run, &points_budget(100.0));
    assert_eq!(work.chosen.as_deref(), Some("bf16-mixed · highest"));
    let diverged = evidence_of(&work, "16-true");
    assert_eq!(diverged.reasons, ["diverged: the loss is not finite"]);
    assert_eq!(
        (diverged.speed.as_ref(), diverged.cost),
        (None, None),
        "a setting that did not finish has no numbers"
    );
    assert_eq!(
        evidence_of(&work, "16-mixed · highest").reasons,
        ["not as requested: executed f32 → f32"]
    );
}

#[test]
fn one_process_that_executed_another_precision_excludes_its_setting() {
    let mut run = run_with_faster_setting();
    let high = run
        .records
        .iter_mut()
        .filter(|record| record.requested.operand_bits == 11);
    high.last().unwrap().executed.verdict = ExecutedVerdict::Differs;
    let work = first_choice(&run, &points_budget(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · highest"));
    assert_eq!(
        evidence_of(&work, "32-true · high").reasons,
        ["1 of 5 processes executed another precision than requested"]
    );
}

#[test]
fn a_run_without_finished_settings_has_no_recommendation() {
    let mut run = empty_run();
    add_process(&mut run, F32, |record| record.status = Status::Oom);
    let work = first_choice(&run, &points_budget(1.0));
    assert_eq!(
        (work.chosen, work.answer.join(" ")),
        (None, "No setting finished, so no setting is recommended.".into())
    );
    let planned = cell("s", &workload("w"), F32);
    let mut run = empty_run();
    run.plan(&planned, Some("no weights"));
    let group = first_workload(&run, &points_budget(1.0));
    assert!(
        group.choices.is_empty()
            && group
                .untested
                .iter()
                .any(|gap| gap == "1 planned cell: no weights."),
        "{group:?}"
    );
    assert!(
        advice(&run, &points_budget(1.0))
            .text(|_| String::new())
            .contains("so no setting is recommended")
    );
}
