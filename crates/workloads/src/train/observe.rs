//! Observes the value ranges of an optimizer step. The step is computed in the setting's formats and again in a wider reference format, from the
//! same parameters, optimizer state, micro-batches and loss scale, without dropout. Each tensor is compared with the same tensor in the
//! reference format. The observation does not change the training.

use std::collections::BTreeSet;

use burn::tensor::{DType, Device, Tensor};
use mantissa_analysis::range_counts;
use mantissa_core::{
    Accumulator, Event, EventKind, Format, MatmulPrecision, Precision, TensorClass, TensorRange,
};
use mantissa_precision::{Compute, GradientSum, LossScaler, ParameterSet, device};

use super::{forward::upload, trainer::Trainer};
use crate::{
    WorkloadError,
    data::Labelled,
    models::{Batch, LayerOutputs, Network, Stage},
    outcome::read,
};

/// Compares every tensor of the next step over these micro-batches.
pub(super) fn observe<M: Network>(
    trainer: &Trainer<'_, M>,
    step: u64,
    micro_batches: &[Batch<M>],
) -> Result<Vec<TensorRange>, WorkloadError> {
    let reference_precision = reference_precision(trainer.device);
    let reference_format = reference_precision.parameters();
    let actual = PrecisionSide::new(trainer, trainer.compute, trainer.parameters.clone());
    let reference = PrecisionSide::new(
        trainer,
        Compute::new(reference_precision, MatmulPrecision::Highest, Accumulator::F32),
        trainer.parameters.in_format(reference_format),
    );
    let mut comparisons = Comparisons {
        step,
        reference_format,
        ranges: vec![],
    };

    let examples: usize = micro_batches.iter().map(|batch| batch.labels().len()).sum();
    let scale = trainer.scaler.as_ref().map_or(1.0, LossScaler::scale);
    let factor = scale / examples as f64;
    let mut sums = [(); 2].map(|()| GradientSum::new(trainer.parameters.len()));
    for (number, batch) in micro_batches.iter().enumerate() {
        // Record only the first micro-batch. The others are similar, their gradients are accumulated in f32, and they would enlarge the records.
        let mut first = (number == 0).then_some(&mut comparisons);
        let hidden = forward([&actual, &reference], batch, first.as_deref_mut())?;
        backward([&actual, &reference], batch, hidden, factor, &mut sums, first)?;
        if number == 0 {
            let pairs = sums[0].iter().zip(sums[1].iter());
            for ((name, leaf), pair) in actual.working.iter().zip(pairs) {
                if let (Some(value), Some(reference)) = pair {
                    let format = format_of(leaf.dtype());
                    comparisons.compare(
                        TensorClass::Gradient,
                        name,
                        format,
                        read_values(value)?,
                        read_values(reference)?,
                    );
                }
            }
        }
    }
    let [mut gradients, _] = sums;
    if trainer.scaler.is_some() {
        if !gradients.all_finite().map_err(WorkloadError::device)? {
            // With these gradients, the optimizer skips the step.
            return Ok(comparisons.ranges);
        }
        gradients.unscale(scale);
    }
    compare_updates(
        trainer,
        actual.parameters,
        gradients,
        reference.parameters,
        &mut comparisons,
    )?;
    Ok(comparisons.ranges)
}

/// Returns the event that reports the observed steps; `None` if no step was observed.
pub(super) fn observation_event(ranges: &[TensorRange]) -> Option<Event> {
    let first = ranges.first()?;
    let steps: BTreeSet<u64> = ranges.iter().map(|range| range.step).collect();
    Some(Event {
        kind: EventKind::Observed,
        step: None,
        value: Some(steps.len() as f64),
        detail: format!(
            "{} optimizer steps were also computed in {} to compare values; peak memory and energy include these steps",
            steps.len(),
            first.reference
        ),
    })
}

/// Returns the widest precision of the device: f64, or f32 without f64 support. Rounding errors of f32 weights are visible only with f64.
fn reference_precision(device: &Device) -> Precision {
    if device::supports(Format::F64, device) {
        Precision::True64
    } else {
        Precision::True32
    }
}

/// Compares the weight updates and the optimizer states. Both steps use the setting's gradients, since gradient errors are recorded
/// separately.
fn compare_updates<M: Network>(
    trainer: &Trainer<'_, M>,
    mut parameters: ParameterSet,
    gradients: GradientSum,
    mut reference_parameters: ParameterSet,
    comparisons: &mut Comparisons,
) -> Result<(), WorkloadError> {
    let mut optimizer = trainer.optimizer.clone();
    let mut reference_optimizer = trainer.optimizer.in_format(comparisons.reference_format);
    let before = parameters.clone();
    reference_optimizer.step(
        &mut reference_parameters,
        gradients.in_format(comparisons.reference_format),
    );
    optimizer.step(&mut parameters, gradients);
    let format = trainer.compute.precision().parameters();
    let after = parameters.iter().zip(reference_parameters.iter());
    for ((name, before), ((_, after), (_, reference))) in before.iter().zip(after) {
        let (before, after, reference) = (read_values(before)?, read_values(after)?, read_values(reference)?);
        let update = |after: &[f64]| after.iter().zip(&before).map(|(b, a)| b - a).collect();
        // Round the reference to the setting's format. If the setting's value is not finite, use that value instead.
        let rounded = |(after, reference): (&f64, &f64)| match after.is_finite() {
            true => format.round(*reference).value,
            false => *after,
        };
        let rounded: Vec<f64> = after.iter().zip(&reference).map(rounded).collect();
        let (update, reference_update) = (update(&rounded), update(&reference));
        comparisons.compare(TensorClass::WeightUpdate, name, format, update, reference_update);
    }
    let states = optimizer.state().zip(reference_optimizer.state());
    for ((index, kind, value), (_, _, reference)) in states {
        let name = parameters.iter().nth(index).map_or("", |(name, _)| name);
        let name = format!("{name} ({kind})");
        comparisons.compare(
            TensorClass::OptimizerState,
            &name,
            format,
            read_values(value)?,
            read_values(reference)?,
        );
    }
    Ok(())
}

/// Model and parameters in one precision: the setting's or the reference's.
struct PrecisionSide<'b, 'a, M: Network> {
    trainer: &'b Trainer<'a, M>,
    compute: Compute,
    parameters: ParameterSet,
    working: ParameterSet,
}

impl<'b, 'a, M: Network> PrecisionSide<'b, 'a, M> {
    fn new(trainer: &'b Trainer<'a, M>, compute: Compute, parameters: ParameterSet) -> Self {
        Self {
            working: parameters.working(&compute, |name| trainer.model.multiplies(name)),
            trainer,
            compute,
            parameters,
        }
    }
}

/// Returns the hidden states after each segment, in both precisions. Compares the outputs of layers segment by segment.
fn forward<M: Network>(
    sides: [&PrecisionSide<'_, '_, M>; 2],
    batch: &Batch<M>,
    mut comparisons: Option<&mut Comparisons>,
) -> Result<[Vec<Tensor<2>>; 2], WorkloadError> {
    let mut hidden = [vec![], vec![]];
    for segment in 0..=sides[0].trainer.model.segments() {
        let outputs: [LayerOutputs; 2] = Default::default();
        for ((side, hidden), outputs) in sides.iter().zip(&mut hidden).zip(&outputs) {
            let (input, _) = upload::<M>(batch, side.trainer.device);
            let (model, parameters) = (&side.trainer.model, side.working.freeze());
            let pass = model
                .pass(&parameters, &side.compute, Stage::Observing)
                .with_recorded_outputs(outputs);
            let before: Option<Tensor<2>> = hidden.last().cloned();
            match before {
                Some(before) if segment == model.segments() => drop(model.head(&pass, before, &input)),
                before => hidden.push(model.segment(&pass, segment, &input, before)),
            }
        }
        if let Some(comparisons) = comparisons.as_deref_mut() {
            let [actual, reference] = outputs.map(LayerOutputs::into_inner);
            for ((name, actual), (_, reference)) in actual.iter().zip(&reference) {
                let format = format_of(actual.dtype());
                comparisons.compare(
                    TensorClass::Activation,
                    name,
                    format,
                    read_values(actual)?,
                    read_values(reference)?,
                );
            }
        }
    }
    Ok(hidden)
}

/// Adds the gradients of `factor` times the summed loss to `sums`, in both precisions. Compares the gradients of hidden states.
fn backward<M: Network>(
    sides: [&PrecisionSide<'_, '_, M>; 2],
    batch: &Batch<M>,
    hidden: [Vec<Tensor<2>>; 2],
    factor: f64,
    sums: &mut [GradientSum; 2],
    comparisons: Option<&mut Comparisons>,
) -> Result<(), WorkloadError> {
    let mut gradients = vec![];
    for ((side, mut hidden), sum) in sides.into_iter().zip(hidden).zip(sums) {
        let (input, labels) = upload::<M>(batch, side.trainer.device);
        let mut output_gradient: Option<Tensor<2>> = None;
        let mut hidden_gradients = vec![];
        for segment in (0..=side.trainer.model.segments()).rev() {
            let tracked = side.working.track();
            let pass = side.trainer.model.pass(&tracked, &side.compute, Stage::Observing);
            let before = (segment > 0).then(|| hidden.pop().expect("each segment has hidden states"));
            let before = before.map(|hidden| Tensor::from_inner(hidden).require_grad());
            let loss = match (&output_gradient, &before) {
                (None, Some(before)) => {
                    let logits = side.trainer.model.head(&pass, before.clone(), &input);
                    side.trainer
                        .summed_loss(&side.compute, logits, labels.clone())
                        .mul_scalar(factor)
                }
                (Some(output_gradient), _) => {
                    let after = side.trainer.model.segment(&pass, segment, &input, before.clone());
                    (after * output_gradient.clone()).sum()
                }
                (None, None) => unreachable!("the head is first and has hidden states as input"),
            };
            let mut grads = loss.backward();
            sum.collect(&mut grads, &tracked);
            if let Some(gradient) = before.and_then(|before| before.grad_remove(&mut grads)) {
                hidden_gradients.push((segment, gradient.clone()));
                output_gradient = Some(gradient);
            }
        }
        gradients.push(hidden_gradients);
    }
    let (Some(comparisons), [actual, reference]) = (comparisons, gradients.as_slice()) else {
        return Ok(());
    };
    for ((segment, actual), (_, reference)) in actual.iter().zip(reference) {
        let name = format!("hidden states before part {segment}");
        let format = format_of(actual.dtype());
        comparisons.compare(
            TensorClass::Gradient,
            &name,
            format,
            read_values(actual)?,
            read_values(reference)?,
        );
    }
    Ok(())
}

/// Comparisons of the tensors of one step.
struct Comparisons {
    step: u64,
    reference_format: Format,
    ranges: Vec<TensorRange>,
}

impl Comparisons {
    fn compare(
        &mut self,
        class: TensorClass,
        layer: &str,
        format: Format,
        actual: Vec<f64>,
        reference: Vec<f64>,
    ) {
        // A weight update underflows if it does not change the weight, however large the update is. Other values underflow if they are below the
        // smallest normal number of the format.
        let underflow_limit = match class {
            TensorClass::WeightUpdate => f64::INFINITY,
            _ => format.min_normal(),
        };
        self.ranges.push(TensorRange {
            step: self.step,
            layer: layer.to_owned(),
            class,
            format,
            reference: self.reference_format,
            counts: range_counts(&actual, &reference, format, underflow_limit),
        });
    }
}

fn read_values<const D: usize>(tensor: &Tensor<D>) -> Result<Vec<f64>, WorkloadError> {
    read(tensor.clone())
}

fn format_of(dtype: DType) -> Format {
    match dtype {
        DType::F64 => Format::F64,
        DType::F16 => Format::F16,
        DType::BF16 => Format::Bf16,
        _ => Format::F32,
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Axis, RangeCounts};

    use super::*;
    use crate::train::testing::{cell, data, train, trainer, training_results};

    /// Returns the counts of a tensor class, summed over a training. Every step is observed, unless `change` sets another interval.
    fn counts(
        axes: &[(Axis, &str)],
        class: TensorClass,
        change: impl Fn(&mut mantissa_core::TrainTask),
    ) -> RangeCounts {
        let (data, _cache) = data(16, 0, 4);
        let (cell, mut task) = cell(axes, false);
        task.observe_every = 1;
        change(&mut task);
        let mut trainer = trainer(&cell, &task, &data);
        train(&mut trainer, &data);
        let ranges = trainer.log.samples.ranges.iter();
        let mut total = RangeCounts::default();
        for range in ranges.filter(|range| range.class == class) {
            total.elements += range.counts.elements;
            total.overflow += range.counts.overflow;
            total.underflow += range.counts.underflow;
            total.subnormal += range.counts.subnormal;
            total.exponents.extend(&range.counts.exponents);
        }
        total
    }

    #[test]
    fn observation_does_not_change_the_training() {
        let (data, _cache) = data(22, 5, 3);
        for axes in [
            &[(Axis::Accumulate, "2")][..],
            &[(Axis::Precision, "16-mixed")],
            &[(Axis::Precision, "bf16-true"), (Axis::Checkpointing, "on")],
        ] {
            let (cell, plain) = cell(axes, false);
            let observed = mantissa_core::TrainTask {
                observe_every: 2,
                ..plain.clone()
            };
            let run = |task| {
                let mut trainer = trainer(&cell, task, &data);
                train(&mut trainer, &data);
                trainer
            };
            let observed = run(&observed);
            assert!(!observed.log.samples.ranges.is_empty());
            assert!(
                training_results(observed) == training_results(run(&plain)),
                "{axes:?}"
            );
        }
    }

    #[test]
    fn layers_and_parameters_are_compared_in_their_format() {
        let (data, _cache) = data(16, 0, 4);
        let (cell, mut task) = cell(&[(Axis::Precision, "bf16-mixed")], false);
        task.observe_every = 3;
        let mut trainer = trainer(&cell, &task, &data);
        train(&mut trainer, &data);
        let ranges = &trainer.log.samples.ranges;
        let steps: BTreeSet<u64> = ranges.iter().map(|range| range.step).collect();
        assert_eq!(steps.into_iter().collect::<Vec<_>>(), [1, 4, 7]);
        let range_of = |class, layer: &str| {
            let mut found = ranges
                .iter()
                .filter(|range| range.class == class && range.layer == layer);
            let first = found
                .next()
                .unwrap_or_else(|| panic!("no {class} range of {layer}"));
            assert_eq!(found.count(), 2, "one range per observed step");
            (first.format, first.counts.elements)
        };
        let block = "distilbert.transformer.layer.1";
        // Four examples of 16 tokens. The width is 16, and 32 in the feed-forward layer.
        assert_eq!(
            range_of(TensorClass::Activation, &format!("{block}.ffn.lin1")),
            (Format::Bf16, 2048)
        );
        assert_eq!(
            range_of(TensorClass::Activation, &format!("{block}.sa_layer_norm")),
            (Format::F32, 1024)
        );
        assert_eq!(
            range_of(TensorClass::Activation, &format!("{block}.attention")),
            (Format::Bf16, 1024)
        );
        assert_eq!(
            range_of(TensorClass::Gradient, "classifier.weight"),
            (Format::Bf16, 32)
        );
        assert_eq!(
            range_of(TensorClass::Gradient, "hidden states before part 2"),
            (Format::F32, 1024)
        );
        assert_eq!(
            range_of(TensorClass::WeightUpdate, "classifier.weight"),
            (Format::F32, 32)
        );
        assert_eq!(
            range_of(TensorClass::OptimizerState, "classifier.weight (second moment)"),
            (Format::F32, 32)
        );
        let gradients = ranges.iter().filter(|range| range.class == TensorClass::Gradient);
        let parameters = trainer.parameters.len();
        assert_eq!(
            gradients.count(),
            3 * (parameters + 3),
            "one range per parameter and three hidden states, at three steps"
        );
    }

    #[test]
    fn gradient_range_counts_depend_on_the_loss_scale() {
        let axes = [(Axis::Precision, "16-mixed")];
        let gradients = |scale: f64| {
            counts(&axes, TensorClass::Gradient, |task| {
                task.updates.loss_scale = Some(scale)
            })
        };
        let (none, usual, huge) = (gradients(1.0), gradients(4096.0), gradients(1e9));
        assert!(none.underflow > 2 * usual.underflow, "{none:?} {usual:?}");
        assert!(none.subnormal > 2 * usual.subnormal, "{none:?} {usual:?}");
        assert_eq!((none.overflow, usual.overflow), (0, 0));
        assert!(huge.overflow > 0);
        let updates = counts(&axes, TensorClass::WeightUpdate, |task| {
            task.updates.loss_scale = Some(1e9)
        });
        assert_eq!(updates.elements, 0, "steps with overflowed gradients are skipped");
    }

    #[test]
    fn small_updates_are_lost_in_bf16_but_not_in_f32() {
        let lost = |precision: &str, rate: f64| {
            let axes = [(Axis::Precision, precision), (Axis::AdamEps, "1e-4")];
            let updates = counts(&axes, TensorClass::WeightUpdate, |task| {
                task.learning_rate = rate;
                task.weight_decay = 0.0;
            });
            // Divide by the updates that are not zero in the reference: embeddings of absent tokens do not change.
            updates.underflow as f64 / updates.exponents.iter().sum::<u64>() as f64
        };
        assert!(lost("bf16-true", 1e-5) > 0.5, "{}", lost("bf16-true", 1e-5));
        assert!(lost("bf16-true", 1e-2) < lost("bf16-true", 1e-5));
        assert!(lost("32-true", 1e-5) < 0.05, "{}", lost("32-true", 1e-5));
    }

    #[test]
    fn the_second_moment_of_adam_underflows_in_f16() {
        let underflow_share = |precision| {
            // Observe only the first step, after which the parameters are NaN.
            let first = |task: &mut mantissa_core::TrainTask| task.observe_every = u32::MAX;
            let state = counts(
                &[(Axis::Precision, precision)],
                TensorClass::OptimizerState,
                first,
            );
            state.underflow as f64 / state.exponents.iter().sum::<u64>() as f64
        };
        let (f16, bf16) = (underflow_share("16-true"), underflow_share("bf16-true"));
        assert!(f16 > 0.5 && bf16 < f16 / 4.0, "f16: {f16}, bf16: {bf16}");
    }
}
