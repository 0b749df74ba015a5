//! The result of one cell: schema 1, one JSON line an attempt in `records.jsonl`.

use std::{collections::BTreeMap, io::BufRead};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Accumulator, Cell, DataSource, Fingerprint, Format, InputFile, LONGEST_RECORD, MatmulPrecision, Metric,
    MetricName, Precision, Setting, in_one_line, name::named, read_line,
};

/// Version of the record format that this build writes.
pub const SCHEMA_VERSION: u32 = 1;

named! {
    /// How a cell ended. A failure is a row with a reason, never a gap.
    pub enum Status ("status") {
        /// Ran to its end.
        Ok = "ok",
        /// Ran to its end, and the loss or the outputs stopped being finite.
        Diverged = "diverged",
        /// Ran out of memory.
        Oom = "oom",
        /// Ended with an error or a signal.
        Failed = "failed",
        /// Was ended because its time was up.
        Timeout = "timeout",
        /// Never started: the combination is undefined, not built, or not to be had here.
        Skipped = "skipped",
    }
}

/// One attempt at one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of this format.
    pub schema: u32,
    /// What was run.
    pub cell: Cell,
    /// Which fresh process of the cell, from 0.
    pub repeat: u32,
    /// Which try at this repeat, from 0.
    pub attempt: u32,
    /// How it ended.
    pub status: Status,
    /// Why, unless `ok`.
    pub reason: Option<String>,
    /// The precision asked for.
    pub requested: Requested,
    /// What the hardware was observed to do.
    pub executed: Executed,
    /// What was measured.
    pub metrics: BTreeMap<MetricName, Metric>,
    /// What happened on the way.
    pub events: Vec<Event>,
    /// Where the data came from; absent for kernels.
    pub data: Option<DataSource>,
    /// Input files that the cell reads; absent in records of versions before 0.2.
    pub inputs: Option<Vec<InputFile>>,
    /// Folder of the raw samples, relative to the run folder.
    pub samples: Option<String>,
    /// What it was measured on.
    pub fingerprint: Fingerprint,
    /// The command that reproduces it.
    pub command: String,
}

/// The precision asked for, in bits, for comparison with [`Executed`].
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
    /// What a setting asks of its matmuls.
    pub fn of(setting: &Setting) -> Self {
        Self::new(setting.precision(), setting.matmul(), setting.accumulator())
    }

    /// What the three axes that govern arithmetic ask of matmuls.
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

/// What the hardware was observed to do. Unobserved parts are `null`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Executed {
    /// Significand bits of matmul operands, the implicit one included.
    pub operand_bits: Option<u32>,
    /// Exponent bits of matmul operands.
    pub exponent_bits: Option<u32>,
    /// Width of the accumulator.
    pub accumulator: Option<String>,
    /// Rounding of operands and of sums, and what becomes of subnormal numbers, in words.
    pub rounding: Option<String>,
    /// The kernels that ran.
    pub kernel: Option<String>,
    /// Whether a more precise kernel ran on rounded operands because the device has no such unit; says nothing where no kernel was seen,
    /// as of another framework.
    pub emulated: bool,
    /// Requested against executed.
    pub verdict: ExecutedVerdict,
}

impl Executed {
    /// Whether the kernels that were seen emulated a format; absent where none was.
    pub fn seen_emulated(&self) -> Option<bool> {
        self.kernel.is_some().then_some(self.emulated)
    }

    /// Nothing was observed.
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
    /// Requested against executed precision.
    pub enum ExecutedVerdict ("verdict") {
        /// Operand bits, exponent range and accumulator width are those asked for.
        AsRequested = "as-requested",
        /// At least one of them is not.
        Differs = "differs",
        /// Not all of them were observed.
        Unverified = "unverified",
    }
}

/// Something that happened while a cell ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// What: `loss-scale`, `non-finite-loss`, `throttled`, `warning`, …
    pub kind: String,
    /// Optimizer step or launch at which it happened, from 1.
    pub step: Option<u64>,
    /// The new value, where there is one.
    pub value: Option<f64>,
    /// For people.
    pub detail: String,
}

impl Event {
    /// Kind of an event that says what the suite expected and the record does not hold.
    pub const EXPECTATION: &str = "expectation";

    /// Kind of an event that describes how a checkpoint was read.
    pub const WEIGHTS: &str = "weights";

    /// An event that is shown beside the row.
    pub fn warning(detail: String) -> Self {
        Self {
            kind: "warning".into(),
            step: None,
            value: None,
            detail,
        }
    }

    /// An event that says why compiled kernels could not be read or saved.
    pub fn of_kernel_cache(detail: String) -> Self {
        Self {
            kind: "kernel-cache".into(),
            step: None,
            value: None,
            detail,
        }
    }

    /// An event that says how a checkpoint was read.
    pub fn of_weights(detail: String) -> Self {
        Self {
            kind: Self::WEIGHTS.into(),
            step: None,
            value: None,
            detail,
        }
    }
}

/// Why a records file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Written by a later version.
    #[error(
        "line {line} has schema {found}, this build reads up to {SCHEMA_VERSION}\n  hint: update mantissa"
    )]
    NewerSchema {
        /// Line of the file, from 1.
        line: usize,
        /// Its schema.
        found: u64,
    },
    /// Not a record, and not the last line cut short.
    #[error("line {line} is not a record: {}", in_one_line(source))]
    Malformed {
        /// Line of the file, from 1.
        line: usize,
        /// What the parser said.
        source: serde_json::Error,
    },
    /// The file could not be read to its end.
    #[error("line {line} cannot be read: {source}")]
    Unreadable {
        /// Line of the file, from 1.
        line: usize,
        /// What the system said.
        source: std::io::Error,
    },
}

/// Records of a file, and whether its last line was cut.
#[derive(Debug, Default)]
pub struct ParsedRecords {
    /// The whole lines.
    pub records: Vec<Record>,
    /// Bytes of whole lines; what lies behind was cut by a crash or a full disk.
    pub whole_bytes: usize,
    /// Whether there was such a cut line.
    pub cut: bool,
}

/// Reads `records.jsonl`. A last line without its line end was cut by a crash: it is left out and reported.
pub fn parse_records(text: &str) -> Result<ParsedRecords, RecordError> {
    let mut reader = RecordReader::new(text.as_bytes());
    let records = reader.by_ref().collect::<Result<_, _>>()?;
    Ok(ParsedRecords {
        records,
        whole_bytes: reader.whole_bytes as usize,
        cut: reader.cut,
    })
}

/// Reads `records.jsonl` record by record, holding one line at a time. It ends at the first error, and at a last line
/// without its line end, which was cut by a crash or a full disk.
#[derive(Debug)]
pub struct RecordReader<R> {
    source: R,
    line: Vec<u8>,
    number: usize,
    whole_bytes: u64,
    cut: bool,
    ended: bool,
}

impl<R: BufRead> RecordReader<R> {
    /// Reads from the beginning of a file.
    pub fn new(source: R) -> Self {
        Self {
            source,
            line: vec![],
            number: 0,
            whole_bytes: 0,
            cut: false,
            ended: false,
        }
    }

    /// Bytes of the whole lines so far; after the end, what lies behind them was cut.
    pub fn whole_bytes(&self) -> u64 {
        self.whole_bytes
    }

    /// Whether the end was a line that was cut.
    pub fn cut(&self) -> bool {
        self.cut
    }

    /// The next line that is not blank, if there is a whole one.
    fn advance(&mut self) -> Result<Option<Record>, RecordError> {
        loop {
            self.number += 1;
            let line = self.number;
            let read = read_line(&mut self.source, &mut self.line, LONGEST_RECORD);
            if read.map_err(|source| RecordError::Unreadable { line, source })? == 0 {
                return Ok(None);
            }
            if self.line.last() != Some(&b'\n') {
                self.cut = true;
                return Ok(None);
            }
            let blank = self.line.trim_ascii().is_empty();
            let record = (!blank).then(|| parse_line(&self.line, line)).transpose()?;
            self.whole_bytes += self.line.len() as u64;
            if record.is_some() {
                return Ok(record);
            }
        }
    }
}

impl<R: BufRead> Iterator for RecordReader<R> {
    type Item = Result<Record, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

fn parse_line(text: &[u8], line: usize) -> Result<Record, RecordError> {
    #[derive(Deserialize)]
    struct Version {
        schema: u64,
    }
    let malformed = |source| RecordError::Malformed { line, source };
    let version: Version = serde_json::from_slice(text).map_err(malformed)?;
    if version.schema > u64::from(SCHEMA_VERSION) {
        return Err(RecordError::NewerSchema {
            line,
            found: version.schema,
        });
    }
    serde_json::from_slice(text).map_err(malformed)
}
