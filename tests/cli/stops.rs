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
    processes::{child_of, send, sent, state, wait_for},
    support::{Place, fixture, statuses, stderr, stdout},
};

fn spawn(place: &Place, arguments: &[&str]) -> Child {
    let mut command = place.command(arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Starts a run of two slow cells. Returns it with its first worker.
fn begun(place: &Place) -> (Child, u32) {
    let run = spawn(place, &["run", &fixture("slow"), "--backend=flex", "--out=run"]);
    let worker = wait_for("a worker", || child_of(run.id()));
    (run, worker)
}

fn resumed(place: &Place) -> Output {
    place.run(&["run", "--resume", "run"])
}

#[test]
fn ctrl_c_lets_the_running_cell_end_and_says_how_to_go_on() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let place = Place::new();
        let (run, _) = begun(&place);
        send(signal, run.id());
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert_eq!(statuses(&place.records("run")), ["slow ok"]);
        let errors = stderr(&output);
        assert!(
            errors
                .contains("stopped: 1 cells did not run\n  hint: run them with `mantissa run --resume run`"),
            "{errors}"
        );
        assert_eq!(stdout(&output).lines().last(), Some("run/report.html"));
        let output = resumed(&place);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(statuses(&place.records("run")), ["slow ok", "slow ok"]);
    }
}

#[test]
fn the_second_ctrl_c_ends_the_worker_too_and_leaves_nothing_half_written() {
    let place = Place::new();
    let (run, worker) = begun(&place);
    send("INT", run.id());
    // A different signal, because two pending signals of the same kind are merged.
    send("TERM", run.id());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(state(worker), None, "the worker must have exited and been reaped");
    assert!(place.records("run").is_empty());
    assert!(
        stderr(&output).contains("2 cells did not run"),
        "{}",
        stderr(&output)
    );
    assert_eq!(place.run(&["report", "run"]).status.code(), Some(0));
    let output = resumed(&place);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(statuses(&place.records("run")), ["slow ok", "slow ok"]);
}

#[test]
fn ctrl_c_of_a_terminal_does_not_reach_the_worker() {
    let place = Place::new();
    let (run, worker) = begun(&place);
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
fn by_cell(records: &[Value]) -> BTreeMap<(String, u64), Vec<&Value>> {
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
fn whoever_is_killed_and_whenever_nothing_recorded_is_lost_or_doubled() {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(20);
    let (mut living, mut left) = (0, 0);
    for round in 0..6 {
        let place = Place::new();
        let mut run = spawn(
            &place,
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
        let whom = child_of(run.id()).filter(|_| round % 3 == 0).unwrap_or(run.id());
        let hit = run.try_wait().unwrap().is_none() && sent("KILL", whom);
        living += u32::from(hit);
        run.wait().unwrap();
        if !place.path("run/plan.json").exists() {
            // If the run was killed before its folder was created, start it again.
            place.run(&[
                "run",
                &fixture("kernels"),
                "--backend=flex",
                "--out=run",
                "--repeats=10",
            ]);
        }
        let before = fs::read(place.path("run/records.jsonl")).unwrap();
        let whole = before
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        left += u32::from(before.iter().filter(|byte| **byte == b'\n').count() < 20);
        let output = resumed(&place);
        assert_eq!(
            output.status.code(),
            Some(0),
            "round {round}: {}",
            stderr(&output)
        );
        let after = fs::read(place.path("run/records.jsonl")).unwrap();
        assert!(after.starts_with(&before[..whole]), "round {round}");
        let records = place.records("run");
        let cells = by_cell(&records);
        assert_eq!(cells.len(), 20, "round {round}");
        for attempts in cells.values() {
            let (last, earlier) = attempts.split_last().unwrap();
            assert_eq!(last["status"], "ok", "round {round}");
            assert!(
                earlier.iter().all(|record| record["status"] == "failed"),
                "round {round}"
            );
            let samples = last["samples"].as_str().unwrap();
            assert!(place.path("run").join(samples).join("samples.json.gz").exists());
        }
    }
    // Otherwise, the test is void.
    assert!(
        living >= 2 && left >= 1,
        "{living} kills hit a running process, {left} runs had cells left"
    );
}

#[test]
fn samples_that_were_cut_short_are_named_by_the_report_and_cost_nothing_else() {
    let place = Place::new();
    place.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let records = place.records("run");
    let samples = place
        .path("run")
        .join(records[0]["samples"].as_str().unwrap())
        .join("samples.json.gz");
    let bytes = fs::read(&samples).unwrap();
    fs::write(&samples, &bytes[..bytes.len() / 2]).unwrap();
    let before = fs::read(place.path("run/records.jsonl")).unwrap();
    let output = resumed(&place);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(fs::read(place.path("run/records.jsonl")).unwrap(), before);
    assert_eq!(place.run(&["report", "run"]).status.code(), Some(0));
}
