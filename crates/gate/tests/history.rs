//! Tests of histories: trends, their page, and columns.

use std::{collections::BTreeSet, fs, path::Path};

use crate::support::{InventedRun, cell, noise};
use mantissa_core::{Axis, Cell, MetricName};
use mantissa_gate::{Gate, History, Policy, RunMeasurements, Trend};
use mantissa_report::Trends;
use parquet::{
    file::reader::{FileReader, SerializedFileReader},
    record::Field,
};

fn cells() -> Vec<Cell> {
    ["64", "128", "256"]
        .map(|size| cell(&[(Axis::Precision, "bf16-true"), (Axis::Size, size)]))
        .to_vec()
}

/// Creates a history of daily runs. The values of a metric are multiplied by `factor(day, cell_index, metric)`.
fn history(folder: &Path, days: u64, factor: impl Fn(u64, usize, MetricName) -> f64) -> History {
    let path = folder.join(History::FILE);
    for day in 1..=days {
        let mut invented = InventedRun::new(&cells(), 5, |cell_index, process| {
            let key = day * 10_000 + cell_index as u64 * 100 + u64::from(process) * 7;
            let number = |metric: MetricName, value: f64| (metric, value * factor(day, cell_index, metric));
            vec![
                number(MetricName::FlopsPerSecond, 1e11 * noise(key)),
                number(MetricName::HostPeakBytes, 5e7 * noise(key + 1)),
                number(MetricName::RelativeError, 3e-4),
            ]
        });
        invented.started = format!("2026-01-{day:02}T00:00:00Z");
        invented.fingerprint.revision = Some(format!("{day:02}c0ffee{day:032}"));
        let run = folder.join(format!("run-{day:02}"));
        invented.write(&run);
        let measured = RunMeasurements::read(&run).unwrap();
        History::append(&path, &measured, Gate::Passed).unwrap();
    }
    History::read(&path).unwrap()
}

fn trends(history: &History) -> Vec<Trend> {
    let policy = Policy::default();
    history.trends(|metric| policy.floors.get(&metric).copied())
}

fn report_trends(history: &History) -> Trends {
    history.to_trends("history.jsonl", &trends(history))
}

/// Factors of a history in which one cell is slower from day 12 on, another needs more memory from day 15 on, and a third has a smaller
/// error from day 9 on.
fn changed_factor(day: u64, cell_index: usize, metric: MetricName) -> f64 {
    match (metric, cell_index) {
        (MetricName::FlopsPerSecond, 2) if day > 11 => 0.93,
        (MetricName::HostPeakBytes, 0) if day > 14 => 1.2,
        (MetricName::RelativeError, 1) if day > 8 => 0.5,
        _ => 1.0,
    }
}

/// Strips styles, scripts and the content of SVG images from a page.
fn structure(page: &str) -> String {
    let mut text = page.to_owned();
    for (open, close) in [
        ("<style>", "</style>"),
        ("<script>", "</script>"),
        ("<svg", "</svg>"),
    ] {
        let mut stripped = String::new();
        let mut remaining = text.as_str();
        while let Some((before, after)) = remaining.split_once(open) {
            stripped.push_str(before);
            stripped.push_str(&format!("{open}…{close}"));
            remaining = after.split_once(close).unwrap().1;
        }
        stripped.push_str(remaining);
        text = stripped;
    }
    text
}

#[test]
fn the_page_of_a_history_names_the_first_bad_runs() {
    let folder = tempfile::tempdir().unwrap();
    let history = history(folder.path(), 20, changed_factor);
    let page = report_trends(&history).html().unwrap();
    assert_eq!(
        page,
        report_trends(&history).html().unwrap(),
        "rendering is not deterministic"
    );
    let version = env!("CARGO_PKG_VERSION");
    let structure = structure(&page).replace(version, "[version]");
    insta::assert_snapshot!(structure);
}

#[test]
fn the_band_of_a_noisy_metric_is_its_run_to_run_noise() {
    let folder = tempfile::tempdir().unwrap();
    // The peak memory alternates by 4 %, twice the smallest relevant change (the floor), and rises by 50 % after day 14.
    let noisy_factor = |day: u64, cell_index: usize, metric: MetricName| match (metric, cell_index) {
        (MetricName::HostPeakBytes, 0) if day > 14 => 1.5 * (1.0 + 0.04 * (day % 2) as f64),
        (MetricName::HostPeakBytes, 0) => 1.0 + 0.04 * (day % 2) as f64,
        _ => 1.0,
    };
    let history = history(folder.path(), 20, noisy_factor);
    let page = report_trends(&history).html().unwrap();
    assert!(
        page.contains("the noise between runs."),
        "the run-to-run noise exceeds the floor"
    );
    assert!(!page.contains("the noise between runs is smaller"));
}

#[test]
fn the_table_lists_regressions_first_with_run_and_revision() {
    let folder = tempfile::tempdir().unwrap();
    let table = report_trends(&history(folder.path(), 20, changed_factor)).table();
    let rows: Vec<[&str; 4]> = table
        .rows
        .iter()
        .map(|row| [0, 1, 2, 5].map(|column| row[column].as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            ["worse", "run-15", "15c0ffee0000", "host_peak_bytes"],
            ["worse", "run-12", "12c0ffee0000", "flops_per_second"],
            ["better", "run-09", "09c0ffee0000", "relative_error"],
        ]
    );
    assert!(
        table
            .title
            .starts_with("2 metrics regressed and did not recover, over 20 runs."),
        "{}",
        table.title
    );
}

#[test]
fn histories_with_zero_or_one_run_have_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let none = History::read(&folder.path().join("none.jsonl")).unwrap();
    let page = report_trends(&none).html().unwrap();
    assert!(page.contains("The history contains no runs."));
    assert!(!page.contains("NaN") && !page.contains("<svg"));
    let one = history(folder.path(), 1, changed_factor);
    let page = report_trends(&one).html().unwrap();
    assert!(page.contains("The history contains one run, so there are no changes yet."));
    assert!(
        page.contains("300.00") || page.contains("3.00×10⁻⁴"),
        "the page shows the latest value"
    );
    assert!(!page.contains("NaN") && !page.contains("<svg"));
    assert!(report_trends(&one).table().rows.is_empty());
}

#[test]
fn parquet_rows_match_the_history() {
    let folder = tempfile::tempdir().unwrap();
    let mut history = history(folder.path(), 3, changed_factor);
    // A cell without any metric has a row too.
    let path = folder.path().join(History::FILE);
    let mut entry = history.entries()[0].clone();
    entry.run = "run-04".into();
    entry.started = "2026-01-04T00:00:00Z".into();
    entry.revision = None;
    entry.processes = 0;
    entry.medians.clear();
    let line = serde_json::to_string(&entry).unwrap() + "\n";
    fs::write(&path, fs::read_to_string(&path).unwrap() + &line).unwrap();
    history = History::read(&path).unwrap();

    let bytes = history.parquet().unwrap();
    assert_eq!(
        bytes,
        history.parquet().unwrap(),
        "the export is not deterministic"
    );
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let mut expected = history.entries().iter().flat_map(|entry| {
        let medians = entry
            .medians
            .iter()
            .map(|(metric, value)| Some((*metric, *value)));
        let none = entry.medians.is_empty().then_some(None);
        medians.chain(none).map(move |median| (entry, median))
    });
    let text = |text: &str| Field::Str(text.to_owned());
    let some = |found: Option<&str>| found.map_or(Field::Null, text);
    for row in &rows {
        let (entry, median) = expected.next().unwrap();
        let metric = median.map(|(metric, _)| metric);
        let fields: Vec<(&str, Field)> = row
            .get_column_iter()
            .map(|(name, field)| (name.as_str(), field.clone()))
            .collect();
        assert_eq!(
            fields,
            [
                ("run", text(&entry.run)),
                ("started", text(&entry.started)),
                ("revision", some(entry.revision.as_deref())),
                ("machine", text(&entry.machine)),
                ("suite", text(&entry.suite)),
                ("workload", text(&entry.workload)),
                ("setting", text(&entry.setting)),
                ("cell", text(entry.cell.as_str())),
                ("gate", text("passed")),
                ("processes", Field::Long(entry.processes as i64)),
                ("metric", some(metric.map(MetricName::name))),
                ("unit", some(metric.map(|metric| metric.unit().name()))),
                (
                    "value",
                    median.map_or(Field::Null, |(_, value)| Field::Double(value))
                ),
                ("better", some(metric.map(|metric| metric.better().name()))),
            ]
        );
    }
    assert!(expected.next().is_none());
    assert_eq!(rows.len(), 3 * 3 * 3 + 1);
    let none = History::read(&folder.path().join("none.jsonl")).unwrap();
    let empty = SerializedFileReader::new(bytes::Bytes::from(none.parquet().unwrap())).unwrap();
    assert_eq!(empty.metadata().file_metadata().num_rows(), 0);
}

#[test]
fn a_page_of_100_runs_and_200_cells_is_below_3_mb() {
    const CELLS: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let few = history(folder.path(), 1, |_, _, _| 1.0);
    let template = &few.entries()[0];
    let mut lines = String::new();
    for run in 1..=100_u64 {
        for cell_index in 0..CELLS {
            let mut entry = template.clone();
            entry.run = format!("run-{run:03}");
            entry.started = format!("2026-{:02}-{:02}T00:00:00Z", 1 + run / 28, 1 + run % 28);
            entry.cell = cell(&[(Axis::Size, &(8 + cell_index).to_string())]).id;
            entry.setting = format!("size {}", 8 + cell_index);
            let worse = if cell_index < 60 && run > 40 { 0.9 } else { 1.0 };
            let value = 1e11 * worse * noise(run * 100_000 + cell_index as u64);
            entry.medians = [(MetricName::FlopsPerSecond, value)].into();
            lines.push_str(&(serde_json::to_string(&entry).unwrap() + "\n"));
        }
    }
    let path = folder.path().join("large.jsonl");
    fs::write(&path, lines).unwrap();
    let history = History::read(&path).unwrap();
    let trends = trends(&history);
    let first_bad_runs: BTreeSet<&str> = trends
        .iter()
        .filter_map(|trend| Some(trend.runs[trend.changes[trend.stayed?].first].run.as_str()))
        .collect();
    assert_eq!(first_bad_runs, BTreeSet::from(["run-041"]));
    let page = history.to_trends("large.jsonl", &trends).html().unwrap();
    assert_eq!(page.matches("<figure").count(), 40);
    assert!(page.contains("The figures show the 40 most severe"));
    assert!(page.contains("60 metrics regressed and did not recover, over 100 runs."));
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}
