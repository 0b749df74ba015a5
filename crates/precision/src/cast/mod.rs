//! Autocast for ordinary burn modules: they are recorded, and replayed in the formats of a setting.
//!
//! A model here is written with [`Compute`], which takes each operation to its format. A burn module calls tensor operations and
//! layers instead. [`Autocast`] records these on burn's capture device and executes each as [`Compute`] does, so that both compute
//! the same: forward on the tensors that the module reads, and backward through the operations that were executed.

mod float;
mod layers;
mod plain;
mod record;
mod replay;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what modules call")]
mod tests;
mod whole;

use burn::tensor::{Device, Tensor};

pub use record::{Constants, Recorder};

use crate::Compute;

/// Runs burn modules with every operation in the format that [autocast](crate::autocast) gives it.
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
/// Products are controlled, or they are refused: transposed, deformed, dilated and three-dimensional convolutions panic, as do
/// strides that differ between rows and columns, since their precision would be whatever the backend's kernel makes of it. So do
/// operations of backend extensions.
///
/// Layers that a module composes of operations (burn's SiLU, its RMS norm, its recurrent layers) are rounded operation by operation, as
/// their steps would be in PyTorch. A tensor times itself is a power.
///
/// A recording contains shapes and no values. A module panics, with burn's message, if it reads a tensor that it has computed, trains a
/// batch norm with running statistics, computes gradients, or calls `to_device` on a tensor while it is trained. `detach()` is not
/// recorded: gradients pass.
///
/// To the module, floats are f64 whatever they are in the replay. A module that names a format for one operand of an operation has
/// to name it for the other, and `x.cast(y.dtype())` does nothing where the module itself has cast neither. Its own casts to f64 are
/// not recorded.
///
/// Recording takes time on the host at every run, and none on the device.
#[derive(Debug, Clone, Copy)]
pub struct Autocast {
    compute: Compute,
    trains: bool,
}

impl Autocast {
    /// Operations are those of `compute`. The module is not trained.
    pub fn new(compute: Compute) -> Self {
        Self {
            compute,
            trains: false,
        }
    }

    /// The same where layers that do something else in training (dropout) do it if the module `trains`.
    #[must_use]
    pub fn training(self, trains: bool) -> Self {
        Self { trains, ..self }
    }

    /// Records `work` and computes its output on `device`. Tensors from elsewhere, parameters above all, enter through the
    /// [`Recorder`]; if they track gradients, so does the output.
    ///
    /// # Panics
    /// If `work` does what cannot be recorded or what is refused.
    pub fn run<const D: usize>(
        &self,
        device: &Device,
        work: impl FnOnce(&Recorder) -> Tensor<D>,
    ) -> Tensor<D> {
        let recording = record::record(self.trains, work);
        Tensor::from_dispatch(replay::replay(recording, self.compute, device))
    }
}
