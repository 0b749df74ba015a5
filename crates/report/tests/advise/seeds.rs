//! Tests of settings that ran under several seeds.

use mantissa_core::{Cell, Status};
use mantissa_report::Run;

use crate::{
    advice::{
        Axes, BF16_MIXED, F32, F32_HIGH, empty_run, evidence_of, first_choice, points_budget,
        samples_with_errors,
    },
    support::{RunBuilder, cell, record, train_metrics, workload},
};

/// Adds one process under a seed.
fn seeded(run: &mut Run, seed: u64, axes: Axes<'_>, (seconds, wrong): (f64, usize), status: Status) {
    let of_seed_0 = cell("s", &workload("w"), axes);
    let cell = Cell::new("s", of_seed_0.workload, of_seed_0.setting, seed);
    let reason = (status != Status::Ok).then_some("not finite");
    let mut record = record(&cell, status, reason);
    train_metrics(&mut record, seconds, 900, 1e9);
    run.add(record, Some(samples_with_errors(wrong)));
}

#[test]
fn seeds_of_a_setting_are_one_candidate() {
    let mut run = empty_run();
    // Under the three seeds, 0, 10 and 20 more of 1,000 examples are wrong: mean 1 point, standard deviation 1, interval ± 2.48.
    for (seed, lost) in [(1, 0), (2, 10), (3, 20)] {
        for (axes, seconds, wrong) in [(F32, 10.0, 100), (F32_HIGH, 5.0, 100 + lost)] {
            seeded(&mut run, seed, axes, (seconds, wrong), Status::Ok);
        }
    }
    let work = first_choice(&run, &points_budget(3.0));
    assert_eq!(work.evidence.len(), 2);
    let high = evidence_of(&work, "32-true · high");
    assert_eq!((high.cells.len(), high.processes), (3, 3));
    let loss = high.accuracy_loss.as_ref().unwrap();
    assert!(
        (loss.value - 0.01).abs() < 1e-12 && (loss.high.unwrap() - 0.034_84).abs() < 1e-4,
        "{loss:?}"
    );
    assert!(
        !high.kept && first_choice(&run, &points_budget(3.5)).chosen.as_deref() == Some("32-true · high")
    );
}

#[test]
fn a_failed_baseline_is_not_replaced() {
    let mut run = empty_run();
    for seed in [1, 2, 3] {
        let base = if seed == 2 { Status::Diverged } else { Status::Ok };
        seeded(&mut run, seed, F32, (10.0, 100), base);
        seeded(&mut run, seed, F32_HIGH, (5.0, 100), Status::Ok);
        seeded(&mut run, seed, BF16_MIXED, (4.0, 100), Status::Ok);
    }
    let work = first_choice(&run, &points_budget(100.0));
    assert_eq!(work.chosen, None, "{work:?}");
    assert!(evidence_of(&work, "32-true · highest").baseline);
    for name in ["32-true · high", "bf16-mixed · highest"] {
        let one = evidence_of(&work, name);
        assert!(!one.baseline && one.accuracy_loss.is_none(), "{one:?}");
        assert_eq!(one.reasons, ["the baseline did not finish for 1 of 3 seeds"]);
    }
    // Seed 2 is left out, because its baseline diverged. If 32-true · high became the baseline of seed 2, its ratio of 1 to itself would
    // lower the speed below 2.
    let speed = evidence_of(&work, "32-true · high").speed.as_ref().unwrap();
    assert!((speed.value - 2.0).abs() < 1e-9, "{speed:?}");
}
