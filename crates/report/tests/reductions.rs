//! Tests of the figure of the gradient error by number of devices.

use mantissa_core::{Axis, Metric, MetricName, Status};
use mantissa_report::{Report, Run, figures};

use crate::support::{RunBuilder as _, cell, record, run, suite, train_metrics, workload};

const ALGORITHMS: [&str; 4] = ["ring", "tree", "linear", "recursive-doubling"];
/// Formats with their unit roundoffs.
const FORMATS: [(&str, f64); 3] = [
    ("f32", 1.0 / 16_777_216.0),
    ("bf16", 1.0 / 256.0),
    ("f16", 1.0 / 2_048.0),
];

/// Returns an invented gradient error: that of a random walk along the additions of the algorithm.
fn error(algorithm: &str, devices: u32, roundoff: f64) -> f64 {
    let (factor, additions) = match algorithm {
        "ring" => (0.5, f64::from(devices - 1)),
        "linear" => (0.4, f64::from(devices - 1)),
        "tree" => (0.6, f64::from(devices).log2()),
        _ => (0.5, f64::from(devices).log2()),
    };
    factor * roundoff * additions.sqrt()
}

/// Creates a run with a gradient error for every algorithm, format and number of devices. `change` returns the value that replaces an error.
pub fn run_with_reductions(change: impl Fn(&str, &str, u32, f64) -> f64) -> Run {
    let axes = [
        Axis::Precision,
        Axis::Batch,
        Axis::Devices,
        Axis::ReduceAlgorithm,
        Axis::ReduceFormat,
    ];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    for (batch, devices) in [("16", 2), ("8", 4), ("4", 8), ("2", 16)] {
        for algorithm in ALGORITHMS {
            for (format, roundoff) in FORMATS {
                let devices_text = devices.to_string();
                let axes = [
                    (Axis::Batch, batch),
                    (Axis::Devices, devices_text.as_str()),
                    (Axis::ReduceAlgorithm, algorithm),
                    (Axis::ReduceFormat, format),
                    (Axis::Threads, "1"),
                ];
                let mut record = record(&cell("s", &workload("w"), &axes), Status::Ok, None);
                record.fingerprint.cores = 16;
                train_metrics(&mut record, 10.0, 900, 1e9);
                let name = MetricName::GradientError;
                let value = change(algorithm, format, devices, error(algorithm, devices, roundoff));
                record
                    .metrics
                    .insert(name, Metric::reading(name, value, "invented"));
                run.add(record, None);
            }
        }
    }
    run
}

/// Returns the SVG and the caption of the figure.
fn figure(run: &Run) -> Option<(String, String)> {
    let figures = figures(&Report::new(run).unwrap());
    let figure = figures.iter().find(|figure| figure.id == "s-gradient-error")?;
    Some((figure.canvas.svg().unwrap(), figure.caption.clone()))
}

#[test]
fn errors_have_a_panel_per_format_and_lines_of_growth() {
    let run = run_with_reductions(|_, _, _, error| error);
    let (svg, caption) = figure(&run).unwrap();
    for text in [
        "From 2 to 16 devices, the gradient error in bf16 changes to 2.00× (tree) to 3.87× (linear)",
        "Gradient error · f32",
        "Gradient error · bf16",
        "Gradient error · f16",
        "N^½",
        "u = 2⁻⁸",
        "ring · bf16, devices 16: 7.56×10⁻³",
    ] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
    assert!(
        !svg.contains("error 0") && !caption.contains("error of 0"),
        "{caption}"
    );
    for text in [
        "48 settings",
        "includes rounding the gradient of each rank to the format; in f16, small values underflow",
        "for orientation",
        "are not bounds",
    ] {
        assert!(caption.contains(text), "{text} is missing in {caption}");
    }
}

#[test]
fn errors_of_zero_and_absent_errors_are_counted() {
    let run = run_with_reductions(
        |algorithm, format, devices, error| match (algorithm, format, devices) {
            ("ring", "f32", 2) | ("tree", "f32", 8) => 0.0,
            ("linear", "f16", 16) => f64::INFINITY,
            _ => error,
        },
    );
    let (svg, caption) = figure(&run).unwrap();
    assert!(svg.contains("at the lower edge: error 0"), "{svg}");
    assert!(svg.contains("ring · f32, devices 2: 0"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    for text in [
        "2 settings have an error of 0, drawn at the lower edge.",
        "1 setting has no error, for example because a sum is not finite.",
        "47 of 48 settings",
    ] {
        assert!(caption.contains(text), "{text} is missing in {caption}");
    }
}

#[test]
fn a_format_whose_errors_are_all_zero_has_no_axis() {
    let run = run_with_reductions(|_, format, _, error| if format == "f32" { 0.0 } else { error });
    let (svg, _) = figure(&run).unwrap();
    assert!(svg.contains("all errors are 0"), "{svg}");
}

#[test]
fn one_number_of_devices_has_no_figure() {
    let mut run = run_with_reductions(|_, _, _, error| error);
    run.plan
        .cells
        .retain(|planned| planned.cell.setting.devices() == 2);
    run.records.retain(|record| record.cell.setting.devices() == 2);
    assert!(figure(&run).is_none());
}

#[test]
fn the_gradient_errors_of_the_devices_figure_have_a_logarithmic_axis() {
    let run = run_with_reductions(|algorithm, format, _, error| match (algorithm, format) {
        ("ring", "f32") => 0.0,
        _ => error,
    });
    let figures = figures(&Report::new(&run).unwrap());
    let figure = figures.iter().find(|figure| figure.id == "s-devices").unwrap();
    let svg = figure.canvas.svg().unwrap();
    for power in ["10⁻⁸", "10⁻⁵", "10⁻²"] {
        assert!(
            svg.contains(&format!("\n{power}\n")),
            "{power} is missing in {svg}"
        );
    }
}
