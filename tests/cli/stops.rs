//! Stopping a run, gracefully or immediately, and resuming it.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeMap,
    fs,
    process::{Child, Output, Stdio},
    time::Duration,
};

use rand::{Rng, SeedableRng};
use serde_json::Value;

use crate::{
    processes::{child_of, send, state, try_send, wait_for},
    support::{TestDir, fixture, statuses, stderr, stdout},
};

fn spawn(dir: &TestDir, arguments: &[&str]) -> Child {
    let mut command = dir.command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Starts a run of two slow cells. Returns the run and the process id of its first worker.
fn spawn_slow_run(dir: &TestDir) -> (Child, u32) {
    let run = spawn(dir, &["run", &fixture("slow"), "--backend=flex", "--out=run"]);
    let worker = wait_for("a worker", || child_of(run.id()));
    (run, worker)
}

fn resume(dir: &TestDir) -> Output {
    dir.run(&["run", "--resume", "run"])
}

#[test]
fn the_first_signal_finishes_the_running_cell_and_prints_a_hint() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let dir = TestDir::new();
        let (run, _) = spawn_slow_run(&dir);
        send(signal, run.id());
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(statuses(&dir.records("run")), ["slow ok"]);
        let errors = stderr(&output);
        assert!(
            errors
                .contains("stopped: 1 cells did not run\n  hint: run them with `mantissa run --resume run`"),
            "{errors}"
        );
        assert_eq!(stdout(&output).lines().last(), Some("run/report.html"));
        let output = resume(&dir);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(statuses(&dir.records("run")), ["slow ok", "slow ok"]);
    }
}

#[test]
fn the_second_signal_kills_the_worker_and_leaves_a_valid_run() {
    let dir = TestDir::new();
    let (run, worker) = spawn_slow_run(&dir);
    send("INT", run.id());
    // A different signal, because two pending signals of the same kind are merged.
    send("TERM", run.id());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(state(worker), None, "the worker must have exited and been reaped");
    assert!(dir.records("run").is_empty());
    assert!(
        stderr(&output).contains("2 cells did not run"),
        "{}",
        stderr(&output)
    );
    assert_eq!(dir.run(&["report", "run"]).status.code(), Some(0));
    let output = resume(&dir);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(statuses(&dir.records("run")), ["slow ok", "slow ok"]);
}

#[test]
fn ctrl_c_of_a_terminal_does_not_reach_the_worker() {
    let dir = TestDir::new();
    let (run, worker) = spawn_slow_run(&dir);
    let group = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .nth(2)
            .unwrap()
            .to_owned()
    };
    assert_eq!(group(worker), worker.to_string());
    assert_ne!(group(run.id()), group(worker));
    send("INT", run.id());
    run.wait_with_output().unwrap();
}

/// Returns the records by cell and repeat. Checks that each attempt is recorded once.
fn attempts_by_cell(records: &[Value]) -> BTreeMap<(String, u64), Vec<&Value>> {
    let mut all: BTreeMap<_, Vec<&Value>> = BTreeMap::new();
    for record in records {
        let key = (
            record["cell"]["id"].as_str().unwrap().to_owned(),
            record["repeat"].as_u64().unwrap(),
        );
        let attempts = all.entry(key).or_default();
        assert!(
            attempts.iter().all(|other| other["attempt"] != record["attempt"]),
            "{record}"
        );
        attempts.push(record);
    }
    all
}

#[test]
fn kills_neither_lose_nor_duplicate_records() {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(20);
    let (mut hits, mut incomplete_runs) = (0, 0);
    for round in 0..6 {
        let dir = TestDir::new();
        let mut run = spawn(
            &dir,
            &[
                "run",
                &fixture("kernels"),
                "--backend=flex",
                "--out=run",
                "--repeats=10",
            ],
        );
        std::thread::sleep(Duration::from_millis(random.random_range(50..1500)));
        // Kill a worker in every third round, otherwise the run itself.
        let target = child_of(run.id()).filter(|_| round % 3 == 0).unwrap_or(run.id());
        let is_hit = run.try_wait().unwrap().is_none() && try_send("KILL", target);
        hits += u32::from(is_hit);
        run.wait().unwrap();
        if !dir.path("run/plan.json").exists() {
            // If the run was killed before its folder was created, start it again.
            dir.run(&[
                "run",
                &fixture("kernels"),
                "--backend=flex",
                "--out=run",
                "--repeats=10",
            ]);
        }
        let before = fs::read(dir.path("run/records.jsonl")).unwrap();
        let complete_bytes = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        incomplete_runs += u32::from(before.iter().filter(|byte| **byte == b'\n').count() < 20);
        let output = resume(&dir);
        assert_eq!(
            output.status.code(),
            Some(0),
            "round {round}: {}",
            stderr(&output)
        );
        let after = fs::read(dir.path("run/records.jsonl")).unwrap();
        assert!(after.starts_with(&before[..complete_bytes]), "round {round}");
        let records = dir.records("run");
        let cells = attempts_by_cell(&records);
        assert_eq!(cells.len(), 20, "round {round}");
        for attempts in cells.values() {
            let (last, earlier) = attempts.split_last().unwrap();
            assert_eq!(last["status"], "ok", "round {round}");
            assert!(
                earlier.iter().all(|record| record["status"] == "failed"),
                "round {round}"
            );
            let samples = last["samples"].as_str().unwrap();
            assert!(dir.path("run").join(samples).join("samples.json.gz").exists());
        }
    }
    // Without interrupted runs, the test checks nothing.
    assert!(
        hits >= 2 && incomplete_runs >= 1,
        "{hits} kills hit a running process, {incomplete_runs} runs had cells left"
    );
}

#[test]
fn truncated_samples_do_not_affect_resume_or_report() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let records = dir.records("run");
    let samples = dir
        .path("run")
        .join(records[0]["samples"].as_str().unwrap())
        .join("samples.json.gz");
    let bytes = fs::read(&samples).unwrap();
    fs::write(&samples, &bytes[..bytes.len() / 2]).unwrap();
    let before = fs::read(dir.path("run/records.jsonl")).unwrap();
    let output = resume(&dir);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read(dir.path("run/records.jsonl")).unwrap(), before);
    assert_eq!(dir.run(&["report", "run"]).status.code(), Some(0));
}
