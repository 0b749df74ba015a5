//! What a program says of itself: which one measured is part of every number.

use std::{path::Path, process::Command};

use mantissa_core::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::fingerprint;

/// The parts of a fingerprint that are the program's and not the machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Its version.
    pub mantissa: String,
    /// The git revision that it was built from, if it knows.
    pub revision: Option<String>,
    /// Which file it is.
    pub program: Option<String>,
    /// Version of burn.
    pub burn: String,
    /// `release` or `debug`.
    pub build: String,
}

impl About {
    /// This program.
    pub fn this() -> Self {
        let Fingerprint {
            mantissa,
            revision,
            program,
            burn,
            build,
            ..
        } = fingerprint(None);
        Self {
            mantissa,
            revision,
            program,
            burn,
            build,
        }
    }

    /// Another program, as `PROGRAM about` tells; absent of one that does not know the question.
    pub fn of(program: &Path) -> Option<Self> {
        // What is said of the revision is said of this one.
        let mut asked = Command::new(program);
        let output = asked.arg("about").env_remove("MANTISSA_REVISION").output().ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The fingerprint of what it measures on a machine.
    pub fn on(self, machine: Fingerprint) -> Fingerprint {
        Fingerprint {
            mantissa: self.mantissa,
            revision: self.revision,
            program: self.program,
            burn: self.burn,
            build: self.build,
            ..machine
        }
    }
}
