//! Autocast for ordinary burn modules: records them, and replays them in the formats of a setting.
//!
//! Mantissa's own models use [`Compute`], which casts the inputs of each operation. A burn module calls tensor operations and
//! layers instead. [`Autocast`] records these on burn's capture device and then executes each of them like [`Compute`], with the same
//! results. Gradients flow through the executed operations.

mod float;
mod int_bool;
mod layer_matching;
mod layers;
mod record;
mod rejection;
mod replay;
mod rounding;
#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "tests call the functions that modules call"
)]
mod tests;

use burn::tensor::{Device, Tensor};

pub use record::{Constants, Recorder};

use crate::{Compute, DropoutMasks};

/// Runner for burn modules that executes every operation in the format defined by [autocast](crate::autocast).
///
/// ```
/// use burn::{nn::LinearConfig, tensor::{DType, Device, Tensor}};
/// use mantissa_precision::{Autocast, Compute, Precision};
///
/// let device = Device::flex();
/// let input = Tensor::<2>::ones([1, 2], &device);
/// let autocast = Autocast::new(Compute::from(Precision::MixedBf16));
/// let output = autocast.run(&device, |recorder| {
///     let layer = LinearConfig::new(2, 3).init(recorder.device());
///     layer.forward(recorder.enter(input))
/// });
/// assert_eq!(output.dtype(), DType::BF16);
/// ```
///
/// A run panics on convolutions whose precision would depend on the backend's kernel: transposed, deformable, dilated and three-dimensional
/// convolutions, and strides that differ between rows and columns. Quantization, Fourier transforms, CTC losses, collective operations and
/// operations of backend extensions panic as well.
///
/// Layers that a module composes of operations (burn's SiLU, its RMS norm, its recurrent layers) are rounded after each operation, as in
/// PyTorch. A tensor multiplied with itself counts as a power, which autocast computes in the format of the parameters.
///
/// A recording contains shapes but not values. A module panics, with burn's message, if it reads a tensor that it has computed, trains
/// a batch norm with running statistics, computes gradients, or calls `to_device` on a tensor in training. `detach()` is not recorded:
/// gradients pass through it.
///
/// In the recorded module, float tensors have dtype f64, regardless of their format in the replay. If a module casts one operand of an
/// operation to an explicit format, it has to cast the other operand as well. `x.cast(y.dtype())` has no effect if the module has cast neither
/// `x` nor `y`. Casts to f64 are not recorded.
///
/// Each run records the module again, which takes time on the host but not on the device.
#[derive(Debug, Clone, Copy)]
pub struct Autocast<'a> {
    compute: Compute,
    trains: bool,
    masks: Option<&'a DropoutMasks>,
}

impl<'a> Autocast<'a> {
    /// Creates a runner with the operations of `compute`. The module is not in training mode.
    pub fn new(compute: Compute) -> Self {
        Self {
            compute,
            trains: false,
            masks: None,
        }
    }

    /// Sets the training mode, which affects layers like dropout.
    #[must_use]
    pub fn training(self, trains: bool) -> Self {
        Self { trains, ..self }
    }

    /// Sets the masks of dropout layers. Without them, masks are drawn from the random generator of the device.
    #[must_use]
    pub fn with_dropout_masks(self, masks: &'a DropoutMasks) -> Self {
        Self {
            masks: Some(masks),
            ..self
        }
    }

    /// Records `work` and computes its output on `device`. Existing tensors, such as parameters, enter through the
    /// [`Recorder`]. The output tracks gradients if these tensors do.
    ///
    /// # Panics
    /// If `work` uses an operation that cannot be recorded or is rejected.
    pub fn run<const D: usize>(
        &self,
        device: &Device,
        work: impl FnOnce(&Recorder) -> Tensor<D>,
    ) -> Tensor<D> {
        let recording = record::record(self.trains, work);
        Tensor::from_dispatch(replay::replay(recording, (self.compute, self.masks), device))
    }
}
