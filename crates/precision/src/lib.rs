//! The burn layer: what a precision setting does to every operation of a model.
//!
//! - [`PrecisionBackend`] adds the operations whose arithmetic must be controlled to a burn backend, and
//!   [`autodiff`](burn::backend::Autodiff) carries them into the backward pass in the same precision.
//! - [`Compute`] is autocast: one method for each class of operation, deciding the format it runs in.
//! - [`Clock`] times work on a device.
//! - [`ParameterSet`], [`GradientSum`], [`LossScaler`] and [`Optimizer`] are the training step around it.

mod attention;
mod autodiff;
mod backend;
mod clock;
mod compute;
mod convolution;
#[cfg(feature = "cubecl")]
mod cube;
pub mod device;
mod flex;
#[cfg(feature = "cubecl")]
mod fusion;
mod gradient;
mod launched;
mod learning_rate;
mod loss_scale;
mod optimizer;
mod parameter;
mod probe;

pub use backend::{Adam, AdamRates, AllocatorUsage, MatmulMode, Normalized, PrecisionBackend};
pub use clock::{Clock, Timed};
pub use compute::{Compute, dtype};
pub use convolution::{Convolution, Pass};
pub use gradient::GradientSum;
pub use learning_rate::LearningRate;
pub use loss_scale::{LossScaler, ScaleChange};
pub use optimizer::{Optimizer, OptimizerSettings};
pub use parameter::{ParameterSet, Tracked};
pub use probe::{Observation, Operation, Probed, Rounding, Subnormals, probe};
