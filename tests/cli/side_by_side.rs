//! Reports of several runs side by side.

use crate::support::{TestDir, fixture, stderr, stdout};

/// Runs the small matmuls of the fixture into a folder.
fn run_into(dir: &TestDir, out: &str, size: &str) {
    let size = format!("-asize={size}");
    let arguments = ["run", &fixture("kernels"), "--backend=flex", "--out", out, &size];
    let output = dir.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn two_runs_are_rendered_side_by_side_into_a_new_folder() {
    let dir = TestDir::new();
    run_into(&dir, "before", "16");
    run_into(&dir, "after", "16");
    let output = dir.run(&["report", "before", "after", "--side-by-side", "--out", "both"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "both/side-by-side.html\n");
    for file in [
        "both/side-by-side.html",
        "both/side-by-side.md",
        "both/figures/side-by-side-kernels-matmul.svg",
        "both/figures/side-by-side-kernels-matmul.png",
        "both/figures/side-by-side-kernels-matmul.csv",
    ] {
        assert!(dir.path(file).exists(), "{file}");
    }
    let summary = std::fs::read_to_string(dir.path("both/side-by-side.md")).expect("cannot read the summary");
    assert!(
        summary.contains("**A** before") && summary.contains("**B** after"),
        "{summary}"
    );
    assert!(
        summary.contains("All runs have the same fingerprint."),
        "{summary}"
    );
    assert!(
        summary.contains("too few processes"),
        "one process per run: {summary}"
    );
    assert!(
        summary.contains("Relative errors of B and A are identical in "),
        "{summary}"
    );
}

#[test]
fn invalid_side_by_side_arguments_exit_with_2_and_write_nothing() {
    let dir = TestDir::new();
    run_into(&dir, "small", "16");
    run_into(&dir, "large", "32");
    let assert_rejected = |arguments: &[&str], why: &str| {
        let output = dir.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert!(stdout(&output).is_empty() && !dir.path("both").exists());
    };
    let both = ["--side-by-side", "--out", "both"];
    let arguments_for = |runs: &[&'static str]| [&["report"][..], runs, &both[..]].concat();
    assert_rejected(
        &arguments_for(&["small"]),
        "`--side-by-side` needs at least two runs",
    );
    assert_rejected(
        &arguments_for(&["small", "large", "./small"]),
        "`./small` is given twice",
    );
    assert_rejected(
        &arguments_for(&["small", "large"]),
        "the runs have no cell in common",
    );
    assert_rejected(
        &arguments_for(&["small", "fixtures"]),
        "hint: pass a folder that `mantissa run` created",
    );
    assert_rejected(&["report", "small", "large", "--side-by-side"], "--out <DIR>");
}
