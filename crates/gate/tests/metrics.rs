//! Tests of verdicts on metrics: what regressed, what improved, and what is too small to matter.

use mantissa_core::{MetricName, Unit};
use mantissa_gate::{ChangeVerdict, Gate};

use crate::{
    six_cells::{cells, compared, gated, run, same},
    support::{Invented, noise},
};

#[test]
fn the_same_program_twice_passes() {
    let gated = gated(run(1, same), run(2, same));
    assert_eq!(gated.gate(), Gate::Passed, "{:?}", gated.failures);
    assert_eq!(gated.comparison.cells.len(), 6);
    assert_eq!(gated.comparison.outcomes().count(), 6 * 4);
    assert!(
        gated
            .comparison
            .outcomes()
            .all(|outcome| outcome == ChangeVerdict::Unchanged)
    );
}

#[test]
fn what_got_worse_fails_with_its_cell_metric_and_ratio() {
    for (metric, factor) in [
        (MetricName::FlopsPerSecond, 1.0 / 1.05),
        (MetricName::HostPeakBytes, 1.10),
        (MetricName::AllocatorInUsePeakBytes, 1.10),
        (MetricName::RelativeError, 2.0),
    ] {
        let worse = |place, found| {
            if (place, found) == (3, metric) {
                factor
            } else {
                1.0
            }
        };
        let gated = gated(run(1, same), run(2, worse));
        assert_eq!(gated.gate(), Gate::Failed, "{metric}");
        let [failure] = gated.failures.as_slice() else {
            panic!("{metric}: {:?}", gated.failures);
        };
        assert_eq!(failure.metric, Some(metric));
        let cell = &gated.comparison.cells[failure.cell];
        assert!(cell.setting.contains("bf16-true"), "{}", cell.setting);
        assert!(failure.text.contains(metric.name()), "{}", failure.text);
    }
}

#[test]
fn what_got_better_passes_and_is_told() {
    let faster = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            1.2
        } else {
            1.0
        }
    };
    let gated = gated(run(1, same), run(2, faster));
    assert_eq!(gated.gate(), Gate::Passed);
    assert!(gated.comparison.any(ChangeVerdict::Improved));
}

#[test]
fn metrics_of_every_kind_are_held_to_what_matters_of_them() {
    use MetricName as M;
    // Baseline value, a relevant change, and an irrelevant one.
    for (metric, was, worse, alike) in [
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
            let mut run = Invented::new(&cells(), 5, |place, process| {
                let key = seed * 10_000 + place as u64 * 100 + u64::from(process) * 7;
                vec![(metric, value * if varies { noise(key) } else { 1.0 })]
            });
            for record in &mut run.records {
                // With this many examples, the sampling error of the examples is negligible.
                record.metrics.get_mut(&metric).unwrap().n = Some(1_000_000);
            }
            run
        };
        let passes = gated(run(1, was), run(2, alike));
        assert_eq!(passes.gate(), Gate::Passed, "{metric}: {:?}", passes.failures);
        let fails = gated(run(1, was), run(2, worse));
        assert_eq!(fails.gate(), Gate::Failed, "{metric}");
        assert_eq!(fails.failures[0].metric, Some(metric));
    }
}

#[test]
fn an_accuracy_of_few_examples_takes_a_large_loss() {
    let of = |accuracy: f64| {
        let mut run = Invented::new(&cells()[..1], 5, |_, _| {
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
        let comparison = compared(of(0.92), of(accuracy));
        let outcomes: Vec<_> = comparison.outcomes().collect();
        assert_eq!(outcomes, [outcome], "{accuracy}");
    }
}

/// Rounds to this many bits of significand, ties to even.
fn rounded(value: f64, bits: i32) -> f64 {
    let unit = f64::exp2(value.abs().log2().floor() + 1.0 - f64::from(bits));
    (value / unit).round_ties_even() * unit
}

/// Computes the relative error (Frobenius norm) of a matmul of random matrices whose operands are rounded to this many bits.
fn error_of_a_product(seed: u64, bits: i32) -> f64 {
    const SIZE: usize = 24;
    let value = |key: usize| (noise(seed * 100_000 + key as u64) - 1.0) * std::f64::consts::PI;
    let (mut error, mut norm) = (0.0, 0.0);
    for row in 0..SIZE {
        for column in 0..SIZE {
            let terms =
                (0..SIZE).map(|inner| (value(row * SIZE + inner), value(50_000 + inner * SIZE + column)));
            let exact: f64 = terms.clone().map(|(a, b)| a * b).sum();
            let found: f64 = terms.map(|(a, b)| rounded(a, bits) * rounded(b, bits)).sum();
            error += (found - exact).powi(2);
            norm += exact.powi(2);
        }
    }
    (error / norm).sqrt()
}

#[test]
fn a_product_that_loses_a_bit_of_significand_is_caught_in_every_try() {
    for bits in [8, 11, 24] {
        for seed in 0..20 {
            let error = |lost| {
                move |place, metric| match (place, metric) {
                    (3, MetricName::RelativeError) => error_of_a_product(seed, bits - lost),
                    _ => 1.0,
                }
            };
            let gated = gated(run(2 * seed, error(0)), run(2 * seed + 1, error(1)));
            let failed: Vec<_> = gated.failures.iter().map(|failure| failure.metric).collect();
            assert_eq!(
                failed,
                [Some(MetricName::RelativeError)],
                "{bits} bits, seed {seed}"
            );
        }
    }
}
