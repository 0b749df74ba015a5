//! Fingerprints: hardware, software and data of a record. Two records are comparable only if the relevant parts match.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Backend;

/// Hardware and software of a record. Values that could not be read are `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fingerprint {
    /// CPU model name, on x86 with family and model: `AMD EPYC (family 25, model 17)`.
    pub cpu: Option<String>,
    /// Logical cores available to the process.
    pub cores: u32,
    /// Host memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Operating system and kernel release.
    pub os: String,
    /// GPU, for GPU backends.
    pub gpu: Option<Gpu>,
    /// Version of mantissa.
    pub mantissa: String,
    /// Git revision of the build, with the suffix `-dirty` for uncommitted changes; or the value of `MANTISSA_REVISION`, if
    /// set.
    pub revision: Option<String>,
    /// First 16 hex digits of the BLAKE3 hash of the executable. Different hashes mean different programs.
    #[serde(default)]
    pub program: Option<String>,
    /// Version of burn.
    pub burn: String,
    /// Name and version of the framework that replaced burn, e.g. `PyTorch 2.15.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// Hash that chooses the dropout masks of built-in models. Absent if they are drawn from a random generator, as by earlier versions and by
    /// peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout_masks: Option<String>,
    /// Build profile: `release` or `debug`. Times of a debug build are meaningless.
    pub build: String,
}

impl Fingerprint {
    /// Returns the name and version of the framework, e.g. `burn 0.22.1`.
    pub fn framework(&self) -> String {
        self.peer.clone().unwrap_or_else(|| format!("burn {}", self.burn))
    }
}

/// GPU of a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gpu {
    /// Product name.
    pub name: String,
    /// UUID of NVML, which identifies the device.
    pub uuid: Option<String>,
    /// Device memory in bytes.
    pub memory_bytes: Option<u64>,
    /// CUDA compute capability, e.g. `9.0`.
    pub compute_capability: Option<String>,
    /// Driver version.
    pub driver: Option<String>,
    /// CUDA version supported by the driver.
    pub cuda: Option<String>,
    /// Maximum clock of the streaming multiprocessors, in hertz.
    #[serde(default)]
    pub sm_clock_max_hz: Option<f64>,
    /// Enforced power limit, in watts.
    #[serde(default)]
    pub power_limit_watts: Option<f64>,
    /// True if ECC memory is enabled.
    #[serde(default)]
    pub ecc: Option<bool>,
    /// True if persistence mode is enabled: the driver stays loaded without a client.
    #[serde(default)]
    pub persistence: Option<bool>,
}

/// Source of the data of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DataSource {
    /// Description, e.g. `synthetic reviews, seed 1`, or the file names.
    pub name: String,
    /// First 16 hex digits of the BLAKE3 hash of the content.
    pub hash: String,
    /// True if the data is synthetic.
    pub synthetic: bool,
    /// Classes with their numbers of examples.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassCount>,
    /// Notes on reading the data, such as skipped files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Class of a labelled data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassCount {
    /// Class number, from 0.
    pub number: u32,
    /// Name from the data, otherwise from the checkpoint, otherwise the class number.
    pub name: String,
    /// Numbers of training, validation and test examples.
    pub examples: [u64; 3],
}

/// Environment of a run, stored as `environment.json` in the run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Version of the record format.
    pub schema: u32,
    /// Start time in UTC (RFC 3339).
    pub started: String,
    /// Command line of the run.
    pub command: Vec<String>,
    /// Backend of the run. `--backend auto` is resolved.
    pub backend: Backend,
    /// Hardware and software of the run.
    pub fingerprint: Fingerprint,
    /// Telemetry sources that this machine lacks, each with a reason.
    pub missing: Vec<String>,
}
