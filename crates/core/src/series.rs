//! Series of raw samples and their names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::named;

/// Defines [`SeriesName`]. Each line has the name in files, the unit of the samples and the quantity of the x axis.
macro_rules! series {
    ($($(#[$doc:meta])* $series:ident = $name:literal, $unit:literal over $x:literal;)+) => {
        named! {
            /// Name of a sampled quantity.
            pub enum SeriesName ("series") { $($(#[$doc])* $series = $name),+ }
        }

        impl SeriesName {
            /// Returns the unit of the samples.
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$series => $unit),+ }
            }

            /// Returns the quantity of the x axis.
            pub const fn x_name(self) -> &'static str {
                match self { $(Self::$series => $x),+ }
            }
        }
    };
}

series! {
    /// Training loss.
    TrainLoss = "train_loss", "nat" over "optimizer step";
    /// Duration of an optimizer step.
    StepSeconds = "step_seconds", "s" over "optimizer step";
    /// Loss scale after a step.
    LossScale = "loss_scale", "1" over "optimizer step";
    /// Learning rate of a step.
    LearningRate = "learning_rate", "1" over "optimizer step";
    /// Validation loss.
    ValidationLoss = "validation_loss", "nat" over "epoch";
    /// Validation accuracy.
    ValidationAccuracy = "validation_accuracy", "1" over "epoch";
    /// Duration of a micro-batch of an evaluation.
    BatchSeconds = "batch_seconds", "s" over "micro-batch";
    /// Time to the first token of a text.
    FirstTokenSeconds = "first_token_seconds", "s" over "text";
    /// Duration of all tokens of a text after the first.
    DecodeSeconds = "decode_seconds", "s" over "text";
    /// Duration of each token.
    TokenSeconds = "token_seconds", "s" over "token";
    /// Duration of a kernel launch, by the clock of the record.
    LaunchSeconds = "launch_seconds", "s" over "launch";
    /// Duration of a kernel launch by the wall clock, if the record's clock is that of the device.
    LaunchWallSeconds = "launch_wall_seconds", "s" over "launch";
    /// Duration of a copy of as many bytes as a launch moves.
    CopySeconds = "copy_seconds", "s" over "launch";
    /// Duration of the same matmul by cuBLASLt.
    CublasSeconds = "cublas_seconds", "s" over "launch";
    /// 1 for each timed unit of work in which the clock was throttled, otherwise 0. Its x axis is the unit of work.
    Throttled = "throttled", "" over "launch";
    /// 1 for each copy during which the clock was throttled, otherwise 0.
    CopyThrottled = "copy_throttled", "" over "launch";
    /// 1 for each matmul by cuBLASLt during which the clock was throttled, otherwise 0.
    CublasThrottled = "cublas_throttled", "" over "launch";
    /// Histogram of errors: number of results by their distance from the exact one.
    UlpDistance = "ulp_distance", "results" over "ULP, at most";
    /// Host memory of the worker.
    HostBytes = "host_bytes", "B" over "seconds";
    /// Device memory in use by all processes.
    DeviceBytes = "device_bytes", "B" over "seconds";
    /// Device memory of the worker.
    ProcessBytes = "process_bytes", "B" over "seconds";
    /// Device memory that burn's allocator has reserved.
    AllocatorReservedBytes = "allocator_reserved_bytes", "B" over "seconds";
    /// Device memory in use by tensors.
    AllocatorInUseBytes = "allocator_in_use_bytes", "B" over "seconds";
    /// Power of the device.
    PowerWatts = "power_watts", "W" over "seconds";
    /// Energy counter of the device.
    EnergyJoules = "energy_joules", "J" over "seconds";
    /// Clock of the multiprocessors.
    SmClockHz = "sm_clock_hz", "Hz" over "seconds";
    /// Clock of the device memory.
    MemoryClockHz = "memory_clock_hz", "Hz" over "seconds";
    /// Temperature of the device.
    TemperatureCelsius = "temperature_celsius", "°C" over "seconds";
    /// NVML's throttle reasons, as a bit field.
    ThrottleReasons = "throttle_reasons", "bits" over "seconds";
    /// Share of time in which a kernel was running.
    Utilisation = "utilisation", "" over "seconds";
    /// Uncorrected memory errors since the driver was loaded.
    EccUncorrected = "ecc_uncorrected", "count" over "seconds";
    /// Number of processes that compute on the device.
    Processes = "processes", "count" over "seconds";
    /// Duration of a reading of the sampler.
    ReadingSeconds = "reading_seconds", "s" over "seconds";
}

/// Samples of one quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name of the quantity.
    pub name: SeriesName,
    /// Unit of `y`.
    pub unit: String,
    /// Quantity of the x axis: `optimizer step`, `epoch`, `launch`, `seconds`.
    pub x_name: String,
    /// Position of each sample on the x axis.
    pub x: Vec<f64>,
    /// Samples. A sample that is not finite or not available is `null`.
    pub y: Vec<Option<f64>>,
}

impl Series {
    /// Creates an empty series.
    pub fn new(name: SeriesName) -> Self {
        Self {
            name,
            unit: name.unit().into(),
            x_name: name.x_name().into(),
            x: vec![],
            y: vec![],
        }
    }

    /// Appends one sample; stores a value that is not finite as absent.
    pub fn push(&mut self, x: f64, y: f64) {
        self.x.push(x);
        self.y.push(y.is_finite().then_some(y));
    }

    /// Returns the samples that are not absent.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.y.iter().flatten().copied()
    }
}
