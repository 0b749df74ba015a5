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
    support::{Place, fixture, stderr},
};

/// Memory limit of mantissa for any input, in bytes.
const LIMIT: u64 = 300_000_000;

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
fn of_command(command: Command) -> u64 {
    let mut child = spawn(command);
    let mut most = 0;
    wait_for("the end", || {
        most = most.max(peak(child.id()).unwrap_or(0));
        child.try_wait().unwrap()
    });
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    println!("{} MB", most / 1_000_000);
    most
}

/// Returns the peak memory of a run until its first cell starts, then stops the run.
fn until_the_first_cell(command: Command) -> u64 {
    let run = spawn(command);
    wait_for("a worker", || child_of(run.id()));
    let most = peak(run.id()).unwrap();
    // The second signal prevents a report of the partial run.
    send("INT", run.id());
    std::thread::sleep(std::time::Duration::from_millis(300));
    send("INT", run.id());
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    println!("{} MB", most / 1_000_000);
    most
}

/// Writes a suite with this many cells, of which the first takes a while.
fn suite(place: &Place, cells: u32) -> String {
    let text = fs::read_to_string(place.path(&fixture("slow"))).unwrap();
    let list = |values: Vec<u32>| format!("{values:?}");
    let axes = format!(
        "size = {}\nseed = {}",
        list((1..=100).map(|step| 64 * step).collect()),
        list((1..=cells / 100).collect())
    );
    fs::write(place.path("large.toml"), text.replace("size = [64, 128]", &axes)).unwrap();
    "large.toml".to_owned()
}

#[test]
fn a_hundred_thousand_cells_are_planned_and_run_in_little_memory() {
    let place = Place::new();
    let suite = suite(&place, 100_000);
    let planned = of_command(place.command(&["run", &suite, "--backend=flex", "--dry-run"]));
    let running = until_the_first_cell(place.command(&["run", &suite, "--backend=flex", "--out=run"]));
    assert!(planned < LIMIT && running < LIMIT, "{planned} {running}");
}

#[test]
fn a_run_of_ten_thousand_records_is_taken_up_again_in_little_memory() {
    let place = Place::new();
    place.run(&["run", &fixture("kernels"), "--backend=flex", "--out=small"]);
    let template = fs::read_to_string(place.path("small/records.jsonl")).unwrap();
    let mut template: Value = serde_json::from_str(template.lines().next().unwrap()).unwrap();
    // A run of many cells that was stopped in the first one, and records of all others.
    let suite = suite(&place, 10_000);
    until_the_first_cell(place.command(&["run", &suite, "--backend=flex", "--out=run"]));
    let plan: Value = serde_json::from_slice(&fs::read(place.path("run/plan.json")).unwrap()).unwrap();
    let mut file = BufWriter::new(fs::File::create(place.path("run/records.jsonl")).unwrap());
    for planned in &plan["cells"].as_array().unwrap()[1..] {
        template["cell"] = planned["cell"].clone();
        writeln!(file, "{template}").unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
    let resumed = until_the_first_cell(place.command(&["run", "--resume", "run"]));
    assert!(resumed < LIMIT, "{resumed}");
}

/// Writes a suite of one kernel that is launched a million times.
fn million(place: &Place, kernel: &str) {
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
    fs::write(place.path("million.toml"), suite).unwrap();
}

/// Checks that a run and its worker need little memory, and that a metric has a million samples.
fn stays_small(command: Command, place: &Place, metric: &str) {
    let mut run = spawn(command);
    // Peak memory of the run, which also writes the report, and of its worker, which writes the samples.
    let (mut most, mut worker) = (0, 0);
    while run.try_wait().unwrap().is_none() {
        most = most.max(peak(run.id()).unwrap_or(0));
        worker = worker.max(child_of(run.id()).and_then(peak).unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let record = &place.records("run")[0];
    assert_eq!(record["metrics"][metric]["n"], 1_000_000, "{record:#}");
    println!("{} MB, {} MB", worker / 1_000_000, most / 1_000_000);
    assert!(worker > 0 && most > 0);
    assert!(worker < LIMIT && most < LIMIT, "{worker} {most}");
}

const RUN: [&str; 4] = ["run", "million.toml", "--repeats=1", "--out=run"];

#[test]
fn a_million_samples_are_taken_and_written_in_little_memory() {
    let place = Place::new();
    million(&place, "matmul");
    let command = place.command(&[&RUN[..], &["--backend=flex"]].concat());
    stays_small(command, &place, "flops_per_second");
}

mod long {
    use super::*;

    #[test]
    fn a_million_samples_and_as_many_of_the_copy_beside_them_take_little_memory() {
        let place = Place::new();
        million(&place, "softmax");
        let command = place.command(&[&RUN[..], &["--backend=flex"]].concat());
        stays_small(command, &place, "copy_bytes_per_second");
    }
}
