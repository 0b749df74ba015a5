//! Record of an attempt at a cell. `records.jsonl` has one JSON line per attempt (schema 1).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Accumulator, Cell, DataSource, Event, Fingerprint, Format, InputFile, MatmulPrecision, Metric,
    MetricName, Precision, Setting, name::named,
};

/// Version of the record format written by this build.
pub const SCHEMA_VERSION: u32 = 1;

named! {
    /// Status of a cell. A failed cell is recorded with a reason and never omitted.
    pub enum Status ("status") {
        /// The cell finished.
        Ok = "ok",
        /// The cell finished, but the loss or the outputs became infinite or NaN.
        Diverged = "diverged",
        /// Memory was exhausted.
        Oom = "oom",
        /// The worker process reported an error, crashed or was killed.
        Failed = "failed",
        /// The worker process was killed at its time limit.
        Timeout = "timeout",
        /// The cell was not run: the combination is undefined, not implemented, or not available on this machine.
        Skipped = "skipped",
    }
}

/// Result of one attempt at one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of the record format.
    pub schema: u32,
    /// The cell: workload, setting and seed.
    pub cell: Cell,
    /// Number of the repeat, from 0. Every repeat runs in a new process.
    pub repeat: u32,
    /// Number of the attempt at this repeat, from 0.
    pub attempt: u32,
    /// Status of the attempt.
    pub status: Status,
    /// Reason for a status other than `ok`.
    pub reason: Option<String>,
    /// Requested precision of matmuls.
    pub requested: Requested,
    /// Precision that the hardware was observed to use.
    pub executed: Executed,
    /// Measured and estimated metrics.
    pub metrics: BTreeMap<MetricName, Metric>,
    /// Events that occurred during the attempt.
    pub events: Vec<Event>,
    /// Source of the data; absent for kernels.
    pub data: Option<DataSource>,
    /// Input files of the cell; absent in records of versions before 0.2.
    pub inputs: Option<Vec<InputFile>>,
    /// Folder of the raw samples, relative to the run folder.
    pub samples: Option<String>,
    /// Hardware and software of the measurement.
    pub fingerprint: Fingerprint,
    /// Command that reproduces the record.
    pub command: String,
}

/// Requested precision of matmuls in bits, for comparison with [`Executed`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Requested {
    /// Significand bits of matmul operands, the implicit one included.
    pub operand_bits: u32,
    /// Exponent bits of matmul operands.
    pub exponent_bits: u32,
    /// Width of the accumulator.
    pub accumulator: String,
}

impl Requested {
    /// Returns the precision that a setting requests for its matmuls.
    pub fn of(setting: &Setting) -> Self {
        Self::new(setting.precision(), setting.matmul(), setting.accumulator())
    }

    /// Returns the precision that three axes request for matmuls.
    pub fn new(precision: Precision, matmul: MatmulPrecision, accumulator: Accumulator) -> Self {
        let compute = precision.compute();
        let operand = match compute {
            Format::F32 => matmul.operand(),
            _ => compute,
        };
        let accumulator = match compute {
            Format::F64 => "f64",
            Format::F32 => "f32",
            _ => accumulator.name(),
        };
        Self {
            operand_bits: operand.significand_bits(),
            exponent_bits: operand.exponent_bits(),
            accumulator: accumulator.to_owned(),
        }
    }
}

/// Precision that the hardware was observed to use for matmuls. Parts that were not observed are `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Executed {
    /// Significand bits of matmul operands, the implicit one included.
    pub operand_bits: Option<u32>,
    /// Exponent bits of matmul operands.
    pub exponent_bits: Option<u32>,
    /// Width of the accumulator.
    pub accumulator: Option<String>,
    /// Rounding of operands and sums, and treatment of subnormal numbers, as text.
    pub rounding: Option<String>,
    /// Names of the kernels that ran.
    pub kernel: Option<String>,
    /// True if a kernel of higher precision ran on rounded operands because the device does not support the format.
    /// Always false if no kernel was observed, as with other frameworks.
    pub emulated: bool,
    /// Comparison with the requested precision.
    pub verdict: ExecutedVerdict,
}

impl Executed {
    /// Returns true if the observed kernels emulated a format; `None` if no kernel was observed.
    pub fn observed_emulation(&self) -> Option<bool> {
        self.kernel.is_some().then_some(self.emulated)
    }

    /// Creates a value without observations.
    pub fn unverified() -> Self {
        Self {
            operand_bits: None,
            exponent_bits: None,
            accumulator: None,
            rounding: None,
            kernel: None,
            emulated: false,
            verdict: ExecutedVerdict::Unverified,
        }
    }
}

named! {
    /// Comparison of requested and executed precision.
    pub enum ExecutedVerdict ("verdict") {
        /// Operand bits, exponent range and accumulator width are as requested.
        AsRequested = "as-requested",
        /// At least one of them differs from the request.
        Differs = "differs",
        /// At least one of them was not observed.
        Unverified = "unverified",
    }
}
