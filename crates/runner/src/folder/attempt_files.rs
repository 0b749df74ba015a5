//! Files of an attempt: its samples and the output of its worker.

use std::{
    fs,
    io::{self, BufWriter, Write as _},
    path::Path,
};

use flate2::{Compression, write::GzEncoder};
use mantissa_core::Samples;
use mantissa_run_folder::SAMPLES_FILE;

use super::atomic_file::{create_part_file, replace, sync_directory};
use crate::{RunError, error::At as _};

/// Writes the raw samples of a cell to `folder`, atomically, and syncs them to disk.
///
/// # Errors
/// The folder already contains samples, or cannot be written.
pub fn write_samples(folder: &Path, samples: &Samples) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    if has_samples(folder) {
        return Err(io::Error::from(io::ErrorKind::AlreadyExists));
    }
    let (part, file) = create_part_file(&folder.join(SAMPLES_FILE))?;
    let mut encoder = GzEncoder::new(BufWriter::new(file), Compression::default());
    serde_json::to_writer(&mut encoder, samples)?;
    encoder.finish()?.into_inner()?.sync_all()?;
    fs::rename(part, folder.join(SAMPLES_FILE))?;
    sync_directory(folder)
}

/// Returns true if the folder of an attempt contains samples.
pub(crate) fn has_samples(folder: &Path) -> bool {
    folder.join(SAMPLES_FILE).exists()
}

/// Stores the output of a worker, unless it is empty.
pub(crate) fn write_output(folder: &Path, output: &[u8]) -> Result<(), RunError> {
    if output.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder).at(folder)?;
    replace(&folder.join("stderr.txt"), |file| file.write_all(output))
}

#[cfg(test)]
mod tests {
    use std::{fs::File, io::Read as _};

    use mantissa_core::{Series, SeriesName};

    use super::*;

    #[test]
    fn unfinished_samples_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("samples.json.gz.part"), b"\x1f\x8b").unwrap();
        assert!(!has_samples(dir.path()));
    }

    #[test]
    fn samples_are_gzipped_json_and_are_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let samples = Samples {
            series: vec![Series::new(SeriesName::TrainLoss)],
            test_correct: None,
            ranges: vec![],
            trials: vec![],
            staleness: vec![],
        };
        write_samples(dir.path(), &samples).unwrap();
        let file = File::open(dir.path().join(SAMPLES_FILE)).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut text)
            .unwrap();
        assert_eq!(serde_json::from_str::<Samples>(&text).unwrap(), samples);
        assert!(write_samples(dir.path(), &samples).is_err());
    }
}
