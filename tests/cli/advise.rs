//! `mantissa advise`.

use serde_json::Value;

use crate::support::{Place, fixture, stderr, stdout};

/// Creates a folder with a recorded run.
fn recorded(fixture_name: &str, axes: &[&str]) -> Place {
    let place = Place::new();
    let suite = fixture(fixture_name);
    let arguments = ["run", &suite, "--backend", "flex", "--out", "run"];
    let output = place.run(&[&arguments[..], axes].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    place
}

#[test]
fn a_training_is_advised_with_evidence_gaps_and_what_it_is_about() {
    let place = recorded("tiny", &[]);
    let output = place.run(&["advise", "run", "--accuracy-loss", "100"]);
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
        stdout(&place.run(&["advise", "run", "--accuracy-loss", "100"]))
    );
}

#[test]
fn the_same_facts_are_json() {
    let place = recorded("tiny", &[]);
    let output = place.run(&[
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
    for one in evidence {
        let reasons = one["reasons"].as_array().unwrap();
        assert!(
            reasons
                .iter()
                .any(|why| why.as_str().unwrap().contains("its peak memory of")),
            "{one}"
        );
    }
}

#[test]
fn kernels_take_a_bound_of_their_error() {
    let place = recorded("kernels", &["-a", "precision=32-true,bf16-true"]);
    let text = stdout(&place.run(&["advise", "run", "--error", "1e-5"]));
    assert!(text.contains("size 16: ") && text.contains("size 32: "), "{text}");
    assert!(
        text.contains("Use 32-true") && text.contains("is above 1.00×10⁻⁵"),
        "{text}"
    );
    assert!(stdout(&place.run(&["advise", "run"])).contains("No error limit was given"));
}

#[test]
fn limits_that_are_none_are_refused_with_what_to_give() {
    let place = Place::new();
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
        let output = place.run(&["advise", "run", option[0], option[1]]);
        assert_eq!(output.status.code(), Some(2), "{option:?}");
        assert!(
            stderr(&output).contains(message),
            "{option:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_folder_without_a_run_is_refused() {
    let place = Place::new();
    for arguments in [&["advise", "nowhere"][..], &["advise", "suites"], &["advise"]] {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stdout(&output).is_empty(), "{arguments:?}");
    }
    let output = place.run(&["advise", "suites"]);
    assert!(
        stderr(&output).contains("pass a folder that `mantissa run` created"),
        "{}",
        stderr(&output)
    );
}
