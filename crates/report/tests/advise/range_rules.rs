//! Tests of the best practices about the range of a format.

use mantissa_core::{
    EventKind, ExecutedVerdict, Format, MetricName, RangeCounts, Record, Samples, TensorClass, TensorRange,
};

use crate::{
    advice::{
        Axes, BF16_MIXED, F16, F16_MIXED, F32, F32_HIGH, add_process, diverge, empty_run, event,
        evidence_for, fired_rule, record_with, set_metric,
    },
    support::{RunBuilder, train_metrics},
};

const EPSILON: &str = "`adam_eps=1e-8` is 0 in f16: an update may be zero over zero";

#[test]
fn overflow_in_f16_recommends_bf16() {
    let rule = "overflow-to-bf16";
    let evidence = |axes, share| {
        evidence_for(axes, rule, |record| {
            set_metric(record, MetricName::OverflowShare, share)
        })
    };
    assert_eq!(
        evidence(F16, 0.02).unwrap(),
        ["16-true: 2.0 % of observed values are not finite"]
    );
    assert_eq!(evidence(F16, 0.0), None);
    assert_eq!(evidence(BF16_MIXED, 0.02), None);
    // Loss scaling causes overflow deliberately.
    assert_eq!(evidence(F16_MIXED, 0.02), None);
    let evidence = |scale| {
        evidence_for(F16_MIXED, rule, |record| {
            record.events.push(event(EventKind::LossScale, scale, "halved"))
        })
    };
    assert!(evidence(0.5).unwrap()[0].ends_with("the loss scale fell to 0.5"));
    assert_eq!(evidence(1024.0), None);
    let epsilon = evidence_for(F16, rule, |record| {
        diverge(record);
        record.events.push(event(EventKind::Warning, 1e-8, EPSILON));
    });
    assert_eq!(epsilon, None, "the epsilon is the cause");
}

#[test]
fn divergence_recommends_bf16_if_f32_finished() {
    let rule = "overflow-to-bf16";
    let evidence = |f32: Option<fn(&mut Record)>, half: fn(&mut Record)| {
        let mut run = empty_run();
        if let Some(change) = f32 {
            add_process(&mut run, F32, change);
        }
        add_process(&mut run, F16, half);
        fired_rule(&run, rule).map(|fired| fired.evidence)
    };
    assert_eq!(
        evidence(Some(|_| ()), diverge).unwrap(),
        ["16-true: diverged: not finite; 32-true · highest finished"]
    );
    assert_eq!(evidence(Some(diverge), diverge), None, "f32 also diverged");
    assert_eq!(evidence(None, diverge), None, "the effect of f32 is unknown");
    let overflow: fn(&mut Record) = |record| set_metric(record, MetricName::OverflowShare, 0.1);
    assert!(evidence(Some(|_| ()), overflow).is_some());
    assert_eq!(evidence(Some(overflow), overflow), None, "f32 also overflows");
    assert_eq!(evidence(Some(diverge), overflow), None);
}

#[test]
fn a_vanishing_epsilon_is_reported_with_the_status() {
    let rule = "vanishing-epsilon";
    let evidence = evidence_for(F16, rule, |record| {
        diverge(record);
        record.events.push(event(EventKind::Warning, 1e-8, EPSILON));
    });
    assert_eq!(
        evidence.unwrap(),
        [format!("16-true: {EPSILON}; status diverged: not finite")]
    );
    assert_eq!(
        evidence_for(F16, rule, |record| record.events.push(event(
            EventKind::Warning,
            1.0,
            "hot"
        ))),
        None
    );
}

/// Creates the counts of a tensor with 1,000 values, of which `underflow` underflowed.
fn tensor(class: TensorClass, format: Format, underflow: u64) -> TensorRange {
    TensorRange {
        step: 1,
        layer: "l".into(),
        class,
        format,
        reference: Format::F32,
        counts: RangeCounts {
            elements: 1_000,
            underflow,
            ..RangeCounts::default()
        },
    }
}

/// Returns the evidence of the rule on loss scaling. Gradients and optimizer state have 1,000 values each, of which `gradients` and `state`
/// underflow.
fn loss_scaling_evidence(
    axes: Axes<'_>,
    gradients: u64,
    state: u64,
    change: fn(&mut Record),
) -> Option<Vec<String>> {
    let mut run = empty_run();
    let mut record = record_with(axes);
    train_metrics(&mut record, 10.0, 900, 1e9);
    let pooled = (gradients + state) as f64 / 2_000.0;
    set_metric(&mut record, MetricName::UnderflowShare, pooled);
    change(&mut record);
    let samples = Samples {
        ranges: vec![
            tensor(TensorClass::Gradient, Format::F16, gradients),
            tensor(TensorClass::OptimizerState, Format::F16, state),
        ],
        ..Samples::default()
    };
    run.add(record, Some(samples));
    fired_rule(&run, "loss-scaling").map(|fired| fired.evidence)
}

#[test]
fn vanishing_gradients_recommend_loss_scaling() {
    assert_eq!(
        loss_scaling_evidence(F16, 60, 0, |_| ()).unwrap(),
        ["16-true: 6.0 % of observed gradients underflowed to 0"]
    );
    assert_eq!(loss_scaling_evidence(F16, 50, 0, |_| ()), None);
    assert_eq!(
        loss_scaling_evidence(F16, 10, 900, |_| ()),
        None,
        "loss scaling does not affect the optimizer state"
    );
    assert_eq!(loss_scaling_evidence(F16_MIXED, 60, 0, |_| ()), None);
    let overflowed = loss_scaling_evidence(F16, 60, 0, |record| {
        set_metric(record, MetricName::OverflowShare, 0.1)
    });
    assert_eq!(overflowed, None);
    let unseen = evidence_for(F16, "loss-scaling", |record| {
        set_metric(record, MetricName::UnderflowShare, 0.9);
    });
    assert_eq!(unseen, None, "the tensors are unknown");
}

#[test]
fn lost_weight_updates_recommend_weights_in_f32() {
    let evidence = |axes, share| {
        evidence_for(axes, "f32-weights", |record| {
            set_metric(record, MetricName::LostUpdateShare, share)
        })
    };
    assert_eq!(
        evidence(F16, 0.7).unwrap(),
        ["16-true: 70.0 % of the weight updates were lost"]
    );
    assert_eq!(evidence(F16, 0.5), None);
    assert_eq!(evidence(F16_MIXED, 0.7), None);
    assert_eq!(evidence(F32, 0.7), None);
}

#[test]
fn another_precision_than_requested_is_reported() {
    let evidence = |verdict| {
        evidence_for(F32_HIGH, "executed-differs", |record| {
            record.executed.operand_bits = Some(24);
            record.executed.exponent_bits = Some(8);
            record.executed.accumulator = Some("f32".into());
            record.executed.verdict = verdict;
        })
    };
    assert_eq!(
        evidence(ExecutedVerdict::Differs).unwrap(),
        ["32-true · high: requested tf32 → f32, executed f32 → f32"]
    );
    assert_eq!(evidence(ExecutedVerdict::AsRequested), None);
    assert_eq!(evidence(ExecutedVerdict::Unverified), None);
}
