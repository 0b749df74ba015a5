//! Run folders and suites from other sources are untrusted: nothing in them is executed, and nothing is written outside them.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{Place, ended, fixture, stderr};

/// Creates a run of two cells in `run`, of which the second is missing.
fn interrupted() -> Place {
    let place = Place::new();
    let run = ["run", &fixture("kernels"), "--backend=flex", "--out=run"];
    assert_eq!(place.run(&run).status.code(), Some(0));
    let records = place.path("run/records.jsonl");
    let text = fs::read_to_string(&records).unwrap();
    fs::write(&records, text.split_inclusive('\n').next().unwrap()).unwrap();
    place
}

/// Modifies a JSON file.
fn edit(path: &Path, change: impl Fn(&mut Value)) {
    let mut value: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut value);
    fs::write(path, value.to_string()).unwrap();
}

/// Resumes `run` and checks that it is rejected quickly, with a message that contains `part`.
fn refused(place: &Place, arguments: &[&str], part: &str) {
    let begin = Instant::now();
    let output = place.run(arguments);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
    assert!(error.contains(part), "{arguments:?}: {error}");
    assert!(begin.elapsed() < Duration::from_secs(60), "{arguments:?}");
}

const RESUME: [&str; 3] = ["run", "--resume", "run"];

#[test]
fn ids_and_names_that_are_paths_are_refused() {
    let place = interrupted();
    let plan = place.path("run/plan.json");
    let whole = fs::read(&plan).unwrap();
    let outside = place.path("outside").display().to_string();
    for id in [
        "../../outside",
        &outside,
        "",
        "0123456789ABCDEF",
        "0123456789abcdef\n",
    ] {
        edit(&plan, |plan| plan["cells"][1]["cell"]["id"] = json!(id));
        refused(&place, &RESUME, "is not the id of a cell");
        refused(
            &place,
            &["report", "run", "--out", "page"],
            "is not the id of a cell",
        );
        fs::write(&plan, &whole).unwrap();
    }
    for name in ["../outside", &outside, "..", ""] {
        edit(&plan, |plan| plan["suites"][0]["name"] = json!(name));
        refused(&place, &RESUME, "is not a valid name");
        fs::write(&plan, &whole).unwrap();
        edit(&plan, |plan| plan["cells"][1]["cell"]["suite"] = json!(name));
        refused(&place, &RESUME, "is not a valid name");
        fs::write(&plan, &whole).unwrap();
        let settings = place.path("run/run.json");
        let before = fs::read(&settings).unwrap();
        edit(&settings, |settings| {
            settings["suites"] = json!({ name: "fixtures/kernels.toml" })
        });
        refused(&place, &RESUME, "is not a valid name");
        fs::write(&settings, before).unwrap();
    }
    assert!(!place.path("outside").exists() && !place.path("outside.toml").exists());
    assert_eq!(place.run(&RESUME).status.code(), Some(0));
}

#[test]
fn nothing_is_written_through_a_link_in_a_run_folder() {
    let place = interrupted();
    fs::create_dir(place.path("theirs")).unwrap();
    let names = [
        "report.html",
        "results.csv",
        "summary.md",
        "run.json.part",
        "devices.json.part",
    ];
    for name in names {
        fs::write(place.path("theirs").join(name), "precious").unwrap();
        let link = place.path("run").join(name);
        let _ = fs::remove_file(&link);
        symlink(place.path("theirs").join(name), link).unwrap();
    }
    assert_eq!(place.run(&RESUME).status.code(), Some(0));
    assert_eq!(place.run(&["report", "run"]).status.code(), Some(0));
    for name in names {
        let theirs = fs::read_to_string(place.path("theirs").join(name)).unwrap();
        assert_eq!(theirs, "precious", "{name}");
    }
    for name in ["figures", "cells", "records.jsonl"] {
        let place = interrupted();
        let (there, theirs) = (place.path("run").join(name), place.path("theirs"));
        fs::rename(&there, &theirs).unwrap();
        symlink(&theirs, &there).unwrap();
        let written = || fs::metadata(&theirs).unwrap().modified().unwrap();
        let before = written();
        let message = match name {
            "records.jsonl" => "links are not followed",
            _ => "is a symbolic link",
        };
        refused(&place, &RESUME, message);
        assert_eq!(written(), before, "{name}");
    }
}

#[test]
fn the_peer_of_a_run_folder_is_run_only_if_the_user_names_it() {
    let place = interrupted();
    edit(&place.path("run/run.json"), |settings| {
        settings["peer"] = json!(["touch", "owned"]);
    });
    refused(&place, &RESUME, "would run this command: touch owned");
    refused(
        &place,
        &["run", "--resume", "run", "--peer", "true"],
        "touch owned",
    );
    let cells = place.run(&["gate", "run", "--baseline", "run", "--rerun-inconclusive", "1"]);
    assert_eq!(cells.status.code(), Some(2), "{}", stderr(&cells));
    assert!(!place.path("owned").exists());
}

#[test]
fn the_cache_of_a_run_folder_is_not_used() {
    let place = Place::new();
    let run = [
        "run",
        &fixture("tiny"),
        "--profile=smoke",
        "--backend=flex",
        "--out=run",
    ];
    assert_eq!(place.run(&run).status.code(), Some(0));
    assert!(place.path(".mantissa/cache").exists());
    fs::write(place.path("run/records.jsonl"), "").unwrap();
    let cache = place.path("theirs");
    edit(&place.path("run/run.json"), |settings| {
        settings["inputs"]["cache"] = json!(cache)
    });
    assert_eq!(place.run(&RESUME).status.code(), Some(0));
    assert!(!cache.exists());
}

#[test]
fn files_without_an_end_are_refused() {
    for name in ["records.jsonl", "plan.json", "environment.json"] {
        let place = interrupted();
        let path = place.path("run").join(name);
        for target in ["/dev/zero", "/dev/full"] {
            fs::remove_file(&path).unwrap();
            symlink(target, &path).unwrap();
            let part = "not a regular file";
            refused(&place, &RESUME, part);
            refused(&place, &["report", "run", "--out", "page"], part);
            refused(&place, &["export", "run", "--format", "csv"], part);
            refused(&place, &["gate", "run", "--baseline", "run"], part);
        }
    }
}

#[test]
fn a_run_is_measured_by_the_program_that_started_it() {
    let place = Place::new();
    let program = place.path("program");
    fs::copy(env!("CARGO_BIN_EXE_mantissa"), &program).unwrap();
    let mut command = crate::gate::in_place(&place, &program);
    let suite = fixture("kernels");
    command.args([
        "run",
        &suite,
        "--backend=flex",
        "--repeats=4",
        "--out=run",
        "--quiet",
    ]);
    let run = std::thread::spawn(move || ended(command));
    let records = place.path("run/records.jsonl");
    let begin = Instant::now();
    while fs::metadata(&records).map_or(0, |there| there.len()) == 0 {
        assert!(begin.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(5));
    }
    // Replace the program as a build does, and then remove it as `cargo clean` does.
    let other = place.path("other");
    fs::write(&other, "#!/bin/sh\nexit 9\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&other, &program).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    fs::remove_file(&program).unwrap();
    let so_far = fs::read_to_string(&records).unwrap().lines().count();
    assert!(so_far < 8, "the run ended before its program was replaced");
    let output = run.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = place.records("run");
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
fn numbers_and_cells_that_no_run_has_are_refused() {
    let place = interrupted();
    let [plan, settings] = ["run/plan.json", "run/run.json"].map(|name| place.path(name));
    let whole = [&plan, &settings].map(|path| fs::read(path).unwrap());
    for repeats in [0, 10_001, u32::MAX] {
        edit(&settings, |settings| settings["repeats"] = json!(repeats));
        refused(&place, &RESUME, "expected 1 to 10000");
    }
    fs::write(&settings, &whole[1]).unwrap();
    edit(&plan, |plan| {
        let cell = plan["cells"][0].clone();
        plan["cells"] = json!(vec![cell; 1000]);
    });
    refused(&place, &RESUME, "is in the plan twice");
    refused(
        &place,
        &["report", "run", "--out", "page"],
        "is in the plan twice",
    );
    fs::write(&plan, &whole[0]).unwrap();
    for attempt in [u32::MAX, u32::MAX - 1] {
        edit(&place.path("run/records.jsonl"), |record| {
            record["status"] = json!("failed");
            record["attempt"] = json!(attempt);
        });
        let records = place.path("run/records.jsonl");
        let line = fs::read_to_string(&records).unwrap() + "\n";
        fs::write(&records, line).unwrap();
        let output = place.run(&RESUME);
        assert!(matches!(output.status.code(), Some(0 | 2)), "{}", stderr(&output));
        let first = fs::read_to_string(&records).unwrap();
        fs::write(&records, first.split_inclusive('\n').next().unwrap()).unwrap();
    }
    fs::File::create(place.path("large.txt"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let tiny = fixture("tiny");
    refused(
        &place,
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
fn nothing_is_written_through_a_second_name_or_a_folder_beside_the_run() {
    let place = interrupted();
    fs::hard_link(place.path("run/records.jsonl"), place.path("theirs")).unwrap();
    refused(&place, &RESUME, "several hard links");
    fs::remove_file(place.path("theirs")).unwrap();
    assert_eq!(place.run(&RESUME).status.code(), Some(0));
    fs::create_dir(place.path("theirs")).unwrap();
    symlink("theirs", place.path("run.again")).unwrap();
    let gate = ["gate", "run", "--baseline", "run", "--rerun-inconclusive", "1"];
    place.run(&gate);
    assert_eq!(fs::read_dir(place.path("theirs")).unwrap().count(), 0);
}

#[test]
fn records_that_another_program_changes_end_the_run() {
    for change in ["replaced", "written to"] {
        let place = Place::new();
        let suite = fixture("slow");
        let command = place.command(&["run", &suite, "--backend=flex", "--out=run"]);
        let run = std::thread::spawn(move || ended(command));
        let records = place.path("run/records.jsonl");
        let begin = Instant::now();
        while !place.path("run/cells").exists() {
            assert!(begin.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        match change {
            "replaced" => {
                fs::rename(&records, place.path("run/moved.jsonl")).unwrap();
                fs::write(&records, "").unwrap();
            }
            _ => fs::write(&records, "{\"gar").unwrap(),
        }
        let output = run.join().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(change), "{}", stderr(&output));
    }
}
