//! `mantissa sensitivity`.

use crate::support::{TestDir, fixture, stderr, stdout};

#[test]
fn a_model_is_tested_with_fewer_and_fewer_bits() {
    let dir = TestDir::new();
    let output = dir.run(&[
        "sensitivity",
        &fixture("tiny"),
        "--backend",
        "flex",
        "--out",
        "run",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for word in ["e8m23", "e2m10", "e8m1", "tiny is ", "exponent bits and"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let records = dir.records("run");
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["cell"]["setting"]["precision"], "32-true");
    assert_eq!(records[0]["executed"]["verdict"], "as-requested");
    let samples: serde_json::Value = serde_json::from_str(&dir.samples(&records[0])).unwrap();
    assert!(samples["trials"].as_array().unwrap().len() >= 18);
}

#[test]
fn a_suite_without_training_in_f32_is_rejected() {
    let dir = TestDir::new();
    for arguments in [
        &["sensitivity", "fixtures/kernels.toml", "--backend", "flex"][..],
        &[
            "sensitivity",
            "fixtures/tiny.toml",
            "--backend",
            "flex",
            "-a",
            "precision=bf16-mixed",
        ],
    ] {
        let output = dir.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
        assert!(
            stderr(&output).contains("no cell trains under `precision=32-true`"),
            "{}",
            stderr(&output)
        );
    }
}
