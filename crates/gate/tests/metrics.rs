//! Tests of verdicts on metrics: regressions, improvements and irrelevant changes.

use mantissa_core::{MetricName, Unit};
use mantissa_gate::{ChangeVerdict, Gate};

use crate::{
    six_cells::{cells, compare_runs, gate_runs, run, unchanged},
    support::{InventedRun, noise},
};

#[test]
fn identical_programs_pass() {
    let report = gate_runs(run(1, unchanged), run(2, unchanged));
    assert_eq!(report.gate(), Gate::Passed, "{:?}", report.failures);
    assert_eq!(report.comparison.cells.len(), 6);
    assert_eq!(report.comparison.outcomes().count(), 6 * 4);
    assert!(
        report
            .comparison
            .outcomes()
            .all(|outcome| outcome == ChangeVerdict::Unchanged)
    );
}

#[test]
fn regressions_fail_and_name_the_cell_and_metric() {
    for (metric, factor) in [
        (MetricName::FlopsPerSecond, 1.0 / 1.05),
        (MetricName::HostPeakBytes, 1.10),
        (MetricName::AllocatorInUsePeakBytes, 1.10),
        (MetricName::RelativeError, 2.0),
    ] {
        let worse = |cell_index, found| {
            if (cell_index, found) == (3, metric) {
                factor
            } else {
                1.0
            }
        };
        let report = gate_runs(run(1, unchanged), run(2, worse));
        assert_eq!(report.gate(), Gate::Failed, "{metric}");
        let [failure] = report.failures.as_slice() else {
            panic!("{metric}: {:?}", report.failures);
        };
        assert_eq!(failure.metric, Some(metric));
        let cell = &report.comparison.cells[failure.cell];
        assert!(cell.setting.contains("bf16-true"), "{}", cell.setting);
        assert!(failure.text.contains(metric.name()), "{}", failure.text);
    }
}

#[test]
fn improvements_pass_and_are_reported() {
    let faster = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            1.2
        } else {
            1.0
        }
    };
    let report = gate_runs(run(1, unchanged), run(2, faster));
    assert_eq!(report.gate(), Gate::Passed);
    assert!(report.comparison.any(ChangeVerdict::Improved));
}

#[test]
fn every_kind_of_metric_is_judged_by_its_floor() {
    use MetricName as M;
    // Metric, value of the baseline, and values with a relevant and an irrelevant change.
    for (metric, before, worse, similar) in [
        (M::StepSeconds, 0.5, 0.55, 0.505),
        (M::FirstTokenSeconds, 0.1, 0.11, 0.101),
        (M::WarmupSeconds, 2.0, 2.8, 2.1),
        (M::EnergyCounterJoules, 300.0, 340.0, 303.0),
        (M::DevicePeakBytes, 5e9, 5.3e9, 5.02e9),
        (M::AllocatorReservedPeakBytes, 5e9, 5.3e9, 5.02e9),
        (M::TestAccuracy, 0.92, 0.90, 0.918),
        (M::Agreement, 0.99, 0.97, 0.989),
        (M::Perplexity, 4.0, 4.2, 4.02),
        (M::FinalLoss, 0.3, 0.35, 0.305),
        (M::MaxUlp, 3.0, 9.0, 4.0),
    ] {
        let varies = metric.unit() == Unit::Seconds || metric == M::EnergyCounterJoules;
        let run = |seed: u64, value: f64| {
            let mut run = InventedRun::new(&cells(), 5, |cell_index, process| {
                let key = seed * 10_000 + cell_index as u64 * 100 + u64::from(process) * 7;
                vec![(metric, value * if varies { noise(key) } else { 1.0 })]
            });
            for record in &mut run.records {
                // With this many examples, the sampling error of the examples is negligible.
                record.metrics.get_mut(&metric).unwrap().n = Some(1_000_000);
            }
            run
        };
        let passes = gate_runs(run(1, before), run(2, similar));
        assert_eq!(passes.gate(), Gate::Passed, "{metric}: {:?}", passes.failures);
        let fails = gate_runs(run(1, before), run(2, worse));
        assert_eq!(fails.gate(), Gate::Failed, "{metric}");
        assert_eq!(fails.failures[0].metric, Some(metric));
    }
}

#[test]
fn few_test_examples_only_show_large_accuracy_losses() {
    let run_with = |accuracy: f64| {
        let mut run = InventedRun::new(&cells()[..1], 5, |_, _| {
            vec![(MetricName::TestAccuracy, accuracy)]
        });
        for record in &mut run.records {
            record.metrics.get_mut(&MetricName::TestAccuracy).unwrap().n = Some(1000);
        }
        run
    };
    // With 1,000 examples, a difference of three points can be sampling error; ten points cannot.
    for (accuracy, outcome) in [
        (0.89, ChangeVerdict::Inconclusive),
        (0.82, ChangeVerdict::Regressed),
    ] {
        let comparison = compare_runs(run_with(0.92), run_with(accuracy));
        let outcomes: Vec<_> = comparison.outcomes().collect();
        assert_eq!(outcomes, [outcome], "{accuracy}");
    }
}

/// Rounds to this many bits of significand, ties to even.
fn round_to_bits(value: f64, bits: i32) -> f64 {
    let unit = f64::exp2(value.abs().log2().floor() + 1.0 - f64::from(bits));
    (value / unit).round_ties_even() * unit
}

/// Computes the relative error (Frobenius norm) of a matmul of random matrices whose operands are rounded to this many bits.
fn matmul_error(seed: u64, bits: i32) -> f64 {
    const SIZE: usize = 24;
    let value = |key: usize| (noise(seed * 100_000 + key as u64) - 1.0) * std::f64::consts::PI;
    let (mut error, mut norm) = (0.0, 0.0);
    for row in 0..SIZE {
        for column in 0..SIZE {
            let terms =
                (0..SIZE).map(|inner| (value(row * SIZE + inner), value(50_000 + inner * SIZE + column)));
            let exact: f64 = terms.clone().map(|(a, b)| a * b).sum();
            let found: f64 = terms
                .map(|(a, b)| round_to_bits(a, bits) * round_to_bits(b, bits))
                .sum();
            error += (found - exact).powi(2);
            norm += exact.powi(2);
        }
    }
    (error / norm).sqrt()
}

#[test]
fn the_loss_of_one_significand_bit_is_always_detected() {
    for bits in [8, 11, 24] {
        for seed in 0..20 {
            let factor = |lost_bits| {
                move |cell_index, metric| match (cell_index, metric) {
                    (3, MetricName::RelativeError) => matmul_error(seed, bits - lost_bits),
                    _ => 1.0,
                }
            };
            let report = gate_runs(run(2 * seed, factor(0)), run(2 * seed + 1, factor(1)));
            let failed: Vec<_> = report.failures.iter().map(|failure| failure.metric).collect();
            assert_eq!(
                failed,
                [Some(MetricName::RelativeError)],
                "{bits} bits, seed {seed}"
            );
        }
    }
}
