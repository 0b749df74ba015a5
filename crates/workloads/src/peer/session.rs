//! Session with a peer: a cell, the program that computes it, and the folder of its files.

use std::{fs, io, path::Path};

use mantissa_core::{Cell, Executed, ExecutedVerdict, read_regular};
use mantissa_precision::{Compute, probe_external};
use tempfile::TempDir;

use super::{
    Peer,
    cell_files::CellFiles,
    program::{LaunchKind, Launched, Loaded, Request},
};
use crate::{Inputs, Observer, Phase, Progress, WorkloadError, operations::operations, outcome::ActionError};

/// Cell that a peer computes.
pub(crate) struct Session<'a> {
    pub cell: &'a Cell,
    pub inputs: &'a Inputs,
    pub observer: &'a mut dyn Observer,
    pub peer: Peer,
    pub folder: TempDir,
}

impl<'a> Session<'a> {
    /// Returns the cell, its inputs and the folder for its files.
    pub fn cell_files(&self) -> CellFiles<'_> {
        CellFiles {
            cell: self.cell,
            inputs: self.inputs,
            folder: self.folder.path(),
        }
    }

    /// Loads the files of a cell into the program. `cell_file` is the name of the JSON file.
    pub fn load(&mut self, cell_file: &str) -> Result<Loaded, WorkloadError> {
        let loaded: Loaded = self.peer.request(&Request::Load {
            folder: self.folder.path(),
            cell: cell_file,
        })?;
        match loaded.unavailable {
            Some(reason) => Err(WorkloadError::unavailable(reason)),
            None => Ok(loaded),
        }
    }

    /// Probes the precision of the program's matmuls in the setting of the cell.
    pub fn executed(&mut self) -> Result<Executed, WorkloadError> {
        let [operands, result] = ["probed", "product"].map(|name| self.folder.path().join(name));
        let (cell, mut unavailable) = (self.cell, None);
        let multiply = &mut |pass: &str, lhs: Vec<f64>, rhs: Vec<f64>| {
            let bytes: Vec<u8> = lhs
                .iter()
                .chain(&rhs)
                .flat_map(|value| value.to_le_bytes())
                .collect();
            fs::write(&operands, bytes).map_err(|error| error.to_string())?;
            let request = Request::Multiply {
                setting: &cell.setting,
                pass,
                operands: &operands,
                result: &result,
            };
            unavailable = self.peer.request(&request).map_err(|error| error.to_string())?;
            match &unavailable {
                Some(reason) => Err(String::clone(reason)),
                None => read_values(&result)
                    .and_then(|values| check_count(values, lhs.len()))
                    .map_err(|error| error.to_string()),
            }
        };
        let executed = probe_external(&operations(cell), Compute::of(&cell.setting), multiply);
        if let Some(reason) = unavailable {
            return Err(WorkloadError::unavailable(reason));
        }
        let mut executed = executed.map_err(WorkloadError::device)?;
        // The probed matmuls are not compiled, so they cannot verify the precision of a model or kernel that is compiled (`fusion`).
        if cell.setting.fusion() && executed.verdict == ExecutedVerdict::AsRequested {
            executed.verdict = ExecutedVerdict::Unverified;
        }
        Ok(executed)
    }

    /// Launches a kernel, or the copy that it is compared with.
    pub fn launch(&mut self, what: LaunchKind) -> Result<Launched, WorkloadError> {
        self.peer.request(&Request::Launch { what })
    }

    /// Returns the result of the first launch.
    pub fn result(&mut self) -> Result<Vec<f64>, WorkloadError> {
        let file = self.folder.path().join("result");
        self.peer.request::<()>(&Request::Result { file: &file })?;
        read_values(&file).map_err(|error| {
            WorkloadError::device(ActionError::new("cannot read the result of the peer", error))
        })
    }

    pub fn progress(&mut self, phase: Phase, done: u64, total: u64) {
        self.observer.progress(Progress {
            phase,
            done,
            total,
            allocator: self.peer.allocator,
        });
    }
}

/// Rejects a result whose number of values does not match its shape.
fn check_count(values: Vec<f64>, count: usize) -> io::Result<Vec<f64>> {
    match values.len() == count {
        true => Ok(values),
        false => Err(io::Error::other(format!(
            "wrong number of values in the result: expected {count}, got {}",
            values.len()
        ))),
    }
}

/// Reads the little-endian f64 values of a file.
fn read_values(file: &Path) -> io::Result<Vec<f64>> {
    let bytes = read_regular(file)?;
    let values = bytes.chunks_exact(size_of::<f64>());
    Ok(values
        .map(|value| f64::from_le_bytes(value.try_into().expect("eight bytes")))
        .collect())
}
