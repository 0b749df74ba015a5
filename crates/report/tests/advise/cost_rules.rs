//! Tests of the best practices about time and memory.

use mantissa_core::{Axis, MetricName, Workload};
use mantissa_report::Run;

use crate::{
    advice::{Axes, F32, FIVE, HIGH, MIXED, empty, fired, first, of, points, products, set, trained, tried},
    support::{self, Add, train_metrics, workload},
};

#[test]
fn matmul_high_is_recommended_if_it_is_faster_and_keeps_accuracy() {
    let with = |seconds, wrong| {
        let mut run = empty();
        trained(&mut run, F32, 10.0, 100, 1e9);
        trained(&mut run, HIGH, seconds, wrong, 1e9);
        fired(&run, "matmul-high").map(|fired| fired.evidence)
    };
    assert_eq!(
        with(5.0, 100).unwrap(),
        ["32-true · high: 2.00× (1.99–2.01) as fast as with matmul highest"]
    );
    assert_eq!(with(11.0, 100), None);
    assert_eq!(with(9.99, 100), None, "as fast");
    assert_eq!(with(5.0, 200), None, "less accurate");
    assert!(fired(&products(), "matmul-high").is_none());
}

fn with_memory(run: &mut Run, axes: Axes<'_>, weights: f64, activations: f64) {
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
        with_memory(&mut run, F32, 100.0, 600.0);
        with_memory(&mut run, MIXED, of_mixed, 300.0);
        fired(&run, "mixed-memory").map(|fired| fired.evidence)
    };
    assert_eq!(
        with(100.0).unwrap(),
        [
            "16-mixed · highest: 0.70× the memory of 32-true · highest; 57 % of its own memory is weights, gradients and optimizer \
             state in f32, 0 % is copies of weights"
        ]
    );
    assert_eq!(with(40.0), None);
}

/// Creates seconds and peaks of both settings in one process per factor, and returns the evidence of a rule.
fn batches(rule: &str, axes: [Axes<'_>; 2], bytes: f64, factors: &[f64]) -> Option<Vec<String>> {
    let mut run = empty();
    for (axes, seconds, bytes) in [(axes[0], 10.0, 1e9), (axes[1], 13.0, bytes)] {
        run.plan(&of(axes).cell, None);
        for (repeat, factor) in (0..).zip(factors) {
            let mut record = of(axes);
            record.repeat = repeat;
            train_metrics(&mut record, seconds * factor, 900, bytes * factor);
            run.measured(record, None);
        }
    }
    fired(&run, rule).map(|fired| fired.evidence)
}

#[test]
fn accumulation_that_lowers_memory_is_recommended_with_its_time() {
    const WHOLE: Axes<'static> = &[(Axis::Batch, "16"), (Axis::Accumulate, "1")];
    const PARTS: Axes<'static> = &[(Axis::Batch, "4"), (Axis::Accumulate, "4")];
    const FEWER: Axes<'static> = &[(Axis::Batch, "4"), (Axis::Accumulate, "2")];
    let with = |parts, bytes| batches("accumulation", [WHOLE, parts], bytes, &FIVE);
    assert_eq!(
        with(PARTS, 0.5e9).unwrap(),
        [
            "accumulate 4 · batch 4: 0.50× (0.50–0.50) the peak memory of accumulate 1 · batch 16; 1.30× (1.30–1.30) the \
             time"
        ]
    );
    assert_eq!(with(PARTS, 0.99e9), None);
    assert_eq!(with(FEWER, 0.5e9), None, "another effective batch");
}

const OFF: Axes<'static> = &[(Axis::Checkpointing, "off")];
const ON: Axes<'static> = &[(Axis::Checkpointing, "on")];

#[test]
fn checkpointing_that_lowers_memory_is_recommended_with_its_time() {
    let with = |bytes| batches("checkpointing", [OFF, ON], bytes, &FIVE);
    assert_eq!(
        with(0.5e9).unwrap(),
        [
            "checkpointing on: 0.50× (0.50–0.50) the peak memory of checkpointing off; 1.30× (1.30–1.30) the time"
        ]
    );
    assert_eq!(with(1e9), None);
}

#[test]
fn a_host_peak_needs_several_processes_and_an_allocator_count_needs_one() {
    assert_eq!(batches("checkpointing", [OFF, ON], 0.5e9, &[1.0]), None);
    let mut run = empty();
    for (axes, bytes) in [(OFF, 1e9), (ON, 0.5e9)] {
        tried(&mut run, axes, |record| {
            set(record, MetricName::AllocatorReservedPeakBytes, bytes);
        });
    }
    let counted = |run: &Run| fired(run, "checkpointing").unwrap().evidence;
    assert_eq!(
        counted(&run),
        [
            "checkpointing on: 0.50× the peak memory of checkpointing off; the change in time is inconclusive: too few processes to \
             detect a difference"
        ]
    );
    for record in &mut run.records {
        record.metrics.remove(&MetricName::TrainSeconds);
    }
    assert_eq!(
        counted(&run),
        ["checkpointing on: 0.50× the peak memory of checkpointing off; its time was not measured"]
    );
}

#[test]
fn advice_does_not_mention_a_time_without_evidence() {
    let counted = |record: &mut mantissa_core::Record, bytes| {
        set(record, MetricName::AllocatorReservedPeakBytes, bytes);
    };
    let mut run = empty();
    tried(&mut run, OFF, |record| counted(record, 1e9));
    tried(&mut run, ON, |record| counted(record, 0.5e9));
    let advice = fired(&run, "checkpointing").unwrap().advice;
    assert!(!advice.contains("time"), "{advice}");
}

#[test]
fn every_rule_has_sources_cells_and_evidence() {
    let mut run = empty();
    let workload: Workload = workload("w");
    support::article(&mut run, &workload);
    // Give the suite of the invented article another name.
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
