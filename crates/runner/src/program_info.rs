//! Identification of a program, which is part of every record.

use std::{path::Path, process::Command};

use mantissa_core::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::fingerprint;

/// Parts of a fingerprint that depend on the program and not on the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramInfo {
    /// Version of mantissa.
    pub mantissa: String,
    /// Git revision of the build, if known.
    pub revision: Option<String>,
    /// Hash of the executable.
    pub program: Option<String>,
    /// Version of burn.
    pub burn: String,
    /// Hash that chooses the dropout masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropout_masks: Option<String>,
    /// `release` or `debug`.
    pub build: String,
}

impl ProgramInfo {
    /// Returns the identification of this program.
    pub fn this() -> Self {
        let Fingerprint {
            mantissa,
            revision,
            program,
            burn,
            dropout_masks,
            build,
            ..
        } = fingerprint(None);
        Self {
            mantissa,
            revision,
            program,
            burn,
            dropout_masks,
            build,
        }
    }

    /// Returns the identification of another program, from the output of `PROGRAM about`. Returns `None` if the program
    /// does not support the command.
    pub fn of(program: &Path) -> Option<Self> {
        // `MANTISSA_REVISION` overrides the revision of this program only, so the other program must not see it.
        let mut command = Command::new(program);
        let output = command
            .arg("about")
            .env_remove("MANTISSA_REVISION")
            .output()
            .ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Returns the fingerprint of this program on a machine.
    pub fn on(self, machine: Fingerprint) -> Fingerprint {
        Fingerprint {
            mantissa: self.mantissa,
            revision: self.revision,
            program: self.program,
            burn: self.burn,
            dropout_masks: self.dropout_masks,
            build: self.build,
            ..machine
        }
    }
}
