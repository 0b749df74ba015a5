//! Memory use of plans and runs of the largest sizes.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufWriter, Write},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::{
    processes::{child_of, send, wait_for},
    support::{TestDir, fixture, stderr},
};

/// Memory limit of mantissa for any input, in bytes.
const MAX_MEMORY: u64 = 300_000_000;

/// Returns the peak memory of a process so far, in bytes.
fn peak(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(1024 * mark.trim().strip_suffix(" kB")?.parse::<u64>().ok()?)
}

fn spawn(mut command: Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Returns the peak memory of a command.
fn peak_of_command(command: Command) -> u64 {
    let mut child = spawn(command);
    let mut highest = 0;
    wait_for("the end", || {
        highest = highest.max(peak(child.id()).unwrap_or(0));
        child.try_wait().unwrap()
    });
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    println!("{} MB", highest / 1_000_000);
    highest
}

/// Returns the peak memory of a run until its first cell starts, then stops the run.
fn peak_until_first_cell(command: Command) -> u64 {
    let run = spawn(command);
    wait_for("a worker", || child_of(run.id()));
    let highest = peak(run.id()).unwrap();
    // The second signal prevents a report of the partial run.
    send("INT", run.id());
    std::thread::sleep(std::time::Duration::from_millis(300));
    send("INT", run.id());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    println!("{} MB", highest / 1_000_000);
    highest
}

/// Writes a suite with this many cells, of which the first takes a while.
fn write_suite(dir: &TestDir, cells: u32) -> String {
    let text = fs::read_to_string(dir.path(&fixture("slow"))).unwrap();
    let list = |values: Vec<u32>| format!("{values:?}");
    let axes = format!(
        "size = {}\nseed = {}",
        list((1..=100).map(|step| 64 * step).collect()),
        list((1..=cells / 100).collect())
    );
    fs::write(dir.path("large.toml"), text.replace("size = [64, 128]", &axes)).unwrap();
    "large.toml".to_owned()
}

#[test]
fn planning_and_running_100_000_cells_needs_little_memory() {
    let dir = TestDir::new();
    let suite = write_suite(&dir, 100_000);
    let planned = peak_of_command(dir.command(&["run", &suite, "--backend=flex", "--dry-run"]));
    let running = peak_until_first_cell(dir.command(&["run", &suite, "--backend=flex", "--out=run"]));
    assert!(
        planned < MAX_MEMORY && running < MAX_MEMORY,
        "{planned} {running}"
    );
}

#[test]
fn resuming_a_run_with_10_000_records_needs_little_memory() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=small"]);
    let template = fs::read_to_string(dir.path("small/records.jsonl")).unwrap();
    let mut template: Value = serde_json::from_str(template.lines().next().unwrap()).unwrap();
    // Stop a run of many cells in the first one, and write records of all others.
    let suite = write_suite(&dir, 10_000);
    peak_until_first_cell(dir.command(&["run", &suite, "--backend=flex", "--out=run"]));
    let plan: Value = serde_json::from_slice(&fs::read(dir.path("run/plan.json")).unwrap()).unwrap();
    let mut file = BufWriter::new(fs::File::create(dir.path("run/records.jsonl")).unwrap());
    for planned in &plan["cells"].as_array().unwrap()[1..] {
        template["cell"] = planned["cell"].clone();
        writeln!(file, "{template}").unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    let resumed = peak_until_first_cell(dir.command(&["run", "--resume", "run"]));
    assert!(resumed < MAX_MEMORY, "{resumed}");
}

/// Writes a suite of one kernel that is launched a million times.
fn write_million_launches(dir: &TestDir, kernel: &str) {
    let suite = format!(
        r#"
title = "A million launches"
question = "How long do they take?"
axes = {{ precision = ["32-true"], size = [1] }}
[[workload]]
name = "kernel"
task = "kernel"
kernel = "{kernel}"
min_samples = 1_000_000
max_samples = 1_000_000
max_seconds = 600
"#
    );
    fs::write(dir.path("million.toml"), suite).unwrap();
}

/// Checks that a run and its worker need little memory, and that a metric has a million samples.
fn assert_little_memory(command: Command, dir: &TestDir, metric: &str) {
    let mut run = spawn(command);
    // Peak memory of the run, which also writes the report, and of its worker, which writes the samples.
    let (mut run_peak, mut worker_peak) = (0, 0);
    while run.try_wait().unwrap().is_none() {
        run_peak = run_peak.max(peak(run.id()).unwrap_or(0));
        worker_peak = worker_peak.max(child_of(run.id()).and_then(peak).unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let record = &dir.records("run")[0];
    assert_eq!(record["metrics"][metric]["n"], 1_000_000, "{record:#}");
    println!("{} MB, {} MB", worker_peak / 1_000_000, run_peak / 1_000_000);
    assert!(worker_peak > 0 && run_peak > 0);
    assert!(
        worker_peak < MAX_MEMORY && run_peak < MAX_MEMORY,
        "{worker_peak} {run_peak}"
    );
}

const RUN: [&str; 4] = ["run", "million.toml", "--repeats=1", "--out=run"];

#[test]
fn a_million_samples_need_little_memory() {
    let dir = TestDir::new();
    write_million_launches(&dir, "matmul");
    let command = dir.command(&[&RUN[..], &["--backend=flex"]].concat());
    assert_little_memory(command, &dir, "flops_per_second");
}

mod long {
    use super::*;

    #[test]
    fn a_million_samples_of_a_kernel_and_a_copy_need_little_memory() {
        let dir = TestDir::new();
        write_million_launches(&dir, "softmax");
        let command = dir.command(&[&RUN[..], &["--backend=flex"]].concat());
        assert_little_memory(command, &dir, "copy_bytes_per_second");
    }
}
