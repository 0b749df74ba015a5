//! Data and weights that come with suites.

use std::fs;

use serde_json::Value;

use crate::support::{TestDir, stderr, stdout};

const STORIES: &str = "suites/evaluate/stories-perplexity.toml";

fn value(record: &Value, metric: &str) -> f64 {
    record["metrics"][metric]["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("no `{metric}` in {record:#}"))
}

fn ok_records(dir: &TestDir, arguments: &[&str]) -> Vec<Value> {
    let output = dir.run(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let records = dir.records("run");
    records
        .into_iter()
        .filter(|record| record["status"] == "ok")
        .collect()
}

#[test]
fn the_perplexity_of_the_shipped_stories_matches_pytorch() {
    let dir = TestDir::new();
    let axes = ["-a", "precision=32-true", "-a", "sequence=512", "-a", "batch=1"];
    let run = [
        "run",
        STORIES,
        "--profile=smoke",
        "--backend=flex",
        "--repeats=1",
        "--out=run",
    ];
    let records = ok_records(&dir, &[&run[..], &axes].concat());
    // The larger model has no weights, so its cell is skipped.
    let [record] = &records[..] else {
        panic!("{} records", records.len());
    };
    assert_eq!(record["cell"]["workload"]["name"], "stories-260k");
    // Mean loss of the five stories in f64, by `peers/pytorch/golden/stories.py`.
    let expected = 1.266_441_031_332_281_6_f64;
    assert!((value(record, "test_loss") - expected).abs() < 1e-5, "{record:#}");
    assert!(
        (value(record, "perplexity") - expected.exp()).abs() < 1e-4,
        "{record:#}"
    );
    let files: Vec<&str> = record["inputs"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|file| file["name"].as_str())
        .collect();
    for file in ["stories.txt", "tok512.bin", "stories260K.bin"] {
        assert!(files.contains(&file), "{files:?}");
    }
    // The command uses the files of the suite as well, and resuming finds them from another folder.
    let command = record["command"].as_str().unwrap();
    assert!(
        !command.contains("--data") && !command.contains("--weights"),
        "{command}"
    );
    fs::create_dir(dir.path("elsewhere")).unwrap();
    let mut resumed = dir.command(&["run", "--resume", "../run", "--repeats=2"]);
    resumed.current_dir(dir.path("elsewhere"));
    let output = resumed.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        dir.records("run")
            .iter()
            .filter(|record| record["status"] == "ok")
            .count(),
        2
    );
}

#[test]
fn files_of_the_command_line_replace_all_files_of_a_suite() {
    let dir = TestDir::new();
    let planned = |options: &[&str]| {
        let plan = ["plan", STORIES, "--profile=smoke", "--backend=flex"];
        stdout(&dir.run(&[&plan[..], options].concat()))
    };
    let own = planned(&[]);
    assert!(
        own.contains("text from `suites/evaluate/../inputs/stories/stories.txt`"),
        "{own}"
    );
    assert!(own.contains("5 to run, 5 skipped"), "{own}");
    let other_data = planned(&["--data=suites/inputs/stories/stories.txt"]);
    assert!(other_data.contains("0 to run, 10 skipped"), "{other_data}");
    let random = planned(&["--init=random"]);
    assert!(
        random.contains("10 to run, 0 skipped") && random.contains("synthetic-text"),
        "{random}"
    );
}

#[test]
fn a_missing_file_of_a_suite_is_named() {
    let dir = TestDir::new();
    fs::remove_file(dir.path("suites/inputs/stories/tok512.bin")).unwrap();
    let output = dir.run(&["run", STORIES, "--backend=flex", "--out=run"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = stderr(&output);
    let expected = "cannot read `suites/evaluate/../inputs/stories/tok512.bin` of the suite `stories-perplexity`: it does not exist";
    assert!(errors.contains(expected), "{errors}");
}

#[test]
fn saved_weights_have_the_accuracy_of_their_training() {
    let dir = TestDir::new();
    let train = [
        "run",
        "suites/training/digits.toml",
        "--profile=smoke",
        "--backend=flex",
        "--out=run",
    ];
    let axes = [
        "-a",
        "precision=32-true,bf16-true",
        "-a",
        "seed=1",
        "--save-weights",
    ];
    let trained = ok_records(&dir, &[&train[..], &axes].concat());
    assert_eq!(trained.len(), 2);
    for record in &trained {
        let samples = record["samples"].as_str().unwrap();
        fs::copy(
            dir.path("run").join(samples).join("weights.safetensors"),
            dir.path("weights.safetensors"),
        )
        .unwrap();
        let _ = fs::remove_dir_all(dir.path("evaluated"));
        let suite = fs::read_to_string(dir.path("suites/evaluate/resnet-digits.toml")).unwrap();
        let suite = suite.replace("depth = 8 }", "depth = 8, width = 4 }");
        fs::write(
            dir.path("narrow.toml"),
            suite.replace("../inputs", "suites/inputs"),
        )
        .unwrap();
        let precision = record["cell"]["setting"]["precision"].as_str().unwrap();
        let output = dir.run(&[
            "run",
            "narrow.toml",
            "--profile=smoke",
            "--backend=flex",
            "--out=evaluated",
            "--repeats=1",
            "--weights=weights.safetensors",
            "--data=suites/inputs/digits",
            "-a",
            &format!("precision={precision}"),
            "-a",
            "batch=50",
        ]);
        let records = dir.records("evaluated");
        let [evaluated] = &records[..] else {
            panic!("{}", stderr(&output));
        };
        // The same images in the same batches and format: the same predictions.
        assert_eq!(
            value(record, "test_accuracy"),
            value(evaluated, "test_accuracy"),
            "{precision}"
        );
    }
}
