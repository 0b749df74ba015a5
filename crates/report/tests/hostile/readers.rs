//! Functions that read a run folder with the given bytes as one of its files. The fuzz targets call them too.

use std::{
    fmt::Display,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use crate::support::{Add, cell, loss, matmul, record, run, suite, train_metrics, workload};
use flate2::{Compression, write::GzEncoder};
use mantissa_core::{Axis, Status};
use mantissa_report::{ExportFormat, Report, RunComparison, csv, export, load, markdown};

/// Files of a run folder.
pub const FILES: [&str; 4] = [
    "environment.json",
    "plan.json",
    "records.jsonl",
    "samples/highest/samples.json.gz",
];

/// Returns the contents of [`FILES`] of a small run, with unpacked samples.
pub fn valid() -> [Vec<u8>; 4] {
    let mut run = run(vec![suite("s", "S", &["distilbert-imdb"], &[Axis::Matmul])]);
    for (workload, seconds) in [(workload("w"), 100.0), (matmul(), 1.0)] {
        for matmul in ["highest", "high"] {
            let cell = cell("s", &workload, &[(Axis::Matmul, matmul)]);
            let mut record = record(&cell, Status::Ok, None);
            train_metrics(&mut record, seconds, 800, 1e9);
            record.samples = Some(format!("samples/{matmul}"));
            run.add(record, None);
        }
    }
    let mut records = vec![];
    for record in &run.records {
        serde_json::to_writer(&mut records, record).unwrap();
        records.push(b'\n');
    }
    [
        serde_json::to_vec(&run.environment).unwrap(),
        serde_json::to_vec(&run.plan).unwrap(),
        records,
        serde_json::to_vec(&loss(1, None)).unwrap(),
    ]
}

/// Temporary folder that is removed on drop.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn message(error: impl Display) -> String {
    error.to_string()
}

/// Reads a run folder in which one of [`FILES`] has these bytes, and renders its tables. Samples are unpacked bytes.
pub fn file(number: usize, bytes: &[u8]) -> Result<(), String> {
    static FOLDERS: AtomicU64 = AtomicU64::new(0);
    let own = FOLDERS.fetch_add(1, Ordering::Relaxed);
    let own = format!("mantissa-hostile-run-{}-{own}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(own));
    let mut files = valid();
    files[number] = bytes.to_vec();
    let mut packed = GzEncoder::new(vec![], Compression::fast());
    packed.write_all(&files[3]).map_err(message)?;
    files[3] = packed.finish().map_err(message)?;
    put(&folder.0, &files)
}

/// Reads a run folder with these bytes as packed samples.
pub fn packed_samples(bytes: &[u8]) -> Result<(), String> {
    let folder = Folder(std::env::temp_dir().join(format!("mantissa-hostile-packed-{}", std::process::id())));
    let mut files = valid();
    files[3] = bytes.to_vec();
    put(&folder.0, &files)
}

fn put(folder: &Path, files: &[Vec<u8>; 4]) -> Result<(), String> {
    for (name, bytes) in FILES.iter().zip(files) {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(message)?;
        fs::write(path, bytes).map_err(message)?;
    }
    let run = load(folder).map_err(message)?;
    // A fuzz target calls this a million times, which would take days if it rendered reports.
    if std::env::var_os("MANTISSA_HOSTILE_PARSE_ONLY").is_some() {
        return Ok(());
    }
    let report = Report::new(&run).map_err(message)?;
    assert!(!markdown(&report).is_empty());
    csv(&report).map_err(message)?;
    let reports = [Report::new(&run).map_err(message)?, report];
    if let Err(error) = RunComparison::new(&reports) {
        let error = error.to_string();
        assert!(error.starts_with("the runs have no cell in common"), "{error}");
    }
    drop(reports);
    let runs = [run];
    for format in ExportFormat::ALL {
        export(&runs, *format, &[]).map_err(message)?;
    }
    Ok(())
}
