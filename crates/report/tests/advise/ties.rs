//! Tests of settings that cost the same, or whose costs do not differ significantly.

use mantissa_core::MetricName;
use mantissa_report::{Budget, Run};

use crate::{
    advice::{
        Axes, BF16_MIXED, F32, F32_HIGH, add_five_processes, add_process, empty_run, first_choice,
        points_budget, set_metric,
    },
    support::train_metrics,
};

#[test]
fn settings_of_equal_cost_are_named_with_the_choice() {
    let mut run = empty_run();
    add_five_processes(&mut run, F32, 10.0, 100, 1e9);
    add_five_processes(&mut run, F32_HIGH, 5.0, 100, 1e9);
    add_five_processes(&mut run, BF16_MIXED, 5.01, 100, 1e9);
    let work = first_choice(&run, &points_budget(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"));
    assert_eq!(work.equals, ["bf16-mixed · highest"]);
    assert!(
        work.answer[1].starts_with(
            "Shown to be as fast as 32-true · high within 2 % (in brackets: speed relative to 32-true · highest): bf16-mixed · \
             highest (2.00×). Of these, 32-true · high is chosen because it is nearest to the baseline: fewest bits lost"
        ),
        "{:?}",
        work.answer
    );
}

#[test]
fn ties_choose_the_setting_nearest_to_the_baseline() {
    let mut run = empty_run();
    add_five_processes(&mut run, F32, 10.0, 100, 1e9);
    add_five_processes(&mut run, BF16_MIXED, 5.0, 100, 1e9);
    add_five_processes(&mut run, F32_HIGH, 5.01, 100, 1e9);
    let work = first_choice(&run, &points_budget(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"), "{work:?}");
    assert!(work.shown);
    assert_eq!(work.equals, ["bf16-mixed · highest"]);
}

#[test]
fn the_baseline_is_kept_if_no_setting_is_cheaper() {
    let mut run = empty_run();
    add_five_processes(&mut run, F32, 10.0, 100, 1e9);
    add_five_processes(&mut run, F32_HIGH, 9.99, 100, 1e9);
    let work = first_choice(&run, &points_budget(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · highest"));
    assert!(work.answer[0].starts_with("Keep 32-true · highest"), "{work:?}");
    assert!(
        work.answer[1].contains("(in brackets: speed relative to 32-true · highest): 32-true · high (1.00×)"),
        "{work:?}"
    );
}

#[test]
fn ties_are_reported_if_the_baseline_exceeds_the_budget() {
    let budget = Budget {
        memory_bytes: Some(2e9),
        ..points_budget(100.0)
    };
    let choice_with = |processes: fn(&mut Run, Axes<'_>, f64, f64)| {
        let mut run = empty_run();
        processes(&mut run, F32, 10.0, 4e9);
        processes(&mut run, F32_HIGH, 5.0, 1e9);
        processes(&mut run, BF16_MIXED, 4.95, 1e9);
        first_choice(&run, &budget)
    };
    let one = choice_with(|run, axes, seconds, bytes| {
        add_process(run, axes, |record| train_metrics(record, seconds, 900, bytes));
    });
    assert_eq!(
        (one.chosen.as_deref(), one.shown),
        (Some("bf16-mixed · highest"), false)
    );
    let answer = one.answer.join(" ");
    assert!(
        answer.starts_with("bf16-mixed · highest has the lowest median cost")
            && answer.contains("Within the budget, but with too few processes for a comparison (in brackets: ")
            && answer.contains("32-true · high (2.00×). bf16-mixed · highest is chosen because it has the lowest median cost."),
        "{answer}"
    );
    // By the medians of five processes, 32-true · high is 1 % slower than bf16-mixed. Such a difference counts as equally fast, so the
    // setting nearer to the baseline is chosen: 32-true · high.
    let five = choice_with(|run, axes, seconds, bytes| add_five_processes(run, axes, seconds, 100, bytes));
    assert_eq!(
        (five.chosen.as_deref(), five.shown),
        (Some("32-true · high"), true)
    );
    assert!(
        five.answer[0].starts_with("Use 32-true · high: 2.00×"),
        "{five:?}"
    );
    assert_eq!(five.equals, ["bf16-mixed · highest"]);
}

#[test]
fn one_process_cannot_show_a_lower_cost() {
    let mut run = empty_run();
    add_process(&mut run, F32, |_| ());
    add_process(&mut run, F32_HIGH, |record| {
        set_metric(record, MetricName::TrainSeconds, 9.0)
    });
    let work = first_choice(&run, &points_budget(100.0));
    assert_eq!(
        (work.chosen.as_deref(), work.shown),
        (Some("32-true · high"), false)
    );
    assert_eq!(work.equals, ["32-true · highest"]);
    let answer = work.answer.join(" ");
    assert!(
        answer.starts_with("32-true · high has the lowest median cost"),
        "{answer}"
    );
    assert!(
        answer.contains("so there is no evidence against 32-true · highest yet."),
        "{answer}"
    );
}
