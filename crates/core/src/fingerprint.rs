//! What a record was measured on and with: two records compare only if the named parts match.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Backend;

/// Hardware, software and data behind a record. What could not be read is `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// CPU model name, on x86 with family and model: `AMD EPYC (family 25, model 17)`.
    pub cpu: Option<String>,
    /// Logical cores available to the process.
    pub cores: u32,
    /// Host memory.
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel release.
    pub os: String,
    /// The GPU, for GPU backends.
    pub gpu: Option<Gpu>,
    /// Version of mantissa.
    pub mantissa: String,
    /// Git revision of the build, `-dirty` if the tree was; or what `MANTISSA_REVISION` says, for programs that are built elsewhere.
    pub revision: Option<String>,
    /// The first 64 bits of the BLAKE3 hash of the program's file, in hexadecimal digits: two that differ are two programs.
    #[serde(default)]
    pub program: Option<String>,
    /// Version of burn.
    pub burn: String,
    /// What computed in the place of burn: `PyTorch 2.15.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Compilation profile: `release` or `debug`. Times from a debug build mean nothing.
    pub build: String,
}

impl Fingerprint {
    /// What computed, and its version: `burn 0.22.1`.
    pub fn framework(&self) -> String {
        self.peer.clone().unwrap_or_else(|| format!("burn {}", self.burn))
    }
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Product name.
    pub name: String,
    /// NVML's UUID, by which it is found again.
    pub uuid: Option<String>,
    /// Device memory.
    pub memory_bytes: Option<u64>,
    /// CUDA compute capability, e.g. `9.0`.
    pub compute_capability: Option<String>,
    /// Driver version.
    pub driver: Option<String>,
    /// CUDA version of the driver.
    pub cuda: Option<String>,
    /// Highest clock of its processors, hertz.
    #[serde(default)]
    pub sm_clock_max_hz: Option<f64>,
    /// Power limit in force, watts.
    #[serde(default)]
    pub power_limit_watts: Option<f64>,
    /// Whether its memory corrects errors.
    #[serde(default)]
    pub ecc: Option<bool>,
    /// Whether the driver stays loaded when nobody uses it.
    #[serde(default)]
    pub persistence: Option<bool>,
}

/// Where a cell's data came from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataSource {
    /// For people: `synthetic reviews, seed 1`, or the file names.
    pub name: String,
    /// First 16 hex digits of BLAKE3 over the contents.
    pub hash: String,
    /// Whether the data was made by a generator.
    pub synthetic: bool,
    /// Classes with the number of examples of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassCount>,
    /// Skipped files and other decisions made while reading the data.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Class of a labelled data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCount {
    /// Class number, from 0.
    pub number: u32,
    /// Name in the data, or else in the checkpoint, or else the class number.
    pub name: String,
    /// Number of examples in the training, validation and test part.
    pub examples: [u64; 3],
}

/// `environment.json` of a run folder: what holds for the whole run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Version of the record format.
    pub schema: u32,
    /// RFC 3339, UTC.
    pub started: String,
    /// The command line that was given.
    pub command: Vec<String>,
    /// The backend that `--backend auto` came to.
    pub backend: Backend,
    /// What the run was made on.
    pub fingerprint: Fingerprint,
    /// Sources of telemetry that this machine lacks, each with its reason, named once.
    pub missing: Vec<String>,
}
