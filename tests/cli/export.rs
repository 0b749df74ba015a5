//! Exports of a run for other programs.

use std::fs;

use crate::support::{TestDir, fixture, stderr, stdout};

/// Creates a test folder with a run of two matmuls, in the folder `run`.
fn dir_with_run() -> TestDir {
    let dir = TestDir::new();
    let output = dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    assert!(output.status.success(), "{}", stderr(&output));
    dir
}

/// Returns the error of an export that fails. Checks that it writes nothing.
fn export_error(dir: &TestDir, arguments: &[&str]) -> String {
    let output = dir.run(&[&["export"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    stderr(&output)
}

#[test]
fn text_formats_are_identical_on_stdout_and_in_a_file() {
    let dir = dir_with_run();
    for format in ["csv", "csv-wide", "latex", "markdown"] {
        let arguments = ["export", "run", "--format", format];
        let printed = dir.run(&arguments);
        assert!(printed.status.success(), "{}", stderr(&printed));
        assert_eq!(stderr(&printed), "");
        let file = format!("exports/{format}");
        let written = dir.run(&[&arguments[..], &["--out", &file]].concat());
        assert_eq!(stdout(&written), format!("{file}\n"));
        assert_eq!(fs::read(dir.path(&file)).unwrap(), printed.stdout, "{format}");
    }
}

#[test]
fn csv_has_a_row_for_every_cell_and_selected_metric() {
    let dir = dir_with_run();
    let metrics = ["--metric", "flops_per_second,relative_error"];
    let text = stdout(&dir.run(&[&["export", "run", "--format=csv"], &metrics[..]].concat()));
    assert_eq!(text.lines().count(), 1 + 2 * 2, "{text}");
    assert!(text.starts_with("run,profile,gpu,"), "{text}");
    for record in dir.records("run") {
        let id = record["cell"]["id"].as_str().unwrap();
        assert_eq!(text.matches(id).count(), 2, "{text}");
        let value = record["metrics"]["flops_per_second"]["value"].as_f64().unwrap();
        assert!(
            text.contains(&format!(",flops_per_second,FLOP/s,{value},")),
            "{text}"
        );
    }
}

#[test]
fn parquet_needs_a_file_and_is_deterministic() {
    let dir = dir_with_run();
    let error = export_error(&dir, &["run", "--format", "parquet"]);
    assert!(
        error.starts_with("error: cannot write `parquet` to standard output"),
        "{error}"
    );
    assert!(error.contains("--out results.parquet"), "{error}");
    for name in ["a.parquet", "b.parquet"] {
        let output = dir.run(&["export", "run", "--format=parquet", "--out", name]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let bytes = fs::read(dir.path("a.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    assert_eq!(bytes, fs::read(dir.path("b.parquet")).unwrap());
}

#[test]
fn several_runs_are_distinguished_by_name() {
    let dir = dir_with_run();
    let again = ["run", &fixture("kernels"), "--backend=flex", "--out=again"];
    assert!(dir.run(&again).status.success());
    let text = stdout(&dir.run(&["export", "run", "again", "--format=csv-wide"]));
    assert_eq!(
        text.lines().filter(|line| line.starts_with("run,")).count(),
        1 + 2,
        "{text}"
    );
    assert_eq!(
        text.lines().filter(|line| line.starts_with("again,")).count(),
        2,
        "{text}"
    );
    let error = export_error(&dir, &["run", "./run", "--format=csv"]);
    assert!(error.starts_with("error: two runs are named `run`"), "{error}");
}

#[test]
fn an_unknown_metric_or_format_is_reported_with_a_suggestion() {
    let dir = TestDir::new();
    let error = export_error(&dir, &["run", "--format=csv", "--metric=test_acuracy"]);
    assert!(error.contains("unknown metric `test_acuracy`"), "{error}");
    assert!(error.contains("did you mean `test_accuracy`?"), "{error}");
    let error = export_error(&dir, &["run", "--format=markdwon"]);
    assert!(error.contains("did you mean `markdown`?"), "{error}");
}

#[test]
fn a_folder_without_a_run_is_rejected() {
    let error = export_error(&TestDir::new(), &["fixtures", "--format=csv"]);
    assert!(
        error.starts_with("error: `fixtures` is not a run folder: `environment.json` not found"),
        "{error}"
    );
    assert!(
        error.contains("hint: pass a folder that `mantissa run` created"),
        "{error}"
    );
    assert_eq!(error.lines().count(), 2, "{error}");
}

#[test]
fn a_run_without_cells_is_rejected() {
    let dir = dir_with_run();
    let path = dir.path("run/plan.json");
    let mut plan: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    plan["cells"] = serde_json::json!([]);
    fs::write(&path, plan.to_string()).unwrap();
    fs::write(dir.path("run/records.jsonl"), "").unwrap();
    let error = export_error(&dir, &["run", "--format=csv"]);
    assert!(
        error.starts_with("error: cannot export run `run`: it has no cells"),
        "{error}"
    );
}

#[test]
fn recorded_data_is_never_overwritten() {
    let dir = dir_with_run();
    let before = fs::read(dir.path("run/records.jsonl")).unwrap();
    let error = export_error(&dir, &["run", "--format=csv", "--out=run/records.jsonl"]);
    assert!(error.contains("cannot overwrite"), "{error}");
    assert_eq!(fs::read(dir.path("run/records.jsonl")).unwrap(), before);
    for _ in 0..2 {
        let output = dir.run(&["export", "run", "--format=csv", "--out=run/tidy.csv"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}
