//! Access to the raw samples of a run, one record at a time: all of them together would not fit into memory.

use std::{
    collections::HashMap,
    io::BufReader,
    path::{Component, Path, PathBuf},
};

use flate2::bufread::GzDecoder;
use mantissa_core::{Bounded, CellId, LARGEST_SAMPLES, Record, Samples, open_regular};

use crate::selected_series::{self, SampleSelection};

/// The raw samples of a run.
#[derive(Debug, Clone)]
pub enum Store {
    /// Below the run folder, at the paths in its records.
    Folder(PathBuf),
    /// By cell and repeat, for a run that was never written.
    Memory(HashMap<(CellId, u32), Samples>),
}

impl Store {
    /// Reads the samples of a record; `None` if the record names none. Series that are not selected keep at most their last `x`.
    ///
    /// # Errors
    /// Returns the path of unreadable samples and the reason.
    pub fn read(&self, record: &Record, selection: SampleSelection<'_>) -> Result<Option<Samples>, String> {
        match (self, &record.samples) {
            (Self::Memory(samples), _) => {
                let key = (record.cell.id.clone(), record.repeat);
                Ok(samples.get(&key).cloned())
            }
            (Self::Folder(_), None) => Ok(None),
            (Self::Folder(run), Some(relative)) => match read(run, relative, selection) {
                Ok(samples) => Ok(Some(samples)),
                Err(reason) => Err(format!("`{relative}`: {reason}")),
            },
        }
    }
}

/// Reads samples below the run folder. Rejects a path outside of the folder.
fn read(run: &Path, relative: &str, selection: SampleSelection<'_>) -> Result<Samples, String> {
    let relative = PathBuf::from(relative);
    if !relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return Err("the path is outside the run folder".to_owned());
    }
    let packed =
        open_regular(&run.join(relative).join("samples.json.gz")).map_err(|error| error.to_string())?;
    let unpacked = Bounded::new(GzDecoder::new(BufReader::new(packed)), LARGEST_SAMPLES);
    selected_series::read(BufReader::new(unpacked), selection).map_err(|error| error.to_string())
}
