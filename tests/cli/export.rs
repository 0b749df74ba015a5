//! Exports of a run for other programs.

use std::fs;

use crate::support::{Place, fixture, stderr, stdout};

/// Creates a place with a run of two matmuls, in the folder `run`.
fn place() -> Place {
    let place = Place::new();
    let output = place.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    assert!(output.status.success(), "{}", stderr(&output));
    place
}

/// Returns the error of an export that fails. Checks that it writes nothing.
fn refused(place: &Place, arguments: &[&str]) -> String {
    let output = place.run(&[&["export"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    stderr(&output)
}

#[test]
fn every_format_of_text_goes_to_standard_output_and_is_the_same_in_a_file() {
    let place = place();
    for format in ["csv", "csv-wide", "latex", "markdown"] {
        let arguments = ["export", "run", "--format", format];
        let printed = place.run(&arguments);
        assert!(printed.status.success(), "{}", stderr(&printed));
        assert_eq!(stderr(&printed), "");
        let file = format!("exports/{format}");
        let written = place.run(&[&arguments[..], &["--out", &file]].concat());
        assert_eq!(stdout(&written), format!("{file}\n"));
        assert_eq!(fs::read(place.path(&file)).unwrap(), printed.stdout, "{format}");
    }
}

#[test]
fn the_tidy_rows_name_every_cell_and_only_the_metrics_asked_for() {
    let place = place();
    let metrics = ["--metric", "flops_per_second,relative_error"];
    let text = stdout(&place.run(&[&["export", "run", "--format=csv"], &metrics[..]].concat()));
    assert_eq!(text.lines().count(), 1 + 2 * 2, "{text}");
    assert!(text.starts_with("run,profile,gpu,"), "{text}");
    for record in place.records("run") {
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
fn parquet_goes_to_a_file_alone_and_its_bytes_are_the_same_every_time() {
    let place = place();
    let error = refused(&place, &["run", "--format", "parquet"]);
    assert!(
        error.starts_with("error: cannot write `parquet` to standard output"),
        "{error}"
    );
    assert!(error.contains("--out results.parquet"), "{error}");
    for name in ["a.parquet", "b.parquet"] {
        let output = place.run(&["export", "run", "--format=parquet", "--out", name]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let bytes = fs::read(place.path("a.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));
    assert_eq!(bytes, fs::read(place.path("b.parquet")).unwrap());
}

#[test]
fn several_runs_are_told_apart_by_name() {
    let place = place();
    let again = ["run", &fixture("kernels"), "--backend=flex", "--out=again"];
    assert!(place.run(&again).status.success());
    let text = stdout(&place.run(&["export", "run", "again", "--format=csv-wide"]));
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
    let error = refused(&place, &["run", "./run", "--format=csv"]);
    assert!(error.starts_with("error: two runs are named `run`"), "{error}");
}

#[test]
fn a_misspelt_metric_or_format_is_answered_with_the_nearest_name() {
    let place = Place::new();
    let error = refused(&place, &["run", "--format=csv", "--metric=test_acuracy"]);
    assert!(error.contains("unknown metric `test_acuracy`"), "{error}");
    assert!(error.contains("did you mean `test_accuracy`?"), "{error}");
    let error = refused(&place, &["run", "--format=markdwon"]);
    assert!(error.contains("did you mean `markdown`?"), "{error}");
}

#[test]
fn a_folder_without_a_run_is_one_clear_error() {
    let error = refused(&Place::new(), &["fixtures", "--format=csv"]);
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
fn a_run_without_a_cell_is_one_clear_error() {
    let place = place();
    let path = place.path("run/plan.json");
    let mut plan: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    plan["cells"] = serde_json::json!([]);
    fs::write(&path, plan.to_string()).unwrap();
    fs::write(place.path("run/records.jsonl"), "").unwrap();
    let error = refused(&place, &["run", "--format=csv"]);
    assert!(
        error.starts_with("error: cannot export run `run`: it has no cells"),
        "{error}"
    );
}

#[test]
fn recorded_data_is_never_overwritten() {
    let place = place();
    let before = fs::read(place.path("run/records.jsonl")).unwrap();
    let error = refused(&place, &["run", "--format=csv", "--out=run/records.jsonl"]);
    assert!(error.contains("cannot overwrite"), "{error}");
    assert_eq!(fs::read(place.path("run/records.jsonl")).unwrap(), before);
    for _ in 0..2 {
        let output = place.run(&["export", "run", "--format=csv", "--out=run/tidy.csv"]);
        assert!(output.status.success(), "{}", stderr(&output));
    }
}
