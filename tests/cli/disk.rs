//! Runs on a full disk, simulated with the system's limit on the file size. Like a full disk, the limit makes a write fail after some bytes.
#![cfg(target_os = "linux")]

use crate::{
    processes::with_shell_prelude,
    support::{TestDir, fixture, statuses, stderr},
};

/// File size limit in KiB. The plan of two cells fits, 40 records do not.
const SIZE_LIMIT_KIB: u32 = 16;

/// Returns the `sh` commands that limit the file size and ignore SIGXFSZ, so that the write fails with an error.
fn limit_file_size(kibibytes: u32) -> String {
    format!("trap '' XFSZ; ulimit -f {}", 2 * kibibytes)
}

#[test]
fn a_run_stopped_by_a_full_disk_can_be_resumed() {
    let dir = TestDir::new();
    let run = dir.command(&[
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "--out=run",
        "--repeats=20",
    ]);
    let output = with_shell_prelude(&limit_file_size(SIZE_LIMIT_KIB), &run)
        .output()
        .unwrap();
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
    let text = std::fs::read_to_string(dir.path("run/records.jsonl")).unwrap();
    assert!(text.ends_with('\n'), "the last record must be complete");
    let before = dir.records("run");
    assert!((1..40).contains(&before.len()), "{}", before.len());
    assert_eq!(dir.run(&["report", "run"]).status.code(), Some(0));
    let output = dir.run(&["run", "--resume", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("is incomplete"), "{}", stderr(&output));
    let after = dir.records("run");
    assert_eq!(after[..before.len()], before);
    assert_eq!(statuses(&after), vec!["matmul ok"; 40]);
}

#[test]
fn samples_that_do_not_fit_on_the_disk_stop_the_run() {
    let dir = TestDir::new();
    let run = dir.command(&["run", &fixture("long"), "--backend=flex", "--out=run"]);
    let output = with_shell_prelude(&limit_file_size(SIZE_LIMIT_KIB), &run)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("error: cannot write the samples: `run/cells/"),
        "{}",
        stderr(&output)
    );
    assert!(dir.records("run").is_empty());
    let output = dir.run(&["run", "--resume", "run"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(statuses(&records), ["matmul ok"]);
    assert!(
        dir.path("run")
            .join(records[0]["samples"].as_str().unwrap())
            .join("samples.json.gz")
            .exists()
    );
}

#[test]
fn a_plan_that_does_not_fit_on_the_disk_leaves_no_run() {
    let dir = TestDir::new();
    let arguments = ["run", &fixture("kernels"), "--backend=flex", "--out=run"];
    let output = with_shell_prelude(&limit_file_size(1), &dir.command(&arguments))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(dir.run(&["run", "--resume", "run"]).status.code(), Some(2));
    let output = dir.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
