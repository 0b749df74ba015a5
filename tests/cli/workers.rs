//! What becomes of a run when its worker, or the run itself, comes to a bad end. Processes are found through `/proc`.
#![cfg(target_os = "linux")]

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{Place, fixture, statuses, stderr};

const PATIENCE: Duration = Duration::from_secs(60);

/// Calls until it gets an answer.
fn wait_for<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// State letter and parent of a process.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

fn child_of(parent: u32) -> Option<u32> {
    let entries = fs::read_dir("/proc").ok()?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.into_iter()
        .find(|pid| state(*pid).is_some_and(|(letter, of)| of == parent && letter != 'Z'))
}

fn kill(pid: u32) {
    assert!(
        Command::new("kill")
            .args(["-9", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// A run whose first cell never ends.
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
    kill(wait_for("a worker", || child_of(run.id())));
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = place.records("run");
    assert_eq!(statuses(&records), ["endless failed", "short ok"]);
    assert_eq!(records[0]["reason"], "killed from outside (SIGKILL)");
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
    assert_eq!(records[0]["reason"], "ended after 2.04 s, its time limit");
}

#[test]
fn a_worker_does_not_outlive_its_run() {
    let place = Place::new();
    let mut run = endless(&place);
    let worker = wait_for("a worker", || child_of(run.id()));
    kill(run.id());
    run.wait().unwrap();
    // What nobody waits for stays a zombie, which is gone for this purpose.
    wait_for("the worker's end", || {
        state(worker)
            .is_none_or(|(letter, _)| letter == 'Z')
            .then_some(())
    });
}
