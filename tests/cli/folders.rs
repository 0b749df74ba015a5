//! Run folders and suites from other sources are untrusted: nothing in them is executed, and nothing is written outside them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{TestDir, fixture, run_to_exit, stderr};

/// Creates a run of two cells in `run`, without the record of the second cell.
fn interrupted_run() -> TestDir {
    let dir = TestDir::new();
    let run = ["run", &fixture("kernels"), "--backend=flex", "--out=run"];
    assert_eq!(dir.run(&run).status.code(), Some(0));
    let records = dir.path("run/records.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    fs::write(&records, text.split_inclusive('\n').next().unwrap()).unwrap();
    dir
}

/// Modifies a JSON file.
fn edit_json(path: &Path, change: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// Checks that a command exits with 2 within a minute, with a message that contains `part`.
fn assert_rejected(dir: &TestDir, arguments: &[&str], part: &str) {
    let start = Instant::now();
    let output = dir.run(arguments);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(error.contains(part), "{arguments:?}: {error}");
    assert!(start.elapsed() < Duration::from_secs(60), "{arguments:?}");
}

const RESUME: [&str; 3] = ["run", "--resume", "run"];

#[test]
fn cell_ids_and_names_that_are_paths_are_rejected() {
    let dir = interrupted_run();
    let plan = dir.path("run/plan.json");
    let original = fs::read(&plan).unwrap();
    let outside = dir.path("outside").display().to_string();
    for id in [
        "../../outside",
        &outside,
        "",
        "0123456789ABCDEF",
        "0123456789abcdef\n",
    ] {
        edit_json(&plan, |plan| plan["cells"][1]["cell"]["id"] = json!(id));
        assert_rejected(&dir, &RESUME, "is not a cell id");
        assert_rejected(&dir, &["report", "run", "--out", "page"], "is not a cell id");
        fs::write(&plan, &original).unwrap();
    }
    for name in ["../outside", &outside, "..", ""] {
        edit_json(&plan, |plan| plan["suites"][0]["name"] = json!(name));
        assert_rejected(&dir, &RESUME, "is not a valid name");
        fs::write(&plan, &original).unwrap();
        edit_json(&plan, |plan| plan["cells"][1]["cell"]["suite"] = json!(name));
        assert_rejected(&dir, &RESUME, "is not a valid name");
        fs::write(&plan, &original).unwrap();
        let settings = dir.path("run/run.json");
        let before = fs::read(&settings).unwrap();
        edit_json(&settings, |settings| {
            settings["suites"] = json!({ name: "fixtures/kernels.toml" })
        });
        assert_rejected(&dir, &RESUME, "is not a valid name");
        fs::write(&settings, before).unwrap();
    }
    assert!(!dir.path("outside").exists() && !dir.path("outside.toml").exists());
    assert_eq!(dir.run(&RESUME).status.code(), Some(0));
}

#[test]
fn nothing_is_written_through_a_symlink_in_a_run_folder() {
    let dir = interrupted_run();
    fs::create_dir(dir.path("theirs")).unwrap();
    let names = [
        "report.html",
        "results.csv",
        "summary.md",
        "run.json.part",
        "devices.json.part",
    ];
    for name in names {
        fs::write(dir.path("theirs").join(name), "precious").unwrap();
        let link = dir.path("run").join(name);
        let _ = fs::remove_file(&link);
        symlink(dir.path("theirs").join(name), link).unwrap();
    }
    assert_eq!(dir.run(&RESUME).status.code(), Some(0));
    assert_eq!(dir.run(&["report", "run"]).status.code(), Some(0));
    for name in names {
        let text = fs::read_to_string(dir.path("theirs").join(name)).unwrap();
        assert_eq!(text, "precious", "{name}");
    }
    for name in ["figures", "cells", "records.jsonl"] {
        let dir = interrupted_run();
        let (path, target) = (dir.path("run").join(name), dir.path("theirs"));
        fs::rename(&path, &target).unwrap();
        symlink(&target, &path).unwrap();
        let modified = || fs::metadata(&target).unwrap().modified().unwrap();
        let before = modified();
        let message = match name {
            "records.jsonl" => "links are not followed",
            _ => "is a symbolic link",
        };
        assert_rejected(&dir, &RESUME, message);
        assert_eq!(modified(), before, "{name}");
    }
}

#[test]
fn the_launcher_of_a_run_folder_runs_only_if_the_user_repeats_it() {
    let dir = interrupted_run();
    edit_json(&dir.path("run/run.json"), |settings| {
        settings["mpirun"] = json!(["touch", "owned"]);
    });
    assert_rejected(&dir, &RESUME, "would run this command: touch owned");
    assert_rejected(
        &dir,
        &["run", "--resume", "run", "--mpirun", "true"],
        "touch owned",
    );
    assert!(!dir.path("owned").exists());
}

#[test]
fn the_peer_of_a_run_folder_runs_only_if_the_user_repeats_it() {
    let dir = interrupted_run();
    edit_json(&dir.path("run/run.json"), |settings| {
        settings["peer"] = json!(["touch", "owned"]);
    });
    assert_rejected(&dir, &RESUME, "would run this command: touch owned");
    assert_rejected(&dir, &["run", "--resume", "run", "--peer", "true"], "touch owned");
    let cells = dir.run(&["gate", "run", "--baseline", "run", "--rerun-inconclusive", "1"]);
    assert_eq!(cells.status.code(), Some(2), "{}", stderr(&cells));
    assert!(!dir.path("owned").exists());
}

#[test]
fn the_cache_of_a_run_folder_is_not_used() {
    let dir = TestDir::new();
    let run = [
        "run",
        &fixture("tiny"),
        "--profile=smoke",
        "--backend=flex",
        "--out=run",
    ];
    assert_eq!(dir.run(&run).status.code(), Some(0));
    assert!(dir.path(".mantissa/cache").exists());
    fs::write(dir.path("run/records.jsonl"), "").unwrap();
    let cache = dir.path("theirs");
    edit_json(&dir.path("run/run.json"), |settings| {
        settings["inputs"]["cache"] = json!(cache)
    });
    assert_eq!(dir.run(&RESUME).status.code(), Some(0));
    assert!(!cache.exists());
}

#[test]
fn files_that_are_not_regular_are_rejected() {
    for name in ["records.jsonl", "plan.json", "environment.json"] {
        let dir = interrupted_run();
        let path = dir.path("run").join(name);
        for target in ["/dev/zero", "/dev/full"] {
            fs::remove_file(&path).unwrap();
            symlink(target, &path).unwrap();
            let part = "not a regular file";
            assert_rejected(&dir, &RESUME, part);
            assert_rejected(&dir, &["report", "run", "--out", "page"], part);
            assert_rejected(&dir, &["export", "run", "--format", "csv"], part);
            assert_rejected(&dir, &["gate", "run", "--baseline", "run"], part);
        }
    }
}

#[test]
fn workers_run_the_program_that_started_the_run() {
    let dir = TestDir::new();
    let program = dir.path("program");
    fs::copy(env!("CARGO_BIN_EXE_mantissa"), &program).unwrap();
    let mut command = crate::gate::command_in(&dir, &program);
    let suite = fixture("kernels");
    command.args([
        "run",
        &suite,
        "--backend=flex",
        "--repeats=4",
        "--out=run",
        "--quiet",
    ]);
    let run = std::thread::spawn(move || run_to_exit(command));
    let records = dir.path("run/records.jsonl");
    let start = Instant::now();
    while fs::metadata(&records).map_or(0, |file| file.len()) == 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    // Replace the program as a build does, and then remove it as `cargo clean` does.
    let other = dir.path("other");
    fs::write(&other, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&other, &program).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    fs::remove_file(&program).unwrap();
    let so_far = fs::read_to_string(&records).unwrap().lines().count();
    assert!(so_far < 8, "the run ended before its program was replaced");
    let output = run.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(records.len(), 8);
    let first = &records[0]["fingerprint"]["program"];
    assert!(first.is_string());
    assert!(
        records
            .iter()
            .all(|record| record["status"] == "ok" && record["fingerprint"]["program"] == *first)
    );
}

#[test]
fn invalid_numbers_and_duplicate_cells_are_rejected() {
    let dir = interrupted_run();
    let [plan, settings] = ["run/plan.json", "run/run.json"].map(|name| dir.path(name));
    let original = [&plan, &settings].map(|path| fs::read(path).unwrap());
    for repeats in [0, 10_001, u32::MAX] {
        edit_json(&settings, |settings| settings["repeats"] = json!(repeats));
        assert_rejected(&dir, &RESUME, "expected 1 to 10000");
    }
    fs::write(&settings, &original[1]).unwrap();
    edit_json(&plan, |plan| {
        let cell = plan["cells"][0].clone();
        plan["cells"] = json!(vec![cell; 1000]);
    });
    assert_rejected(&dir, &RESUME, "is in the plan twice");
    assert_rejected(&dir, &["report", "run", "--out", "page"], "is in the plan twice");
    fs::write(&plan, &original[0]).unwrap();
    for attempt in [u32::MAX, u32::MAX - 1] {
        edit_json(&dir.path("run/records.jsonl"), |record| {
            record["status"] = json!("failed");
            record["attempt"] = json!(attempt);
        });
        let records = dir.path("run/records.jsonl");
        let line = fs::read_to_string(&records).unwrap() + "\n";
        fs::write(&records, line).unwrap();
        let output = dir.run(&RESUME);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{}", stderr(&output));
        let first = fs::read_to_string(&records).unwrap();
        fs::write(&records, first.split_inclusive('\n').next().unwrap()).unwrap();
    }
    fs::File::create(dir.path("large.txt"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let tiny = fixture("tiny");
    assert_rejected(
        &dir,
        &[
            "run",
            &tiny,
            "--profile=smoke",
            "--backend=flex",
            "--vocabulary",
            "large.txt",
            "--out=tiny",
        ],
        "more than 268435456 bytes",
    );
}

#[test]
fn hard_links_and_a_linked_rerun_folder_are_not_written_to() {
    let dir = interrupted_run();
    fs::hard_link(dir.path("run/records.jsonl"), dir.path("theirs")).unwrap();
    assert_rejected(&dir, &RESUME, "several hard links");
    fs::remove_file(dir.path("theirs")).unwrap();
    assert_eq!(dir.run(&RESUME).status.code(), Some(0));
    fs::create_dir(dir.path("theirs")).unwrap();
    symlink("theirs", dir.path("run.again")).unwrap();
    let gate = ["gate", "run", "--baseline", "run", "--rerun-inconclusive", "1"];
    dir.run(&gate);
    assert_eq!(fs::read_dir(dir.path("theirs")).unwrap().count(), 0);
}

#[test]
fn a_run_stops_if_another_program_changes_its_records() {
    for change in ["replaced", "written to"] {
        let dir = TestDir::new();
        let suite = fixture("slow");
        let command = dir.command(&["run", &suite, "--backend=flex", "--out=run"]);
        let run = std::thread::spawn(move || run_to_exit(command));
        let records = dir.path("run/records.jsonl");
        let start = Instant::now();
        while !dir.path("run/cells").exists() {
            assert!(start.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        match change {
            "replaced" => {
                fs::rename(&records, dir.path("run/moved.jsonl")).unwrap();
                fs::write(&records, "").unwrap();
            }
            _ => fs::write(&records, "{\"gar").unwrap(),
        }
        let output = run.join().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(change), "{}", stderr(&output));
    }
}
