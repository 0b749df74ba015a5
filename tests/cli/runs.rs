//! Runs from a suite to a report.

use crate::support::{TestDir, fixture, statuses, stderr, stdout};

#[test]
fn a_training_run_prints_a_table_and_the_path_of_its_report() {
    let dir = TestDir::new();
    let output = dir.run(&["run", &fixture("tiny"), "--backend", "flex", "--out", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let page = text.lines().last().unwrap();
    assert_eq!(page, "run/report.html");
    assert!(text.contains("32-true") && text.contains("high"), "{text}");
    for file in [
        "run/report.html",
        "run/results.csv",
        "run/summary.md",
        "run/suites/tiny.toml",
        "run/environment.json",
    ] {
        assert!(dir.path(file).exists(), "{file}");
    }
    let records = dir.records("run");
    let expected = ["tiny skipped", "tiny ok", "tiny ok", "tiny ok"];
    assert_eq!(statuses(&records), expected);
    assert!(
        records[0]["reason"]
            .as_str()
            .unwrap()
            .contains("`matmul=high` is not defined under `64-true`")
    );
    for record in &records[1..] {
        let metrics = &record["metrics"];
        assert_eq!(metrics["test_accuracy"]["n"], 32);
        assert!(metrics["train_seconds"]["value"].as_f64().unwrap() > 0.0);
        assert!(metrics["host_peak_bytes"]["value"].as_f64().unwrap() > 1e6);
        let samples = dir
            .path("run")
            .join(record["samples"].as_str().unwrap())
            .join("samples.json.gz");
        assert!(samples.exists(), "{}", samples.display());
    }
}

#[test]
fn the_command_of_a_record_runs_the_same_cell() {
    let dir = TestDir::new();
    let first = dir.run(&[
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "--out=a",
        "-a",
        "precision=32-true,bf16-true",
    ]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let record = dir.records("a").pop().unwrap();
    let words: Vec<&str> = record["command"]
        .as_str()
        .unwrap()
        .split(' ')
        .skip(1)
        .chain(["--out", "b"])
        .collect();
    let again = dir.run(&words);
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    let records = dir.records("b");
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["cell"]["id"], record["cell"]["id"]);
}

#[test]
fn json_prints_the_records_as_json_lines() {
    let dir = TestDir::new();
    let output = dir.run(&[
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "--out=run",
        "--json",
        "--quiet",
    ]);
    assert_eq!(stderr(&output), "");
    let text = stdout(&output);
    let lines: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines, dir.records("run"));
}

#[test]
fn a_violated_expectation_is_recorded_and_exits_with_3() {
    let dir = TestDir::new();
    let output = dir.run(&["run", &fixture("strict"), "--backend=flex", "--out=run"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("not as expected: matmul "),
        "{}",
        stderr(&output)
    );
    let records = dir.records("run");
    assert_eq!(records[0]["status"], "ok");
    let events = records[0]["events"].as_array().unwrap();
    assert!(
        events.iter().any(|event| event["kind"] == "expectation"),
        "{events:?}"
    );
}

#[test]
fn repeats_are_recorded_in_the_selected_order() {
    // Sizes and repeats in the order of the records.
    for (order, expected) in [
        ("rounds", [(16, 0), (32, 0), (32, 1), (16, 1)]),
        ("sorted", [(16, 0), (16, 1), (32, 0), (32, 1)]),
    ] {
        let dir = TestDir::new();
        let order = format!("--order={order}");
        dir.run(&[
            "run",
            &fixture("kernels"),
            "--backend=flex",
            "--out=run",
            "--repeats=2",
            &order,
        ]);
        let records = dir.records("run");
        let cells = records.iter().map(|record| {
            let size = record["cell"]["setting"]["size"].as_u64().unwrap();
            (size, record["repeat"].as_u64().unwrap())
        });
        assert_eq!(cells.collect::<Vec<_>>(), expected, "{order}");
    }
}

#[test]
fn layers_kept_in_f32_are_reported_separately() {
    let dir = TestDir::new();
    let output = dir.run(&[
        "run",
        &fixture("tiny"),
        "--backend=flex",
        "--out=run",
        "-a",
        "precision=bf16-mixed",
        "-a",
        "matmul=highest",
        "-a",
        "keep_f32=classifier",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let executed = &dir.records("run")[0]["executed"];
    assert_eq!(
        (&executed["verdict"], &executed["operand_bits"]),
        (&"as-requested".into(), &8.into())
    );
    let rounding = executed["rounding"].as_str().unwrap();
    assert!(rounding.contains("; layers kept in f32: "), "{rounding}");
    let kernels = executed["kernel"].as_str().unwrap();
    assert!(
        kernels.contains("bf16") && kernels.contains("f32 × f32 → f32"),
        "{kernels}"
    );
}

#[test]
fn a_moved_run_folder_can_be_reported() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    std::fs::rename(dir.path("run"), dir.path("moved")).unwrap();
    std::fs::remove_file(dir.path("moved/report.html")).unwrap();
    let output = dir.run(&["report", "moved"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().last(), Some("moved/report.html"));
    assert!(dir.path("moved/report.html").exists());
}

#[test]
fn several_suites_have_an_overview_and_single_file_writes_one_page() {
    let dir = TestDir::new();
    let suites = [fixture("kernels"), fixture("rows")];
    let output = dir.run(&["run", &suites[0], &suites[1], "--backend=flex", "--out=run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert_eq!(text.lines().last(), Some("run/index.html"));
    // The overview and the path.
    assert!(
        text.lines().count() <= 41 && text.contains("`--tables`"),
        "{text}"
    );
    assert!(!text.contains('│'), "{text}");
    let suite_pages = ["run/suites/kernels.html", "run/suites/rows.html"];
    for file in suite_pages
        .iter()
        .chain(&["run/index.html", "run/suites/kernels.toml"])
    {
        assert!(dir.path(file).is_file(), "{file}");
    }
    assert!(!dir.path("run/report.html").exists());

    let tables = dir.run(&["report", "run", "--tables"]);
    assert!(stdout(&tables).contains('│'), "{}", stdout(&tables));
    assert_eq!(stdout(&tables).lines().last(), Some("run/index.html"));

    let single = dir.run(&["report", "run", "--single-file"]);
    assert_eq!(single.status.code(), Some(0), "{}", stderr(&single));
    assert_eq!(stdout(&single).lines().last(), Some("run/report.html"));
    for file in suite_pages.iter().chain(&["run/index.html"]) {
        assert!(!dir.path(file).exists(), "{file}");
    }
    assert!(dir.path("run/suites/kernels.toml").is_file());

    let both = dir.run(&["report", "run", "--json", "--tables"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}

#[test]
fn observed_steps_are_in_the_record_and_in_its_samples() {
    let dir = TestDir::new();
    let output = dir.run(&["run", &fixture("observed"), "--backend", "flex", "--out", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = dir.records("run");
    let share = |record: &serde_json::Value, name: &str| record["metrics"][name]["value"].as_f64().unwrap();
    let [single, brain, mixed] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert!(share(brain, "lost_update_share") > 0.5);
    assert!(share(single, "lost_update_share") < 0.05 && share(mixed, "lost_update_share") < 0.05);
    assert!(share(mixed, "subnormal_share") > share(brain, "subnormal_share"));
    for record in &records {
        assert_eq!(share(record, "overflow_share"), 0.0);
        // Matmuls of the f64 or f32 reference steps are not attributed to the cell.
        assert_eq!(record["executed"]["verdict"], "as-requested");
        let mut events = record["events"].as_array().unwrap().iter();
        let event = events.find(|event| event["kind"] == "observed").unwrap();
        let detail = event["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("2 optimizer steps were also computed in f"),
            "{detail}"
        );
        let text = dir.samples(record);
        let samples: serde_json::Value = serde_json::from_str(&text).unwrap();
        let ranges = samples["ranges"].as_array().unwrap();
        assert!(
            ranges
                .iter()
                .any(|range| range["layer"] == "distilbert.transformer.layer.0.attention")
        );
    }
}
