//! Reports of several runs side by side.

use crate::support::{Place, fixture, stderr, stdout};

/// Runs the small matmuls of the fixture into a folder.
fn run_into(place: &Place, out: &str, size: &str) {
    let size = format!("-asize={size}");
    let arguments = ["run", &fixture("kernels"), "--backend=flex", "--out", out, &size];
    let output = place.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn two_runs_stand_side_by_side_in_a_folder_of_their_own() {
    let place = Place::new();
    run_into(&place, "before", "16");
    run_into(&place, "after", "16");
    let output = place.run(&["report", "before", "after", "--side-by-side", "--out", "both"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output), "both/side-by-side.html\n");
    for file in [
        "both/side-by-side.html",
        "both/side-by-side.md",
        "both/figures/side-by-side-kernels-matmul.svg",
        "both/figures/side-by-side-kernels-matmul.png",
    ] {
        assert!(place.path(file).exists(), "{file}");
    }
    let summary =
        std::fs::read_to_string(place.path("both/side-by-side.md")).expect("cannot read the summary");
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
fn what_cannot_stand_side_by_side_is_a_wrong_command_line_and_leaves_nothing_behind() {
    let place = Place::new();
    run_into(&place, "small", "16");
    run_into(&place, "large", "32");
    let refused = |arguments: &[&str], why: &str| {
        let output = place.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert!(stdout(&output).is_empty() && !place.path("both").exists());
    };
    let both = ["--side-by-side", "--out", "both"];
    let with = |runs: &[&'static str]| [&["report"][..], runs, &both[..]].concat();
    refused(&with(&["small"]), "`--side-by-side` needs at least two runs");
    refused(&with(&["small", "large", "./small"]), "`./small` is given twice");
    refused(&with(&["small", "large"]), "the runs have no cell in common");
    refused(
        &with(&["small", "fixtures"]),
        "hint: pass a folder that `mantissa run` created",
    );
    refused(&["report", "small", "large", "--side-by-side"], "--out <DIR>");
}
