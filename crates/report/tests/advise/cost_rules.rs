//! Tests of the best practices about time and memory.

use mantissa_core::{Axis, MetricName, Workload};
use mantissa_report::Run;

use crate::{
    advice::{
        Axes, F16_MIXED, F32, F32_HIGH, FIVE, add_five_processes, add_process, empty_run, fired_rule,
        first_workload, matmul_run, points_budget, record_with, set_metric,
    },
    support::{self, RunBuilder, train_metrics, workload},
};

#[test]
fn matmul_high_must_be_faster_and_keep_accuracy() {
    let evidence = |seconds, wrong| {
        let mut run = empty_run();
        add_five_processes(&mut run, F32, 10.0, 100, 1e9);
        add_five_processes(&mut run, F32_HIGH, seconds, wrong, 1e9);
        fired_rule(&run, "matmul-high").map(|fired| fired.evidence)
    };
    assert_eq!(
        evidence(5.0, 100).unwrap(),
        ["32-true · high: 2.00× (1.99–2.01) as fast as with matmul highest"]
    );
    assert_eq!(evidence(11.0, 100), None);
    assert_eq!(evidence(9.99, 100), None, "as fast");
    assert_eq!(evidence(5.0, 200), None, "less accurate");
    assert!(fired_rule(&matmul_run(), "matmul-high").is_none());
}

fn add_memory_process(run: &mut Run, axes: Axes<'_>, weights: f64, activations: f64) {
    let parts = [
        (MetricName::WeightsBytes, weights),
        (MetricName::WeightCopiesBytes, 0.0),
        (MetricName::GradientsBytes, weights),
        (MetricName::OptimizerBytes, 2.0 * weights),
        (MetricName::ActivationsBytes, activations),
    ];
    add_process(run, axes, |record| {
        parts
            .into_iter()
            .for_each(|(metric, bytes)| set_metric(record, metric, bytes))
    });
}

#[test]
fn mixed_precision_that_saves_less_than_half_is_explained() {
    let evidence = |mixed_weights| {
        let mut run = empty_run();
        add_memory_process(&mut run, F32, 100.0, 600.0);
        add_memory_process(&mut run, F16_MIXED, mixed_weights, 300.0);
        fired_rule(&run, "mixed-memory").map(|fired| fired.evidence)
    };
    assert_eq!(
        evidence(100.0).unwrap(),
        [
            "16-mixed · highest: 0.70× the memory of 32-true · highest; 57 % of its own memory is weights, gradients and optimizer \
             state in f32, 0 % is copies of weights"
        ]
    );
    assert_eq!(evidence(40.0), None);
}

/// Creates a run of two settings with one process per factor, and returns the evidence of a rule. The second setting takes 1.3 times as
/// long and has a peak of `bytes` instead of 1 GB.
fn evidence_of_pair(rule: &str, axes: [Axes<'_>; 2], bytes: f64, factors: &[f64]) -> Option<Vec<String>> {
    let mut run = empty_run();
    for (axes, seconds, bytes) in [(axes[0], 10.0, 1e9), (axes[1], 13.0, bytes)] {
        run.plan(&record_with(axes).cell, None);
        for (repeat, factor) in (0..).zip(factors) {
            let mut record = record_with(axes);
            record.repeat = repeat;
            train_metrics(&mut record, seconds * factor, 900, bytes * factor);
            run.measured(record, None);
        }
    }
    fired_rule(&run, rule).map(|fired| fired.evidence)
}

#[test]
fn accumulation_is_recommended_if_it_lowers_memory() {
    const WHOLE: Axes<'static> = &[(Axis::Batch, "16"), (Axis::Accumulate, "1")];
    const PARTS: Axes<'static> = &[(Axis::Batch, "4"), (Axis::Accumulate, "4")];
    const FEWER: Axes<'static> = &[(Axis::Batch, "4"), (Axis::Accumulate, "2")];
    let evidence = |parts, bytes| evidence_of_pair("accumulation", [WHOLE, parts], bytes, &FIVE);
    assert_eq!(
        evidence(PARTS, 0.5e9).unwrap(),
        [
            "accumulate 4 · batch 4: 0.50× (0.50–0.50) the peak memory of accumulate 1 · batch 16; 1.30× (1.30–1.30) the \
             time"
        ]
    );
    assert_eq!(evidence(PARTS, 0.99e9), None);
    assert_eq!(evidence(FEWER, 0.5e9), None, "another effective batch");
}

const OFF: Axes<'static> = &[(Axis::Checkpointing, "off")];
const ON: Axes<'static> = &[(Axis::Checkpointing, "on")];

#[test]
fn checkpointing_is_recommended_if_it_lowers_memory() {
    let evidence = |bytes| evidence_of_pair("checkpointing", [OFF, ON], bytes, &FIVE);
    assert_eq!(
        evidence(0.5e9).unwrap(),
        [
            "checkpointing on: 0.50× (0.50–0.50) the peak memory of checkpointing off; 1.30× (1.30–1.30) the time"
        ]
    );
    assert_eq!(evidence(1e9), None);
}

#[test]
fn only_host_peaks_need_several_processes() {
    assert_eq!(evidence_of_pair("checkpointing", [OFF, ON], 0.5e9, &[1.0]), None);
    let mut run = empty_run();
    for (axes, bytes) in [(OFF, 1e9), (ON, 0.5e9)] {
        add_process(&mut run, axes, |record| {
            set_metric(record, MetricName::AllocatorReservedPeakBytes, bytes);
        });
    }
    let evidence = |run: &Run| fired_rule(run, "checkpointing").unwrap().evidence;
    assert_eq!(
        evidence(&run),
        [
            "checkpointing on: 0.50× the peak memory of checkpointing off; the change in time is inconclusive: too few processes to \
             detect a difference"
        ]
    );
    for record in &mut run.records {
        record.metrics.remove(&MetricName::TrainSeconds);
    }
    assert_eq!(
        evidence(&run),
        ["checkpointing on: 0.50× the peak memory of checkpointing off; its time was not measured"]
    );
}

#[test]
fn advice_does_not_mention_a_time_without_evidence() {
    let set_peak = |record: &mut mantissa_core::Record, bytes| {
        set_metric(record, MetricName::AllocatorReservedPeakBytes, bytes);
    };
    let mut run = empty_run();
    add_process(&mut run, OFF, |record| set_peak(record, 1e9));
    add_process(&mut run, ON, |record| set_peak(record, 0.5e9));
    let advice = fired_rule(&run, "checkpointing").unwrap().advice;
    assert!(!advice.contains("time"), "{advice}");
}

#[test]
fn every_rule_has_sources_cells_and_evidence() {
    let mut run = empty_run();
    let workload: Workload = workload("w");
    support::article(&mut run, &workload);
    // Rename the suite to `article`, because `support::article` adds cells of a suite of this name.
    run.plan.suites[0].name = "article".into();
    run.records.iter_mut().for_each(|record| record.samples = None);
    let rules = first_workload(&run, &points_budget(1.0)).rules;
    assert!(!rules.is_empty());
    for rule in rules {
        assert!(
            rule.sources.iter().all(|source| source.contains("https://")),
            "{rule:?}"
        );
        assert!(!rule.cells.is_empty() && !rule.evidence.is_empty(), "{rule:?}");
    }
}
