//! Error messages for invalid input.

use crate::support::{Place, fixture, shown, stderr, stdout};

#[test]
fn an_unknown_key_is_shown_with_its_place_and_the_nearest_name() {
    insta::assert_snapshot!(shown(&Place::new().run(&["run", &fixture("unknown-key")])));
}

#[test]
fn an_unknown_axis_is_answered_with_the_nearest_one() {
    insta::assert_snapshot!(shown(&Place::new().run(&[
        "run",
        &fixture("kernels"),
        "-a",
        "sise=16"
    ])));
}

#[test]
fn an_axis_that_means_nothing_to_the_suite_is_refused() {
    insta::assert_snapshot!(shown(&Place::new().run(&[
        "run",
        &fixture("kernels"),
        "-a",
        "optimizer=sgd"
    ])));
}

#[test]
fn a_run_without_a_suite_says_what_to_name() {
    insta::assert_snapshot!(shown(&Place::new().run(&["run"])));
}

#[test]
fn a_suite_that_is_not_there_is_answered_with_the_nearest_one() {
    insta::assert_snapshot!(shown(&Place::new().run(&["plan", "matmull"])));
}

#[test]
fn data_that_is_not_there_is_an_error_before_anything_runs() {
    let place = Place::new();
    let output = place.run(&["run", &fixture("tiny"), "--backend=flex", "--data", "nowhere"]);
    insta::assert_snapshot!(shown(&output));
    assert!(!place.path("reports").exists());
}

#[test]
fn a_folder_without_a_run_is_neither_resumed_nor_reported() {
    let place = Place::new();
    insta::assert_snapshot!(shown(&place.run(&["run", "--resume", "fixtures"])));
    assert_eq!(place.run(&["report", "fixtures"]).status.code(), Some(2));
}

#[test]
fn a_backend_asked_for_by_name_that_is_not_there_is_one_line_and_exit_4() {
    let place = Place::new();
    let mut command = place.command(&["run", &fixture("kernels"), "--backend", "cuda"]);
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
fn a_plan_as_json_names_the_data_that_each_workload_reads() {
    let place = Place::new();
    std::fs::write(place.path("train.tsv"), "0\tbad film\n1\tgood film\n").unwrap();
    let suite = std::fs::read_to_string(place.path(&fixture("tiny"))).unwrap();
    let files = suite.replace("synthetic-reviews", "reviews");
    std::fs::write(place.path("files.toml"), files).unwrap();
    let plan = |more: &[&str]| -> serde_json::Value {
        let output = place.run(&[&["plan", "files.toml", "--backend=flex", "--json"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    assert_eq!(plan(&[])["data"][0]["path"], serde_json::Value::Null);
    let read = &plan(&["--data", "train.tsv"])["data"][0];
    assert_eq!(
        (&read["kind"], &read["path"]),
        (&"reviews".into(), &"train.tsv".into())
    );
    let output = place.run(&["plan", &fixture("tiny"), "--backend=flex", "--data", "train.tsv"]);
    assert!(
        stderr(&output).contains("hint: the suite uses synthetic data for `tiny`"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn options_that_no_workload_reads_are_errors() {
    let place = Place::new();
    std::fs::write(place.path("train.tsv"), "0\tbad film\n1\tgood film\n").unwrap();
    for (given, message) in [
        (&["--label-column", "stars"][..], "cannot use `--label-column`"),
        (&["--text-column", "review"], "cannot use `--text-column`"),
        (&["--init", "random"], "cannot use `--init random`"),
        (
            &["--data", "train.tsv"],
            "cannot use `--data train.tsv`: no workload reads reviews",
        ),
    ] {
        for command in ["plan", "run"] {
            let output = place.run(&[&[command, &fixture("kernels"), "--backend=flex"], given].concat());
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
            assert!(stderr(&output).contains(message), "{}", stderr(&output));
        }
    }
    assert!(!place.path("reports").exists());
}

#[test]
fn weights_that_no_workload_starts_from_are_errors() {
    let place = Place::new();
    std::fs::write(place.path("w.safetensors"), b"\x02\0\0\0\0\0\0\0{}").unwrap();
    std::fs::write(place.path("train.tsv"), "0\tbad film\n1\tgood film\n").unwrap();
    let suite = std::fs::read_to_string(place.path(&fixture("tiny"))).unwrap();
    std::fs::write(
        place.path("files.toml"),
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
        let output = place.run(&arguments);
        (output.status.code(), stderr(&output))
    };
    std::fs::copy(place.path(&fixture("kernels")), place.path("kernels.toml")).unwrap();
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
