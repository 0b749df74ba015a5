//! Writes every format of an invented comparison, for `peers/validate_formats.py` to validate with third-party parsers.
//!
//! ```text
//! cargo run -p mantissa-gate --example formats -- DIR [RUN]
//! ```
//! `RUN` is a run folder. If it is given, the formats for the measurements of a single run contain this run instead of an invented one.

mod invented;

use std::{error::Error, fs, path::PathBuf};

use mantissa_core::Better;
use mantissa_gate::{
    GateReport, RunMeasurements,
    render::{Measurements, annotations, bencher, benchmark_action, junit, markdown, mlperf, openmetrics},
};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let folder = arguments
        .next()
        .ok_or("missing the output folder: formats DIR [RUN]")?;
    fs::create_dir_all(&folder)?;
    let invented = invented::run(&folder.join("run"));
    let run = arguments
        .next()
        .map_or(Ok(invented.clone()), |run| RunMeasurements::read(&run))?;
    let measurements = Measurements::of(&run);
    let mut files = vec![
        (
            "smaller.json".to_owned(),
            benchmark_action(&measurements, Better::Lower),
        ),
        (
            "bigger.json".to_owned(),
            benchmark_action(&measurements, Better::Higher),
        ),
        ("bencher.json".to_owned(), bencher(&measurements)),
        ("openmetrics.txt".to_owned(), openmetrics(&measurements)),
        ("mlperf.log".to_owned(), mlperf(&measurements)?),
    ];
    let few = invented::small_report(&invented);
    let strict = GateReport {
        strict: true,
        ..few.clone()
    };
    for (name, report) in [
        ("few", few),
        ("strict", strict),
        ("many", invented::large_report()),
    ] {
        files.push((format!("{name}.md"), markdown(&report)));
        files.push((format!("{name}.txt"), annotations(&report)));
        files.push((format!("{name}.xml"), junit(&report)));
    }
    for (name, text) in files {
        fs::write(folder.join(&name), text)?;
        println!("{name}");
    }
    Ok(())
}
