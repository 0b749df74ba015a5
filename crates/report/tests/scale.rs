//! Tests the peak memory of rendering a large run, as reported by the system for a separate process.

use std::{
    env,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::Path,
    process::Command,
};

use crate::support::{RunBuilder, cell, loss, memory_parts, record, run, suite, train_metrics, workload};
use flate2::{Compression, write::GzEncoder};
use mantissa_core::{Axis, Metric, MetricName, Samples, Series, SeriesName, Status};
use mantissa_report::{Report, load, render, terminal_tables};

const RECORDS: u32 = 10_000;
const SAMPLES: u32 = 1_000_000;
/// Maximum peak memory in MB, as stated in the design.
const LIMIT_MEGABYTES: f64 = 300.0;
/// Maximum size of the page in MB. Browsers struggle with larger ones.
const PAGE_MEGABYTES: f64 = 20.0;
/// Environment variable that passes the run folder to the measured process.
const FOLDER: &str = "MANTISSA_TEST_LARGE_RUN";

#[test]
fn large_runs_render_within_300_mb() {
    if let Some(folder) = env::var_os(FOLDER) {
        return load_and_render(Path::new(&folder));
    }
    let temporary = tempfile::tempdir().unwrap();
    write_run(temporary.path());
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "--nocapture"])
        .arg("scale::large_runs_render_within_300_mb")
        .env(FOLDER, temporary.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let peak = text.lines().find_map(|line| line.strip_prefix("peak MB: "));
    let peak: f64 = peak
        .expect("the child process prints its peak memory")
        .parse()
        .unwrap();
    assert!(peak < LIMIT_MEGABYTES, "{peak} MB");
    let page = fs::metadata(temporary.path().join("report.html")).unwrap().len() as f64 / 1e6;
    assert!(page < PAGE_MEGABYTES, "{page} MB");
    let html = fs::read_to_string(temporary.path().join("report.html")).unwrap();
    assert!(html.contains("The table is showing 2,000 of 10,000 settings"));
    let lines = fs::read_to_string(temporary.path().join("results.csv")).unwrap();
    assert_eq!(lines.lines().count(), RECORDS as usize + 1);
    println!("peak {peak} MB, page {page} MB");
}

/// Loads and renders the run in the measured process.
fn load_and_render(folder: &Path) {
    let run = load(folder).unwrap();
    assert_eq!(
        (run.records.len(), run.digests.len()),
        (RECORDS as usize, RECORDS as usize)
    );
    let long = run.digest(&run.records[0]).unwrap().times.as_ref().unwrap();
    assert_eq!(long.n(), u64::from(SAMPLES));
    render(&run, folder).unwrap();
    assert_eq!(terminal_tables(&Report::new(&run).unwrap())[0].rows.len(), 2_000);
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes: f64 = peak
        .and_then(|text| text.trim().strip_suffix(" kB"))
        .unwrap()
        .parse()
        .unwrap();
    println!("peak MB: {}", kilobytes * 1024.0 / 1e6);
}

/// Writes a run with one record of a million steps. The other records share the samples of a short record. The long and the short record
/// both have as many test examples as IMDb.
fn write_run(folder: &Path) {
    let mut large = run(vec![suite("s", "Large", &[], &[Axis::Batch])]);
    let mut lines = BufWriter::new(File::create(folder.join("records.jsonl")).unwrap());
    for index in 0..RECORDS {
        let batch = (index + 1).to_string();
        let cell = cell("s", &workload("w"), &[(Axis::Batch, &batch)]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(&mut record, 50.0 + f64::from(index % 97), 800, 1e9);
        memory_parts(&mut record, "32-true");
        // Insert more metrics than any record of a training has.
        for name in &MetricName::ALL[..33] {
            let metric = Metric::estimate(*name, 2.0, (1.9, 2.1), 1_000, "median, order statistics");
            record.metrics.entry(*name).or_insert(metric);
        }
        record.samples = Some(
            if index == 0 {
                "cells/long/0-0"
            } else {
                "cells/short/0-0"
            }
            .into(),
        );
        large.plan(&cell, None);
        writeln!(lines, "{}", serde_json::to_string(&record).unwrap()).unwrap();
    }
    lines.into_inner().unwrap();
    let write = |name: &str, json: String| fs::write(folder.join(name), json).unwrap();
    write(
        "environment.json",
        serde_json::to_string(&large.environment).unwrap(),
    );
    write("plan.json", serde_json::to_string(&large.plan).unwrap());
    write_samples(&folder.join("cells/long/0-0"), SAMPLES);
    write_samples(&folder.join("cells/short/0-0"), 100);
}

fn write_samples(folder: &Path, steps: u32) {
    let mut times = Series::new(SeriesName::StepSeconds);
    let mut losses = loss(1, None);
    losses.series[0].x.clear();
    losses.series[0].y.clear();
    for step in 1..=steps {
        let noise = f64::from(step.wrapping_mul(7_919) % 1_000) / 1e6;
        times.push(f64::from(step), 2.0 + noise);
        losses.series[0].push(f64::from(step), 0.5 + noise);
    }
    losses.series.push(times);
    let samples = Samples {
        test_correct: Some("1101".repeat(6_250)),
        ranges: vec![],
        trials: vec![],
        staleness: vec![],
        ..losses
    };
    fs::create_dir_all(folder).unwrap();
    let file = File::create(folder.join("samples.json.gz")).unwrap();
    let mut packed = GzEncoder::new(BufWriter::new(file), Compression::fast());
    serde_json::to_writer(&mut packed, &samples).unwrap();
    packed.finish().unwrap();
}
