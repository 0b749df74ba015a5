//! Tests of errors and of the selection of the latest records.

use std::{
    fs,
    path::{Path, PathBuf},
};

use mantissa_core::{Record, Status};
use mantissa_run_folder::{FolderError, LatestRecords, RECORDS_FILE, RunReader, SampleSelection};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures")
        .join(name)
}

/// Copies the files of the recorded run `golden-run`, without samples.
fn golden(folder: &Path) -> RunReader {
    for file in ["environment.json", "plan.json", RECORDS_FILE] {
        fs::copy(fixture("golden-run").join(file), folder.join(file)).unwrap();
    }
    RunReader::new(folder)
}

#[test]
fn errors_name_missing_files_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let error = RunReader::new(folder.path()).plan().unwrap_err().to_string();
    assert!(
        error.contains("is not a run folder: `plan.json` not found"),
        "{error}"
    );
    let missing = RunReader::new(&folder.path().join("none"));
    for error in [missing.plan().unwrap_err(), missing.latest_records().unwrap_err()] {
        assert!(matches!(error, FolderError::NoFolder { .. }), "{error}");
    }
}

#[test]
fn a_newer_schema_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let run = golden(folder.path());
    let path = folder.path().join(RECORDS_FILE);
    // A later version may have another structure.
    fs::write(&path, "{\"schema\": 99, \"measurement\": {}}\n").unwrap();
    let future = RunReader::new(&fixture("future-run"));
    for error in [
        future.environment().unwrap_err(),
        run.latest_records().unwrap_err(),
    ] {
        assert!(
            matches!(error, FolderError::NewerSchema { found: 99, .. }),
            "{error}"
        );
    }
}

#[test]
fn errors_name_the_line_of_the_record() {
    let folder = tempfile::tempdir().unwrap();
    let run = golden(folder.path());
    let path = folder.path().join(RECORDS_FILE);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    for broken in [
        "{}",
        "not json",
        "[1]",
        &lines[0].replacen("\"status\"", "\"state\"", 1),
    ] {
        fs::write(&path, format!("{}\n\n{broken}\n", lines[0])).unwrap();
        let error = run.latest_records().unwrap_err().to_string();
        assert!(error.starts_with("line 3 of `"), "{broken}: {error}");
    }
}

#[test]
fn the_latest_attempt_counts_and_a_truncated_line_is_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let run = golden(folder.path());
    let path = folder.path().join(RECORDS_FILE);
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().nth(2).unwrap();
    let attempt = |number: u32, status: &str| {
        line.replacen("\"attempt\": 0", &format!("\"attempt\": {number}"), 1)
            .replacen("\"status\": \"ok\"", &format!("\"status\": \"{status}\""), 1)
            + "\n"
    };
    let all = [attempt(0, "failed"), attempt(2, "oom"), attempt(1, "timeout")].concat();
    fs::write(&path, format!("{all}{}", &line[..100])).unwrap();
    let LatestRecords {
        records,
        is_truncated,
    } = run.latest_records().unwrap();
    assert!(is_truncated);
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].attempt, records[0].status), (2, Status::Oom));
}

#[test]
fn samples_outside_of_the_run_folder_are_rejected() {
    let run = RunReader::new(&fixture("golden-run"));
    let mut record = run.latest_records().unwrap().records.remove(2);
    let read = |record: &Record| run.samples(record, SampleSelection::RANGES);
    assert!(read(&record).unwrap().is_some());
    for path in ["../golden-run/cells", "/etc", ".."] {
        record.samples = Some(path.into());
        assert!(
            matches!(read(&record), Err(FolderError::Outside { .. })),
            "{path}"
        );
    }
    record.samples = Some("cells/none".into());
    let error = read(&record).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot read `cells/none/samples.json.gz`"),
        "{error}"
    );
}
