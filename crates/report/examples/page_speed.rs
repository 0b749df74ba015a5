//! Measures the size of a page with many cells, its rendering time, and the time until Chromium can use it.
//!
//! ```sh
//! cargo run --release -p mantissa-report --example page_speed -- 1000 200
//! ```

#[path = "../tests/support/mod.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod support;

use std::{error::Error, fs, path::Path, process::Command, time::Instant};

use mantissa_core::{Axis, Samples, Series, SeriesName, Status};
use mantissa_report::{Run, render};
use support::{RunBuilder, cell, loss, memory_parts, record, run, suite, train_metrics, workload};

/// Number of times that the page is opened. The first opening includes the time to load Chromium from disk.
const OPENED: usize = 5;
/// Script that measures the time until the page is usable, and the time to sort the table by a column.
const MEASURE: &str = r#"
<script>addEventListener("load", () => setTimeout(() => {
  const usable = performance.now();
  const rows = document.querySelector("table.results").tBodies[0].rows.length;
  document.querySelectorAll("table.results th button")[4].click();
  const sorted = performance.now() - usable;
  const told = document.createElement("pre");
  told.textContent = `TOLD rows ${rows}, usable after ${usable.toFixed(0)} ms, sorted in ${sorted.toFixed(0)} ms TOLD`;
  document.body.append(told);
}));</script></body>"#;

fn main() -> Result<(), Box<dyn Error>> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let cells = numbers.next().transpose()?.unwrap_or(1_000);
    let samples = numbers.next().transpose()?.unwrap_or(200);
    let run = many(cells, samples);
    let folder = tempfile::tempdir()?;
    let start = Instant::now();
    let page = render(&run, folder.path())?.html;
    let seconds = start.elapsed().as_secs_f64();
    let build = if cfg!(debug_assertions) {
        "debug"
    } else {
        "release"
    };
    let megabytes = fs::metadata(&page)?.len() as f64 / 1e6;
    println!(
        "{cells} cells of {samples} samples: page {megabytes:.2} MB, all files rendered in {seconds:.2} s ({build} build)"
    );
    let html = fs::read_to_string(&page)?;
    let (before, _) = html.rsplit_once("</body>").ok_or("the page has no end")?;
    fs::write(&page, format!("{before}{MEASURE}</html>"))?;
    for _ in 0..OPENED {
        println!("{}", opened(&page)?);
    }
    Ok(())
}

/// Opens the page and returns its own measurements.
fn opened(page: &Path) -> Result<String, Box<dyn Error>> {
    let profile = tempfile::tempdir()?;
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
            "--disable-sync",
        ])
        .args(["--disable-background-networking", "--timeout=20000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()?;
    let dom = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = dom.rsplit("TOLD").nth(1).ok_or("the page told nothing")?;
    Ok(told.trim().to_owned())
}

/// Creates trainings with curves and step times, all with different settings.
fn many(cells: u32, samples: u32) -> Run {
    let mut many = run(vec![suite("s", "Many", &[], &[Axis::Precision, Axis::Batch])]);
    for index in 0..cells {
        let precision = ["32-true", "bf16-mixed", "bf16-true", "16-mixed"][index as usize % 4];
        let batch = (1 + index / 4).to_string();
        let axes = [(Axis::Precision, precision), (Axis::Batch, batch.as_str())];
        let cell = cell("s", &workload("w"), &axes);
        let mut record = record(&cell, Status::Ok, None);
        let seconds = 50.0 + f64::from(index % 97);
        train_metrics(&mut record, seconds, 800 + u64::from(index % 60), 1e9);
        memory_parts(&mut record, precision);
        let mut curve = loss(index, None).series.remove(0);
        curve.x.truncate(samples as usize);
        curve.y.truncate(samples as usize);
        let mut times = Series::new(SeriesName::StepSeconds);
        for step in 1..=samples {
            times.push(
                f64::from(step),
                1.0 + f64::from(step.wrapping_mul(7_919) % 100) / 1e4,
            );
        }
        let of_cell = Samples {
            series: vec![curve, times],
            test_correct: None,
            ranges: vec![],
            trials: vec![],
            staleness: vec![],
        };
        many.add(record, Some(of_cell));
    }
    many
}
