//! Soak test: a long sweep whose workers and run are killed at random.
#![cfg(target_os = "linux")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    ops::Range,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use mantissa_core::{Record, Samples, Status};
use rand::{Rng, SeedableRng};

use crate::{
    processes::{child_of, try_send},
    support::TestDir,
};

/// Number of cells of the sweep.
const CELLS: usize = 2_000;

/// Number of times that the run itself is killed.
const RESUMES: u32 = 3;

/// Duration of the random kills in seconds, unless `MANTISSA_SOAK_SECONDS` is set.
const SECONDS: u64 = 600;

/// Suite whose cells together take about as long as the period of random kills.
const SUITE: &str = r#"
title = "Many small matrix products"
question = "Is every cell recorded exactly once while processes are killed?"

[axes]
size = [64, 96]
seed = [SEEDS]

[[workload]]
name = "matmul"
task = "kernel"
kernel = "matmul"
min_samples = 3
max_samples = 10_000
max_noise = 1e-9 # never reached
max_seconds = 0.1
"#;

/// Starts a run that writes to a log file, because a pipe could fill up.
fn spawn(dir: &TestDir, arguments: &[&str]) -> Child {
    let log = fs::File::options()
        .create(true)
        .append(true)
        .open(dir.path("log"))
        .unwrap();
    let mut command = dir.command(arguments);
    command.stdout(Stdio::null()).stderr(log);
    command.spawn().unwrap()
}

#[test]
#[ignore = "takes ten minutes: just soak"]
fn every_cell_is_recorded_once_despite_kills() {
    let variable = |name: &str| Some(std::env::var(name).ok()?.parse().expect("must be a number"));
    let seconds = variable("MANTISSA_SOAK_SECONDS").unwrap_or(SECONDS);
    let cells = variable("MANTISSA_SOAK_CELLS").map_or(CELLS, |cells| cells as usize);
    sweep_with_kills(cells, Duration::from_secs(seconds), 20..2_000);
}

/// Kills processes at random intervals until the time is over, lets the run finish, and checks its records.
/// Returns the number of killed workers.
fn sweep_with_kills(cells: usize, duration: Duration, kill_interval_ms: Range<u64>) -> u32 {
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(2000);
    let dir = TestDir::new();
    let seeds: Vec<String> = (1..=cells / 2).map(|seed| seed.to_string()).collect();
    fs::write(dir.path("soak.toml"), SUITE.replace("SEEDS", &seeds.join(", "))).unwrap();

    let start = Instant::now();
    let (mut kills, mut resumes) = (0, 0);
    let mut run = spawn(
        &dir,
        &["run", "soak.toml", "--backend=flex", "--out=run", "--quiet"],
    );
    while start.elapsed() < duration {
        std::thread::sleep(Duration::from_millis(
            random.random_range(kill_interval_ms.clone()),
        ));
        let due = duration.mul_f64(f64::from(resumes + 1) / f64::from(RESUMES + 1));
        if resumes < RESUMES && start.elapsed() > due {
            try_send("KILL", run.id());
            resumes += 1;
            run.wait().unwrap();
        } else if let Some(worker) = child_of(run.id()) {
            kills += u32::from(try_send("KILL", worker));
        }
        // If the run exited by itself, some cells failed: resume it.
        if run.try_wait().unwrap().is_some() {
            run = spawn(&dir, &["run", "--resume", "run", "--quiet"]);
        }
    }
    assert_eq!(resumes, RESUMES);
    // Resume without kills until all cells are done.
    run.wait().unwrap();
    let last = spawn(&dir, &["run", "--resume", "run", "--quiet"])
        .wait()
        .unwrap();
    let log = fs::read_to_string(dir.path("log")).unwrap();
    assert_eq!(
        last.code(),
        Some(0),
        "{}",
        &log[log.len().saturating_sub(2_000)..]
    );
    let records = check(&dir, cells);
    println!(
        "{cells} cells, {records} records, {kills} workers killed, {resumes} resumed runs, {:.0} s",
        start.elapsed().as_secs_f64()
    );
    kills
}

/// Checks that every line is a record, and that of the attempts of each cell the last one, and no other, is `ok` and has readable samples.
fn check(dir: &TestDir, cells: usize) -> usize {
    let text = fs::read_to_string(dir.path("run/records.jsonl")).unwrap();
    let records: Vec<Record> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut attempts = BTreeSet::new();
    let mut last: BTreeMap<_, &Record> = BTreeMap::new();
    for record in &records {
        assert!(
            attempts.insert((&record.cell.id, record.attempt)),
            "duplicate attempt of {}",
            record.cell.id
        );
        let earlier = last.insert(&record.cell.id, record);
        assert!(
            earlier.is_none_or(|earlier| earlier.status != Status::Ok && earlier.attempt < record.attempt)
        );
    }
    assert_eq!(last.len(), cells);
    for record in last.values() {
        assert_eq!(record.status, Status::Ok);
        let folder = record.samples.as_deref().expect("an `ok` record has no samples");
        let file = fs::File::open(dir.path("run").join(folder).join("samples.json.gz")).unwrap();
        let mut json = String::new();
        flate2::read::GzDecoder::new(file)
            .read_to_string(&mut json)
            .unwrap();
        let samples: Samples = serde_json::from_str(&json).unwrap();
        assert!(samples.series.iter().any(|series| series.values().count() >= 3));
    }
    records.len()
}

mod long {
    use super::*;

    #[test]
    fn every_cell_of_a_short_run_is_recorded_once_despite_kills() {
        let kills = sweep_with_kills(40, Duration::from_secs(12), 20..600);
        assert!(kills >= 5, "only {kills} workers were killed");
    }
}
