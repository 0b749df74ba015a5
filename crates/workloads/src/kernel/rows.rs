//! Memory-bound kernels on rows of values: GELU, softmax, norms, casts and an AdamW step.

use std::cell::RefCell;

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::{Format, Gelu, KernelKind, OptimizerKind};
use mantissa_precision::{Compute, GradientSum, Optimizer, OptimizerSettings, ParameterSet, dtype};

use super::{
    error::{Formats, ResultError, compare},
    operation::{Inputs, OnBurn, Operation, upload},
};

/// Epsilon added to the variance by layer norms, as in DistilBERT.
const EPSILON: f64 = 1e-12;
/// Epsilon added to the mean square by RMS norms, as in LLaMA.
const RMS_EPSILON: f64 = 1e-5;

/// Kernel on rows of values.
pub(super) struct Rows {
    kind: KernelKind,
    gelu: Gelu,
    /// `[rows, width]`.
    shape: [usize; 2],
    values: Vec<f64>,
    /// Scale and shift of norms for each column, empty if the kernel does not use them.
    scale: Vec<f64>,
    shift: Vec<f64>,
    /// Bytes of a value of the input and of the result.
    bytes: [u64; 2],
}

impl Rows {
    pub(super) fn new(kind: KernelKind, shape: [usize; 2], inputs: &mut Inputs<'_>) -> Self {
        let values = inputs.draw(shape[0] * shape[1]);
        let (scale, shift) = match kind {
            KernelKind::LayerNorm => (inputs.draw(shape[1]), inputs.draw(shape[1])),
            KernelKind::RmsNorm => (inputs.draw(shape[1]), vec![]),
            _ => (vec![], vec![]),
        };
        let precision = inputs.setting.precision();
        let result_format = match kind {
            KernelKind::Cast => precision.compute(),
            _ => precision.parameters(),
        };
        Self {
            kind,
            gelu: inputs.setting.gelu(),
            shape,
            values,
            scale,
            shift,
            bytes: [inputs.stored, result_format].map(|format| u64::from(format.storage_bytes())),
        }
    }

    /// Returns a row of the result twice, both in f64: by the exact function, and by the formula of the kernel (they differ for the tanh
    /// approximation of GELU).
    fn exact(&self, row: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let result: Vec<f64> = match self.kind {
            KernelKind::Gelu => {
                let exact: Vec<f64> = row.iter().map(|x| gelu(*x)).collect();
                let formula = match self.gelu {
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
            other => unreachable!("`{other}` does not operate on rows"),
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

impl OnBurn<2> for Rows {
    /// Values, scale and shift.
    type OnHost = [TensorData; 3];
    /// Values, scale and shift.
    type OnDevice = (Tensor<2>, Tensor<1>, Tensor<1>);

    fn convert(&self, inputs: &Inputs<'_>) -> Self::OnHost {
        let row = |values: &[f64]| inputs.convert(values, [values.len()]);
        let values = inputs.convert(&self.values, self.shape);
        [values, row(&self.scale), row(&self.shift)]
    }

    fn upload(&self, [values, scale, shift]: &Self::OnHost, device: &Device) -> Self::OnDevice {
        (
            upload(values, device),
            upload(scale, device),
            upload(shift, device),
        )
    }

    fn launch(&self, (values, scale, shift): &Self::OnDevice, compute: &Compute) -> Tensor<2> {
        let values = values.clone();
        match self.kind {
            KernelKind::Gelu => compute.gelu_as(self.gelu, values),
            KernelKind::Softmax => compute.softmax(values),
            KernelKind::LayerNorm => compute.layer_norm(values, scale.clone(), shift.clone(), EPSILON),
            KernelKind::RmsNorm => compute.rms_norm(values, scale.clone(), RMS_EPSILON),
            KernelKind::Cast => compute.operand(values),
            other => unreachable!("`{other}` does not operate on rows"),
        }
    }
}

impl Operation for Rows {
    /// Omits an empty scale or shift: only norms have a scale, and RMS norms do not have a shift.
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>, &[f64])> {
        let mut inputs = vec![("values", self.shape.to_vec(), self.values.as_slice())];
        let by_column = [("scale", &self.scale), ("shift", &self.shift)];
        let used = by_column.into_iter().filter(|(_, values)| !values.is_empty());
        inputs.extend(used.map(|(name, values)| (name, vec![values.len()], values.as_slice())));
        inputs
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

/// AdamW step on one parameter tensor. The timed step is at least the second one, so it reads existing moments.
pub(super) struct AdamW {
    /// `[rows, width]`.
    shape: [usize; 2],
    parameters: Vec<f64>,
    /// Gradients of the first and of the second step.
    gradients: [Vec<f64>; 2],
    stored: Format,
}

/// Format of the gradients: f32 for every format of the parameters.
const GRADIENTS: Format = Format::F32;

fn adamw_settings() -> OptimizerSettings {
    OptimizerSettings::new(OptimizerKind::AdamW, 1e-3)
}

impl AdamW {
    pub(super) fn new(shape: [usize; 2], inputs: &mut Inputs<'_>) -> Self {
        let count = shape[0] * shape[1];
        Self {
            shape,
            parameters: inputs.draw(count),
            gradients: [(); 2].map(|()| inputs.draw(count)),
            stored: inputs.stored,
        }
    }
}

/// Parameters, optimizer and the gradients of the next step.
pub(super) struct Training {
    state: RefCell<(ParameterSet, Optimizer)>,
    gradients: GradientSum,
}

impl OnBurn<1> for AdamW {
    /// Parameters, which `ParameterSet` converts to their format, and gradients.
    type OnHost = (Vec<f32>, [TensorData; 2]);
    type OnDevice = Training;

    fn convert(&self, _: &Inputs<'_>) -> Self::OnHost {
        let gradients = self
            .gradients
            .each_ref()
            .map(|values| TensorData::new(values.clone(), [values.len()]).convert_dtype(dtype(GRADIENTS)));
        (self.parameters.iter().map(|x| *x as f32).collect(), gradients)
    }

    fn upload(&self, (values, gradients): &Self::OnHost, device: &Device) -> Self::OnDevice {
        let part = ("parameters".to_owned(), self.shape.to_vec(), values.clone());
        let mut parameters = ParameterSet::new([part], self.stored, device);
        let gradients = gradients
            .each_ref()
            .map(|values| GradientSum::from_parts(vec![Some(upload(values, device))]));
        let mut optimizer = Optimizer::new(adamw_settings(), 1);
        let [first, second] = gradients;
        optimizer.step(&mut parameters, first);
        Training {
            state: RefCell::new((parameters, optimizer)),
            gradients: second,
        }
    }

    fn launch(&self, training: &Self::OnDevice, _: &Compute) -> Tensor<1> {
        let (parameters, optimizer) = &mut *training.state.borrow_mut();
        optimizer.step(parameters, training.gradients.clone());
        let mut values = parameters.iter().map(|(_, value)| value.clone());
        values.next().expect("the set has one parameter")
    }
}

impl Operation for AdamW {
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>, &[f64])> {
        let [first, second] = &self.gradients;
        let named = [
            ("parameters", &self.parameters),
            ("first", first),
            ("second", second),
        ];
        named
            .map(|(name, values)| (name, vec![values.len()], values.as_slice()))
            .into()
    }

    /// Counts the parameters, one gradient and two moments.
    fn values(&self) -> usize {
        4 * self.parameters.len()
    }

    /// Parameters and both moments are read and written, gradients are only read.
    fn traffic(&self) -> Option<u64> {
        let bytes = |format: Format| u64::from(format.storage_bytes());
        Some(self.parameters.len() as u64 * (6 * bytes(self.stored) + bytes(GRADIENTS)))
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let width = self.shape[1];
        let settings = adamw_settings();
        compare(result, self.shape, formats, |row| {
            let row = row * width..(row + 1) * width;
            let updated = row.map(|at| {
                let gradients = self.gradients.each_ref().map(|gradients| gradients[at]);
                two_adamw_steps(self.parameters[at], gradients, &settings)
            });
            let updated: Vec<f64> = updated.collect();
            (updated.clone(), updated)
        })
    }
}

/// Returns a parameter after two steps of AdamW (arXiv 1711.05101) in f64.
fn two_adamw_steps(mut parameter: f64, gradients: [f64; 2], settings: &OptimizerSettings) -> f64 {
    let (mut first, mut second) = (0.0, 0.0);
    for (step, gradient) in (1..).zip(gradients) {
        first += (1.0 - settings.beta1) * (gradient - first);
        second += (1.0 - settings.beta2) * (gradient * gradient - second);
        let unbiased = |mean: f64, decay: f64| mean / (1.0 - decay.powi(step));
        let root = unbiased(second, settings.beta2).sqrt() + settings.epsilon;
        parameter -= settings.learning_rate * settings.weight_decay * parameter;
        parameter -= settings.learning_rate * unbiased(first, settings.beta1) / root;
    }
    parameter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_match_textbook_values() {
        assert!((gelu(1.0) - 0.841_344_746_068_542_9).abs() < 1e-15);
        assert!((gelu_by_tanh(1.0) - 0.841_191_990_608_276_8).abs() < 1e-15);
        let quarter = softmax(&[3f64.ln(), 0.0]);
        assert!((quarter[0] - 0.75).abs() < 1e-15 && (quarter[1] - 0.25).abs() < 1e-15);
        // The first step of Adam changes a parameter by the learning rate, and so does a second step with the same gradient.
        let settings = OptimizerSettings {
            weight_decay: 0.0,
            ..adamw_settings()
        };
        assert!((two_adamw_steps(1.0, [0.5, 0.5], &settings) - (1.0 - 2e-3)).abs() < 1e-9);
    }
}
