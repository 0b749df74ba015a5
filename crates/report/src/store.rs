//! Where the raw samples of a run are had from, a record at a time: all of them together would not fit into memory.

use std::{
    collections::HashMap,
    io::BufReader,
    path::{Component, Path, PathBuf},
};

use flate2::bufread::GzDecoder;
use mantissa_core::{Bounded, CellId, LARGEST_SAMPLES, Record, Samples, open_regular};

use crate::chosen;

/// The raw samples of a run.
#[derive(Debug, Clone)]
pub enum Store {
    /// Below the run folder, where its records say.
    Folder(PathBuf),
    /// By cell and repeat, of a run that was never written.
    Memory(HashMap<(CellId, u32), Samples>),
}

impl Store {
    /// The samples of a record; none if it names none. Of series whose name is not among `names`, the last `x` at most.
    ///
    /// # Errors
    /// Why samples that it names could not be read, with their path.
    pub fn read(&self, record: &Record, names: &[&str]) -> Result<Option<Samples>, String> {
        match (self, &record.samples) {
            (Self::Memory(samples), _) => {
                let key = (record.cell.id.clone(), record.repeat);
                Ok(samples.get(&key).cloned())
            }
            (Self::Folder(_), None) => Ok(None),
            (Self::Folder(run), Some(relative)) => match read(run, relative, names) {
                Ok(samples) => Ok(Some(samples)),
                Err(reason) => Err(format!("`{relative}`: {reason}")),
            },
        }
    }
}

/// Reads the samples in a folder of the run; a path that would leave the run folder is refused.
fn read(run: &Path, relative: &str, names: &[&str]) -> Result<Samples, String> {
    let relative = PathBuf::from(relative);
    if !relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)))
    {
        return Err("the path leaves the run folder".to_owned());
    }
    let packed =
        open_regular(&run.join(relative).join("samples.json.gz")).map_err(|error| error.to_string())?;
    let unpacked = Bounded::new(GzDecoder::new(BufReader::new(packed)), LARGEST_SAMPLES);
    chosen::read(BufReader::new(unpacked), names).map_err(|error| error.to_string())
}
