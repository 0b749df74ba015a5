//! Named quantities with a unit, a better direction, and an interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::named;

named! {
    /// Units in which metrics are recorded. Bytes are shown as decimal MB or GB.
    pub enum Unit ("unit") {
        /// Seconds.
        Seconds = "s",
        /// Bytes.
        Bytes = "B",
        /// Joules.
        Joules = "J",
        /// Watts.
        Watts = "W",
        /// A share of one.
        Ratio = "1",
        /// Samples in a second.
        SamplesPerSecond = "samples/s",
        /// Tokens in a second.
        TokensPerSecond = "tokens/s",
        /// Floating-point operations in a second.
        FlopsPerSecond = "FLOP/s",
        /// Values in a second.
        ValuesPerSecond = "values/s",
        /// Bytes in a second. Shown as decimal GB/s.
        BytesPerSecond = "B/s",
        /// Natural-log loss.
        Nats = "nat",
        /// Units in the last place of the output format.
        Ulp = "ULP",
        /// A count.
        Count = "count",
    }
}

named! {
    /// Which way is better.
    pub enum Better ("direction") {
        /// Smaller is better.
        Lower = "lower",
        /// Larger is better.
        Higher = "higher",
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $unit:ident, $better:ident;)+) => {
        named! {
            /// The closed list of metrics.
            pub enum MetricName ("metric") { $($(#[$doc])* $variant = $name),+ }
        }

        impl MetricName {
            /// The unit it is recorded in.
            pub const fn unit(self) -> Unit { match self { $(Self::$variant => Unit::$unit),+ } }
            /// Which way is better.
            pub const fn better(self) -> Better { match self { $(Self::$variant => Better::$better),+ } }
        }
    };
}

metrics! {
    /// Training with its validations, as in the articles; warm-up excluded.
    TrainSeconds = "train_seconds", Seconds, Lower;
    /// One optimizer step.
    StepSeconds = "step_seconds", Seconds, Lower;
    /// Training examples in a second of stepping.
    SamplesPerSecond = "samples_per_second", SamplesPerSecond, Higher;
    /// Tokens (padding included) in a second of stepping.
    TokensPerSecond = "tokens_per_second", TokensPerSecond, Higher;
    /// Building or reading the model.
    LoadSeconds = "load_seconds", Seconds, Lower;
    /// Reading weights from a file, rounding them to the setting's format and putting them on the device.
    WeightsSeconds = "weights_seconds", Seconds, Lower;
    /// Weights read from a file, as they are stored there.
    LoadedBytes = "loaded_bytes", Bytes, Lower;
    /// Kernel compilation and autotuning.
    WarmupSeconds = "warmup_seconds", Seconds, Lower;
    /// Kernel launches in a unit of work: an optimizer step, a micro-batch of a test, a token of generated text.
    LaunchesPerStep = "launches_per_step", Count, Lower;
    /// Host time for a kernel launch.
    HostSecondsPerLaunch = "host_seconds_per_launch", Seconds, Lower;
    /// Share of the time in which the device executes no kernel, since the host has not launched the next one.
    DeviceIdleShare = "device_idle_share", Ratio, Lower;
    /// From prompt to first token.
    FirstTokenSeconds = "first_token_seconds", Seconds, Lower;
    /// One token of decoding, for every text of a batch.
    TokenSeconds = "token_seconds", Seconds, Lower;
    /// Tokens in a second of decoding, those of every text of a batch.
    DecodeTokensPerSecond = "decode_tokens_per_second", TokensPerSecond, Higher;
    /// Share of test examples predicted right; of running text, of its words.
    TestAccuracy = "test_accuracy", Ratio, Higher;
    /// Share of validation examples predicted right after the last epoch.
    ValidationAccuracy = "validation_accuracy", Ratio, Higher;
    /// Share of training examples predicted right while training, last epoch.
    TrainAccuracy = "train_accuracy", Ratio, Higher;
    /// Share of test examples, or of words, whose prediction is that of the same weights under `32-true` and `matmul = highest`.
    Agreement = "agreement", Ratio, Higher;
    /// Mean cross-entropy of the test.
    TestLoss = "test_loss", Nats, Lower;
    /// Exponential of the mean negative log-likelihood.
    Perplexity = "perplexity", Ratio, Lower;
    /// Mean training loss of the last tenth of the steps.
    FinalLoss = "final_loss", Nats, Lower;
    /// NVML, whole device, minus what was there before.
    DevicePeakBytes = "device_peak_bytes", Bytes, Lower;
    /// NVML, this process.
    ProcessPeakBytes = "process_peak_bytes", Bytes, Lower;
    /// Allocator, reserved: what the articles print.
    AllocatorReservedPeakBytes = "allocator_reserved_peak_bytes", Bytes, Lower;
    /// Allocator, in use.
    AllocatorInUsePeakBytes = "allocator_in_use_peak_bytes", Bytes, Lower;
    /// Allocator, in use by the model's parameters.
    WeightsBytes = "weights_bytes", Bytes, Lower;
    /// Low-precision copies of parameters that the forward pass of a micro-batch makes.
    WeightCopiesBytes = "weight_copies_bytes", Bytes, Lower;
    /// Allocator, kept by the forward pass of a micro-batch for its backward pass, without the copies of parameters. With
    /// checkpointing that is what enters each block; the block that the backward pass recomputes is in the peaks alone.
    ActivationsBytes = "activations_bytes", Bytes, Lower;
    /// Allocator, in use by gradients when the backward pass is done.
    GradientsBytes = "gradients_bytes", Bytes, Lower;
    /// Allocator, in use by the optimizer's state between steps.
    OptimizerBytes = "optimizer_bytes", Bytes, Lower;
    /// The model's parameters, as their shapes say: no reading.
    EstimatedWeightsBytes = "estimated_weights_bytes", Bytes, Lower;
    /// Low-precision copies of parameters, as their shapes say: no reading.
    EstimatedWeightCopiesBytes = "estimated_weight_copies_bytes", Bytes, Lower;
    /// What else a forward pass keeps, as the shapes of its operations say: no reading.
    EstimatedActivationsBytes = "estimated_activations_bytes", Bytes, Lower;
    /// Gradients, as the shapes of parameters say: no reading.
    EstimatedGradientsBytes = "estimated_gradients_bytes", Bytes, Lower;
    /// The optimizer's state, as the shapes of parameters say: no reading.
    EstimatedOptimizerBytes = "estimated_optimizer_bytes", Bytes, Lower;
    /// High-water mark of the worker process in host memory.
    HostPeakBytes = "host_peak_bytes", Bytes, Lower;
    /// NVML's energy counter.
    EnergyCounterJoules = "energy_counter_joules", Joules, Lower;
    /// Integral of sampled power.
    EnergyIntegralJoules = "energy_integral_joules", Joules, Lower;
    /// What of the energy is above that of the idle device: by NVML's counter, or else the integral.
    EnergyAboveIdleJoules = "energy_above_idle_joules", Joules, Lower;
    /// Power of the device before the first cell, while nobody computed on it.
    IdleWatts = "idle_watts", Watts, Lower;
    /// Floating-point operations (multiplication and addition are two) in a second.
    FlopsPerSecond = "flops_per_second", FlopsPerSecond, Higher;
    /// Values of the result in a second, of a kernel without products: what compares formats of different width.
    ValuesPerSecond = "values_per_second", ValuesPerSecond, Higher;
    /// Bytes that a kernel cannot help moving in a second: every input read once, every output written once.
    BytesPerSecond = "bytes_per_second", BytesPerSecond, Higher;
    /// Bytes that a copy of as many moves in a second, measured beside the kernel on the same device: the bandwidth of its memory
    /// as a kernel sees it.
    CopyBytesPerSecond = "copy_bytes_per_second", BytesPerSecond, Higher;
    /// Floating-point operations in a second of the same product by cuBLASLt, measured beside the kernel on the same device: what NVIDIA's
    /// library reaches.
    CublasFlopsPerSecond = "cublas_flops_per_second", FlopsPerSecond, Higher;
    /// Relative Frobenius error against float64 on the same quantised inputs.
    RelativeError = "relative_error", Ratio, Lower;
    /// The part of it that rounding the operands makes: an exact product of what the multiplier sees. Of a kernel without
    /// products: the part that an approximate formula makes, evaluated exactly.
    QuantisationError = "quantisation_error", Ratio, Lower;
    /// The part that the sum makes, or the arithmetic of a kernel without products.
    AccumulationError = "accumulation_error", Ratio, Lower;
    /// The part that rounding an exact result into the output's format makes.
    RoundingError = "rounding_error", Ratio, Lower;
    /// What magnitudes are too large, over the magnitudes; negative if they are too small. Better is nearer to 0.
    MagnitudeBias = "magnitude_bias", Ratio, Lower;
    /// Largest distance to the float64 result, in units in the last place of the output format.
    MaxUlp = "max_ulp", Ulp, Lower;
    /// Optimizer steps skipped because a scaled gradient overflowed.
    SkippedSteps = "skipped_steps", Count, Lower;
    /// Optimizer steps whose loss was infinite or not a number.
    NonFiniteSteps = "non_finite_steps", Count, Lower;
    /// Optimizer steps whose gradients were scaled down to a norm.
    ClippedSteps = "clipped_steps", Count, Lower;
    /// Share of the values of observed steps that are infinite or not a number.
    OverflowShare = "overflow_share", Ratio, Lower;
    /// Share of the values of observed steps that are zero, and not in a wider format.
    UnderflowShare = "underflow_share", Ratio, Lower;
    /// Share of the values of observed steps that are subnormal.
    SubnormalShare = "subnormal_share", Ratio, Lower;
    /// Share of the elements that an observed step changes in a wider format and did not change in its own.
    LostUpdateShare = "lost_update_share", Ratio, Lower;
}

impl MetricName {
    /// Peaks of memory, the one that the articles print first.
    pub const PEAK_MEMORY: [Self; 3] = [
        Self::AllocatorReservedPeakBytes,
        Self::DevicePeakBytes,
        Self::HostPeakBytes,
    ];

    /// Whether it says what was learned: an accuracy, a loss, a perplexity. Such quantities differ by so much; all others are so
    /// many times as large.
    pub const fn is_learned(self) -> bool {
        matches!(
            self,
            Self::TestAccuracy
                | Self::ValidationAccuracy
                | Self::TrainAccuracy
                | Self::Agreement
                | Self::TestLoss
                | Self::Perplexity
                | Self::FinalLoss
        )
    }

    /// Whether every process of a cell counts the same, so that one is enough: bytes that a program asked for, as far as it
    /// asks in the same order, and errors on inputs that follow from the seed. Peaks of the host or the device are readings.
    pub const fn is_counted(self) -> bool {
        matches!(
            self,
            Self::AllocatorReservedPeakBytes
                | Self::AllocatorInUsePeakBytes
                | Self::WeightsBytes
                | Self::WeightCopiesBytes
                | Self::ActivationsBytes
                | Self::GradientsBytes
                | Self::OptimizerBytes
                | Self::EstimatedWeightsBytes
                | Self::EstimatedWeightCopiesBytes
                | Self::EstimatedActivationsBytes
                | Self::EstimatedGradientsBytes
                | Self::EstimatedOptimizerBytes
                | Self::LoadedBytes
                | Self::RelativeError
                | Self::QuantisationError
                | Self::AccumulationError
                | Self::RoundingError
                | Self::MaxUlp
        )
    }
}

/// A statistic with its interval. Absent is `null`, never 0 or NaN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// The estimate.
    pub value: Option<f64>,
    /// Lower end of the 95 % interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub high: Option<f64>,
    /// Samples behind the estimate.
    pub n: Option<u64>,
    /// How value and interval were made, e.g. `median, order statistics` or `Wilson`.
    pub method: String,
    /// Unit of value, low and high.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
}

impl Metric {
    /// A single reading without an interval. A value that is not finite is absent.
    pub fn reading(name: MetricName, value: f64, method: &str) -> Self {
        Self {
            value: value.is_finite().then_some(value),
            low: None,
            high: None,
            n: Some(1),
            method: method.to_owned(),
            unit: name.unit(),
            better: name.better(),
        }
    }

    /// A quantity that applies and could not be had; `reason` stands where the method would.
    pub fn absent(name: MetricName, reason: &str) -> Self {
        Self {
            n: None,
            ..Self::reading(name, f64::NAN, reason)
        }
    }

    /// An estimate with its 95 % interval from `n` samples.
    pub fn estimate(name: MetricName, value: f64, interval: (f64, f64), n: u64, method: &str) -> Self {
        let finite = |x: f64| x.is_finite().then_some(x);
        Self {
            low: finite(interval.0),
            high: finite(interval.1),
            n: Some(n),
            ..Self::reading(name, value, method)
        }
    }
}
