//! Runs on a disk that fills up. The system's limit on the file size stands in for it: both fail a write partway.
#![cfg(target_os = "linux")]

use crate::{
    processes::limited,
    support::{Place, fixture, statuses, stderr},
};

/// File size limit in KiB that has room for the plan of two cells and not for the records of many.
const ROOM: u32 = 16;

/// Returns the `sh` commands that set the limit. They ignore its signal, to make it an error.
fn full(kibibytes: u32) -> String {
    format!("trap '' XFSZ; ulimit -f {}", 2 * kibibytes)
}

#[test]
fn a_full_disk_stops_the_sweep_and_leaves_a_run_that_goes_on() {
    let place = Place::new();
    let run = place.command(&[
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "--out=run",
        "--repeats=20",
    ]);
    let output = limited(&full(ROOM), &run).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("error: cannot write `run/records.jsonl`: "),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("hint: free disk space"),
        "{}",
        stderr(&output)
    );
    let text = std::fs::read_to_string(place.path("run/records.jsonl")).unwrap();
    assert!(text.ends_with('\n'), "the last record must be complete");
    let before = place.records("run");
    assert!((1..40).contains(&before.len()), "{}", before.len());
    assert_eq!(place.run(&["report", "run"]).status.code(), Some(0));
    let output = place.run(&["run", "--resume", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("is incomplete"), "{}", stderr(&output));
    let after = place.records("run");
    assert_eq!(after[..before.len()], before);
    assert_eq!(statuses(&after), vec!["matmul ok"; 40]);
}

#[test]
fn samples_that_find_no_room_stop_the_sweep_too() {
    let place = Place::new();
    let run = place.command(&["run", &fixture("long"), "--backend=flex", "--out=run"]);
    let output = limited(&full(ROOM), &run).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("error: cannot write the samples: `run/cells/"),
        "{}",
        stderr(&output)
    );
    assert!(place.records("run").is_empty());
    let output = place.run(&["run", "--resume", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = place.records("run");
    assert_eq!(statuses(&records), ["matmul ok"]);
    assert!(
        place
            .path("run")
            .join(records[0]["samples"].as_str().unwrap())
            .join("samples.json.gz")
            .exists()
    );
}

#[test]
fn a_plan_that_finds_no_room_is_no_run_and_can_be_begun_again() {
    let place = Place::new();
    let arguments = ["run", &fixture("kernels"), "--backend=flex", "--out=run"];
    let output = limited(&full(1), &place.command(&arguments)).output().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(place.run(&["run", "--resume", "run"]).status.code(), Some(2));
    let output = place.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
