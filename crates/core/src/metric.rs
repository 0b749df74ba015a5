//! Metrics of a record: name, unit, direction, value and confidence interval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::named;

named! {
    /// Unit of a metric. Reports show bytes as decimal MB or GB.
    pub enum Unit ("unit") {
        /// Seconds.
        Seconds = "s",
        /// Bytes.
        Bytes = "B",
        /// Joules.
        Joules = "J",
        /// Watts.
        Watts = "W",
        /// Ratio or share, where 1 is the whole.
        Ratio = "1",
        /// Samples per second.
        SamplesPerSecond = "samples/s",
        /// Tokens per second.
        TokensPerSecond = "tokens/s",
        /// Floating-point operations per second.
        FlopsPerSecond = "FLOP/s",
        /// Values per second.
        ValuesPerSecond = "values/s",
        /// Bytes per second. Reports show decimal GB/s.
        BytesPerSecond = "B/s",
        /// Loss with the natural logarithm.
        Nats = "nat",
        /// Units in the last place of the output format.
        Ulp = "ULP",
        /// Count.
        Count = "count",
    }
}

named! {
    /// Direction of improvement.
    pub enum Better ("direction") {
        /// Lower is better.
        Lower = "lower",
        /// Higher is better.
        Higher = "higher",
    }
}

macro_rules! metrics {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $unit:ident, $better:ident;)+) => {
        named! {
            /// Name of a metric.
            pub enum MetricName ("metric") { $($(#[$doc])* $variant = $name),+ }
        }

        impl MetricName {
            /// Returns the unit in which the metric is recorded.
            pub const fn unit(self) -> Unit { match self { $(Self::$variant => Unit::$unit),+ } }
            /// Returns the direction of improvement.
            pub const fn better(self) -> Better { match self { $(Self::$variant => Better::$better),+ } }
        }
    };
}

metrics! {
    /// Training time including validation, as in the articles; excludes warm-up.
    TrainSeconds = "train_seconds", Seconds, Lower;
    /// Time of an optimizer step.
    StepSeconds = "step_seconds", Seconds, Lower;
    /// Training examples per second of optimizer steps.
    SamplesPerSecond = "samples_per_second", SamplesPerSecond, Higher;
    /// Tokens, including padding, per second of optimizer steps.
    TokensPerSecond = "tokens_per_second", TokensPerSecond, Higher;
    /// Time to build or load the model.
    LoadSeconds = "load_seconds", Seconds, Lower;
    /// Time to read weights from a file, round them to the format of the setting and copy them to the device.
    WeightsSeconds = "weights_seconds", Seconds, Lower;
    /// Size of the weights that were read from a file, as stored in the file.
    LoadedBytes = "loaded_bytes", Bytes, Lower;
    /// Time of warm-up: kernel compilation and autotuning.
    WarmupSeconds = "warmup_seconds", Seconds, Lower;
    /// Kernel launches per unit of work: an optimizer step, a micro-batch of a test or a generated token.
    LaunchesPerStep = "launches_per_step", Count, Lower;
    /// Host time per kernel launch.
    HostSecondsPerLaunch = "host_seconds_per_launch", Seconds, Lower;
    /// Share of the time in which the device executes no kernel because the host has not launched the next one.
    DeviceIdleShare = "device_idle_share", Ratio, Lower;
    /// Time per optimizer step that rank 0 spends on exchanging gradients, losses and counts, including copies and waiting.
    CommunicationSeconds = "communication_seconds", Seconds, Lower;
    /// Share of the optimizer steps' time that is communication.
    CommunicationShare = "communication_share", Ratio, Lower;
    /// Bytes of gradients that the busiest device sends per optimizer step.
    BytesSent = "bytes_sent", Bytes, Lower;
    /// Messages with gradients that the same device sends per optimizer step.
    Messages = "messages", Count, Lower;
    /// Error of the sum of the devices' gradients in the first optimizer step, relative to their sum in float64 (2-norms).
    GradientError = "gradient_error", Ratio, Lower;
    /// Number of results, among 30 reductions of the same gradients, that have the bits of the first.
    EqualReductions = "equal_reductions", Count, Higher;
    /// Mean staleness of the gradients that an asynchronous parameter server applied: optimizer steps since it sent the parameters.
    MeanStaleness = "mean_staleness", Count, Lower;
    /// Time to first token.
    FirstTokenSeconds = "first_token_seconds", Seconds, Lower;
    /// Time per decoding step, which generates one token for every text of the batch.
    TokenSeconds = "token_seconds", Seconds, Lower;
    /// Tokens per second of decoding, summed over the texts of the batch.
    DecodeTokensPerSecond = "decode_tokens_per_second", TokensPerSecond, Higher;
    /// Share of correctly predicted test examples; for running text, of tokens.
    TestAccuracy = "test_accuracy", Ratio, Higher;
    /// Share of correctly predicted validation examples after the last epoch.
    ValidationAccuracy = "validation_accuracy", Ratio, Higher;
    /// Share of correctly predicted training examples during the last epoch.
    TrainAccuracy = "train_accuracy", Ratio, Higher;
    /// Share of test examples, or of tokens, with the same prediction as the same weights under `32-true` and `matmul =
    /// highest`.
    Agreement = "agreement", Ratio, Higher;
    /// Mean cross-entropy on the test examples.
    TestLoss = "test_loss", Nats, Lower;
    /// Exponential of the mean negative log-likelihood.
    Perplexity = "perplexity", Ratio, Lower;
    /// Mean training loss of the last tenth of the steps.
    FinalLoss = "final_loss", Nats, Lower;
    /// Peak memory in use on the whole device minus the memory in use before the run, from NVML.
    DevicePeakBytes = "device_peak_bytes", Bytes, Lower;
    /// Peak device memory of the worker process, from NVML.
    ProcessPeakBytes = "process_peak_bytes", Bytes, Lower;
    /// Peak memory reserved by the device allocator, which the articles report.
    AllocatorReservedPeakBytes = "allocator_reserved_peak_bytes", Bytes, Lower;
    /// Peak memory in use in the device allocator.
    AllocatorInUsePeakBytes = "allocator_in_use_peak_bytes", Bytes, Lower;
    /// Memory of the model's parameters in the device allocator.
    WeightsBytes = "weights_bytes", Bytes, Lower;
    /// Memory of the low-precision copies of parameters that the forward pass of a micro-batch creates.
    WeightCopiesBytes = "weight_copies_bytes", Bytes, Lower;
    /// Memory in the device allocator that the forward pass of a micro-batch saves for the backward pass, without
    /// copies of parameters. With checkpointing, only the inputs of each block are saved; the recomputed block counts
    /// only in the peaks.
    ActivationsBytes = "activations_bytes", Bytes, Lower;
    /// Memory of gradients in the device allocator after the backward pass.
    GradientsBytes = "gradients_bytes", Bytes, Lower;
    /// Memory of the optimizer state in the device allocator between steps.
    OptimizerBytes = "optimizer_bytes", Bytes, Lower;
    /// Estimated memory of the model's parameters, computed from their shapes.
    EstimatedWeightsBytes = "estimated_weights_bytes", Bytes, Lower;
    /// Estimated memory of low-precision copies of parameters, computed from their shapes.
    EstimatedWeightCopiesBytes = "estimated_weight_copies_bytes", Bytes, Lower;
    /// Estimated memory of saved activations, computed from the shapes of the operations.
    EstimatedActivationsBytes = "estimated_activations_bytes", Bytes, Lower;
    /// Estimated memory of gradients, computed from the shapes of the parameters.
    EstimatedGradientsBytes = "estimated_gradients_bytes", Bytes, Lower;
    /// Estimated memory of the optimizer state, computed from the shapes of the parameters.
    EstimatedOptimizerBytes = "estimated_optimizer_bytes", Bytes, Lower;
    /// Peak host memory of the worker process (high-water mark).
    HostPeakBytes = "host_peak_bytes", Bytes, Lower;
    /// Energy according to the energy counter of NVML.
    EnergyCounterJoules = "energy_counter_joules", Joules, Lower;
    /// Energy as the integral of sampled power.
    EnergyIntegralJoules = "energy_integral_joules", Joules, Lower;
    /// Energy above that of the idle device, from the energy counter of NVML or else from the integral.
    EnergyAboveIdleJoules = "energy_above_idle_joules", Joules, Lower;
    /// Power of the idle device before the first cell.
    IdleWatts = "idle_watts", Watts, Lower;
    /// Floating-point operations per second. A multiplication and an addition count as two.
    FlopsPerSecond = "flops_per_second", FlopsPerSecond, Higher;
    /// Output values per second of a kernel without matmuls, for comparing formats of different widths.
    ValuesPerSecond = "values_per_second", ValuesPerSecond, Higher;
    /// Minimum memory traffic of the kernel per second: every input is read once and every output is written once.
    BytesPerSecond = "bytes_per_second", BytesPerSecond, Higher;
    /// Memory bandwidth of a copy kernel of the same size, measured next to the kernel on the same device.
    CopyBytesPerSecond = "copy_bytes_per_second", BytesPerSecond, Higher;
    /// Floating-point operations per second of the same matmul in cuBLASLt, measured next to the kernel on the same
    /// device.
    CublasFlopsPerSecond = "cublas_flops_per_second", FlopsPerSecond, Higher;
    /// Relative error (Frobenius norm) compared with float64 on the same quantised inputs.
    RelativeError = "relative_error", Ratio, Lower;
    /// Part of `relative_error` due to rounding the operands: the error of an exact matmul of the rounded operands. For
    /// a kernel without matmuls, the error of an approximate formula when it is evaluated exactly.
    QuantisationError = "quantisation_error", Ratio, Lower;
    /// Part of `relative_error` due to the accumulation, or to the arithmetic of a kernel without matmuls.
    AccumulationError = "accumulation_error", Ratio, Lower;
    /// Part of `relative_error` due to rounding an exact result to the output format.
    RoundingError = "rounding_error", Ratio, Lower;
    /// Signed bias of the magnitudes of the result: Σ(|result| − |reference|) / Σ|reference|, where the reference is float64
    /// on the same quantised inputs. Positive if the magnitudes are too large on average, negative if they are too small.
    /// The best value is 0. The recorded direction (`lower`) is not meaningful for this metric: a more negative value is not
    /// better. The default policy of the gate does not judge it.
    MagnitudeBias = "magnitude_bias", Ratio, Lower;
    /// Maximum distance to the float64 result, in units in the last place of the output format.
    MaxUlp = "max_ulp", Ulp, Lower;
    /// Optimizer steps skipped because a scaled gradient overflowed.
    SkippedSteps = "skipped_steps", Count, Lower;
    /// Optimizer steps with an infinite or NaN loss.
    NonFiniteSteps = "non_finite_steps", Count, Lower;
    /// Optimizer steps with clipped gradients.
    ClippedSteps = "clipped_steps", Count, Lower;
    /// Share of the values in observed steps that are infinite or NaN.
    OverflowShare = "overflow_share", Ratio, Lower;
    /// Share of the values in observed steps that are zero but not zero in a wider format.
    UnderflowShare = "underflow_share", Ratio, Lower;
    /// Share of the values in observed steps that are subnormal.
    SubnormalShare = "subnormal_share", Ratio, Lower;
    /// Share of the parameter elements that an observed step changes in a wider format but not in their own format.
    LostUpdateShare = "lost_update_share", Ratio, Lower;
}

impl MetricName {
    /// Peak memory metrics, beginning with the one that the articles report.
    pub const PEAK_MEMORY: [Self; 3] = [
        Self::AllocatorReservedPeakBytes,
        Self::DevicePeakBytes,
        Self::HostPeakBytes,
    ];

    /// Returns true for accuracies, losses and the perplexity. Claims compare these metrics by difference, and all other metrics by ratio.
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

    /// Returns true if the value is the same in every process of a cell, so one process is enough. This holds for bytes
    /// that the program requests in a fixed order, and for errors on inputs that depend only on the seed. Measured
    /// peaks of host and device memory vary between processes.
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
                | Self::BytesSent
                | Self::Messages
                | Self::GradientError
                | Self::RelativeError
                | Self::QuantisationError
                | Self::AccumulationError
                | Self::RoundingError
                | Self::MaxUlp
        )
    }
}

/// Value of a metric with its confidence interval. Absent values are `null`, never 0 or NaN.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Estimate.
    pub value: Option<f64>,
    /// Lower end of the 95 % confidence interval.
    pub low: Option<f64>,
    /// Upper end of the 95 % confidence interval.
    pub high: Option<f64>,
    /// Number of samples.
    pub n: Option<u64>,
    /// Method for the value and its interval, e.g. `median, order statistics` or `Wilson`; the reason if the value is
    /// absent.
    pub method: String,
    /// Unit of `value`, `low` and `high`.
    pub unit: Unit,
    /// Direction of improvement.
    pub better: Better,
}

impl Metric {
    /// Creates a single reading without an interval. A value that is not finite is absent.
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

    /// Creates a metric that applies but could not be measured; `reason` replaces the method.
    pub fn absent(name: MetricName, reason: &str) -> Self {
        Self {
            n: None,
            ..Self::reading(name, f64::NAN, reason)
        }
    }

    /// Creates an estimate from `n` samples with its 95 % confidence interval.
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
