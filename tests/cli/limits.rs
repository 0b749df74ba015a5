//! Inputs without an end, and limits of the machine: memory, threads, file sizes and paths.
#![cfg(target_os = "linux")]

use std::{fs, io::Write as _, os::unix::fs::symlink, path::Path, process::Command, thread};

use flate2::{Compression, write::GzEncoder};

use crate::{
    gate::{in_place, kernels},
    processes::limited,
    support::{Place, ended, fixture, stderr, stdout},
};

fn refused(place: &Place, arguments: &[&str], part: &str) {
    let output = place.run(arguments);
    assert_eq!(
        output.status.code(),
        Some(2),
        "{arguments:?}: {}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains(part),
        "{arguments:?}: {}",
        stderr(&output)
    );
}

/// Writes a modified suite of matmuls.
fn changed(place: &Place, name: &str, from: &str, to: &str) {
    let suite = fs::read_to_string(place.path(&fixture("kernels"))).unwrap();
    assert!(suite.contains(from));
    fs::write(place.path(name), suite.replace(from, to)).unwrap();
}

/// Writes the suite with this many cells.
fn with_cells(place: &Place, name: &str, cells: u32) {
    let seeds: Vec<String> = (0..cells).map(|seed| seed.to_string()).collect();
    let axes = format!("size = [16]\nseed = [{}]", seeds.join(","));
    changed(place, name, "size = [16, 32]", &axes);
}

#[test]
fn sizes_that_no_machine_has_are_errors_that_name_the_limit() {
    let place = Place::new();
    refused(&place, &["plan", "/dev/zero"], "more than 4194304 bytes");
    with_cells(&place, "many.toml", 20_000);
    let many = fs::read_to_string(place.path("many.toml")).unwrap();
    let workload = &many[many.find("[[workload]]").unwrap()..];
    let more: String = (0..5)
        .map(|number| workload.replace("name = \"matmul\"", &format!("name = \"matmul{number}\"")))
        .collect();
    fs::write(place.path("many.toml"), many + &more).unwrap();
    refused(&place, &["plan", "many.toml"], "more than 100000 cells");
    let long = format!("name = \"{}\"", "m".repeat(65_536));
    changed(&place, "long.toml", "name = \"matmul\"", &long);
    refused(&place, &["plan", "long.toml"], "the maximum is 200");
    let kernels = fixture("kernels");
    refused(&place, &["run", &kernels, "--repeats", "4294967295"], "10000");
    crate::gate::kernels(&place, "run", &[]);
    let gate = ["gate", "run", "--baseline", "run", "--policy", "/dev/zero"];
    refused(&place, &gate, "more than 1048576 bytes");
}

#[test]
fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
    let place = Place::new();
    let pipe = place.path("suites/pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refused(&place, &["plan", "suites/pipe.toml"], "missing key");
    kernels(&place, "run", &[]);
    fs::remove_file(place.path("run/records.jsonl")).unwrap();
    fs::rename(&pipe, place.path("run/records.jsonl")).unwrap();
    refused(&place, &["report", "run"], "not a regular file");
}

#[test]
fn records_and_samples_have_a_limit() {
    let place = Place::new();
    kernels(&place, "run", &[]);
    let records = place.records("run");
    let samples = place
        .path("run")
        .join(records[0]["samples"].as_str().unwrap())
        .join("samples.json.gz");
    let mut bomb = GzEncoder::new(fs::File::create(samples).unwrap(), Compression::fast());
    (0..65).for_each(|_| bomb.write_all(&vec![b' '; 1 << 20]).unwrap());
    bomb.finish().unwrap();
    let report = place.run(&["report", "run"]);
    assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
    let page = fs::read_to_string(place.path("run/report.html")).unwrap();
    assert!(page.contains("more than 67108864 bytes"));
    fs::write(place.path("run/records.jsonl"), vec![b' '; (16 << 20) + 1]).unwrap();
    refused(&place, &["report", "run"], "more than 16777216 bytes");
    refused(
        &place,
        &["gate", "run", "--baseline", "run"],
        "more than 16777216 bytes",
    );
}

#[test]
fn a_small_file_that_unpacks_to_a_large_one_is_refused() {
    let place = Place::new();
    let mut bomb = GzEncoder::new(
        fs::File::create(place.path("train.tsv.gz")).unwrap(),
        Compression::fast(),
    );
    let rows = "0\tthe same review, again and again\n".repeat(1000);
    (0..1000).for_each(|_| bomb.write_all(rows.as_bytes()).unwrap());
    bomb.finish().unwrap();
    refused(&place, &["data", "check", "train.tsv.gz"], "unpacks to more than");
}

#[test]
fn a_reference_that_is_not_there_is_found_before_anything_runs() {
    let place = Place::new();
    changed(&place, "cited.toml", "title", "references = [\"matmull\"]\ntitle");
    refused(&place, &["run", "cited.toml", "--backend=flex"], "matmull");
    assert!(!place.path("reports").exists());
}

#[test]
fn a_link_back_lists_a_suite_once() {
    let place = Place::new();
    let list = || stdout(&place.run(&["list"]));
    let before = list();
    symlink("..", place.path("suites/articles/back")).unwrap();
    assert!(before.contains("distilbert-imdb"));
    assert_eq!(list(), before);
}

#[test]
fn a_suite_from_a_pipe_is_copied_into_the_run_folder() {
    let place = Place::new();
    let mut command = in_place(&place, Path::new("bash"));
    let script = format!(
        "'{}' run <(cat fixtures/kernels.toml) --backend=flex --out=run",
        env!("CARGO_BIN_EXE_mantissa")
    );
    command.args(["-c", &script]);
    let output = ended(command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let copies: Vec<_> = fs::read_dir(place.path("run/suites")).unwrap().collect();
    let [Ok(copy)] = &copies[..] else {
        panic!("{copies:?}")
    };
    let text = fs::read_to_string(copy.path()).unwrap();
    assert_eq!(text, fs::read_to_string(place.path(&fixture("kernels"))).unwrap());
}

/// Axes of cells that every machine skips.
const SKIPPED: &str = "size = [16]\nprecision = [\"64-true\"]\nmatmul = [\"high\"]";

#[test]
fn names_of_many_suites_make_a_folder_that_can_be_named() {
    let place = Place::new();
    let names: Vec<String> = (0..20)
        .map(|number| format!("suite-of-matrix-products-{number}.toml"))
        .collect();
    names
        .iter()
        .for_each(|name| changed(&place, name, "size = [16, 32]", SKIPPED));
    let mut arguments = vec!["run"];
    arguments.extend(names.iter().map(String::as_str));
    let output = place.run(&arguments);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("all cells of"), "{}", stderr(&output));
    let runs: Vec<_> = fs::read_dir(place.path("reports")).unwrap().collect();
    let [Ok(run)] = &runs[..] else { panic!("{runs:?}") };
    let name = run.file_name().into_string().unwrap();
    assert!(name.ends_with("-suite-of-matrix-products-0+19"), "{name}");
}

#[test]
fn baselines_that_are_saved_at_once_are_whole_and_there_is_always_one() {
    let place = Place::new();
    kernels(&place, "run", &["--repeats", "5"]);
    let save = || place.command(&["baseline", "save", "main", "run"]);
    let saves: Vec<_> = (0..8)
        .map(|_| {
            let command = save();
            thread::spawn(move || ended(command))
        })
        .collect();
    for save in saves {
        let output = save.join().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let machines: Vec<_> = fs::read_dir(place.path("baselines/main")).unwrap().collect();
    let [Ok(machine)] = &machines[..] else {
        panic!("{machines:?}")
    };
    let saved = machine.path();
    let commands: Vec<_> = (0..10).map(|_| save()).collect();
    let saving = thread::spawn(move || commands.into_iter().for_each(|command| drop(ended(command))));
    while !saving.is_finished() {
        assert!(saved.exists());
    }
    saving.join().unwrap();
    let gate = place.run(&["gate", "run", "--baseline", "main"]);
    assert_eq!(gate.status.code(), Some(0), "{}", stderr(&gate));
}

#[test]
fn a_limit_of_file_sizes_is_exit_4_and_leaves_the_page_that_was_there() {
    let place = Place::new();
    kernels(&place, "run", &[]);
    let page = fs::read(place.path("run/report.html")).unwrap();
    for arguments in [
        &["report", "run"][..],
        &["run", &fixture("kernels"), "--backend=flex", "--out=other"],
    ] {
        let output = ended(limited("ulimit -f 1", &place.command(arguments)));
        assert_eq!(
            output.status.code(),
            Some(4),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    }
    assert_eq!(fs::read(place.path("run/report.html")).unwrap(), page);
    let left = fs::read_dir(place.path("run")).unwrap();
    let part = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".part");
    assert!(
        !left
            .map(|entry| entry.unwrap().file_name())
            .any(|name| part(&name))
    );
}

#[test]
fn a_machine_without_threads_is_an_error_with_its_cause() {
    let place = Place::new();
    let without = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        // A stack of this size cannot be allocated.
        command.env("RUST_MIN_STACK", (1u64 << 56).to_string());
        ended(command)
    };
    let output = without(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("cannot start a thread"),
        "{}",
        stderr(&output)
    );
    fs::write(place.path("test.tsv"), "0\tbad\n1\tgood\n").unwrap();
    let output = without(&["data", "check", "test.tsv"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_size_beyond_any_memory_is_oom() {
    let place = Place::new();
    let run = [
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "-a",
        "size=4294967295",
        "--out=run",
    ];
    place.run(&run);
    assert_eq!(place.records("run")[0]["status"], "oom");
}

#[test]
fn paths_that_are_not_utf_8_are_written_to_or_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let place = Place::new();
    let odd = OsStr::from_bytes(b"odd-\xff");
    let mut command = place.command(&["run", &fixture("kernels"), "--backend=flex", "--out"]);
    let output = ended({
        command.arg(odd);
        command
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(place.path("").join(odd).join("report.html").exists());
    let suite = OsStr::from_bytes(b"odd-\xff.toml");
    fs::copy(place.path(&fixture("kernels")), place.path("").join(suite)).unwrap();
    let mut command = place.command(&["run", "--backend=flex", "--out=other"]);
    let output = ended({
        command.arg(suite);
        command
    });
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("is not UTF-8"), "{}", stderr(&output));
    assert!(!place.path("other").exists());
}

#[test]
fn a_current_folder_that_was_deleted_and_a_cache_that_is_none_do_not_end_a_run() {
    let place = Place::new();
    fs::create_dir(place.path("gone")).unwrap();
    let mut command = in_place(&place, Path::new("bash"));
    let script = format!(
        "cd gone; rmdir ../gone; exec '{}' run '{}' --backend=flex --out='{}'",
        env!("CARGO_BIN_EXE_mantissa"),
        place.path(&fixture("kernels")).display(),
        place.path("run").display()
    );
    command.args(["-c", &script]);
    let output = ended(command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(place.records("run").iter().all(|record| record["status"] == "ok"));

    fs::write(place.path(".mantissa"), "not a folder").unwrap();
    let tiny = fixture("tiny");
    let output = place.run(&["run", &tiny, "--backend=flex", "--profile=smoke", "--out=tiny"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("every cell tokenizes its data again"),
        "{}",
        stderr(&output)
    );
}
