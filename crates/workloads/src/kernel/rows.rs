//! Kernels without products, on rows of values. What bounds them is the memory: each knows how many bytes it cannot help
//! moving.

use std::{cell::RefCell, ops::Range, time::Instant};

use burn::tensor::{Shape, Tensor, TensorData};
use mantissa_core::{Event, Format, Gelu, KernelKind, KernelTask, OptimizerKind, Series};
use mantissa_precision::{
    Compute, GradientSum, Optimizer, OptimizerSettings, ParameterSet, PrecisionBackend, dtype,
};

use super::{
    Inputs, Operation,
    cache::{Copies, Turns},
    error::{Formats, ResultError, compare},
};
use crate::{
    WorkloadError,
    sampling::{sample, warm_up},
    timing::{Timing, windows},
};

/// What layer norms add to the variance, as DistilBERT has it.
const EPSILON: f64 = 1e-12;
/// What RMS norms add to the mean square, as LLaMA has it.
const RMS_EPSILON: f64 = 1e-5;

/// A kernel on rows of values.
pub(super) struct Rows {
    kind: KernelKind,
    form: Gelu,
    /// `[rows, width]`.
    shape: [usize; 2],
    values: Vec<f64>,
    /// What each value of a row is multiplied with, and what is added to it, of norms.
    scale: Vec<f64>,
    shift: Vec<f64>,
    /// Bytes of a value of the input and of the result.
    bytes: [u64; 2],
}

impl Rows {
    pub(super) fn new<B: PrecisionBackend>(
        kind: KernelKind,
        shape: [usize; 2],
        inputs: &mut Inputs<'_, B>,
    ) -> Self {
        let values = inputs.draw(shape[0] * shape[1]);
        let (scale, shift) = match kind {
            KernelKind::LayerNorm => (inputs.draw(shape[1]), inputs.draw(shape[1])),
            KernelKind::RmsNorm => (inputs.draw(shape[1]), vec![]),
            _ => (vec![], vec![]),
        };
        let precision = inputs.setting.precision();
        let of_result = match kind {
            KernelKind::Cast => precision.compute(),
            _ => precision.parameters(),
        };
        Self {
            kind,
            form: inputs.setting.gelu(),
            shape,
            values,
            scale,
            shift,
            bytes: [inputs.stored, of_result].map(|format| u64::from(format.storage_bytes())),
        }
    }

    /// A row of the result in f64: as it should be, and by the formula that was used.
    fn exact(&self, row: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let result: Vec<f64> = match self.kind {
            KernelKind::Gelu => {
                let exact: Vec<f64> = row.iter().map(|x| gelu(*x)).collect();
                let formula = match self.form {
                    Gelu::Exact => exact.clone(),
                    Gelu::Tanh | Gelu::TanhPacked => row.iter().map(|x| gelu_by_tanh(*x)).collect(),
                };
                return (exact, formula);
            }
            KernelKind::Softmax => softmax(row),
            KernelKind::LayerNorm => {
                let count = row.len() as f64;
                let mean = row.iter().sum::<f64>() / count;
                let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
                let inverse = (variance + EPSILON).sqrt().recip();
                let affine = self.scale.iter().zip(&self.shift);
                let normal = row.iter().map(|x| (x - mean) * inverse);
                normal
                    .zip(affine)
                    .map(|(x, (scale, shift))| x * scale + shift)
                    .collect()
            }
            KernelKind::RmsNorm => {
                let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
                let inverse = (square + RMS_EPSILON).sqrt().recip();
                row.iter()
                    .zip(&self.scale)
                    .map(|(x, scale)| x * inverse * scale)
                    .collect()
            }
            KernelKind::Cast => row.to_vec(),
            other => unreachable!("`{other}` has a shape of its own"),
        };
        (result.clone(), result)
    }
}

fn gelu(x: f64) -> f64 {
    x * 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

fn gelu_by_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3));
    // `1 + tanh` would cancel for negative numbers.
    x / (1.0 + (-2.0 * inner).exp())
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = row.iter().map(|x| (x - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / sum).collect()
}

impl<B: PrecisionBackend> Operation<B, 2> for Rows {
    /// Values, and what norms multiply them with and add to them.
    type OnDevice = (Tensor<B, 2>, Tensor<B, 1>, Tensor<B, 1>);

    fn upload(&self, inputs: &Inputs<'_, B>) -> (Self::OnDevice, usize) {
        let row = |values: &[f64]| inputs.upload(values, [values.len()]);
        let values = inputs.upload(&self.values, self.shape);
        let count = self.values.len() + self.scale.len() + self.shift.len();
        ((values, row(&self.scale), row(&self.shift)), count)
    }

    fn launch(&self, (values, scale, shift): &Self::OnDevice, compute: &Compute) -> Tensor<B, 2> {
        let values = values.clone();
        match self.kind {
            KernelKind::Gelu => compute.gelu_as(self.form, values),
            KernelKind::Softmax => compute.softmax(values),
            KernelKind::LayerNorm => compute.layer_norm(values, scale.clone(), shift.clone(), EPSILON),
            KernelKind::RmsNorm => compute.rms_norm(values, scale.clone(), RMS_EPSILON),
            KernelKind::Cast => compute.operand(values),
            other => unreachable!("`{other}` has a shape of its own"),
        }
    }

    fn flops(&self) -> Option<f64> {
        None
    }

    fn traffic(&self) -> Option<u64> {
        let [read, written] = self.bytes;
        let row = (self.scale.len() + self.shift.len()) as u64 * read;
        Some(self.values.len() as u64 * (read + written) + row)
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let width = self.shape[1];
        compare(result, self.shape, formats, |row| {
            self.exact(&self.values[row * width..][..width])
        })
    }
}

/// A step of AdamW over a tensor of parameters: the second one, so that there are running means to read.
pub(super) struct AdamW {
    /// `[rows, width]`.
    shape: [usize; 2],
    parameters: Vec<f64>,
    /// Of the first step and of the second.
    gradients: [Vec<f64>; 2],
    stored: Format,
}

/// Gradients are summed in f32 whatever the parameters are.
const GRADIENTS: Format = Format::F32;

fn settings() -> OptimizerSettings {
    OptimizerSettings::new(OptimizerKind::AdamW, 1e-3)
}

impl AdamW {
    pub(super) fn new<B: PrecisionBackend>(shape: [usize; 2], inputs: &mut Inputs<'_, B>) -> Self {
        let count = shape[0] * shape[1];
        Self {
            shape,
            parameters: inputs.draw(count),
            gradients: [(); 2].map(|()| inputs.draw(count)),
            stored: inputs.stored,
        }
    }
}

/// Parameters and optimizer, which a step changes, and the gradients of that step.
pub(super) struct Training<B: PrecisionBackend> {
    state: RefCell<(ParameterSet<B>, Optimizer<B>)>,
    gradients: GradientSum<B>,
}

impl<B: PrecisionBackend> Operation<B, 1> for AdamW {
    type OnDevice = Training<B>;

    fn upload(&self, inputs: &Inputs<'_, B>) -> (Self::OnDevice, usize) {
        let values: Vec<f32> = self.parameters.iter().map(|x| *x as f32).collect();
        let part = ("parameters".to_owned(), self.shape.to_vec(), values);
        let mut parameters = ParameterSet::new([part], self.stored, inputs.device);
        let gradients = self.gradients.each_ref().map(|values| {
            let data = TensorData::new(values.clone(), [values.len()]);
            let gradient = Tensor::from_data(data, (inputs.device, dtype(GRADIENTS)));
            GradientSum::from_parts(vec![Some(gradient)])
        });
        let mut optimizer = Optimizer::new(settings(), 1);
        let [first, second] = gradients;
        optimizer.step(&mut parameters, first);
        let training = Training {
            state: RefCell::new((parameters, optimizer)),
            gradients: second,
        };
        // Two running means of the parameters' format beside them.
        (training, 4 * self.parameters.len())
    }

    fn launch(&self, training: &Self::OnDevice, _: &Compute) -> Tensor<B, 1> {
        let (parameters, optimizer) = &mut *training.state.borrow_mut();
        optimizer.step(parameters, training.gradients.clone());
        let mut values = parameters.iter().map(|(_, value)| value.clone());
        values.next().expect("there is one parameter")
    }

    fn flops(&self) -> Option<f64> {
        None
    }

    /// Parameters and both means are read and written, gradients read.
    fn traffic(&self) -> Option<u64> {
        let bytes = |format: Format| u64::from(format.storage_bytes());
        Some(self.parameters.len() as u64 * (6 * bytes(self.stored) + bytes(GRADIENTS)))
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let width = self.shape[1];
        let rates = settings();
        compare(result, self.shape, formats, |row| {
            let row = row * width..(row + 1) * width;
            let updated = row.map(|at| {
                let gradients = self.gradients.each_ref().map(|of_step| of_step[at]);
                updated(self.parameters[at], gradients, &rates)
            });
            let updated: Vec<f64> = updated.collect();
            (updated.clone(), updated)
        })
    }
}

/// A parameter after two steps of AdamW (arXiv 1711.05101) in f64.
fn updated(mut parameter: f64, gradients: [f64; 2], rates: &OptimizerSettings) -> f64 {
    let (mut first, mut second) = (0.0, 0.0);
    for (step, gradient) in (1..).zip(gradients) {
        first += (1.0 - rates.beta1) * (gradient - first);
        second += (1.0 - rates.beta2) * (gradient * gradient - second);
        let unbiased = |mean: f64, decay: f64| mean / (1.0 - decay.powi(step));
        let root = unbiased(second, rates.beta2).sqrt() + rates.epsilon;
        parameter -= rates.learning_rate * rates.weight_decay * parameter;
        parameter -= rates.learning_rate * unbiased(first, rates.beta1) / root;
    }
    parameter
}

/// Times of a copy.
pub(super) struct CopyTimes {
    /// Read and written by a launch.
    pub(super) bytes: u64,
    /// `copy_seconds` by launch.
    pub(super) series: Series,
    /// What they were read from.
    pub(super) clock: &'static str,
    /// When each was taken.
    pub(super) windows: Vec<Range<Instant>>,
    /// How warming up and sampling ended.
    pub(super) events: Vec<Event>,
}

/// Times a copy of as many bytes as a kernel moves, half of them read and half written, just as the kernel was: what the memory
/// gives to anyone.
pub(super) fn copy<B: PrecisionBackend>(
    traffic: u64,
    inputs: &Inputs<'_, B>,
    task: &KernelTask,
    timing: &Timing,
    held_back: impl Fn(Instant) -> bool,
) -> Result<CopyTimes, WorkloadError> {
    let device = inputs.device;
    let width = u64::from(inputs.stored.storage_bytes());
    let count = traffic.div_ceil(2 * width);
    // What the numbers are does not matter to a copy, as long as they are not all zeros.
    let new = || {
        let size = Shape::new([count as usize]);
        Tensor::<B, 1>::full(size, 1.5, (device, dtype(inputs.stored)))
    };
    let mut turns = Turns::new(
        new(),
        Copies::of(task.cache, inputs.setting.backend(), count * width),
        new,
    );
    B::sync(device).map_err(|error| WorkloadError::Device(format!("{error:?}")))?;
    let mut next = || {
        let values = turns.next().clone().into_primitive().tensor();
        let (copied, launch) = timing.time::<B, _>(device, || B::copied(values))?;
        drop(copied);
        Ok::<_, WorkloadError>(launch)
    };
    let warm = warm_up(task, || Ok(next()?.seconds()))?;
    let launch = |_| {
        let launch = next()?;
        let held_back = held_back(launch.window.start);
        Ok((launch, held_back))
    };
    let sampled = sample(task, launch)?;
    let read = timing.read(&sampled.launches);
    let times = read.series.into_iter().next();
    let events = warm.into_iter().chain(sampled.events).map(|event| Event {
        detail: format!("the copy beside it: {}", event.detail),
        ..event
    });
    Ok(CopyTimes {
        bytes: 2 * count * width,
        series: Series {
            name: "copy_seconds".into(),
            ..times.expect("the times by the clock that was read")
        },
        clock: read.clock,
        windows: windows(sampled.launches),
        events: events.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_those_of_the_textbook() {
        assert!((gelu(1.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
        assert!((gelu_by_tanh(1.0) - 0.841_191_990_608_276_8).abs() < 1e-15);
        let quarter = softmax(&[3f64.ln(), 0.0]);
        assert!((quarter[0] - 0.75).abs() < 1e-15 && (quarter[1] - 0.25).abs() < 1e-15);
        // The first step of Adam moves by the learning rate, and the second of one gradient again.
        let rates = OptimizerSettings {
            weight_decay: 0.0,
            ..settings()
        };
        assert!((updated(1.0, [0.5, 0.5], &rates) - (1.0 - 2e-3)).abs() < 1e-9);
    }
}
