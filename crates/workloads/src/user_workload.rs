//! User-defined models: any burn module, with its data, under every precision setting.
//!
//! The user defines how to create the module, how it computes logits from its input, and the examples. Training, testing and measurement are the
//! same as for built-in models.

mod dataset;
mod gradients;
mod model;
mod own_model;
mod parameters;

use std::path::Path;

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};

pub use own_model::OwnModel;

/// User-defined classifier and its data. `examples/own_model.rs` contains a complete program.
///
/// The module is an ordinary burn module. [`Autocast`](mantissa_precision::Autocast) records and replays the module, so that its layers and tensor
/// operations compute in the formats of each setting. In true settings (such as `bf16-true`), its parameters have the setting's format, too.
/// Three kinds of modules cannot be replayed and are rejected before the measurement: with frozen parameters, with running statistics of batch
/// norms (which burn keeps inside the module), and with `detach` (a replay does not stop gradients).
///
/// [`model`](Self::model), [`input`](Self::input) and [`forward`](Self::forward) run for every micro-batch. They create tensors on the given
/// `device`, and must not read them or move them (`to_device`).
pub trait UserWorkload: Send + Sync + 'static {
    /// Example in host memory.
    type Example: Send + Sync + 'static;

    /// Module of the model.
    type Model: Module + 'static;

    /// Micro-batch on a device.
    type Input;

    /// Returns all examples with their classes, numbered from 0.
    ///
    /// # Errors
    /// The data is invalid. The text is shown to the user unchanged.
    fn examples(&self, data: Option<&Path>) -> Result<Examples<Self::Example>, String>;

    /// Returns the bytes of an example. Records contain a hash of all examples, which shows whether two runs used the same data.
    fn bytes(&self, example: &Self::Example) -> Vec<u8>;

    /// Returns the number of classes.
    fn classes(&self) -> u32;

    /// Creates the module. Its parameters are initialized on the CPU after burn's generator is seeded, so that every setting and device starts with
    /// the same parameters. Tensors that are not parameters are computed once, on the device of the run and with the same seed. Do not read files
    /// here; read them when the workload is created.
    fn model(&self, device: &Device) -> Self::Model;

    /// Uploads a micro-batch to a device. Under a mixed setting, floats are f32 until a matmul reads them. A true setting has one format, also
    /// for tensors created here, in [`UserWorkload::model`] and in [`UserWorkload::forward`].
    fn input(&self, examples: &[&Self::Example], device: &Device) -> Self::Input;

    /// Computes logits `[examples, classes]`.
    fn forward(&self, model: &Self::Model, input: Self::Input) -> Tensor<2>;
}

/// Examples with their classes.
#[derive(Debug, Clone)]
pub struct Examples<E> {
    /// Name of the data in reports.
    pub name: String,
    /// True if a generator created the data; reports mark such data.
    pub synthetic: bool,
    /// Training examples, or all examples if `test` is `None`.
    pub train: Vec<(E, u32)>,
    /// Test examples.
    pub test: Option<Vec<(E, u32)>>,
}
