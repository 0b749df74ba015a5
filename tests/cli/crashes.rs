//! Runs whose worker, or the run itself, is killed or crashes.
#![cfg(target_os = "linux")]

use std::process::{Child, Command, Stdio};

use crate::{
    processes::{child_of, limited, send, state, wait_for},
    support::{Place, fixture, statuses, stderr},
};

/// Starts a run whose first cell never ends.
fn endless(place: &Place) -> Child {
    let mut command = place.command(&[
        "run",
        &fixture("endless"),
        "--backend=flex",
        "--out=run",
        "--profile=smoke",
    ]);
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_killed_worker_is_a_failed_row_and_the_sweep_goes_on() {
    let place = Place::new();
    let run = endless(&place);
    send("KILL", wait_for("a worker", || child_of(run.id())));
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = place.records("run");
    assert_eq!(statuses(&records), ["endless failed", "short ok"]);
    assert_eq!(records[0]["reason"], "killed by another process (SIGKILL)");
}

#[test]
fn a_worker_whose_time_is_up_is_ended_and_the_sweep_goes_on() {
    let place = Place::new();
    let output = place.run(&[
        "run",
        &fixture("endless"),
        "--backend=flex",
        "--out=run",
        "--profile=standard",
        "--repeats=1",
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = place.records("run");
    assert_eq!(statuses(&records), ["endless timeout", "short ok"]);
    assert_eq!(records[0]["reason"], "killed after 2.04 s, the time limit");
}

#[test]
fn a_worker_does_not_outlive_its_run() {
    let place = Place::new();
    let mut run = endless(&place);
    let worker = wait_for("a worker", || child_of(run.id()));
    send("KILL", run.id());
    run.wait().unwrap();
    // Without a parent that reaps it, the worker stays a zombie, which counts as ended.
    wait_for("the worker's end", || {
        state(worker)
            .is_none_or(|(letter, _)| letter == 'Z')
            .then_some(())
    });
}

#[test]
fn what_a_worker_started_ends_with_it() {
    let place = Place::new();
    let run = endless(&place);
    let worker = wait_for("a worker", || child_of(run.id()));
    // A worker does not start processes itself. Simulate a child with a process that joins its group and keeps its standard output open. The run
    // does not wait for this process, because the test is its parent.
    let mut command = Command::new("sleep");
    command.arg("300").stdout(
        std::fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/{worker}/fd/1"))
            .unwrap(),
    );
    std::os::unix::process::CommandExt::process_group(&mut command, worker as i32);
    let mut companion = command.spawn().unwrap();
    send("KILL", worker);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(statuses(&place.records("run")), ["endless failed", "short ok"]);
    let end = companion.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&end), Some(9));
}

#[test]
fn memory_that_runs_out_is_a_row_with_the_peak_so_far() {
    let place = Place::new();
    let run = place.command(&[
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "--out=run",
        "-a",
        "size=32,16384",
    ]);
    // Each matrix has 1 GB, and the address space is limited to less than 2 GB.
    let output = limited("ulimit -v 1900000", &run).output().unwrap();
    let records = place.records("run");
    assert_eq!(
        statuses(&records),
        ["matmul ok", "matmul oom"],
        "{}",
        stderr(&output)
    );
    let peak = &records[1]["metrics"]["host_peak_bytes"];
    assert!(peak["value"].as_f64().is_some_and(|bytes| bytes > 1e6), "{peak}");
    assert!(
        peak["method"].as_str().unwrap().contains("before memory ran out"),
        "{peak}"
    );
}

#[test]
fn a_failure_is_tried_again_where_that_is_asked_for_and_every_attempt_is_kept() {
    let place = Place::new();
    let mut command = place.command(&[
        "run",
        &fixture("endless"),
        "--backend=flex",
        "--out=run",
        "--profile=standard",
        "--repeats=1",
        "--retries=1",
    ]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = place.records("run");
    assert_eq!(
        statuses(&records),
        ["endless timeout", "endless timeout", "short ok"]
    );
    assert_eq!(
        (&records[0]["attempt"], &records[1]["attempt"]),
        (&0.into(), &1.into())
    );
    assert_eq!(stderr(&output).matches("not as expected: endless").count(), 1);
}
