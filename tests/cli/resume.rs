//! Runs into existing folders: they are resumed and never overwritten.

use std::fs;

use serde_json::{Value, json};

use crate::support::{TestDir, fixture, statuses, stderr};

#[test]
fn a_second_run_into_a_folder_is_rejected() {
    let dir = TestDir::new();
    let arguments = ["run", &fixture("kernels"), "--backend=flex", "--out=run"];
    dir.run(&arguments);
    let before = fs::read(dir.path("run/records.jsonl")).unwrap();
    let output = dir.run(&arguments);
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(
        error.starts_with(
            "error: `run` already contains a run\n  hint: run its missing cells with `--resume run`"
        ),
        "{error}"
    );
    assert_eq!(fs::read(dir.path("run/records.jsonl")).unwrap(), before);
}

#[test]
fn a_truncated_record_is_removed_and_its_cell_runs_again() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let file = dir.path("run/records.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let first = text.lines().next().unwrap().to_owned();
    fs::write(&file, &text[..first.len() + 100]).unwrap();
    let output = dir.run(&["run", "--resume", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("the last record is incomplete"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("recording 1 cells"),
        "{}",
        stderr(&output)
    );
    let again = fs::read_to_string(&file).unwrap();
    assert_eq!(again.lines().next().unwrap(), first);
    let records = dir.records("run");
    assert_eq!(statuses(&records), ["matmul ok", "matmul ok"]);
    assert_eq!(records[1]["attempt"], 1, "the files of the cut attempt are kept");
}

#[test]
fn resuming_a_complete_run_changes_no_records() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let before = fs::read(dir.path("run/records.jsonl")).unwrap();
    let output = dir.run(&["run", "--resume", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read(dir.path("run/records.jsonl")).unwrap(), before);
}

#[test]
fn repeats_of_a_run_can_be_increased_but_not_reduced() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let before = fs::read_to_string(dir.path("run/records.jsonl")).unwrap();
    let output = dir.run(&["run", "--resume", "run", "--repeats", "2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let after = fs::read_to_string(dir.path("run/records.jsonl")).unwrap();
    assert!(after.starts_with(&before), "earlier records must not change");
    let repeats: Vec<_> = dir
        .records("run")
        .iter()
        .map(|record| record["repeat"].clone())
        .collect();
    assert_eq!(repeats, [0, 0, 1, 1]);

    let fewer = dir.run(&["run", "--resume", "run", "--repeats", "1"]);
    assert_eq!(fewer.status.code(), Some(2));
    assert_eq!(
        stderr(&fewer).lines().next(),
        Some("error: `run` has 2 repeats, which cannot be reduced to 1")
    );
    assert_eq!(fs::read_to_string(dir.path("run/records.jsonl")).unwrap(), after);
}

#[test]
fn a_suite_sets_its_number_of_repeats_unless_the_command_line_does() {
    let dir = TestDir::new();
    let suite = fs::read_to_string(dir.path(&fixture("kernels"))).unwrap();
    fs::write(dir.path("three.toml"), suite + "\n[profile.smoke]\nrepeats = 3\n").unwrap();
    let run = |suites: &[&str], more: &[&str], out: &str| {
        let options = ["--profile=smoke", "--backend=flex", "-a", "size=64", "--out", out];
        let output = dir.run(&[&["run"], suites, &options, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let records = dir.records(out);
        let of = |suite: &str| {
            records
                .iter()
                .filter(|record| record["cell"]["suite"] == suite)
                .count()
        };
        (of("kernels"), of("three"))
    };
    // The suites have different workloads, because a cell of two suites is planned once.
    let three = fs::read_to_string(dir.path("three.toml")).unwrap();
    fs::write(
        dir.path("three.toml"),
        three.replace("name = \"matmul\"", "name = \"other\""),
    )
    .unwrap();
    let both = [&*fixture("kernels"), "three.toml"];
    assert_eq!(run(&both, &[], "run"), (1, 3));
    assert_eq!(run(&both, &["--repeats=2"], "two"), (2, 2));
    let resumed = dir.run(&["run", "--resume", "run", "--repeats", "2"]);
    assert_eq!(resumed.status.code(), Some(0), "{}", stderr(&resumed));
    assert_eq!(dir.records("run").len(), 5);
}

#[test]
fn a_resumed_run_rejects_different_options() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    fs::write(dir.path("train.tsv"), "0\tbad film\n1\tgood film\n").unwrap();
    for (options, message) in [
        (
            ["--data", "train.tsv"],
            "cannot use `--data train.tsv`: `run` was started with no `--data`",
        ),
        (
            ["--profile", "full"],
            "cannot use `--profile full`: `run` was started with `smoke`",
        ),
        (
            ["--label-column", "stars"],
            "cannot use `--label-column` or `--text-column`",
        ),
    ] {
        let output = dir.run(&[&["run", "--resume", "run"][..], &options].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    let output = dir.run(&["run", "--resume", "run", "--profile=smoke", "--backend=flex"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_resumed_run_stores_the_launcher_of_the_command_line_if_it_has_none() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let resume = |more: &[&str]| dir.run(&[&["run", "--resume", "run"][..], more].concat());
    let launcher = ["--mpirun", "mpirun --oversubscribe"];
    for _ in 0..2 {
        let output = resume(&launcher);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let settings = fs::read_to_string(dir.path("run/run.json")).unwrap();
        let settings: Value = serde_json::from_str(&settings).unwrap();
        assert_eq!(settings["mpirun"], json!(["mpirun", "--oversubscribe"]));
    }
    let hint = "hint: if you trust the recorded command, pass `--mpirun 'mpirun --oversubscribe'`";
    for (more, message) in [
        (&[][..], "resuming would run this command: mpirun --oversubscribe"),
        (
            &["--mpirun", "other"][..],
            "cannot use `--mpirun other`: `run` was started with another command: mpirun --oversubscribe",
        ),
    ] {
        let output = resume(more);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(message) && stderr(&output).contains(hint),
            "{}",
            stderr(&output)
        );
    }
    let output = resume(&["--mpirun", " "]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
