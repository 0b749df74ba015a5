//! Runs whose worker, or the run itself, is killed or crashes.
#![cfg(target_os = "linux")]

use std::process::{Child, Command, Stdio};

use crate::{
    processes::{child_of, send, state, wait_for, with_shell_prelude},
    support::{TestDir, fixture, statuses, stderr},
};

/// Starts a run whose first cell never ends.
fn spawn_endless_run(dir: &TestDir) -> Child {
    let mut command = dir.command(&[
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
fn a_killed_worker_fails_its_cell_and_the_run_continues() {
    let dir = TestDir::new();
    let run = spawn_endless_run(&dir);
    send("KILL", wait_for("a worker", || child_of(run.id())));
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(statuses(&records), ["endless failed", "short ok"]);
    assert_eq!(records[0]["reason"], "killed by another process (SIGKILL)");
}

#[test]
fn a_worker_past_its_time_limit_is_killed_and_the_run_continues() {
    let dir = TestDir::new();
    let output = dir.run(&[
        "run",
        &fixture("endless"),
        "--backend=flex",
        "--out=run",
        "--profile=standard",
        "--repeats=1",
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(statuses(&records), ["endless timeout", "short ok"]);
    assert_eq!(records[0]["reason"], "killed after 2.04 s, the time limit");
}

#[test]
fn a_worker_does_not_outlive_its_run() {
    let dir = TestDir::new();
    let mut run = spawn_endless_run(&dir);
    let worker = wait_for("a worker", || child_of(run.id()));
    send("KILL", run.id());
    run.wait().unwrap();
    // No parent reaps the worker, so a zombie counts as exited.
    wait_for("the worker's end", || {
        state(worker)
            .is_none_or(|(letter, _)| letter == 'Z')
            .then_some(())
    });
}

#[test]
fn child_processes_of_a_killed_worker_are_killed() {
    let dir = TestDir::new();
    let run = spawn_endless_run(&dir);
    let worker = wait_for("a worker", || child_of(run.id()));
    // Workers do not start processes. Simulate a child of the worker: a `sleep` in its process group that keeps its standard output open.
    // The parent of the `sleep` is the test, so the run does not reap it.
    let mut command = Command::new("sleep");
    command.arg("300").stdout(
        std::fs::OpenOptions::new()
            .write(true)
            .open(format!("/proc/{worker}/fd/1"))
            .unwrap(),
    );
    std::os::unix::process::CommandExt::process_group(&mut command, worker as i32);
    let mut sleep = command.spawn().unwrap();
    send("KILL", worker);
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(statuses(&dir.records("run")), ["endless failed", "short ok"]);
    let end = sleep.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&end), Some(9));
}

#[test]
fn out_of_memory_is_recorded_with_the_peak_so_far() {
    let dir = TestDir::new();
    let run = dir.command(&[
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "--out=run",
        "-a",
        "size=32,16384",
    ]);
    // Each matrix has 1 GB, and the address space is limited to less than 2 GB.
    let output = with_shell_prelude("ulimit -v 1900000", &run).output().unwrap();
    let records = dir.records("run");
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
fn retries_record_every_attempt() {
    let dir = TestDir::new();
    let mut command = dir.command(&[
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
    let records = dir.records("run");
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
