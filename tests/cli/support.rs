//! Runs the binary in a temporary folder, isolated from the user's environment.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use assert_cmd::Command;
use mantissa_core::Axis;
use serde_json::Value;
use tempfile::TempDir;

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .expect("cannot find the repository")
}

/// Returns the path of a suite under `tests/fixtures`, relative to any [`TestDir`].
pub fn fixture(name: &str) -> String {
    format!("fixtures/{name}.toml")
}

/// Runs a program until it exits, for at most half an hour. That is enough for dozens of PyTorch cells while other tests run.
pub fn run_to_exit(command: std::process::Command) -> Output {
    let half_an_hour = std::time::Duration::from_secs(1800);
    let output = Command::from_std(command).timeout(half_an_hour).output();
    output.expect("cannot start the program")
}

/// Temporary working directory with the fixtures and the repository's suites.
pub struct TestDir(TempDir);

impl TestDir {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("cannot create a temporary folder");
        copy_folder(&root().join("tests/fixtures"), &dir.path().join("fixtures"));
        copy_folder(&root().join("suites"), &dir.path().join("suites"));
        Self(dir)
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.0.path().join(relative)
    }

    /// Returns a command of the binary in this folder.
    pub fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_mantissa"));
        command.args(arguments).current_dir(self.0.path());
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("MANTISSA_")) {
            command.env_remove(name);
        }
        command.env("COLUMNS", "100"); // width of help texts
        command
    }

    /// Runs the binary in this folder until it exits.
    pub fn run(&self, arguments: &[&str]) -> Output {
        run_to_exit(self.command(arguments))
    }

    /// Returns the records of a run folder.
    pub fn records(&self, run: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.path(run).join("records.jsonl")).expect("cannot read the records");
        text.lines()
            .map(|line| serde_json::from_str(line).expect("invalid JSON in a record"))
            .collect()
    }

    /// Returns the samples of a record of the run folder `run`, as JSON.
    pub fn samples(&self, record: &Value) -> String {
        self.samples_of("run", record)
    }

    /// Returns the samples of a record of any run folder.
    pub fn samples_of(&self, run: &str, record: &Value) -> String {
        let folder = self
            .path(run)
            .join(record["samples"].as_str().expect("the record has no samples"));
        let file = fs::File::open(folder.join("samples.json.gz")).expect("cannot open the samples");
        std::io::read_to_string(flate2::read::GzDecoder::new(file)).expect("the samples are not text")
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("cannot create the folder");
    for entry in fs::read_dir(from).expect("cannot read the folder") {
        let path = entry.expect("cannot read an entry").path();
        let target = to.join(path.file_name().expect("the path has no file name"));
        if path.is_dir() {
            copy_folder(&path, &target)
        } else {
            fs::copy(&path, &target).map(drop).expect("cannot copy the file")
        }
    }
}

/// Formats the exit code and both streams, with cell ids masked.
pub fn snapshot_text(output: &Output) -> String {
    let code = output
        .status
        .code()
        .map_or_else(|| "none".to_owned(), |code| code.to_string());
    let text = |bytes: &[u8]| mask_ids_and_axes(&String::from_utf8_lossy(bytes));
    format!(
        "exit {code}\n--- stdout\n{}--- stderr\n{}",
        text(&output.stdout),
        text(&output.stderr)
    )
}

/// Masks words of sixteen hex digits, and the list of all axes.
fn mask_ids_and_axes(text: &str) -> String {
    let axes: Vec<String> = Axis::ALL.iter().map(|axis| format!("`{axis}`")).collect();
    let text = text.replace(&axes.join(", "), "[all axes]");
    let is_id = |word: &str| word.len() == 16 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    text.split_inclusive(|c: char| !c.is_ascii_alphanumeric())
        .map(|word| {
            let bare = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            if is_id(bare) {
                word.replace(bare, "[cell]")
            } else {
                word.to_owned()
            }
        })
        .collect()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns `workload status` of every record.
pub fn statuses(records: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let line = |record: &Value| {
        format!(
            "{} {}",
            text(&record["cell"]["workload"]["name"]),
            text(&record["status"])
        )
    };
    records.iter().map(line).collect()
}
