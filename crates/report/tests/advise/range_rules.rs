//! Tests of the best practices about the range of a format.

use mantissa_core::{
    EventKind, ExecutedVerdict, Format, MetricName, RangeCounts, Record, Samples, TensorClass, TensorRange,
};

use crate::{
    advice::{Axes, BF16, F32, HALF, HIGH, MIXED, diverge, empty, event, fired, of, of_one, set, tried},
    support::{Add, train_metrics},
};

const EPSILON: &str = "`adam_eps=1e-8` is 0 in f16: an update may be zero over zero";

#[test]
fn overflow_in_f16_recommends_bf16() {
    let rule = "overflow-to-bf16";
    let shares = |axes, share| of_one(axes, rule, |record| set(record, MetricName::OverflowShare, share));
    assert_eq!(
        shares(HALF, 0.02).unwrap(),
        ["16-true: 2.0 % of observed values are not finite"]
    );
    assert_eq!(shares(HALF, 0.0), None);
    assert_eq!(shares(BF16, 0.02), None);
    // Loss scaling causes overflow deliberately.
    assert_eq!(shares(MIXED, 0.02), None);
    let scale = |to| {
        of_one(MIXED, rule, |record| {
            record.events.push(event(EventKind::LossScale, to, "halved"))
        })
    };
    assert!(scale(0.5).unwrap()[0].ends_with("the loss scale fell to 0.5"));
    assert_eq!(scale(1024.0), None);
    let epsilon = of_one(HALF, rule, |record| {
        diverge(record);
        record.events.push(event(EventKind::Warning, 1e-8, EPSILON));
    });
    assert_eq!(epsilon, None, "the epsilon is the cause");
}

#[test]
fn divergence_recommends_bf16_if_f32_finished_without_divergence() {
    let rule = "overflow-to-bf16";
    let with_f32 = |f32: Option<fn(&mut Record)>, half: fn(&mut Record)| {
        let mut run = empty();
        if let Some(change) = f32 {
            tried(&mut run, F32, change);
        }
        tried(&mut run, HALF, half);
        fired(&run, rule).map(|fired| fired.evidence)
    };
    assert_eq!(
        with_f32(Some(|_| ()), diverge).unwrap(),
        ["16-true: diverged: not finite; 32-true · highest finished"]
    );
    assert_eq!(with_f32(Some(diverge), diverge), None, "f32 also diverged");
    assert_eq!(with_f32(None, diverge), None, "the effect of f32 is unknown");
    let overflow: fn(&mut Record) = |record| set(record, MetricName::OverflowShare, 0.1);
    assert!(with_f32(Some(|_| ()), overflow).is_some());
    assert_eq!(with_f32(Some(overflow), overflow), None, "f32 also overflows");
    assert_eq!(with_f32(Some(diverge), overflow), None);
}

#[test]
fn a_vanishing_epsilon_is_reported_with_the_status() {
    let rule = "vanishing-epsilon";
    let evidence = of_one(HALF, rule, |record| {
        diverge(record);
        record.events.push(event(EventKind::Warning, 1e-8, EPSILON));
    });
    assert_eq!(
        evidence.unwrap(),
        [format!("16-true: {EPSILON}; status diverged: not finite")]
    );
    assert_eq!(
        of_one(HALF, rule, |record| record.events.push(event(
            EventKind::Warning,
            1.0,
            "hot"
        ))),
        None
    );
}

/// Creates the counts of 1,000 values, of which some underflowed.
fn tensor(class: TensorClass, format: Format, underflow: u64) -> TensorRange {
    TensorRange {
        step: 1,
        layer: "l".into(),
        class,
        format,
        beside: Format::F32,
        counts: RangeCounts {
            elements: 1_000,
            underflow,
            ..RangeCounts::default()
        },
    }
}

/// Returns the evidence of the rule on loss scaling if gradients and optimizer state lose some of 1,000 values each.
fn lost(axes: Axes<'_>, gradients: u64, state: u64, change: fn(&mut Record)) -> Option<Vec<String>> {
    let mut run = empty();
    let mut record = of(axes);
    train_metrics(&mut record, 10.0, 900, 1e9);
    let pooled = (gradients + state) as f64 / 2_000.0;
    set(&mut record, MetricName::UnderflowShare, pooled);
    change(&mut record);
    let samples = Samples {
        ranges: vec![
            tensor(TensorClass::Gradient, Format::F16, gradients),
            tensor(TensorClass::OptimizerState, Format::F16, state),
        ],
        ..Samples::default()
    };
    run.add(record, Some(samples));
    fired(&run, "loss-scaling").map(|fired| fired.evidence)
}

#[test]
fn vanishing_gradients_recommend_loss_scaling() {
    assert_eq!(
        lost(HALF, 60, 0, |_| ()).unwrap(),
        ["16-true: 6.0 % of observed gradients underflowed to 0"]
    );
    assert_eq!(lost(HALF, 50, 0, |_| ()), None);
    assert_eq!(
        lost(HALF, 10, 900, |_| ()),
        None,
        "loss scaling does not affect the optimizer state"
    );
    assert_eq!(lost(MIXED, 60, 0, |_| ()), None);
    let overflowed = lost(HALF, 60, 0, |record| set(record, MetricName::OverflowShare, 0.1));
    assert_eq!(overflowed, None);
    let unseen = of_one(HALF, "loss-scaling", |record| {
        set(record, MetricName::UnderflowShare, 0.9);
    });
    assert_eq!(unseen, None, "the tensors are unknown");
}

#[test]
fn lost_weight_updates_recommend_weights_in_f32() {
    let share = |axes, share| {
        of_one(axes, "f32-weights", |record| {
            set(record, MetricName::LostUpdateShare, share)
        })
    };
    assert_eq!(
        share(HALF, 0.7).unwrap(),
        ["16-true: 70.0 % of the weight updates were lost"]
    );
    assert_eq!(share(HALF, 0.5), None);
    assert_eq!(share(MIXED, 0.7), None);
    assert_eq!(share(F32, 0.7), None);
}

#[test]
fn another_precision_than_requested_is_reported() {
    let verdict = |verdict| {
        of_one(HIGH, "executed-differs", |record| {
            record.executed.operand_bits = Some(24);
            record.executed.exponent_bits = Some(8);
            record.executed.accumulator = Some("f32".into());
            record.executed.verdict = verdict;
        })
    };
    assert_eq!(
        verdict(ExecutedVerdict::Differs).unwrap(),
        ["32-true · high: requested tf32 → f32, executed f32 → f32"]
    );
    assert_eq!(verdict(ExecutedVerdict::AsRequested), None);
    assert_eq!(verdict(ExecutedVerdict::Unverified), None);
}
