//! `mantissa advise`.

use serde_json::Value;

use crate::support::{TestDir, fixture, stderr, stdout};

/// Creates a folder with a recorded run.
fn record_run(fixture_name: &str, axes: &[&str]) -> TestDir {
    let dir = TestDir::new();
    let suite = fixture(fixture_name);
    let arguments = ["run", &suite, "--backend", "flex", "--out", "run"];
    let output = dir.run(&[&arguments[..], axes].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    dir
}

#[test]
fn advice_for_training_lists_evidence_and_untested_settings() {
    let dir = record_run("tiny", &[]);
    let output = dir.run(&["advise", "run", "--accuracy-loss", "100"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in [
        "minimum time, at most 100 points of accuracy loss",
        "These are CPU times.",
        "This advice applies to this CPU.",
        "The data is synthetic.",
        "32-true · high",
        "Not tested:",
        "16-mixed",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        text,
        stdout(&dir.run(&["advise", "run", "--accuracy-loss", "100"]))
    );
}

#[test]
fn json_advice_lists_the_evidence() {
    let dir = record_run("tiny", &[]);
    let output = dir.run(&[
        "advise",
        "run",
        "--json",
        "--memory",
        "1B",
        "--minimise",
        "memory",
    ]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "no setting within the budget is not an error"
    );
    let all: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let group = &all[0]["workloads"][0];
    assert_eq!(
        (&all[0]["schema"], &all[0]["budget"]["memory_bytes"]),
        (&Value::from(1), &Value::from(1.0))
    );
    assert_eq!(group["cost"], "host_peak_bytes");
    assert_eq!(group["choices"][0]["chosen"], Value::Null);
    let evidence = group["choices"][0]["evidence"].as_array().unwrap();
    assert_eq!(evidence.len(), 3);
    for setting in evidence {
        let reasons = setting["reasons"].as_array().unwrap();
        assert!(
            reasons
                .iter()
                .any(|why| why.as_str().unwrap().contains("its peak memory of")),
            "{setting}"
        );
    }
}

#[test]
fn the_error_limit_applies_to_kernels() {
    let dir = record_run("kernels", &["-a", "precision=32-true,bf16-true"]);
    let text = stdout(&dir.run(&["advise", "run", "--error", "1e-5"]));
    assert!(text.contains("size 16: ") && text.contains("size 32: "), "{text}");
    assert!(
        text.contains("Use 32-true") && text.contains("is above 1.00×10⁻⁵"),
        "{text}"
    );
    assert!(stdout(&dir.run(&["advise", "run"])).contains("No error limit was given"));
}

#[test]
fn invalid_limits_are_rejected_with_a_hint() {
    let dir = TestDir::new();
    let cases = [
        (["--accuracy-loss", "-1"], "percentage points from 0 to 100"),
        (["--accuracy-loss", "NaN"], "percentage points from 0 to 100"),
        (["--error", "0"], "a number above 0"),
        (["--error", "-1e-3"], "a number above 0"),
        (["--memory", "0GB"], "a number above 0 with a unit"),
        (["--memory", "-1GB"], "a number above 0 with a unit"),
        (["--memory", "24"], "did you mean `24GB`?"),
        (["--memory", "3lightyears"], "units are `GB`"),
        (["--minimise", "cost"], "--minimise"),
    ];
    for (option, message) in cases {
        let output = dir.run(&["advise", "run", option[0], option[1]]);
        assert_eq!(output.status.code(), Some(2), "{option:?}");
        assert!(
            stderr(&output).contains(message),
            "{option:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_folder_without_a_run_is_rejected() {
    let dir = TestDir::new();
    for arguments in [&["advise", "nowhere"][..], &["advise", "suites"], &["advise"]] {
        let output = dir.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stdout(&output).is_empty(), "{arguments:?}");
    }
    let output = dir.run(&["advise", "suites"]);
    assert!(
        stderr(&output).contains("pass a folder that `mantissa run` created"),
        "{}",
        stderr(&output)
    );
}
