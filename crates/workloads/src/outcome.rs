//! What goes into a workload and what comes out: raw measurements, no statistics.

use std::{fmt::Display, ops::Range, time::Instant};

use burn::tensor::{Device, Element, Tensor, kind::Basic};
use mantissa_core::{DataSource, Event, Executed, Phase, Samples};
use mantissa_inputs::weights::WeightsError;
use mantissa_precision::{Launches, allocator_usage};

use crate::MemoryEstimate;

/// Told how a workload gets on, on the thread that runs it.
pub trait Observer: Send {
    /// Called at the start of a phase and after every step.
    fn progress(&mut self, progress: Progress);

    /// What the work needs of memory has been seen: what is taken from now on is not its own.
    fn memory_known(&mut self) {}

    /// Whether the device's clock was held back at some time since a moment, as far as is known by now.
    fn held_back(&self, _since: Instant) -> bool {
        false
    }

    /// Bytes of host memory that the program has allocated, where somebody counts them.
    fn heap_bytes(&self) -> Option<u64> {
        None
    }
}

/// A step of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// What is going on.
    pub phase: Phase,
    /// Steps done in this phase.
    pub done: u64,
    /// Steps in this phase.
    pub total: u64,
    /// What the backend's allocator holds, where it can be asked.
    pub allocator: Option<AllocatorBytes>,
}

/// Bytes of a device allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocatorBytes {
    /// Taken from the device.
    pub reserved: u64,
    /// Handed out to tensors.
    pub in_use: u64,
}

/// What the backend's allocator holds.
pub(crate) fn allocator(device: &Device) -> Option<AllocatorBytes> {
    let usage = allocator_usage(device)?;
    Some(AllocatorBytes {
        reserved: usage.reserved,
        in_use: usage.in_use,
    })
}

/// Tells an observer of a step, with what the allocator of the device holds.
pub(crate) fn progress(observer: &mut dyn Observer, device: &Device, phase: Phase, done: u64, total: u64) {
    observer.progress(Progress {
        phase,
        done,
        total,
        allocator: allocator(device),
    });
}

/// Waits until a device has done all of its work.
///
/// # Errors
/// Returns a fault of the device. A kernel that could not be launched is an error of [`read`], not of this function.
pub(crate) fn sync(device: &Device) -> Result<(), WorkloadError> {
    device.sync().map_err(failed)
}

/// Waits for the values of a tensor and copies them to the host, in row-major order.
///
/// burn copies bytes at their first use, so a time that is taken before the conversion to a vector misses the work.
///
/// # Errors
/// Returns the failure of any kernel that the values depend on.
pub(crate) fn read<E: Element, const D: usize, K: Basic>(
    tensor: Tensor<D, K>,
) -> Result<Vec<E>, WorkloadError> {
    tensor.try_into_vec_as().map_err(failed)
}

fn failed(error: impl Display) -> WorkloadError {
    WorkloadError::Device(error.to_string())
}

/// `hits` of `n`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Share {
    /// Examples that were right.
    pub hits: u64,
    /// Examples.
    pub n: u64,
}

impl Share {
    /// Hits over `n`; NaN if there is nothing.
    pub fn rate(self) -> f64 {
        self.hits as f64 / self.n as f64
    }

    /// Of each passage: how many words it has, and what is right of all words, in order.
    pub(crate) fn by_passage(words: &[u32], right: impl IntoIterator<Item = bool>) -> Vec<Self> {
        let mut right = right.into_iter();
        let passage = |&n: &u32| Self {
            hits: right.by_ref().take(n as usize).filter(|right| *right).count() as u64,
            n: n.into(),
        };
        words.iter().map(passage).collect()
    }
}

/// Everything a workload measured.
#[derive(Debug)]
pub struct Outcome {
    /// Raw samples.
    pub samples: Samples,
    /// What happened on the way.
    pub events: Vec<Event>,
    /// Why the result is not finite, if it is not.
    pub diverged: Option<String>,
    /// Where the data came from.
    pub data: Option<DataSource>,
    /// What was observed of the executed precision.
    pub executed: Executed,
    /// Reading data and building the model.
    pub load_seconds: f64,
    /// Compilation, autotuning and first touches.
    pub warmup_seconds: f64,
    /// Kernel launches of one unit of work on a GPU: an optimizer step, a micro-batch, or all texts of a batch.
    pub launches: Option<Launches>,
    /// What the task measured.
    pub measured: Measured,
}

/// Measurements by task. Series in the samples carry the rest.
#[derive(Debug)]
pub enum Measured {
    /// Series: `step_seconds`, `train_loss`, `learning_rate`, `loss_scale` by optimizer step; `validation_loss` and
    /// `validation_accuracy` by epoch.
    Train {
        /// From the first step to the end of the last validation.
        train_seconds: f64,
        /// Training examples that went through a step.
        examples: u64,
        /// Their tokens, padding included, where they are texts.
        tokens: Option<u64>,
        /// Whether words are asked for, and not classes.
        words: bool,
        /// Seconds of stepping, without validation.
        stepping_seconds: f64,
        /// Predicted right while training, last epoch.
        train: Share,
        /// Predicted right in the last validation.
        validation: Share,
        /// Predicted right in the test.
        test: Share,
        /// The same by passage of running text, in the last validation; empty for classes.
        validated_passages: Vec<Share>,
        /// The same in the test.
        tested_passages: Vec<Share>,
        /// Optimizer steps skipped because of an overflow.
        skipped_steps: u64,
        /// Optimizer steps whose loss was not finite.
        non_finite_steps: u64,
        /// Optimizer steps whose gradients were clipped; absent if gradients are not clipped, or if it is not known.
        clipped_steps: Option<u64>,
        /// What holds the memory; absent where no allocator can be asked.
        memory: Option<MemoryParts>,
        /// What shapes say that it holds, with the words and classes of the data; absent for a model whose operations are not known.
        estimated: Option<MemoryEstimate>,
        /// From before each step began until it was done.
        windows: Vec<Range<Instant>>,
    },
    /// Series: `batch_seconds` by micro-batch.
    Evaluate {
        /// What was read of a checkpoint; absent: the weights are random.
        weights: Option<ReadWeights>,
        /// Examples of a full micro-batch.
        examples: u64,
        /// How many micro-batches are full.
        full: u64,
        /// Their tokens, padding included, where they are texts.
        tokens: Option<u64>,
        /// Mean cross-entropy of the test, nats: by example, or by word.
        loss: f64,
        /// Whether words are asked for, and not classes.
        words: bool,
        /// Predicted right.
        test: Share,
        /// Predicted as in f32; absent where the cell is itself in f32.
        agreement: Option<Share>,
        /// Predicted right, by passage of running text; empty for classes.
        tested_passages: Vec<Share>,
        /// Summed cross-entropy of each of them, nats.
        passage_losses: Vec<f64>,
        /// Predicted as in f32, by passage.
        agreeing_passages: Vec<Share>,
        /// From before each micro-batch was uploaded until its logits were there.
        windows: Vec<Range<Instant>>,
    },
    /// Series: `first_token_seconds` and `decode_seconds` by text, `token_seconds` by token.
    Generate {
        /// What was read of a checkpoint; absent: the weights are random.
        weights: Option<ReadWeights>,
        /// Texts that are written at a time.
        texts: u64,
        /// Tokens of a prompt.
        prompt_tokens: u64,
        /// Tokens of a text after its first.
        decoded: u64,
        /// From before each prompt was uploaded until the last token was there.
        windows: Vec<Range<Instant>>,
    },
    /// Series: `launch_seconds` by launch; `launch_wall_seconds` too where the device has a clock of its own.
    Kernel {
        /// Floating-point operations of one launch, of kernels that are bound by them.
        flops: Option<f64>,
        /// Bytes of one launch, of kernels that are bound by moving them; with it the series `copy_seconds`.
        traffic: Option<Traffic>,
        /// The same product by cuBLASLt, or why it cannot compute it; absent where it is not found. With it the series `cublas_seconds`.
        cublas: Option<Result<Cublas, String>>,
        /// What `launch_seconds` were read from.
        clock: &'static str,
        /// From before each launch was asked for until it was done.
        windows: Vec<Range<Instant>>,
        /// Against float64 on the same quantised inputs; absent if the result is not finite.
        error: Option<NumericError>,
    },
}

/// Weights read from a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ReadWeights {
    /// By the program that computes.
    Here {
        /// As they are stored there.
        bytes: u64,
        /// Until they were on the device, in the setting's format.
        seconds: f64,
    },
    /// And handed over to another framework, whose reading of what it was handed says nothing of the checkpoint.
    ByAnother,
}

/// What holds the memory of a training, in bytes, as the allocator counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryParts {
    /// The parameters.
    pub weights: u64,
    /// Low-precision copies of parameters that the forward pass of a micro-batch makes.
    pub weight_copies: u64,
    /// What else the forward pass of a micro-batch leaves for its backward pass.
    pub activations: u64,
    /// The gradients after a backward pass.
    pub gradients: u64,
    /// The optimizer's state after a step.
    pub optimizer: u64,
    /// Who counted them.
    pub source: &'static str,
}

/// A product by cuBLASLt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cublas {
    /// What `cublas_seconds` were read from.
    pub clock: &'static str,
    /// When each of them was taken.
    pub windows: Vec<Range<Instant>>,
}

/// What a launch of a kernel moves that does little else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Values of the result.
    pub values: u64,
    /// Bytes of a launch, at the least: every input read once, every output written once.
    pub moved: u64,
    /// Bytes of the copy that it is compared with.
    pub copied: u64,
    /// What `copy_seconds` were read from.
    pub clock: &'static str,
    /// When each of them was taken.
    pub windows: Vec<Range<Instant>>,
}

/// How wrong a kernel's result is. Errors are Frobenius norms relative to that of the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NumericError {
    /// The whole of it.
    pub relative: f64,
    /// From rounding the operands.
    pub quantisation: f64,
    /// From the sum.
    pub accumulation: f64,
    /// From rounding the result into the format of the output.
    pub rounding: f64,
    /// What magnitudes are too large, over the magnitudes.
    pub bias: f64,
    /// Largest error in units in the last place of the output format.
    pub max_ulp: f64,
}

/// Why a workload gave no outcome.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The user's data or vocabulary is wrong.
    #[error("{0}")]
    Data(String),
    /// The user's weights do not fit the model.
    #[error("{0}")]
    Weights(String),
    /// The backend is not in this build or the machine lacks the device.
    #[error("{0}")]
    Unavailable(String),
    /// The device reported an error.
    #[error("the device failed: {0}")]
    Device(String),
}

impl From<WeightsError> for WorkloadError {
    fn from(WeightsError(reason): WeightsError) -> Self {
        Self::Weights(reason)
    }
}
