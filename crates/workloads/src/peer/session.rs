//! A cell, the program that computes it, and the folder that it reads from.

use tempfile::TempDir;

use super::{
    Peer,
    hand_over::Handing,
    program::{Loaded, Question},
};
use crate::{Inputs, Observer, Phase, Progress, WorkloadError};
use mantissa_core::Cell;

pub(crate) struct Session<'a> {
    pub cell: &'a Cell,
    pub inputs: &'a Inputs,
    pub observer: &'a mut dyn Observer,
    pub peer: Peer,
    pub folder: TempDir,
}

impl<'a> Session<'a> {
    /// Where the cell is written down.
    pub fn handing(&self) -> Handing<'_> {
        Handing {
            cell: self.cell,
            inputs: self.inputs,
            folder: self.folder.path(),
        }
    }

    /// Lets the program read what was handed over, by the file that names all others.
    pub fn load(&mut self, handed: &str) -> Result<Loaded, WorkloadError> {
        let loaded: Loaded = self.peer.ask(&Question::Load {
            folder: self.folder.path(),
            cell: handed,
        })?;
        match loaded.unavailable {
            Some(reason) => Err(WorkloadError::Unavailable(reason)),
            None => Ok(loaded),
        }
    }

    /// Values of the result of the first launch.
    pub fn result(&mut self) -> Result<Vec<f64>, WorkloadError> {
        let file = self.folder.path().join("result");
        self.peer.ask::<()>(&Question::Result { file: &file })?;
        let unread =
            |error: std::io::Error| WorkloadError::Device(format!("the result of the peer: {error}"));
        let bytes = std::fs::read(&file).map_err(unread)?;
        let values = bytes.chunks_exact(8);
        Ok(values
            .map(|value| f64::from_le_bytes(value.try_into().expect("eight bytes")))
            .collect())
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
