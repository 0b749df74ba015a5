//! Inputs and outputs of a workload: raw measurements without statistics.

use std::{fmt::Display, ops::Range, path::Path, time::Instant};

use burn::tensor::{Device, Element, Tensor, kind::Basic};
use mantissa_core::{DataSource, Event, Executed, Phase, Samples};
use mantissa_inputs::weights::WeightsError;
use mantissa_precision::{Launches, allocator_usage};

use crate::MemoryEstimate;

/// Observer of the progress of a workload, called on the thread that runs it.
pub trait Observer: Send {
    /// Called at the start of a phase and after every step.
    fn progress(&mut self, progress: Progress);

    /// Called when the workload has reached its peak memory. Memory allocated later does not count.
    fn memory_peak_reached(&mut self) {}

    /// Returns true if the device is known to have been throttled at some time since `since`.
    fn is_throttled(&self, _since: Instant) -> bool {
        false
    }

    /// Returns the file to which the trained weights are saved; `None` if they are not saved.
    fn weights_file(&self) -> Option<&Path> {
        None
    }

    /// Returns the bytes of host memory that the program has allocated, if they are counted.
    fn heap_bytes(&self) -> Option<u64> {
        None
    }
}

/// Progress of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Current phase.
    pub phase: Phase,
    /// Steps done in this phase.
    pub done: u64,
    /// Steps in this phase.
    pub total: u64,
    /// Statistics of the backend's allocator, if it reports them.
    pub allocator: Option<AllocatorBytes>,
}

/// Statistics of a device allocator, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocatorBytes {
    /// Bytes reserved on the device.
    pub reserved: u64,
    /// Bytes used by tensors.
    pub in_use: u64,
}

/// Returns the statistics of the backend's allocator.
pub(crate) fn allocator(device: &Device) -> Option<AllocatorBytes> {
    let usage = allocator_usage(device)?;
    Some(AllocatorBytes {
        reserved: usage.reserved,
        in_use: usage.in_use,
    })
}

/// Reports progress to an observer, with the allocator statistics of the device.
pub(crate) fn progress(observer: &mut dyn Observer, device: &Device, phase: Phase, done: u64, total: u64) {
    observer.progress(Progress {
        phase,
        done,
        total,
        allocator: allocator(device),
    });
}

/// Waits until a device has finished all work.
///
/// # Errors
/// Returns an error of the device. A failed kernel launch is reported by [`read`], not by this function.
pub(crate) fn sync(device: &Device) -> Result<(), WorkloadError> {
    device.sync().map_err(device_error)
}

/// Waits for the values of a tensor and copies them to the host, in row-major order.
///
/// burn copies the bytes when they are first used, so stop a clock only after this function has returned the vector.
///
/// # Errors
/// Returns the failure of any kernel that the values depend on.
pub(crate) fn read<E: Element, const D: usize, K: Basic>(
    tensor: Tensor<D, K>,
) -> Result<Vec<E>, WorkloadError> {
    tensor.try_into_vec_as().map_err(device_error)
}

fn device_error(error: impl Display) -> WorkloadError {
    WorkloadError::device(error.to_string())
}

/// Communication of a training with several devices, over all optimizer steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Communication {
    /// Time in which this rank exchanged gradients, losses and counts, including waiting for slower ranks and copying gradients
    /// between device and host. With an asynchronous server, the mean of its workers.
    pub seconds: f64,
    /// Mean duration of the training of the workers of an asynchronous server, of which [`Self::seconds`] is a part; otherwise absent.
    pub worker_seconds: Option<f64>,
    /// Number of reductions of the gradients.
    pub reductions: u64,
    /// Gradient messages of the rank that sent the most bytes; absent if the engine does not count them.
    pub traffic: Option<mantissa_collectives::Traffic>,
    /// Accuracy of the sums; absent if the check did not run.
    pub accuracy: Option<ReductionAccuracy>,
}

/// Accuracy of the reduction, measured on a sample of the gradients of the first optimizer step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReductionAccuracy {
    /// 2-norm of the difference to the sum in float64, relative to that sum.
    pub relative_error: f64,
    /// Number of reductions of the same values whose result has the bits of the first one, itself included.
    pub equal: u32,
    /// Number of these reductions.
    pub repeats: u32,
}

/// Proportion: `hits` of `n`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Number of correct examples.
    pub hits: u64,
    /// Number of examples.
    pub n: u64,
}

impl Share {
    /// Returns hits over `n`; NaN if `n` is 0.
    pub fn rate(self) -> f64 {
        self.hits as f64 / self.n as f64
    }

    /// Splits correct predictions by passage, given the number of tokens in each passage.
    pub(crate) fn by_passage(tokens: &[u32], correct: impl IntoIterator<Item = bool>) -> Vec<Self> {
        let mut correct = correct.into_iter();
        let passage = |&n: &u32| Self {
            hits: correct
                .by_ref()
                .take(n as usize)
                .filter(|correct| *correct)
                .count() as u64,
            n: n.into(),
        };
        tokens.iter().map(passage).collect()
    }
}

/// All measurements of a workload.
#[derive(Debug)]
pub struct Outcome {
    /// Raw samples.
    pub samples: Samples,
    /// Events during the workload.
    pub events: Vec<Event>,
    /// Description of the values that are not finite; absent if all are finite.
    pub diverged: Option<String>,
    /// Source of the data.
    pub data: Option<DataSource>,
    /// Observed precision of the execution.
    pub executed: Executed,
    /// Seconds spent on reading data and building the model.
    pub load_seconds: f64,
    /// Seconds spent on compilation, autotuning and first-touch page faults.
    pub warmup_seconds: f64,
    /// Kernel launches of one unit of work on a GPU: an optimizer step, a micro-batch, or all texts of a batch.
    pub launches: Option<Launches>,
    /// Measurements of the task.
    pub measured: TaskMeasurements,
}

/// Measurements by task, in addition to the series in the samples.
#[derive(Debug)]
pub enum TaskMeasurements {
    /// Series: `step_seconds`, `train_loss`, `learning_rate`, `loss_scale` by optimizer step; `validation_loss` and
    /// `validation_accuracy` by epoch.
    Train {
        /// Seconds from the first step to the end of the last validation.
        train_seconds: f64,
        /// Number of training examples processed by optimizer steps.
        examples: u64,
        /// Number of tokens of these examples including padding, for texts.
        tokens: Option<u64>,
        /// True if the model predicts tokens instead of classes.
        predicts_tokens: bool,
        /// Seconds spent on optimizer steps, without validation.
        stepping_seconds: f64,
        /// Correct predictions during the last epoch of training.
        train: Share,
        /// Correct predictions in the last validation.
        validation: Share,
        /// Correct predictions in the test.
        test: Share,
        /// Correct predictions by passage of running text in the last validation; empty for classes.
        validated_passages: Vec<Share>,
        /// Correct predictions by passage in the test; empty for classes.
        tested_passages: Vec<Share>,
        /// Optimizer steps skipped because of an overflow.
        skipped_steps: u64,
        /// Optimizer steps whose loss was not finite.
        non_finite_steps: u64,
        /// Optimizer steps whose gradients were clipped; absent if clipping is off or the number is unknown.
        clipped_steps: Option<u64>,
        /// Communication with the other devices; absent with one device.
        communication: Option<Communication>,
        /// Memory breakdown; absent if the allocator does not report its memory.
        memory: Option<MemoryParts>,
        /// Memory estimated from shapes, with the vocabulary and classes of the data; absent for a model with unknown operations.
        estimated: Option<MemoryEstimate>,
        /// Time window of each step, from before it began until it was complete.
        windows: Vec<Range<Instant>>,
    },
    /// Series: `batch_seconds` by micro-batch.
    Evaluate {
        /// Weights read from a checkpoint; absent if the weights are random.
        weights: Option<ReadWeights>,
        /// Examples of a full micro-batch.
        examples: u64,
        /// Number of full micro-batches.
        full_batches: u64,
        /// Number of tokens of a full micro-batch including padding, for texts.
        tokens: Option<u64>,
        /// Mean cross-entropy of the test, nats: per example, or per token.
        loss: f64,
        /// True if the model predicts tokens instead of classes.
        predicts_tokens: bool,
        /// Correct predictions.
        test: Share,
        /// Predictions equal to those in f32; absent if the cell itself is in f32.
        agreement: Option<Share>,
        /// Correct predictions by passage of running text; empty for classes.
        tested_passages: Vec<Share>,
        /// Summed cross-entropy of each passage, nats.
        passage_losses: Vec<f64>,
        /// Predictions equal to those in f32, by passage.
        agreeing_passages: Vec<Share>,
        /// Time window of each micro-batch, from before its upload until its predictions are on the host.
        windows: Vec<Range<Instant>>,
    },
    /// Series: `first_token_seconds` and `decode_seconds` by text, `token_seconds` by token.
    Generate {
        /// Weights read from a checkpoint; absent if the weights are random.
        weights: Option<ReadWeights>,
        /// Number of texts generated at a time.
        texts: u64,
        /// Tokens of a prompt.
        prompt_tokens: u64,
        /// Tokens generated per text after the first token.
        decoded: u64,
        /// Time window of each text, from before the upload of the prompt until the last token was on the host.
        windows: Vec<Range<Instant>>,
    },
    /// Series: `launch_seconds` by launch, and `launch_wall_seconds` if the device has its own clock.
    Kernel {
        /// Floating-point operations of one launch, for compute-bound kernels.
        flops: Option<f64>,
        /// Memory traffic of one launch, for memory-bound kernels. The series `copy_seconds` contains the times of the copy.
        traffic: Option<Traffic>,
        /// Measurements of the same matmul with cuBLASLt and the series `cublas_seconds`, or the reason why cuBLASLt cannot compute it. Absent if
        /// cuBLASLt is not available or the kernel is not a single matmul.
        cublas: Option<Result<Cublas, String>>,
        /// Clock of `launch_seconds`.
        clock: &'static str,
        /// Time window of each launch, from before its submission until it was complete.
        windows: Vec<Range<Instant>>,
        /// Error against float64 on the same rounded inputs; absent if the result is not finite.
        error: Option<NumericError>,
    },
}

/// Weights read from a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadWeights {
    /// This process read the weights and computed the cell.
    Here {
        /// Bytes in the checkpoint.
        bytes: u64,
        /// Seconds until the weights were on the device, in the setting's format.
        seconds: f64,
    },
    /// This process read the weights, and another framework computed the cell. The framework's loading time excludes reading the checkpoint.
    ByPeer,
}

/// Memory breakdown of a training, in bytes, as counted by the allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryParts {
    /// Bytes of the parameters.
    pub weights: u64,
    /// Bytes of the low-precision parameter copies that the forward pass of a micro-batch creates.
    pub weight_copies: u64,
    /// Bytes of all other tensors that the forward pass of a micro-batch saves for its backward pass.
    pub activations: u64,
    /// Bytes of the gradients after a backward pass.
    pub gradients: u64,
    /// Bytes of the optimizer state after a step.
    pub optimizer: u64,
    /// Name of the allocator that counted them.
    pub source: &'static str,
}

/// Matmul by cuBLASLt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cublas {
    /// Clock of `cublas_seconds`.
    pub clock: &'static str,
    /// Time window of each launch.
    pub windows: Vec<Range<Instant>>,
}

/// Memory traffic of a memory-bound kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Number of values of the result.
    pub values: u64,
    /// Minimum number of bytes that a launch moves: each input is read once and each output written once.
    pub moved: u64,
    /// Bytes of the copy that the kernel is compared with.
    pub copied: u64,
    /// Clock of `copy_seconds`.
    pub clock: &'static str,
    /// Time window of each copy.
    pub windows: Vec<Range<Instant>>,
}

/// Numeric error of a kernel's result. The first four errors are Frobenius norms of differences, divided by the norm of the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumericError {
    /// Total error.
    pub relative: f64,
    /// Error from rounding the operands.
    pub quantisation: f64,
    /// Error from the accumulation.
    pub accumulation: f64,
    /// Error from rounding the result to the format of the output.
    pub rounding: f64,
    /// Sum of `|result| - |reference|`, divided by the sum of `|reference|`.
    pub bias: f64,
    /// Largest error in units in the last place of the output format.
    pub max_ulp: f64,
}

/// Cause of a [`WorkloadError`].
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Error of a workload.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The user's data or vocabulary is invalid.
    #[error(transparent)]
    Data(Cause),
    /// The user's weights do not fit the model.
    #[error(transparent)]
    Weights(Cause),
    /// The backend is not in this build or the machine lacks the device.
    #[error(transparent)]
    Unavailable(Cause),
    /// The device reported an error.
    #[error("the device failed: {0}")]
    Device(#[source] Cause),
    /// The ranks of the cell do not belong together, or cannot communicate.
    #[error("the ranks cannot train together: {0}")]
    Ranks(#[source] Cause),
}

impl WorkloadError {
    pub(crate) fn data(cause: impl Into<Cause>) -> Self {
        Self::Data(cause.into())
    }

    pub(crate) fn weights(cause: impl Into<Cause>) -> Self {
        Self::Weights(cause.into())
    }

    pub(crate) fn unavailable(cause: impl Into<Cause>) -> Self {
        Self::Unavailable(cause.into())
    }

    pub(crate) fn device(cause: impl Into<Cause>) -> Self {
        Self::Device(cause.into())
    }

    pub(crate) fn ranks(cause: impl Into<Cause>) -> Self {
        Self::Ranks(cause.into())
    }
}

impl From<WeightsError> for WorkloadError {
    fn from(error: WeightsError) -> Self {
        Self::weights(error)
    }
}

/// Error of an action, with its cause.
#[derive(Debug, thiserror::Error)]
#[error("{action}: {source}")]
pub(crate) struct ActionError {
    action: String,
    source: Cause,
}

impl ActionError {
    pub(crate) fn new(action: impl Into<String>, source: impl Into<Cause>) -> Self {
        Self {
            action: action.into(),
            source: source.into(),
        }
    }
}
