//! Signals to a run that records skipped cells, or whose worker or peer (the program of `--peer`) hangs. Also renames the folder of a run.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::{
    processes::{child_of, send, wait_for},
    support::{TestDir, fixture, stderr},
};

/// Starts a run that writes its errors to `errors`.
fn spawn(dir: &TestDir, arguments: &[&str]) -> Child {
    let mut command = dir.command(arguments);
    let errors = fs::File::create(dir.path("errors")).unwrap();
    command.stdout(Stdio::null()).stderr(errors).spawn().unwrap()
}

fn errors(dir: &TestDir) -> String {
    fs::read_to_string(dir.path("errors")).unwrap()
}

/// Writes a peer program that reads requests.
fn write_peer(dir: &TestDir, script: &str) -> String {
    let path = dir.path("peer");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Starts a run of one cell with a peer.
fn spawn_with_peer(dir: &TestDir, peer: &str) -> Child {
    let suite = fixture("kernels");
    let cell = ["-a", "size=16", "--backend=flex", "--out=run"];
    spawn(dir, &[&["run", &suite], &cell[..], &["--peer", peer]].concat())
}

/// Returns true if a process with this command line runs.
fn is_running(command_line: &str) -> bool {
    let wanted = command_line.replace(' ', "\0") + "\0";
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .any(|command| command == wanted.as_bytes())
}

/// Returns a `sleep` command with a duration that no other test uses.
fn unique_sleep() -> String {
    format!("sleep {}", 1_000_000 + std::process::id())
}

/// Peer script that responds to requests for its name and its clock, and fails all others.
const RESPONSES: &str = r#"while read request; do
case "$request" in
*about*) echo '{"answer":{"name":"Shell 1"}}';;
*clock*) echo '{"answer":1.0}';;
*) echo '{"failed":"it computes nothing"}';;
esac
done"#;

#[test]
fn a_stop_is_reported_immediately_while_a_worker_hangs() {
    let dir = TestDir::new();
    let mut run = spawn(&dir, &["run", &fixture("slow"), "--backend=flex", "--out=run"]);
    let worker = wait_for("a worker", || child_of(run.id()));
    send("STOP", worker);
    // Wait until the run has read all earlier messages of the worker.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    send("INT", run.id());
    wait_for("the stop message", || {
        errors(&dir).contains("stopping after").then_some(())
    });
    assert!(start.elapsed() < Duration::from_secs(10));
    send("TERM", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", errors(&dir));
}

#[test]
fn the_first_signal_ends_a_peer_that_does_not_respond() {
    let dir = TestDir::new();
    let forever = unique_sleep();
    let peer = write_peer(&dir, &format!("{forever} & wait"));
    let mut run = spawn_with_peer(&dir, &peer);
    wait_for("the peer", || is_running(&forever).then_some(()));
    send("INT", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", errors(&dir));
    assert!(
        errors(&dir).contains("stopped before the first cell"),
        "{}",
        errors(&dir)
    );
    wait_for("the end of the peer", || (!is_running(&forever)).then_some(()));
}

#[test]
fn a_peer_that_ignores_end_of_input_is_killed_after_the_run() {
    let dir = TestDir::new();
    let forever = format!("{}0", unique_sleep());
    let peer = write_peer(
        &dir,
        &format!("trap '' TERM INT HUP\n{RESPONSES}\ntouch began\n{forever} & wait"),
    );
    // Errors go to a file, because the peer would keep a pipe open.
    let mut run = spawn_with_peer(&dir, &peer);
    assert_eq!(run.wait().unwrap().code(), Some(3), "{}", errors(&dir));
    assert!(errors(&dir).contains("it computes nothing"), "{}", errors(&dir));
    assert!(dir.path("began").exists());
    wait_for("the end of the peer", || (!is_running(&forever)).then_some(()));
}

#[test]
fn a_peer_is_killed_if_its_run_is_killed() {
    let dir = TestDir::new();
    let forever = format!("{}00", unique_sleep());
    // The peer responds to the requests of the run, and hangs at the first request of the worker.
    let script = RESPONSES.replace("echo '{\"failed\":\"it computes nothing\"}'", &forever);
    let peer = write_peer(&dir, &format!("trap '' TERM INT HUP\n{script}"));
    let mut run = spawn_with_peer(&dir, &peer);
    wait_for("the peer", || is_running(&forever).then_some(()));
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("the end of the peer", || (!is_running(&forever)).then_some(()));
}

#[test]
fn a_signal_stops_the_recording_of_skipped_cells() {
    let dir = TestDir::new();
    let suite = fs::read_to_string(dir.path(&fixture("kernels"))).unwrap();
    let seeds: Vec<String> = (0..50_000).map(|seed| seed.to_string()).collect();
    let many = suite.replace(
        "size = [16, 32]",
        &format!("size = [16]\nseed = [{}]", seeds.join(",")),
    );
    // Every machine skips cells with these axes.
    let many = many.replace("[axes]", "[axes]\nprecision = [\"64-true\"]\nmatmul = [\"high\"]");
    fs::write(dir.path("many.toml"), many).unwrap();
    let mut run = spawn(
        &dir,
        &["run", "many.toml", "--backend=flex", "--out=run", "--quiet"],
    );
    let records = dir.path("run/records.jsonl");
    wait_for("a record", || {
        fs::metadata(&records)
            .is_ok_and(|file| file.len() > 0)
            .then_some(())
    });
    send("INT", run.id());
    let start = Instant::now();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", errors(&dir));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(errors(&dir).contains("cells did not run"), "{}", errors(&dir));
    assert!(dir.records("run").len() < 50_000);
}

#[test]
fn a_renamed_run_folder_keeps_its_records_and_can_be_resumed() {
    let dir = TestDir::new();
    let mut run = spawn(
        &dir,
        &[
            "run",
            &fixture("slow"),
            "--backend=flex",
            "--out=run",
            "--repeats=2",
        ],
    );
    wait_for("a worker", || child_of(run.id()));
    fs::rename(dir.path("run"), dir.path("renamed")).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(2), "{}", errors(&dir));
    let log = errors(&dir);
    assert!(
        log.contains("`run` was renamed to `") && log.contains("renamed`"),
        "{log}"
    );
    assert!(!dir.path("run").exists());
    assert_eq!(dir.records("renamed").len(), 1);
    let output = dir.run(&["run", "--resume", "renamed"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = dir.records("renamed");
    assert_eq!(records.len(), 4);
    for record in records {
        assert!(dir.samples_of("renamed", &record).contains("\"series\""));
    }
}
