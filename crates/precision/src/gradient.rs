//! Sum of gradients over the micro-batches of one optimizer step.

use burn::tensor::{Gradients, Tensor};
use mantissa_core::Format;

use crate::{
    Tracked,
    dtypes::dtype,
    tensor_ops::{ordered_sum, round, wide},
};

/// Sum of gradients, one vector per parameter.
///
/// Gradients in 16-bit formats are summed in f32 (f64 stays f64). burn's accumulator sums in the format of the gradients and thereby loses
/// small contributions of micro-batches.
///
/// ```
/// use mantissa_precision::{GradientSum, ParameterSet, Precision};
///
/// let bias = ("bias".to_owned(), vec![2], vec![1.0, 2.0]);
/// let format = Precision::True32.parameters();
/// let parameters = ParameterSet::new([bias], format, &burn::tensor::Device::flex());
/// let mut gradients = GradientSum::new(parameters.len());
/// for micro_batch in [0.25, 0.75] {
///     let leaves = parameters.track();
///     gradients.add(leaves.vector("bias").mul_scalar(micro_batch).sum(), &leaves);
/// }
/// let sum = gradients.into_parts().remove(0).expect("a gradient");
/// assert_eq!(sum.to_data().to_vec::<f32>().unwrap(), [1.0, 1.0]);
/// ```
#[derive(Debug, Clone)]
pub struct GradientSum {
    sums: Vec<Option<Tensor<1>>>,
}

impl GradientSum {
    /// Creates an empty sum over `parameters` tensors.
    pub fn new(parameters: usize) -> Self {
        Self {
            sums: vec![None; parameters],
        }
    }

    /// Creates a sum from its parts, in the order of the parameters.
    pub fn from_parts(parts: Vec<Option<Tensor<1>>>) -> Self {
        Self { sums: parts }
    }

    /// Runs the backward pass of `loss` and adds the gradients of the parameters from which the loss was computed.
    pub fn add(&mut self, loss: Tensor<1>, parameters: &Tracked) {
        self.collect(&mut loss.backward(), parameters);
    }

    /// Adds the gradients of the parameters that a backward pass has reached.
    pub fn collect(&mut self, grads: &mut Gradients, parameters: &Tracked) {
        for (sum, parameter) in self.sums.iter_mut().zip(parameters.values()) {
            let Some(grad) = parameter.grad_remove(grads) else {
                continue;
            };
            let grad = wide(grad);
            *sum = Some(match sum.take() {
                Some(sum) => sum + grad,
                None => grad,
            });
        }
    }

    /// Returns the same sum in another format, at least f32.
    pub fn in_format(&self, format: Format) -> Self {
        let cast = |sum: &Tensor<1>| round(sum.clone(), dtype(format));
        Self {
            sums: self.sums.iter().map(|sum| sum.as_ref().map(cast)).collect(),
        }
    }

    /// Divides by the loss scale.
    pub fn unscale(&mut self, scale: f64) {
        for sum in self.sums.iter_mut().flatten() {
            *sum = sum.clone().mul_scalar(1.0 / scale);
        }
    }

    /// Scales the sums down to a joint norm of at most `max_norm`, like PyTorch's `clip_grad_norm_`: by the factor
    /// `max_norm / (norm + 10⁻⁶)`. Call [`unscale`](Self::unscale) first. Does not read from the device.
    ///
    /// Returns the norm before clipping as a vector of one element, or `None` without gradients.
    pub fn clip(&mut self, max_norm: f64) -> Option<Tensor<1>> {
        let squares = self
            .sums
            .iter()
            .flatten()
            .map(|sum| ordered_sum(sum.clone() * sum.clone()));
        let norm = squares.reduce(|a, b| a + b)?.sqrt();
        let factor = norm
            .clone()
            .add_scalar(1e-6)
            .recip()
            .mul_scalar(max_norm)
            .clamp_max(1.0);
        for sum in self.sums.iter_mut().flatten() {
            *sum = sum.clone() * factor.clone();
        }
        Some(norm)
    }

    /// Returns true if all elements are finite. Reads from the device once.
    ///
    /// # Errors
    /// Any error that the device reports.
    pub fn all_finite(&self) -> Result<bool, String> {
        all_finite(self.sums.iter().flatten())
    }

    /// Iterates over the sums, in the order of the parameters; `None` for parameters without a gradient.
    pub fn iter(&self) -> impl Iterator<Item = Option<&Tensor<1>>> {
        self.sums.iter().map(Option::as_ref)
    }

    /// Returns the sums, in the order of the parameters; `None` for parameters without a gradient.
    pub fn into_parts(self) -> Vec<Option<Tensor<1>>> {
        self.sums
    }
}

/// Returns true if all elements are finite. Computes a sum of zero times each element, which is NaN if an element is not finite.
pub(crate) fn all_finite<'a>(vectors: impl Iterator<Item = &'a Tensor<1>>) -> Result<bool, String> {
    let zeros = vectors.map(|vector| vector.clone().mul_scalar(0.0).sum());
    let Some(total) = zeros.reduce(|a, b| a + b) else {
        return Ok(true);
    };
    let data = total.try_into_data().map_err(|error| format!("{error:?}"))?;
    Ok(data.iter::<f64>().all(f64::is_finite))
}
