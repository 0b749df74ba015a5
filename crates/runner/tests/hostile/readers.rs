//! Entry points for untrusted run folders: resume, report and baseline. The fuzz target calls the same functions.

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use flate2::{Compression, write::GzEncoder};
use mantissa_core::Status;
use mantissa_gate::{Baselines, RunMeasurements};
use mantissa_report::{ExportFormat, Report, RunComparison, csv, export, markdown};
use mantissa_runner::{
    CellResult, Executor, Finished, Progress, ProgressEvent, ProgressUpdate, Request, RunError, RunFolder,
    Schedule, Stop,
};

/// Files of a run folder.
pub const FILES: [&str; 5] = [
    "plan.json",
    "run.json",
    "records.jsonl",
    "environment.json",
    "cells/c5172c8d996b88bd/0-0/samples.json.gz",
];

/// Folders between the temporary folder and the run, so that paths with a few `..` leave the run but not the temporary
/// folder.
const PARENT_FOLDERS: &str = "1/2/3/4/5/6";

/// Placeholder for an absolute path in the temporary folder.
pub const ABSOLUTE: &str = "/ABSOLUTE";

/// Returns the content of each of [`FILES`], with uncompressed samples: a run with eight cells, of which six have yet to
/// run.
pub fn valid() -> [Vec<u8>; 5] {
    let records = include_str!("../../../../tests/fixtures/golden-run/records.jsonl");
    let settings = serde_json::json!({
        "backend": "flex",
        "inputs": { "data": {}, "weights": {}, "vocabulary": null, "cache": ".mantissa/cache" },
        "repeats": 1,
        "suites": { "imdb-twelve-settings": "suites/imdb-twelve-settings.toml" },
    });
    [
        include_bytes!("../../../../tests/fixtures/golden-run/plan.json").to_vec(),
        settings.to_string().into_bytes(),
        records
            .split_inclusive('\n')
            .skip(1)
            .take(2)
            .collect::<String>()
            .into_bytes(),
        include_bytes!("../../../../tests/fixtures/golden-run/environment.json").to_vec(),
        br#"{"series":[{"name":"train_loss","unit":"nat","x_name":"optimizer step","x":[1.0,2.0,3.0],"y":[0.7,null,0.6]}],
            "test_correct":"1011","ranges":[],"trials":[]}"#
            .to_vec(),
    ]
}

/// Executor that finishes every cell immediately after it has written a file to the samples folder.
struct InstantExecutor {
    run: PathBuf,
}

impl Executor for InstantExecutor {
    fn execute(
        &mut self,
        request: &Request,
        _: Duration,
        _: &mut dyn FnMut(Option<ProgressUpdate>),
    ) -> Result<(CellResult, Vec<u8>), RunError> {
        let folder = request.samples.canonicalize().unwrap();
        assert!(folder.starts_with(&self.run), "{}", folder.display());
        fs::write(folder.join("samples.json.gz"), "samples").unwrap();
        let finished = Finished::without_result(Status::Ok, "");
        Ok((CellResult::Finished(Box::new(finished)), b"output".to_vec()))
    }
}

struct NoProgress;

impl Progress for NoProgress {
    fn on_event(&mut self, _: ProgressEvent<'_>) {}
}

/// Collects the paths of all files and folders below a folder. Skips the folders in `except`.
fn collect_paths(folder: &Path, except: [&Path; 2], found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if except.contains(&path.as_path()) {
            continue;
        }
        if path.is_dir() {
            collect_paths(&path, except, found);
        }
        found.insert(path);
    }
}

/// Resumes a run folder in which the file with index `number` of [`FILES`] has this content. Then makes the tables of the
/// run and, if `is_rendered`, its report and a baseline. Samples are passed without compression.
///
/// # Panics
/// If anything is written outside of the run folder.
pub fn run(number: usize, bytes: &[u8], is_rendered: bool) -> Result<(), String> {
    let root = tempfile::tempdir().unwrap();
    let run = root.path().join(PARENT_FOLDERS).join("run");
    fs::create_dir_all(&run).unwrap();
    let mut files = valid();
    let absolute = root.path().join("absolute").display().to_string();
    files[number] = bytes.to_vec();
    if let Ok(text) = str::from_utf8(bytes) {
        files[number] = text.replace(ABSOLUTE, &absolute).into_bytes();
    }
    let mut samples = GzEncoder::new(vec![], Compression::fast());
    samples.write_all(&files[4]).unwrap();
    files[4] = samples.finish().unwrap();
    for (name, bytes) in FILES.iter().zip(&files) {
        let path = run.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let baselines = root.path().join("baselines");
    let main = baselines.join("main");
    fs::create_dir_all(&main).unwrap();
    let outside = || {
        let mut found = BTreeSet::new();
        collect_paths(root.path(), [&run, &main], &mut found);
        found
    };
    let before = outside();
    let done = resume(&run)
        .and_then(|()| make_tables(&run))
        .and_then(|()| match is_rendered {
            true => render(&run, &baselines),
            false => Ok(()),
        });
    assert_eq!(
        outside(),
        before,
        "something was written outside of the run folder"
    );
    done
}

fn resume(run: &Path) -> Result<(), String> {
    let (mut folder, _) = RunFolder::open(run).map_err(|error| error.to_string())?;
    if folder.plan.cells.len() > 64 || folder.settings.repeats > 4 {
        // The plan is valid but would take too long.
        return Ok(());
    }
    let run = run.canonicalize().unwrap();
    let machine = folder.environment.fingerprint.clone();
    let backends = folder.plan.runnable().map(|cell| cell.setting.backend());
    let fingerprints = backends.map(|backend| (backend, machine.clone())).collect();
    let schedule = Schedule::new(&mut folder, fingerprints, Stop::default());
    let ended = schedule.run(&mut InstantExecutor { run }, &mut NoProgress);
    ended.map(drop).map_err(|error| error.to_string())
}

/// Makes the tables and exports of a run, and compares it with itself.
fn make_tables(run: &Path) -> Result<(), String> {
    let run = mantissa_report::load(run).map_err(|error| error.to_string())?;
    let report = || Report::new(&run).map_err(|error| error.to_string());
    let reports = [report()?, report()?];
    assert!(!markdown(&reports[0]).is_empty());
    csv(&reports[0]).map_err(|error| error.to_string())?;
    if let Err(error) = RunComparison::new(&reports) {
        let error = error.to_string();
        assert!(error.starts_with("the runs have no cell in common"), "{error}");
    }
    drop(reports);
    let runs = [run];
    for format in ExportFormat::ALL {
        export(&runs, *format, &[]).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn render(run: &Path, baselines: &Path) -> Result<(), String> {
    let loaded = mantissa_report::load(run).map_err(|error| error.to_string())?;
    mantissa_report::render(&loaded, run).map_err(|error| error.to_string())?;
    let measured = RunMeasurements::read(run).map_err(|error| error.to_string())?;
    let saved = Baselines::new(baselines).save("main", &measured);
    saved.map(drop).map_err(|error| error.to_string())
}
