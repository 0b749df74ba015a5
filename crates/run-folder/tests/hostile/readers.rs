//! Functions that read a run folder with the given bytes as one of its files. The fuzz targets call them too.

use std::{fmt::Display, fs, io::Write as _, path::Path};

use flate2::{Compression, write::GzEncoder};
use mantissa_core::SeriesName;
use mantissa_run_folder::{LatestRecords, RecordReader, RunReader, SampleSelection};

/// Files of a run folder.
pub const FILES: [&str; 4] = [
    "environment.json",
    "plan.json",
    "records.jsonl",
    "cells/c5172c8d996b88bd/0-0/samples.json.gz",
];

/// Returns the contents of [`FILES`], with uncompressed samples. One of the two records has samples.
pub fn valid() -> [Vec<u8>; 4] {
    let records = include_str!("../../../../tests/fixtures/golden-run/records.jsonl");
    let records: String = records.split_inclusive('\n').skip(1).take(2).collect();
    let samples: &[u8] = br#"{"series":[{"name":"train_loss","unit":"nat","x_name":"optimizer step","x":[1.0,2.0,3.0],"y":[0.7,null,0.6]},
        {"name":"power_watts","unit":"W","x_name":"seconds","x":[0.1,0.2],"y":[70.5,71.0]}],
        "test_correct":"1011","ranges":[],"trials":[]}"#;
    [
        include_bytes!("../../../../tests/fixtures/golden-run/environment.json").to_vec(),
        include_bytes!("../../../../tests/fixtures/golden-run/plan.json").to_vec(),
        records.into_bytes(),
        samples.to_vec(),
    ]
}

fn message(error: impl Display) -> String {
    error.to_string()
}

/// Compresses samples as a run does.
pub fn packed(samples: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    packed.write_all(samples).unwrap();
    packed.finish().unwrap()
}

/// Reads a run folder in which the file with index `number` of [`FILES`] has these bytes. Samples are passed without
/// compression.
pub fn file(number: usize, bytes: &[u8]) -> Result<(), String> {
    let mut files = valid();
    files[number] = bytes.to_vec();
    files[3] = packed(&files[3]);
    read(&files)
}

/// Reads a run folder with these bytes as the compressed samples file.
pub fn packed_samples(bytes: &[u8]) -> Result<(), String> {
    let mut files = valid();
    files[3] = bytes.to_vec();
    read(&files)
}

fn read(files: &[Vec<u8>; 4]) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(message)?;
    for (name, bytes) in FILES.iter().zip(files) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder.path())).map_err(message)?;
        fs::write(path, bytes).map_err(message)?;
    }
    let run = RunReader::new(folder.path());
    run.environment().map_err(message)?;
    run.plan().map_err(message)?;
    let LatestRecords { records, .. } = run.latest_records().map_err(message)?;
    for record in &records {
        for selection in [
            SampleSelection::series(&[SeriesName::TrainLoss]),
            SampleSelection::RANGES,
        ] {
            run.samples(record, selection).map_err(message)?;
        }
    }
    Ok(())
}

/// Reads `records.jsonl`. Then reads its complete lines again, which must result in the same records.
pub fn records(bytes: &[u8]) -> Result<(), String> {
    let path = Path::new("records.jsonl");
    let mut reader = RecordReader::new(path, bytes);
    let records: Vec<_> = reader.by_ref().collect::<Result<_, _>>().map_err(message)?;
    let (complete, rest) = bytes.split_at(reader.complete_bytes() as usize);
    assert_eq!(reader.is_truncated(), !rest.is_empty());
    let mut again = RecordReader::new(path, complete);
    assert_eq!(
        again.by_ref().collect::<Result<Vec<_>, _>>().map_err(message)?,
        records
    );
    assert!(!again.is_truncated());
    Ok(())
}
