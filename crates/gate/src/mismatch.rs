//! Properties of the machine, build and data that differ between two runs.

use std::{fmt, str::FromStr};

use serde::Serialize;

/// Property of the machine, build or data that must be equal on both sides of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Product name of the GPU.
    Gpu,
    /// Major version of the GPU's driver.
    Driver,
    /// Model of the CPU, if any cell of the run uses the CPU backend.
    Cpu,
    /// Number of CPU cores available to the process, if any cell of the run uses the CPU backend.
    Cores,
    /// Backend that executed the operations.
    Backend,
    /// Profile of the run.
    Profile,
    /// `release` or `debug`.
    Build,
    /// Framework that ran the model: burn, or another framework for comparison (a peer).
    Framework,
    /// Content of the data, weights, vocabulary and configuration files.
    Data,
}

impl Part {
    /// All properties, in the order in which they are reported.
    pub const ALL: [Self; 9] = [
        Self::Gpu,
        Self::Driver,
        Self::Cpu,
        Self::Cores,
        Self::Backend,
        Self::Profile,
        Self::Build,
        Self::Framework,
        Self::Data,
    ];

    /// Returns the name used by `--allow-mismatch`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Driver => "driver",
            Self::Cpu => "cpu",
            Self::Cores => "cores",
            Self::Backend => "backend",
            Self::Profile => "profile",
            Self::Build => "build",
            Self::Framework => "framework",
            Self::Data => "data",
        }
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|part| part.name() == text)
            .ok_or_else(|| {
                let names: Vec<&str> = Self::ALL.into_iter().map(Self::name).collect();
                format!("expected one of {}", names.join(", "))
            })
    }
}

/// Property that differs between two runs, with both values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// The property.
    pub part: Part,
    /// Value in the baseline; `None` if the value is unknown or does not matter.
    pub baseline: Option<String>,
    /// Value in the candidate.
    pub candidate: Option<String>,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        write!(
            f,
            "{}: {} against {}",
            self.part.name(),
            text(&self.baseline),
            text(&self.candidate)
        )
    }
}
