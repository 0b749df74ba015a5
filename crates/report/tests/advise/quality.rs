//! Tests of the choice by an error, and of the advice without any measure of quality.

use mantissa_core::{
    Axis, Cell, Event, EventKind, GenerateTask, LlamaSize, Metric, MetricName, Model, Status, Task, Workload,
};
use mantissa_report::{Budget, Run, WorkAdvice};

use crate::{
    advice::{
        F32, F32_HIGH, FIVE, add_process, advice, empty_run, evidence_of, first_choice, matmul_run,
        points_budget, set_metric,
    },
    support::{RunBuilder, cell, record},
};

/// Creates a workload that generates text.
fn generation() -> Workload {
    let task = GenerateTask {
        model: Model::Llama(LlamaSize::LLAMA2_7B),
        prompt_tokens: 4,
        new_tokens: 4,
        temperature: 0.0,
        min_samples: 5,
        max_samples: 5,
        max_seconds: 1.0,
        max_noise: 0.1,
    };
    Workload {
        name: "generates".into(),
        task: Task::Generate(task),
    }
}

fn text(ids: &str) -> Event {
    Event::new(EventKind::Text, format!("token ids {ids}"))
}

/// Creates generations under three settings, each in one process per factor of the decoding rate.
fn generated(factors: &[f64], narrow_ids: &str) -> Run {
    let mut run = empty_run();
    let settings = [
        ("32-true", 10.0, "7 8 9 1"),
        ("bf16-true", 30.0, narrow_ids),
        ("16-true", 20.0, "7 8 9 1"),
    ];
    for (precision, rate, ids) in settings {
        let cell: Cell = cell("s", &generation(), &[(Axis::Precision, precision)]);
        run.plan(&cell, None);
        for (repeat, factor) in (0..).zip(factors) {
            let mut record = record(&cell, Status::Ok, None);
            record.repeat = repeat;
            record.events.push(text(ids));
            set_metric(&mut record, MetricName::DecodeTokensPerSecond, rate * factor);
            set_metric(&mut record, MetricName::HostPeakBytes, 1e9);
            run.measured(record, None);
        }
    }
    run
}

#[test]
fn kernels_are_chosen_by_their_error() {
    let within = |error| Budget {
        error: Some(error),
        ..Budget::default()
    };
    let name = |error| first_choice(&matmul_run(), &within(error)).chosen;
    assert_eq!(name(1e-2).as_deref(), Some("bf16-true"));
    assert_eq!(name(1e-6).as_deref(), Some("32-true · highest"));
    assert_eq!(name(1e-17), None);
    let work = first_choice(&matmul_run(), &Budget::default());
    assert_eq!(work.chosen, None);
    // f16 is not on the Pareto front: here it is slower than bf16 and not more accurate.
    assert!(
        work.answer[0].ends_with(
            "error: bf16-true (4.00 GFLOP/s, largest error 2.00×10⁻³), \
             32-true · highest (1.00 GFLOP/s, largest error 1.00×10⁻⁷), 64-true (0.50 GFLOP/s, largest error 1.00×10⁻¹⁶)."
        ),
        "{:?}",
        work.answer
    );
}

#[test]
fn the_fastest_generation_is_named_but_not_recommended() {
    let work: WorkAdvice = first_choice(&generated(&FIVE, "7 8 3 1"), &points_budget(100.0));
    assert_eq!(
        (work.chosen.as_deref(), work.unjudged.as_deref()),
        (None, Some("bf16-true"))
    );
    assert!(work.shown);
    let answer = work.answer.join(" ");
    assert!(
        answer.starts_with("Fastest: bf16-true, 3.00× (2.99–3.01) as fast as 32-true · highest, "),
        "{answer}"
    );
    assert!(
        answer.contains("In its first generated text, the first 2 of 4 tokens match 32-true · highest;"),
        "{answer}"
    );
    assert!(!answer.contains("Keep") && !answer.contains("Use"), "{answer}");
    let half = evidence_of(&work, "16-true");
    assert_eq!((half.kept, half.reasons.len()), (false, 1), "{half:?}");
    let text = advice(&generated(&FIVE, "7"), &points_budget(1.0))
        .text(|table| table.rows.iter().map(|row| row.join("|") + "\n").collect());
    assert!(
        text.contains("bf16-true|cheapest|")
            && text.contains("16-true|quality unknown|")
            && !text.contains("Outside the budget"),
        "{text}"
    );
}

#[test]
fn matching_tokens_at_the_start_of_texts_are_counted() {
    let answer = |ids| {
        first_choice(&generated(&[1.0], ids), &points_budget(1.0))
            .answer
            .join(" ")
    };
    assert!(answer("7 8 9 1").contains("In its first generated text, all 4 tokens match 32-true · highest"));
    assert!(answer("7 1 9 1").contains("only the first of 4 tokens matches 32-true"));
    assert!(answer("1 8 9 1").contains("the first token already differs from 32-true"));
    assert!(answer("7 8 9").contains("the first 3 of 4 tokens match 32-true"));
    assert!(answer("7").contains("Fastest by median: bf16-true"));
    assert!(
        !answer("").contains("generated text, "),
        "an empty text is not compared"
    );
}

#[test]
fn memory_is_limited_if_the_quality_is_unknown() {
    let budget = Budget {
        memory_bytes: Some(0.5e9),
        ..Budget::default()
    };
    let work = first_choice(&generated(&[1.0], "7 8 9 1"), &budget);
    assert_eq!((work.chosen, work.unjudged), (None, None));
    assert_eq!(
        work.answer[1],
        "No setting is shown to be within the other limits of the budget."
    );
}

#[test]
fn quality_is_unknown_without_an_accuracy_or_error() {
    let mut run = empty_run();
    for (axes, seconds) in [(F32, 10.0), (F32_HIGH, 5.0)] {
        add_process(&mut run, axes, |record| {
            let absent = Metric::absent(MetricName::TestAccuracy, "the weights are random");
            record.metrics.insert(MetricName::TestAccuracy, absent);
            set_metric(record, MetricName::TrainSeconds, seconds);
        });
    }
    let work = first_choice(&run, &points_budget(1.0));
    assert_eq!(work.unjudged.as_deref(), Some("32-true · high"));
    assert!(
        work.answer[1].contains("was not measured (no accuracy was measured)"),
        "{work:?}"
    );

    let mut run = matmul_run();
    for record in &mut run.records {
        record.metrics.remove(&MetricName::RelativeError);
    }
    for error in [None, Some(1e-3)] {
        let budget = Budget {
            error,
            ..Budget::default()
        };
        let work = first_choice(&run, &budget);
        assert_eq!(
            (work.chosen.as_deref(), work.unjudged.as_deref()),
            (None, Some("bf16-true"))
        );
        assert!(
            work.answer[1].contains("was not measured (no error was measured)"),
            "{work:?}"
        );
    }
}
