//! Tests of settings that cost the same, or whose costs do not differ significantly.

use mantissa_core::MetricName;
use mantissa_report::{Budget, Run};

use crate::{
    advice::{Axes, BF16, F32, HIGH, chosen, empty, points, set, trained, tried},
    support::train_metrics,
};

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
        work.answer[1].starts_with(
            "Shown to be as fast as 32-true · high to within 2 % (in brackets the speed over that of 32-true · highest): \
             bf16-mixed · highest (2.00×). Of these 32-true · high is named because it gives up the fewest bits"
        ),
        "{:?}",
        work.answer
    );
}

#[test]
fn of_settings_shown_to_cost_as_much_the_one_nearest_to_the_baseline_is_named() {
    let mut run = empty();
    trained(&mut run, F32, 10.0, 100, 1e9);
    trained(&mut run, BF16, 5.0, 100, 1e9);
    trained(&mut run, HIGH, 5.01, 100, 1e9);
    let work = chosen(&run, &points(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · high"), "{work:?}");
    assert!(work.shown);
    assert_eq!(work.equals, ["bf16-mixed · highest"]);
}

#[test]
fn nothing_is_changed_for_what_is_shown_to_buy_nothing() {
    let mut run = empty();
    trained(&mut run, F32, 10.0, 100, 1e9);
    trained(&mut run, HIGH, 9.99, 100, 1e9);
    let work = chosen(&run, &points(1.0));
    assert_eq!(work.chosen.as_deref(), Some("32-true · highest"));
    assert!(
        work.answer[0].starts_with("Stay with 32-true · highest"),
        "{work:?}"
    );
    assert!(
        work.answer[1]
            .contains("(in brackets the speed over that of 32-true · highest): 32-true · high (1.00×)"),
        "{work:?}"
    );
}

#[test]
fn ties_are_said_to_be_ties_where_the_baseline_does_not_fit() {
    let budget = Budget {
        memory_bytes: Some(2e9),
        ..points(100.0)
    };
    let of = |processes: fn(&mut Run, Axes<'_>, f64, f64)| {
        let mut run = empty();
        processes(&mut run, F32, 10.0, 4e9);
        processes(&mut run, HIGH, 5.0, 1e9);
        processes(&mut run, BF16, 4.95, 1e9);
        chosen(&run, &budget)
    };
    let one = of(|run, axes, seconds, bytes| {
        tried(run, axes, |record| train_metrics(record, seconds, 900, bytes));
    });
    assert_eq!(
        (one.chosen.as_deref(), one.shown),
        (Some("bf16-mixed · highest"), false)
    );
    let answer = one.answer.join(" ");
    assert!(
        answer.starts_with("By its median, bf16-mixed · highest is cheapest")
            && answer.contains("not shown to cost more than bf16-mixed · highest")
            && answer.contains("32-true · high (2.00×). Of these bf16-mixed · highest is named because its median is the least."),
        "{answer}"
    );
    // By the medians of five processes, 32-true · high is 1 % slower: equally fast, and closer to the baseline.
    let five = of(|run, axes, seconds, bytes| trained(run, axes, seconds, 100, bytes));
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
