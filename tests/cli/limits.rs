//! Endless and oversized inputs, and limits of the machine: memory, threads, file sizes and paths.
#![cfg(target_os = "linux")]

use std::{fs, io::Write as _, os::unix::fs::symlink, path::Path, process::Command, thread};

use flate2::{Compression, write::GzEncoder};

use crate::{
    gate::{command_in, run_kernels},
    processes::with_shell_prelude,
    support::{TestDir, fixture, run_to_exit, stderr, stdout},
};

/// Checks that a command exits with 2 and a message that contains `part`.
fn assert_rejected(dir: &TestDir, arguments: &[&str], part: &str) {
    let output = dir.run(arguments);
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
fn write_changed_suite(dir: &TestDir, name: &str, from: &str, to: &str) {
    let suite = fs::read_to_string(dir.path(&fixture("kernels"))).unwrap();
    assert!(suite.contains(from));
    fs::write(dir.path(name), suite.replace(from, to)).unwrap();
}

/// Writes the suite with this many cells.
fn write_suite_with_cells(dir: &TestDir, name: &str, cells: u32) {
    let seeds: Vec<String> = (0..cells).map(|seed| seed.to_string()).collect();
    let axes = format!("size = [16]\nseed = [{}]", seeds.join(","));
    write_changed_suite(dir, name, "size = [16, 32]", &axes);
}

#[test]
fn inputs_beyond_a_limit_are_rejected_with_the_limit() {
    let dir = TestDir::new();
    assert_rejected(&dir, &["plan", "/dev/zero"], "more than 4194304 bytes");
    write_suite_with_cells(&dir, "many.toml", 20_000);
    let many = fs::read_to_string(dir.path("many.toml")).unwrap();
    let workload = &many[many.find("[[workload]]").unwrap()..];
    let more: String = (0..5)
        .map(|number| workload.replace("name = \"matmul\"", &format!("name = \"matmul{number}\"")))
        .collect();
    fs::write(dir.path("many.toml"), many + &more).unwrap();
    assert_rejected(&dir, &["plan", "many.toml"], "more than 100000 cells");
    let long = format!("name = \"{}\"", "m".repeat(65_536));
    write_changed_suite(&dir, "long.toml", "name = \"matmul\"", &long);
    assert_rejected(&dir, &["plan", "long.toml"], "the maximum is 200");
    let kernels = fixture("kernels");
    assert_rejected(&dir, &["run", &kernels, "--repeats", "4294967295"], "10000");
    run_kernels(&dir, "run", &[]);
    let gate = ["gate", "run", "--baseline", "run", "--policy", "/dev/zero"];
    assert_rejected(&dir, &gate, "more than 1048576 bytes");
}

#[test]
fn a_pipe_without_a_writer_does_not_block() {
    let dir = TestDir::new();
    let pipe = dir.path("suites/pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    assert_rejected(&dir, &["plan", "suites/pipe.toml"], "missing key");
    run_kernels(&dir, "run", &[]);
    fs::remove_file(dir.path("run/records.jsonl")).unwrap();
    fs::rename(&pipe, dir.path("run/records.jsonl")).unwrap();
    assert_rejected(&dir, &["report", "run"], "not a regular file");
}

#[test]
fn records_and_samples_have_a_size_limit() {
    let dir = TestDir::new();
    run_kernels(&dir, "run", &[]);
    let records = dir.records("run");
    let samples = dir
        .path("run")
        .join(records[0]["samples"].as_str().unwrap())
        .join("samples.json.gz");
    let mut bomb = GzEncoder::new(fs::File::create(samples).unwrap(), Compression::fast());
    (0..65).for_each(|_| bomb.write_all(&vec![b' '; 1 << 20]).unwrap());
    bomb.finish().unwrap();
    let report = dir.run(&["report", "run"]);
    assert_eq!(report.status.code(), Some(0), "{}", stderr(&report));
    let page = fs::read_to_string(dir.path("run/report.html")).unwrap();
    assert!(page.contains("more than 67108864 bytes"));
    fs::write(dir.path("run/records.jsonl"), vec![b' '; (16 << 20) + 1]).unwrap();
    assert_rejected(&dir, &["report", "run"], "more than 16777216 bytes");
    assert_rejected(
        &dir,
        &["gate", "run", "--baseline", "run"],
        "more than 16777216 bytes",
    );
}

#[test]
fn a_decompression_bomb_is_rejected() {
    let dir = TestDir::new();
    let mut bomb = GzEncoder::new(
        fs::File::create(dir.path("train.tsv.gz")).unwrap(),
        Compression::fast(),
    );
    let rows = "0\tthe same review, again and again\n".repeat(1000);
    (0..1000).for_each(|_| bomb.write_all(rows.as_bytes()).unwrap());
    bomb.finish().unwrap();
    assert_rejected(&dir, &["data", "check", "train.tsv.gz"], "unpacks to more than");
}

#[test]
fn an_unknown_reference_is_reported_before_anything_runs() {
    let dir = TestDir::new();
    write_changed_suite(&dir, "cited.toml", "title", "references = [\"matmull\"]\ntitle");
    assert_rejected(&dir, &["run", "cited.toml", "--backend=flex"], "matmull");
    assert!(!dir.path("reports").exists());
}

#[test]
fn a_symlink_cycle_lists_each_suite_once() {
    let dir = TestDir::new();
    let list = || stdout(&dir.run(&["list"]));
    let before = list();
    symlink("..", dir.path("suites/articles/back")).unwrap();
    assert!(before.contains("distilbert-imdb"));
    assert_eq!(list(), before);
}

#[test]
fn a_suite_from_a_pipe_is_copied_into_the_run_folder() {
    let dir = TestDir::new();
    let mut command = command_in(&dir, Path::new("bash"));
    let script = format!(
        "'{}' run <(cat fixtures/kernels.toml) --backend=flex --out=run",
        env!("CARGO_BIN_EXE_mantissa")
    );
    command.args(["-c", &script]);
    let output = run_to_exit(command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let copies: Vec<_> = fs::read_dir(dir.path("run/suites")).unwrap().collect();
    let [Ok(copy)] = &copies[..] else {
        panic!("{copies:?}")
    };
    let text = fs::read_to_string(copy.path()).unwrap();
    assert_eq!(text, fs::read_to_string(dir.path(&fixture("kernels"))).unwrap());
}

/// Axes of cells that every machine skips.
const SKIPPED: &str = "size = [16]\nprecision = [\"64-true\"]\nmatmul = [\"high\"]";

#[test]
fn the_folder_name_of_many_suites_is_shortened() {
    let dir = TestDir::new();
    let names: Vec<String> = (0..20)
        .map(|number| format!("suite-of-matrix-products-{number}.toml"))
        .collect();
    names
        .iter()
        .for_each(|name| write_changed_suite(&dir, name, "size = [16, 32]", SKIPPED));
    let mut arguments = vec!["run"];
    arguments.extend(names.iter().map(String::as_str));
    let output = dir.run(&arguments);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("all cells of"), "{}", stderr(&output));
    let runs: Vec<_> = fs::read_dir(dir.path("reports")).unwrap().collect();
    let [Ok(run)] = &runs[..] else { panic!("{runs:?}") };
    let name = run.file_name().into_string().unwrap();
    assert!(name.ends_with("-suite-of-matrix-products-0+19"), "{name}");
}

#[test]
fn concurrent_saves_of_a_baseline_are_atomic() {
    let dir = TestDir::new();
    run_kernels(&dir, "run", &["--repeats", "5"]);
    let save = || dir.command(&["baseline", "save", "main", "run"]);
    let saves: Vec<_> = (0..8)
        .map(|_| {
            let command = save();
            thread::spawn(move || run_to_exit(command))
        })
        .collect();
    for save in saves {
        let output = save.join().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    }
    let machines: Vec<_> = fs::read_dir(dir.path("baselines/main")).unwrap().collect();
    let [Ok(machine)] = &machines[..] else {
        panic!("{machines:?}")
    };
    let saved = machine.path();
    let commands: Vec<_> = (0..10).map(|_| save()).collect();
    let saving = thread::spawn(move || {
        commands
            .into_iter()
            .for_each(|command| drop(run_to_exit(command)))
    });
    while !saving.is_finished() {
        assert!(saved.exists());
    }
    saving.join().unwrap();
    let gate = dir.run(&["gate", "run", "--baseline", "main"]);
    assert_eq!(gate.status.code(), Some(0), "{}", stderr(&gate));
}

#[test]
fn a_file_size_limit_exits_with_4_and_keeps_the_old_report() {
    let dir = TestDir::new();
    run_kernels(&dir, "run", &[]);
    let page = fs::read(dir.path("run/report.html")).unwrap();
    for arguments in [
        &["report", "run"][..],
        &["run", &fixture("kernels"), "--backend=flex", "--out=other"],
    ] {
        let output = run_to_exit(with_shell_prelude("ulimit -f 1", &dir.command(arguments)));
        assert_eq!(
            output.status.code(),
            Some(4),
            "{arguments:?}: {}",
            stderr(&output)
        );
        assert!(stderr(&output).contains("File too large"), "{}", stderr(&output));
    }
    assert_eq!(fs::read(dir.path("run/report.html")).unwrap(), page);
    let entries = fs::read_dir(dir.path("run")).unwrap();
    let is_part = |name: &std::ffi::OsString| name.to_string_lossy().ends_with(".part");
    assert!(
        !entries
            .map(|entry| entry.unwrap().file_name())
            .any(|name| is_part(&name))
    );
}

#[test]
fn without_threads_a_run_fails_and_a_data_check_passes() {
    let dir = TestDir::new();
    let without = |arguments: &[&str]| {
        let mut command = dir.command(arguments);
        // A stack of this size cannot be allocated.
        command.env("RUST_MIN_STACK", (1u64 << 56).to_string());
        run_to_exit(command)
    };
    let output = without(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("cannot start a thread"),
        "{}",
        stderr(&output)
    );
    fs::write(dir.path("test.tsv"), "0\tbad\n1\tgood\n").unwrap();
    let output = without(&["data", "check", "test.tsv"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_size_beyond_the_memory_is_recorded_as_oom() {
    let dir = TestDir::new();
    let run = [
        "run",
        &fixture("kernels"),
        "--backend=flex",
        "-a",
        "size=4294967295",
        "--out=run",
    ];
    dir.run(&run);
    assert_eq!(dir.records("run")[0]["status"], "oom");
}

#[test]
fn non_utf8_output_paths_work_and_suite_paths_are_rejected() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};
    let dir = TestDir::new();
    let odd = OsStr::from_bytes(b"odd-\xff");
    let mut command = dir.command(&["run", &fixture("kernels"), "--backend=flex", "--out"]);
    let output = run_to_exit({
        command.arg(odd);
        command
    });
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(dir.path("").join(odd).join("report.html").exists());
    let suite = OsStr::from_bytes(b"odd-\xff.toml");
    fs::copy(dir.path(&fixture("kernels")), dir.path("").join(suite)).unwrap();
    let mut command = dir.command(&["run", "--backend=flex", "--out=other"]);
    let output = run_to_exit({
        command.arg(suite);
        command
    });
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("is not UTF-8"), "{}", stderr(&output));
    assert!(!dir.path("other").exists());
}

#[test]
fn a_run_works_without_a_current_folder_or_a_cache() {
    let dir = TestDir::new();
    fs::create_dir(dir.path("gone")).unwrap();
    let mut command = command_in(&dir, Path::new("bash"));
    let script = format!(
        "cd gone; rmdir ../gone; exec '{}' run '{}' --backend=flex --out='{}'",
        env!("CARGO_BIN_EXE_mantissa"),
        dir.path(&fixture("kernels")).display(),
        dir.path("run").display()
    );
    command.args(["-c", &script]);
    let output = run_to_exit(command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(dir.records("run").iter().all(|record| record["status"] == "ok"));

    fs::write(dir.path(".mantissa"), "not a folder").unwrap();
    let tiny = fixture("tiny");
    let output = dir.run(&["run", &tiny, "--backend=flex", "--profile=smoke", "--out=tiny"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("every cell tokenizes its data again"),
        "{}",
        stderr(&output)
    );
}
