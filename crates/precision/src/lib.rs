//! Mixed-precision training for [burn](burn) 0.22: applies a precision setting to every operation of a model.
//!
//! - [`PrecisionBackend`] extends burn's backends with operations whose arithmetic the caller controls. Under
//!   [`autodiff`](burn::backend::Autodiff), their backward passes run in the same precision.
//! - [`Compute`] is the counterpart of PyTorch's autocast. It has one method per operation, which casts the inputs as the table in
//!   [`autocast`] specifies.
//! - [`Autocast`] does the same for ordinary burn modules by recording and replaying them.
//! - [`ParameterSet`], [`GradientSum`], [`LossScaler`] and [`Optimizer`] implement the training step: weights in f32,
//!   rounded once per step; gradients summed in f32; a dynamic loss scale.
//! - [`Clock`] times work on a device, and [`probe()`] detects the precision in which a device computes.
//!
//! The training step below sets the precision in one line. `examples/mixed_precision.rs` is a complete program with model
//! and data.
//!
//! ```
//! use burn::tensor::{Device, Int, Tensor};
//! use mantissa_precision::{
//!     Compute, GradientSum, LossScaler, Optimizer, OptimizerKind, OptimizerSettings, ParameterSet, Precision,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let precision: Precision = "bf16-mixed".parse()?;
//!
//! let device = Device::flex();
//! let weight = ("weight".to_owned(), vec![2, 3], vec![0.1, -0.2, 0.3, -0.4, 0.5, -0.6]);
//! let bias = ("bias".to_owned(), vec![2], vec![0.0; 2]);
//! let compute = Compute::from(precision);
//! let mut parameters = ParameterSet::new([weight, bias], precision.parameters(), &device);
//! let settings = OptimizerSettings::new(OptimizerKind::AdamW, 0.1);
//! let mut optimizer = Optimizer::new(settings, parameters.len());
//! let mut scaler = LossScaler::of(precision);
//! # let input = Tensor::from_floats([[1.0, 2.0, 3.0]], &device);
//! # let class = Tensor::<1, Int>::from_ints([1], &device);
//! # let mut losses = vec![];
//!
//! for _ in 0..5 {
//!     let weights = parameters.working(&compute, |_| true).track();
//!     let logits = compute.linear(input.clone(), weights.matrix("weight"), weights.vector("bias"));
//!     let loss = compute.cross_entropy_sum(logits, class.clone());
//! #   losses.push(loss.clone().into_scalar::<f32>());
//!     let mut gradients = GradientSum::new(parameters.len());
//!     gradients.add(loss.mul_scalar(scaler.scale()), &weights);
//!     scaler.step(&mut optimizer, &mut parameters, gradients)?;
//! }
//! # assert!(losses[4] < losses[0] / 2.0, "{losses:?}");
//! # Ok(())
//! # }
//! ```
//!
//! Models run on any device. Matmuls round their operands as requested, independently of which kernel is fastest:
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use mantissa_precision::{Accumulator, Compute, MatmulPrecision, Precision};
//!
//! fn squared(x: f32, matmul: MatmulPrecision) -> f32 {
//!     let compute = Compute::new(Precision::True32, matmul, Accumulator::F32);
//!     let x = Tensor::<2>::from_floats([[x]], &Device::flex());
//!     compute.matmul(x.clone(), x).to_data().to_vec().expect("an f32")[0]
//! }
//!
//! let x = 1.0 + 2f32.powi(-12); // which needs more than TF32's 11 bits
//! assert_eq!(squared(x, MatmulPrecision::Highest), x * x);
//! assert_eq!(squared(x, MatmulPrecision::High), 1.0);
//! ```
//!
//! # Dependencies
//!
//! This crate depends on burn and on two crates of Mantissa. `mantissa-core` defines the formats and settings, their names, and the
//! rounding of a format; it does not depend on burn. `mantissa-cpu-kernels` makes burn's CPU backend faster. This crate re-exports the
//! names that a training loop needs.

mod attention;
mod attention_mask;
pub mod autocast;
mod autodiff;
mod backend;
mod batch_norm;
mod cast;
pub mod check;
mod clock;
mod compiler_error;
mod composed;
mod compute;
mod convolution;
#[cfg(feature = "cubecl")]
mod cube;
mod cublas;
pub mod device;
mod dropout;
mod dtypes;
mod flex;
mod gradient;
mod kernel_cache;
mod launched_kernels;
mod launches;
mod learning_rate;
mod loss_scale;
mod matmul_mode;
mod nccl;
mod optimizer;
#[cfg(feature = "cubecl")]
mod output_shapes;
mod parameter;
mod probe;
mod rotation;
mod stream;
mod tensor_ops;
#[cfg(feature = "cuda")]
mod toolkit;
mod values;

pub use mantissa_core::{
    Accumulator, Attention, BatchNormMomentum, Format, Gelu, Layout, LearningRateScaling,
    LearningRateSchedule, MatmulPrecision, OptimizerKind, Precision, Requested, Setting, Updates, Values,
};
pub use mantissa_cpu_kernels::{AdamRates, DropoutMask};

pub use attention_mask::AttentionMask;
pub use backend::PrecisionBackend;
pub use batch_norm::{Moments, micro_batch_momentum};
pub use cast::{Autocast, Constants, Recorder};
pub use clock::{Clock, Timed};
pub use compute::Compute;
pub use convolution::{Convolution, Pass};
pub use cublas::{CublasMatmul, CublasOperands};
pub use device::{AllocatorUsage, allocator_usage, submit};
pub use dropout::{Dropout, DropoutMasks, hash_seed};
pub use dtypes::dtype;
pub use gradient::GradientSum;
pub use launched_kernels::without_recording;
pub use launches::{Launches, observe_launches};
pub use learning_rate::LearningRate;
pub use loss_scale::{LossScaler, LossScaling, ScaleChange};
pub use matmul_mode::MatmulMode;
pub use nccl::{Nccl, NcclId, nccl_version};
pub use optimizer::{Optimizer, OptimizerSettings};
pub use parameter::{ParameterSet, Tracked};
pub use probe::{
    ExternalMatmul, Observation, Operation, Probed, Rounding, Subnormals, probe, probe_external,
};
pub use rotation::Rotation;
pub use tensor_ops::{copied, transpose_heads};
pub use values::data_of;
