//! Tests of the figure of errors and throughputs of kernels.

use crate::comparisons::figure_and_svg;
use crate::layout::{assert_readable, texts};
use crate::support::{RunBuilder, cell, invented, record, run, suite};
use mantissa_core::{
    Axis, CacheState, Cell, Kernel, KernelTask, MatmulShape, Metric, MetricName, RowsShape, Status, Task,
    Workload,
};
use mantissa_report::{Report, Run, markdown};

/// Returns a workload of one kernel.
fn kernel(kernel: Kernel) -> Workload {
    Workload {
        name: "kernel".into(),
        task: Task::Kernel(KernelTask {
            kernel,
            min_samples: 5,
            max_samples: 50,
            max_seconds: 2.0,
            max_noise: 0.01,
            cache: CacheState::Cold,
        }),
    }
}

/// Creates a run of casts in two settings, whose processes copied at different rates.
fn casts() -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision, Axis::Size])]);
    let shape = RowsShape {
        rows: None,
        width: 64,
    };
    for (precision, copied) in [("32-true", 100e9), ("bf16-true", 80e9)] {
        for size in ["64", "128"] {
            let axes = [(Axis::Precision, precision), (Axis::Size, size)];
            let mut record = record(&cell("s", &kernel(Kernel::Cast(shape)), &axes), Status::Ok, None);
            for (metric, value) in [
                (MetricName::BytesPerSecond, 50e9),
                (MetricName::CopyBytesPerSecond, copied),
                (MetricName::ValuesPerSecond, 10e9),
                (MetricName::RelativeError, 1e-3),
            ] {
                let reading = Metric::reading(metric, value, "invented");
                record.metrics.insert(metric, reading);
            }
            run.add(record, None);
        }
    }
    run
}

#[test]
fn every_setting_is_compared_with_the_copies_of_its_own_processes() {
    let svg = figure_and_svg(&casts(), "s-kernel").unwrap().1;
    let bands: Vec<&str> = svg
        .lines()
        .filter(|line| line.starts_with("<polyline") && line.contains("opacity=\"0.25\""))
        .collect();
    assert_eq!(bands.len(), 2, "{svg}");
    let heights = bands.iter().map(|band| {
        let (_, points) = band.split_once("points=\"").unwrap();
        let heights = points
            .split([' ', '"'])
            .filter_map(|point| Some(point.split_once(',')?.1));
        let mut heights: Vec<i32> = heights.map(|height| height.parse().unwrap()).collect();
        heights.dedup();
        assert_eq!(
            heights.len(),
            1,
            "each setting copied at the same rate for both sizes"
        );
        heights[0]
    });
    let heights: Vec<i32> = heights.collect();
    // 80 GB/s is below 100 GB/s, and y points down.
    assert!(heights[1] > heights[0], "{heights:?}");
    for (band, colour) in bands.iter().zip(["#0072B2", "#D55E00"]) {
        assert!(band.contains(colour), "{band}");
    }
}

#[test]
fn headline_and_table_state_the_same_share_of_a_copy() {
    let run = casts();
    let summary = markdown(&Report::new(&run).unwrap());
    // 50 GB/s of 100 GB/s and of 80 GB/s, at two sizes each.
    assert!(
        summary
            .contains("The fastest setting moves 50.00 GB/s, 50 % of the rate of a copy of the same size."),
        "{summary}"
    );
    let count = |share: &str| summary.matches(&format!("({share} of a copy)")).count();
    assert_eq!((count("50 %"), count("62 %")), (2, 2), "{summary}");
}

#[test]
fn the_panel_below_a_title_about_speed_shows_the_speed() {
    let svg = figure_and_svg(&invented(), "kernels-kernel").unwrap().1;
    let left = |text: &str| {
        let (before, _) = svg.split_once(&format!("\n{text}")).unwrap();
        let (_, x) = before.rsplit_once("<text x=\"").unwrap();
        x.split_once('"').unwrap().0.parse::<i32>().unwrap()
    };
    assert!(svg.contains("At size 1,024, "), "{svg}");
    assert!(left("Throughput") < left("Relative error"));
}

#[test]
fn exponents_and_labels_of_growing_sums_are_complete() {
    let axes = [
        Axis::Precision,
        Axis::Matmul,
        Axis::Accumulator,
        Axis::Distribution,
        Axis::Size,
    ];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    let shape = MatmulShape {
        batch: 1,
        m: Some(64),
        n: Some(64),
        k: None,
    };
    // The settings of the suite `inner-dimension`, with errors that grow like different powers of the size.
    for (index, (precision, matmul, accumulator)) in [
        ("32-true", "highest", "f32"),
        ("32-true", "high", "f32"),
        ("32-true", "medium", "f32"),
        ("16-true", "highest", "f32"),
        ("16-true", "highest", "f16"),
        ("bf16-true", "highest", "f32"),
    ]
    .into_iter()
    .enumerate()
    {
        for distribution in ["normal", "uniform", "lognormal", "cancellation"] {
            for size in [64_u32, 1_024, 16_384] {
                let size_text = size.to_string();
                let values = [precision, matmul, accumulator, distribution, &size_text];
                let setting: Vec<(Axis, &str)> = axes.into_iter().zip(values).collect();
                let at = cell("s", &kernel(Kernel::Matmul(shape)), &setting);
                let mut record = record(&at, Status::Ok, None);
                let error = 1e-7 * 10f64.powi(index as i32) * f64::from(size).powf(-0.5 + 0.2 * index as f64);
                let reading = Metric::reading(MetricName::RelativeError, error, "invented");
                record.metrics.insert(MetricName::RelativeError, reading);
                run.add(record, None);
            }
        }
    }
    let svg = figure_and_svg(&run, "s-kernel").unwrap().1;
    for exponent in ["-0.50", "0.10", "0.50"] {
        let shown = svg.matches(&format!(">\n{exponent}\n<")).count();
        assert_eq!(shown, 4, "{exponent} in each of four panels");
    }
    assert!(svg.contains(">\n16-true · accumulator f16\n<"), "{svg}");
    assert_readable("s-kernel", &svg);
}

#[test]
fn a_key_of_wide_labels_has_fewer_columns() {
    let axes = [Axis::Precision, Axis::Matmul, Axis::Accumulator, Axis::Seed];
    let mut run = run(vec![suite("s", "S", &[], &axes)]);
    let setting = |precision, matmul, accumulator, size| {
        let values = [precision, matmul, accumulator, size];
        let axes = [Axis::Precision, Axis::Matmul, Axis::Accumulator, Axis::Size];
        let setting: Vec<(Axis, &str)> = axes.into_iter().zip(values).collect();
        cell("s", &kernel(Kernel::Matmul(MatmulShape::SQUARE)), &setting)
    };
    for (precision, matmul, accumulator) in [
        ("32-true", "highest", "f32"),
        ("32-true", "medium", "f32"),
        ("16-true", "highest", "f16"),
    ] {
        for (size, seed) in [("64", 1_234_567), ("128", 1_234_567), ("64", 7), ("128", 7)] {
            let at = setting(precision, matmul, accumulator, size);
            let at = Cell::new("s", at.workload, at.setting, seed);
            let mut record = record(&at, Status::Ok, None);
            let rate = Metric::reading(MetricName::FlopsPerSecond, 1e9 + seed as f64, "invented");
            record.metrics.insert(MetricName::FlopsPerSecond, rate);
            run.add(record, None);
        }
    }
    let svg = figure_and_svg(&run, "s-kernel").unwrap().1;
    // This label is wider than 196 pixels, the room of a label in four columns.
    let widest = "32-true · highest · accumulator f32 · seed 1234567";
    let text = texts(&svg).into_iter().find(|text| text.text == widest);
    let [left, _, right, _] = text.unwrap_or_else(|| panic!("{svg}")).area;
    assert!(right - left > 196.0, "{left} {right}");
    assert_readable("s-kernel", &svg);
}
