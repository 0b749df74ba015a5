//! Workers and peers that hang, and stopping a run in the meantime.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use crate::{
    processes::{child_of, send, wait_for},
    support::{Place, fixture, stderr},
};

/// Starts a run that writes its errors to `errors`.
fn started(place: &Place, arguments: &[&str]) -> Child {
    let mut command = place.command(arguments);
    let errors = fs::File::create(place.path("errors")).unwrap();
    command.stdout(Stdio::null()).stderr(errors).spawn().unwrap()
}

fn errors(place: &Place) -> String {
    fs::read_to_string(place.path("errors")).unwrap()
}

/// Writes a peer program that reads requests.
fn peer(place: &Place, script: &str) -> String {
    let path = place.path("peer");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Starts a run of one cell with a peer.
fn with_peer(place: &Place, peer: &str) -> Child {
    let suite = fixture("kernels");
    let cell = ["-a", "size=16", "--backend=flex", "--out=run"];
    started(place, &[&["run", &suite], &cell[..], &["--peer", peer]].concat())
}

/// Returns true if a process with this command line runs.
fn is_running(words: &str) -> bool {
    let wanted = words.replace(' ', "\0") + "\0";
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| fs::read(entry.ok()?.path().join("cmdline")).ok())
        .any(|command| command == wanted.as_bytes())
}

/// Returns a `sleep` command with a duration that no other test uses.
fn forever() -> String {
    format!("sleep {}", 1_000_000 + std::process::id())
}

/// Peer script that responds to the first requests and fails all others.
const RESPONSES: &str = r#"while read request; do
case "$request" in
*about*) echo '{"answer":{"name":"Shell 1"}}';;
*clock*) echo '{"answer":1.0}';;
*) echo '{"failed":"it computes nothing"}';;
esac
done"#;

#[test]
fn a_run_whose_worker_hangs_says_at_once_that_it_was_asked_to_stop() {
    let place = Place::new();
    let mut run = started(&place, &["run", &fixture("slow"), "--backend=flex", "--out=run"]);
    let worker = wait_for("a worker", || child_of(run.id()));
    send("STOP", worker);
    // Wait until the run has read all earlier messages of the worker.
    std::thread::sleep(Duration::from_millis(500));
    let start = Instant::now();
    send("INT", run.id());
    wait_for("the stop message", || {
        errors(&place).contains("stopping after").then_some(())
    });
    assert!(start.elapsed() < Duration::from_secs(10));
    send("TERM", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", errors(&place));
}

#[test]
fn a_peer_that_never_answers_is_ended_by_the_first_signal() {
    let place = Place::new();
    let forever = forever();
    let peer = peer(&place, &format!("{forever} & wait"));
    let mut run = with_peer(&place, &peer);
    wait_for("the peer", || is_running(&forever).then_some(()));
    send("INT", run.id());
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", errors(&place));
    assert!(
        errors(&place).contains("stopped before the first cell"),
        "{}",
        errors(&place)
    );
    wait_for("its end", || (!is_running(&forever)).then_some(()));
}

#[test]
fn a_peer_that_ignores_the_end_of_its_input_does_not_survive_the_run() {
    let place = Place::new();
    let forever = format!("{}0", forever());
    let peer = peer(
        &place,
        &format!("trap '' TERM INT HUP\n{RESPONSES}\ntouch began\n{forever} & wait"),
    );
    // Errors go to a file, because the peer would keep a pipe open.
    let mut run = with_peer(&place, &peer);
    assert_eq!(run.wait().unwrap().code(), Some(3), "{}", errors(&place));
    assert!(
        errors(&place).contains("it computes nothing"),
        "{}",
        errors(&place)
    );
    assert!(place.path("began").exists());
    wait_for("its end", || (!is_running(&forever)).then_some(()));
}

#[test]
fn a_peer_does_not_survive_a_run_that_was_killed() {
    let place = Place::new();
    let forever = format!("{}00", forever());
    // The peer hangs in the worker, whose requests come after those of the run.
    let script = RESPONSES.replace("echo '{\"failed\":\"it computes nothing\"}'", &forever);
    let peer = peer(&place, &format!("trap '' TERM INT HUP\n{script}"));
    let mut run = with_peer(&place, &peer);
    wait_for("the peer", || is_running(&forever).then_some(()));
    run.kill().unwrap();
    run.wait().unwrap();
    wait_for("its end", || (!is_running(&forever)).then_some(()));
}

#[test]
fn skipped_cells_that_are_being_recorded_are_left_for_later() {
    let place = Place::new();
    let suite = fs::read_to_string(place.path(&fixture("kernels"))).unwrap();
    let seeds: Vec<String> = (0..50_000).map(|seed| seed.to_string()).collect();
    let many = suite.replace(
        "size = [16, 32]",
        &format!("size = [16]\nseed = [{}]", seeds.join(",")),
    );
    // Such cells are skipped on every machine.
    let many = many.replace("[axes]", "[axes]\nprecision = [\"64-true\"]\nmatmul = [\"high\"]");
    fs::write(place.path("many.toml"), many).unwrap();
    let mut run = started(
        &place,
        &["run", "many.toml", "--backend=flex", "--out=run", "--quiet"],
    );
    let records = place.path("run/records.jsonl");
    wait_for("a record", || {
        fs::metadata(&records)
            .is_ok_and(|there| there.len() > 0)
            .then_some(())
    });
    send("INT", run.id());
    let start = Instant::now();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{}", errors(&place));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert!(errors(&place).contains("cells did not run"), "{}", errors(&place));
    assert!(place.records("run").len() < 50_000);
}

#[test]
fn a_run_folder_that_is_renamed_keeps_everything() {
    let place = Place::new();
    let mut run = started(
        &place,
        &[
            "run",
            &fixture("slow"),
            "--backend=flex",
            "--out=run",
            "--repeats=2",
        ],
    );
    wait_for("a worker", || child_of(run.id()));
    fs::rename(place.path("run"), place.path("renamed")).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(2), "{}", errors(&place));
    let log = errors(&place);
    assert!(
        log.contains("`run` was renamed to `") && log.contains("renamed`"),
        "{log}"
    );
    assert!(!place.path("run").exists());
    assert_eq!(place.records("renamed").len(), 1);
    let output = place.run(&["run", "--resume", "renamed"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = place.records("renamed");
    assert_eq!(records.len(), 4);
    for record in records {
        assert!(place.samples_of("renamed", &record).contains("\"series\""));
    }
}
