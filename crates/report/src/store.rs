//! Access to the raw samples of a run, one record at a time, because all of them together may not fit into memory.

use std::collections::HashMap;

use mantissa_core::{CellId, Record, Samples};
use mantissa_run_folder::{FolderError, RunReader, SampleSelection};

/// The raw samples of a run.
#[derive(Debug, Clone)]
pub enum Store {
    /// In the run folder, at the paths in its records.
    Folder(RunReader),
    /// By cell and repeat, for a run that was never written.
    Memory(HashMap<(CellId, u32), Samples>),
}

impl Store {
    /// Reads the samples of a record; `None` if the record has no samples. From a folder, series that are not selected keep at most their
    /// last `x` (step or time). From memory, all series are complete.
    ///
    /// # Errors
    /// Fails if the samples cannot be read, see [`RunReader::samples`].
    pub fn read(
        &self,
        record: &Record,
        selection: SampleSelection<'_>,
    ) -> Result<Option<Samples>, FolderError> {
        match self {
            Self::Folder(run) => run.samples(record, selection),
            Self::Memory(samples) => Ok(samples.get(&(record.cell.id.clone(), record.repeat)).cloned()),
        }
    }
}
