//! Benchmark of rendering a run of 1,000 records as page, CSV, Markdown, SVG and PNG. Writing all files should take less than 3 s.

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use mantissa_core::{Axis, Status};
use mantissa_report::{Report, csv, figures, html, markdown, render};
use support::{RunBuilder, cell, invented, loss, record, train_metrics, workload};

/// Extends the invented run to 1,000 records with loss curves.
fn run_with_1000_records() -> mantissa_report::Run {
    let mut run = invented();
    let workload = workload("distilbert-tiny");
    let mut index = 0_u32;
    while run.records.len() < 1_000 {
        let batch = (index + 32).to_string();
        let cell = cell("accumulation", &workload, &[(Axis::Batch, &batch)]);
        let mut record = record(&cell, Status::Ok, None);
        train_metrics(
            &mut record,
            50.0 + f64::from(index % 97),
            800 + u64::from(index % 60),
            1e9,
        );
        run.add(record, Some(loss(index, None)));
        index += 1;
    }
    run
}

fn benchmarks(criterion: &mut Criterion) {
    let run = run_with_1000_records();
    let mut group = criterion.benchmark_group("1,000 records");
    group.sample_size(10);
    group.bench_function("all, written to disk", |bencher| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        bencher.iter(|| render(black_box(&run), folder.path()).expect("renders"));
    });
    group.bench_function("csv and markdown", |bencher| {
        bencher.iter(|| {
            let report = Report::new(black_box(&run)).expect("a report");
            (csv(&report).expect("csv"), markdown(&report))
        });
    });
    let report = Report::new(&run).expect("a report");
    let drawn = figures(&report);
    group.bench_function("png", |bencher| {
        bencher.iter(|| {
            drawn
                .iter()
                .map(|figure| figure.canvas.png().expect("png").len())
                .sum::<usize>()
        });
    });
    group.bench_function("html", |bencher| {
        let pictures: Vec<_> = drawn
            .iter()
            .map(|figure| (figure, figure.canvas.svg().expect("svg")))
            .collect();
        bencher.iter(|| html(&report, &pictures).expect("html"));
    });
    group.finish();
}

criterion_group!(benches, benchmarks);
criterion_main!(benches);
