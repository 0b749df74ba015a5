//! Error messages for invalid input.

use crate::support::{TestDir, fixture, snapshot_text, stderr, stdout};

#[test]
fn an_unknown_key_is_reported_with_its_position_and_a_suggestion() {
    insta::assert_snapshot!(snapshot_text(
        &TestDir::new().run(&["run", &fixture("unknown-key")])
    ));
}

#[test]
fn an_unknown_axis_is_reported_with_a_suggestion() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&[
        "run",
        &fixture("kernels"),
        "-a",
        "sise=16"
    ])));
}

#[test]
fn an_axis_that_the_suite_does_not_use_is_rejected() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&[
        "run",
        &fixture("kernels"),
        "-a",
        "optimizer=sgd"
    ])));
}

#[test]
fn run_without_a_suite_prints_a_hint() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&["run"])));
}

#[test]
fn an_unknown_suite_is_reported_with_a_suggestion() {
    insta::assert_snapshot!(snapshot_text(&TestDir::new().run(&["plan", "matmull"])));
}

#[test]
fn missing_data_is_reported_before_anything_runs() {
    let dir = TestDir::new();
    let output = dir.run(&["run", &fixture("tiny"), "--backend=flex", "--data", "nowhere"]);
    insta::assert_snapshot!(snapshot_text(&output));
    assert!(!dir.path("reports").exists());
}

#[test]
fn resume_and_report_reject_a_folder_without_a_run() {
    let dir = TestDir::new();
    insta::assert_snapshot!(snapshot_text(&dir.run(&["run", "--resume", "fixtures"])));
    assert_eq!(dir.run(&["report", "fixtures"]).status.code(), Some(2));
}

#[test]
fn an_unavailable_backend_exits_with_4_and_one_line() {
    let dir = TestDir::new();
    let mut command = dir.command(&["run", &fixture("kernels"), "--backend", "cuda"]);
    // Hide all devices, because the machine may have a GPU.
    let output = command.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    let error = stderr(&output);
    assert!(
        error.starts_with("error: backend `cuda` is not available: "),
        "{error}"
    );
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn json_plan_lists_the_data_of_each_workload() {
    let dir = TestDir::new();
    std::fs::write(dir.path("train.tsv"), "0\tbad film\n1\tgood film\n").unwrap();
    let suite = std::fs::read_to_string(dir.path(&fixture("tiny"))).unwrap();
    let files = suite.replace("synthetic-reviews", "reviews");
    std::fs::write(dir.path("files.toml"), files).unwrap();
    let plan = |more: &[&str]| -> serde_json::Value {
        let output = dir.run(&[&["plan", "files.toml", "--backend=flex", "--json"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    assert_eq!(plan(&[])["data"][0]["path"], serde_json::Value::Null);
    let read = &plan(&["--data", "train.tsv"])["data"][0];
    assert_eq!(
        (&read["kind"], &read["path"]),
        (&"reviews".into(), &"train.tsv".into())
    );
    let output = dir.run(&["plan", &fixture("tiny"), "--backend=flex", "--data", "train.tsv"]);
    assert!(
        stderr(&output).contains("hint: the suite uses synthetic data for `tiny`"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn options_that_no_workload_uses_are_rejected() {
    let dir = TestDir::new();
    std::fs::write(dir.path("train.tsv"), "0\tbad film\n1\tgood film\n").unwrap();
    for (options, message) in [
        (&["--label-column", "stars"][..], "cannot use `--label-column`"),
        (&["--text-column", "review"], "cannot use `--text-column`"),
        (&["--init", "random"], "cannot use `--init random`"),
        (
            &["--data", "train.tsv"],
            "cannot use `--data train.tsv`: no workload reads reviews",
        ),
    ] {
        for command in ["plan", "run"] {
            let output = dir.run(&[&[command, &fixture("kernels"), "--backend=flex"], options].concat());
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            assert!(stderr(&output).contains(message), "{}", stderr(&output));
        }
    }
    assert!(!dir.path("reports").exists());
}

#[test]
fn weights_that_no_workload_uses_are_rejected() {
    let dir = TestDir::new();
    std::fs::write(dir.path("w.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    std::fs::write(dir.path("train.tsv"), "0\tbad film\n1\tgood film\n").unwrap();
    let suite = std::fs::read_to_string(dir.path(&fixture("tiny"))).unwrap();
    std::fs::write(
        dir.path("files.toml"),
        suite.replace("synthetic-reviews", "reviews"),
    )
    .unwrap();
    let plan = |weights: &[&str]| {
        let weights = weights.iter().flat_map(|weights| ["--weights", weights]);
        let arguments: Vec<&str> = [
            "plan",
            "files.toml",
            "kernels.toml",
            "--backend=flex",
            "--data=train.tsv",
        ]
        .into_iter()
        .chain(weights)
        .collect();
        let output = dir.run(&arguments);
        (output.status.code(), stderr(&output))
    };
    std::fs::copy(dir.path(&fixture("kernels")), dir.path("kernels.toml")).unwrap();
    assert_eq!(plan(&["tiny=w.safetensors"]).0, Some(0));
    for weights in [
        &["matmul=w.safetensors"][..],
        &["tiny=w.safetensors", "matmul=w.safetensors"],
        &["tiny=w.safetensors", "w.safetensors"],
    ] {
        let (code, error) = plan(weights);
        assert_eq!(code, Some(2), "{weights:?}: {error}");
        assert!(
            error.contains(": no workload of this run starts from these weights"),
            "{error}"
        );
    }
}
