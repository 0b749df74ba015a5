//! Tests of the scaling efficiency of several devices.

use mantissa_core::{Axis, Metric, MetricName, Status};
use mantissa_report::{Report, figures, markdown};

use crate::support::{RunBuilder as _, cell, record, run, suite, workload};

/// Training with an effective batch size of 32: micro-batch, devices, threads per device, and seconds per step.
type Training = (&'static str, &'static str, &'static str, f64);

/// Returns the scaling efficiency of each training, from the table of the summary, for a machine with two cores.
fn efficiencies(trainings: &[Training]) -> Vec<String> {
    let axes = [Axis::Precision, Axis::Batch, Axis::Devices, Axis::Threads];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    for (batch, devices, threads, seconds) in trainings {
        let axes = [
            (Axis::Batch, *batch),
            (Axis::Devices, *devices),
            (Axis::Threads, *threads),
        ];
        let mut record = record(&cell("s", &workload("w"), &axes), Status::Ok, None);
        record.fingerprint.cores = 2;
        for (name, value) in [
            (MetricName::TrainSeconds, 10.0),
            (MetricName::StepSeconds, *seconds),
        ] {
            let metric = Metric::reading(name, value, "invented");
            record.metrics.insert(name, metric);
        }
        run.add(record, None);
    }
    let summary = markdown(&Report::new(&run).unwrap());
    let mut rows = summary.lines().filter(|line| line.starts_with('|'));
    let fields = |line: &str| -> Vec<String> {
        let fields = line.trim_matches('|').split('|');
        fields.map(|field| field.trim().to_owned()).collect()
    };
    let heads = rows.by_ref().map(fields);
    let head = heads
        .into_iter()
        .find(|head| head.iter().any(|title| title.contains("scaling efficiency")));
    let Some(head) = head else { return vec![] };
    let column = head
        .iter()
        .position(|title| title.contains("scaling efficiency"))
        .unwrap();
    rows.map(fields)
        .skip(1)
        .take(trainings.len())
        .map(|row| row[column].clone())
        .collect()
}

#[test]
fn efficiency_is_the_speed_relative_to_as_many_single_devices() {
    // Two devices need 1.25 s for a step, and one needs 2 s: 2 / (2 × 1.25).
    let trainings = [("32", "1", "1", 2.0), ("16", "2", "1", 1.25)];
    let found = efficiencies(&trainings);
    assert!(found[1].starts_with("80 %"), "{found:?}");
    assert!(!found[0].contains('%'), "{found:?}");
}

#[test]
fn more_threads_than_cores_have_no_efficiency() {
    let found = efficiencies(&[("32", "1", "1", 2.0), ("16", "2", "1", 1.0), ("8", "4", "1", 1.0)]);
    assert!(found[1].starts_with("100 %"), "{found:?}");
    assert!(found[2].starts_with("oversubscribed"), "{found:?}");
}

#[test]
fn efficiency_needs_one_device_with_the_same_batch_and_threads() {
    let other_batch = [("16", "1", "1", 2.0), ("16", "2", "1", 1.0)];
    assert_eq!(efficiencies(&other_batch), Vec::<String>::new());
    // One device then uses all cores.
    let all_threads = [("32", "1", "all", 2.0), ("16", "2", "all", 1.0)];
    assert_eq!(efficiencies(&all_threads), Vec::<String>::new());
}

#[test]
fn figure_of_several_devices_has_the_efficiency_as_title() {
    let axes = [Axis::Precision, Axis::Batch, Axis::Devices, Axis::ReduceFormat];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    let mut add = |axes: &[(Axis, &str)], metrics: &[(MetricName, f64)]| {
        let axes = [axes, &[(Axis::Threads, "1")]].concat();
        let mut record = record(&cell("s", &workload("w"), &axes), Status::Ok, None);
        for (name, value) in metrics {
            let metric = Metric::reading(*name, *value, "invented");
            record.metrics.insert(*name, metric);
        }
        run.add(record, None);
    };
    let times = |seconds| {
        [
            (MetricName::TrainSeconds, 10.0),
            (MetricName::StepSeconds, seconds),
        ]
    };
    add(&[(Axis::Batch, "32")], &times(2.0));
    for (format, error) in [("f32", 1e-8), ("bf16", 2e-3)] {
        let communication = [
            (MetricName::CommunicationShare, 0.125),
            (MetricName::BytesSent, 4e6),
            (MetricName::GradientError, error),
        ];
        let two = [
            (Axis::Batch, "16"),
            (Axis::Devices, "2"),
            (Axis::ReduceFormat, format),
        ];
        add(&two, &[&times(1.25)[..], &communication].concat());
    }
    let figures = figures(&Report::new(&run).unwrap());
    let figure = figures
        .iter()
        .find(|figure| figure.id.ends_with("-devices"))
        .unwrap();
    let svg = figure.canvas.svg().unwrap();
    for text in [
        "2 devices train 1.60× as fast as one (ring): 80 % efficiency",
        "12.50 %",
        "4.00 MB",
        "batch 16 · devices 2 · reduce format bf16: 2.00×10⁻³",
    ] {
        assert!(svg.contains(text), "{text} is missing in {svg}");
    }
}
