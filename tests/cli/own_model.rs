//! `examples/own_model.rs`: the command line of a program with its own model.

use std::{path::PathBuf, process::Command};

use crate::support::{TestDir, stderr, stdout};

/// Returns the path of the example, which is built next to the binary.
fn example() -> PathBuf {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_mantissa"));
    binary.with_file_name("examples").join("own_model")
}

/// Arguments that run the suite of the example into the folder `run`.
const RUN: [&str; 8] = [
    "run",
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/own_model.toml"),
    "--profile",
    "smoke",
    "--backend",
    "flex",
    "--out",
    "run",
];

#[test]
fn the_example_learns_in_every_precision_and_names_its_data() {
    let dir = TestDir::new();
    let arguments = ["-a", "precision=64-true,32-true,16-mixed,bf16-mixed,bf16-true"];
    let output = Command::new(example())
        .args(RUN)
        .args(arguments)
        .current_dir(dir.path(""))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(records.len(), 5);
    for record in &records {
        let precision = &record["cell"]["setting"]["precision"];
        assert_eq!(record["status"], "ok", "{precision}");
        assert_eq!(record["executed"]["verdict"], "as-requested", "{precision}");
        assert_eq!(record["data"]["name"], "two spirals");
        assert_eq!(record["data"]["synthetic"], true);
        // Chance is 0.5.
        let accuracy = record["metrics"]["test_accuracy"]["value"].as_f64().unwrap();
        assert!(accuracy > 0.6, "{precision}: {accuracy}");
    }
}

#[test]
fn a_program_without_an_own_model_rejects_the_suite() {
    let dir = TestDir::new();
    let output = dir.run(&RUN);
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let text = stderr(&output);
    assert!(
        text.contains("this program does not define its own model"),
        "{text}"
    );
}
