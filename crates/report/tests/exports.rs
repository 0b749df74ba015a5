//! Tests of exports: rows that lose no cells or digits, and standalone tables.

use std::collections::{BTreeMap, BTreeSet};

use crate::default_axes::without_default_axes;
use crate::gpus::gpu;
use crate::support::{RunBuilder, cell, invented, matmul, record, run, suite, train_metrics, workload};
use mantissa_core::{Axis, Executed, ExecutedVerdict, Gpu, Metric, MetricName, Status};
use mantissa_report::{ExportFormat, ReportError, Run, export};
use parquet::{
    file::{reader::FileReader, serialized_reader::SerializedFileReader},
    record::Field,
};

fn export_text(runs: &[Run], format: ExportFormat, metrics: &[MetricName]) -> String {
    String::from_utf8(export(runs, format, metrics).unwrap()).unwrap()
}

type Line = BTreeMap<String, String>;

/// Reads the rows of a CSV by column.
fn read(csv: &str) -> Vec<Line> {
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn tidy_rows(runs: &[Run]) -> Vec<Line> {
    read(&export_text(runs, ExportFormat::Csv, &[]))
}

/// Creates a run of one cell. `change` returns status and metrics of each repeat.
fn run_of_one_cell(change: impl Fn(u32) -> (Status, Vec<(MetricName, Metric)>), repeats: u32) -> Run {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul])]);
    let cell = cell("s", &workload("w"), &[]);
    run.plan(&cell, None);
    for repeat in 0..repeats {
        let (status, metrics) = change(repeat);
        let mut record = record(&cell, status, (status != Status::Ok).then_some("=1+1, \"so\""));
        record.repeat = repeat;
        record.metrics.extend(metrics);
        run.measured(record, None);
    }
    run
}

fn final_loss(value: f64) -> (MetricName, Metric) {
    let absent = Metric::reading(MetricName::FinalLoss, 0.0, "the last");
    let metric = Metric {
        value: Some(value),
        ..absent
    };
    (MetricName::FinalLoss, metric)
}

#[test]
fn tidy_rows_match_the_snapshot() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Matmul])]);
    let cells = ["highest", "high"].map(|matmul| cell("s", &workload("w"), &[(Axis::Matmul, matmul)]));
    let mut done = record(&cells[0], Status::Ok, None);
    train_metrics(&mut done, 10.0, 800, 1e9);
    run.add(done, None);
    run.add(
        record(
            &cells[1],
            Status::Failed,
            Some("the worker was ended by signal 9"),
        ),
        None,
    );
    run.plan(&cell("s", &matmul(), &[]), Some("not built"));
    insta::assert_snapshot!(without_default_axes(&export_text(&[run], ExportFormat::Csv, &[])));
}

#[test]
fn wide_rows_have_one_cell_and_three_columns_per_metric() {
    let run = invented();
    let metrics = [MetricName::TestAccuracy, MetricName::TrainSeconds];
    let wide = export_text(std::slice::from_ref(&run), ExportFormat::CsvWide, &metrics);
    let header = wide.lines().next().unwrap();
    let last = "train_seconds,train_seconds_low,train_seconds_high,test_accuracy,test_accuracy_low,test_accuracy_high";
    assert!(header.ends_with(last), "{header}");
    let rows = read(&wide);
    assert_eq!(rows.len(), run.plan.cells.len());
    let tidy = tidy_rows(&[run]);
    let seconds = tidy.iter().filter(|line| line["metric"] == "train_seconds");
    for line in seconds {
        let row = rows.iter().find(|row| row["cell"] == line["cell"]).unwrap();
        assert_eq!(row["train_seconds"], line["value"]);
        assert_eq!(row["train_seconds_low"], line["low"]);
        assert_eq!(row["train_seconds_high"], line["high"]);
    }
}

#[test]
fn every_cell_is_exported_for_any_status_and_metrics() {
    let mut run = invented();
    run.plan(&cell("kernels", &matmul(), &[(Axis::Size, "9")]), None);
    let planned: BTreeSet<&str> = run
        .plan
        .cells
        .iter()
        .map(|planned| planned.cell.id.as_str())
        .collect();
    for metrics in [&[][..], &[MetricName::TestAccuracy], &[MetricName::IdleWatts]] {
        for format in [ExportFormat::Csv, ExportFormat::CsvWide] {
            let lines = read(&export_text(std::slice::from_ref(&run), format, metrics));
            let exported_cells: BTreeSet<&str> = lines.iter().map(|line| line["cell"].as_str()).collect();
            assert_eq!(exported_cells, planned);
        }
    }
    let lines = tidy_rows(&[run]);
    let rows_with_status = |status: &str| {
        lines
            .iter()
            .filter(|line| line["status"] == status)
            .collect::<Vec<_>>()
    };
    for status in ["failed", "skipped", "not run"] {
        let lines = rows_with_status(status);
        assert_eq!(lines.len(), 1, "{status}");
        assert!(lines[0]["metric"].is_empty() && lines[0]["value"].is_empty());
        assert!(!lines[0]["reason"].is_empty(), "{status}");
    }
    assert!(
        rows_with_status("diverged").len() > 1,
        "the metrics up to the divergence are exported"
    );
}

#[test]
fn every_axis_has_a_column() {
    let lines = tidy_rows(&[invented()]);
    for axis in Axis::ALL {
        assert!(lines.iter().all(|line| line.contains_key(axis.name())), "{axis}");
    }
    let row_of = |task: &str| lines.iter().find(|line| line["task"] == task).unwrap();
    assert_eq!(
        (
            row_of("train")["size"].as_str(),
            row_of("train")["optimizer"].as_str()
        ),
        ("", "adam")
    );
    assert_eq!(
        (
            row_of("kernel")["size"].as_str(),
            row_of("kernel")["optimizer"].as_str()
        ),
        ("64", "")
    );
    assert_eq!(row_of("kernel")["backend"], "flex");
}

#[test]
fn the_executed_precision_is_next_to_the_requested_one() {
    let lines = tidy_rows(&[invented()]);
    let differs = lines
        .iter()
        .find(|line| line["executed_verdict"] == "differs")
        .unwrap();
    let field = |name: &str| differs[name].as_str();
    assert_eq!((field("precision"), field("matmul")), ("32-true", "high"));
    assert_eq!(
        (field("requested_operand_bits"), field("executed_operand_bits")),
        ("11", "24")
    );
    assert_eq!(field("executed_emulated"), "true");
    let skipped = lines.iter().find(|line| line["status"] == "skipped").unwrap();
    assert_eq!(
        (
            skipped["requested_operand_bits"].as_str(),
            skipped["executed_verdict"].as_str()
        ),
        ("53", "")
    );
}

#[test]
fn non_finite_values_are_empty_fields() {
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let run = [run_of_one_cell(
            |_| (Status::Diverged, vec![final_loss(value)]),
            1,
        )];
        let lines = tidy_rows(&run);
        assert_eq!(lines.len(), 1);
        assert_eq!(
            (lines[0]["metric"].as_str(), lines[0]["value"].as_str()),
            ("final_loss", "")
        );
        assert_eq!(lines[0]["status"], "diverged");
        assert!(export_text(&run, ExportFormat::Latex, &[]).contains("diverged"));
    }
}

#[test]
fn an_absent_metric_has_a_reason() {
    let absent = Metric::absent(MetricName::DevicePeakBytes, "NVML: no driver library");
    let run = run_of_one_cell(
        |_| (Status::Ok, vec![(MetricName::DevicePeakBytes, absent.clone())]),
        1,
    );
    let lines = tidy_rows(&[run]);
    let field = |name: &str| lines[0][name].as_str();
    assert_eq!(
        (field("metric"), field("value"), field("n")),
        ("device_peak_bytes", "", "")
    );
    assert_eq!(field("method"), "NVML: no driver library");
}

#[test]
fn several_processes_are_one_row_whose_estimate_ignores_failed_ones() {
    let of_repeat = |repeat: u32| match repeat {
        3 => (Status::Failed, vec![]),
        _ => (Status::Ok, vec![final_loss(f64::from(repeat))]),
    };
    let lines = tidy_rows(&[run_of_one_cell(of_repeat, 4)]);
    assert_eq!(lines.len(), 1);
    let field = |name: &str| lines[0][name].as_str();
    assert_eq!(
        (field("repeats"), field("processes"), field("value")),
        ("4", "3", "1")
    );
    assert_eq!(
        (field("status"), field("better"), field("unit")),
        ("failed", "lower", "nat")
    );
    assert_ne!(field("method"), "the last");
    let alone = tidy_rows(&[run_of_one_cell(|_| (Status::Ok, vec![final_loss(0.5)]), 1)]);
    assert_eq!(
        alone[0]["method"], "the last",
        "a single process keeps its recorded method"
    );
}

#[test]
fn untrusted_text_is_quoted_and_formulas_are_escaped() {
    let mut run = [run_of_one_cell(|_| (Status::Failed, vec![]), 1)];
    run[0].name = "@SUM(A1)\n2".into();
    for format in [ExportFormat::Csv, ExportFormat::CsvWide] {
        let text = export_text(&run, format, &[]);
        assert!(
            text.contains("\"'=1+1, \"\"so\"\"\"") && text.contains("\"'@SUM(A1)\n2\""),
            "{text}"
        );
        let lines = read(&text);
        assert_eq!(lines.len(), 1);
        assert_eq!(lines[0]["reason"], "'=1+1, \"so\"");
    }
    let results = mantissa_report::csv(&mantissa_report::Report::new(&run[0]).unwrap()).unwrap();
    assert!(String::from_utf8(results).unwrap().contains("\"'=1+1"));
}

#[test]
fn a_cell_measured_on_two_machines_names_both() {
    let mut run = run_of_one_cell(|_| (Status::Ok, vec![final_loss(1.0)]), 2);
    run.records[1].fingerprint.cpu = Some("Another CPU".into());
    run.records[1].fingerprint.cores = 64;
    let lines = tidy_rows(&[run]);
    assert_eq!(lines[0]["cpu"], "Invented CPU 9000; Another CPU");
    assert_eq!(lines[0]["cores"], "");
}

#[test]
fn a_driver_that_one_process_did_not_record_is_unknown() {
    let gpu = |driver: Option<&str>| Gpu {
        driver: driver.map(str::to_owned),
        ..gpu("Invented GPU")
    };
    let exported_driver = |drivers: [Option<&str>; 2]| {
        let mut run = run_of_one_cell(|_| (Status::Ok, vec![final_loss(1.0)]), 2);
        for (record, driver) in run.records.iter_mut().zip(drivers) {
            record.fingerprint.gpu = Some(gpu(driver));
        }
        tidy_rows(&[run])[0]["driver"].clone()
    };
    assert_eq!(exported_driver([Some("570.1"), None]), "570.1; unknown");
    assert_eq!(exported_driver([None, Some("570.1")]), "unknown; 570.1");
    assert_eq!(exported_driver([Some("570.1"), Some("570.1")]), "570.1");
    assert_eq!(exported_driver([None, None]), "");
}

#[test]
fn precision_and_data_that_differ_between_processes_are_exported() {
    let mut run = run_of_one_cell(|_| (Status::Ok, vec![final_loss(1.0)]), 2);
    let executed = |run: &Run| {
        let line = tidy_rows(std::slice::from_ref(run)).remove(0);
        ["operand_bits", "accumulator", "verdict", "emulated", "alike"]
            .map(|name| line[&format!("executed_{name}")].clone())
    };
    for record in &mut run.records {
        record.executed = Executed {
            operand_bits: Some(11),
            accumulator: Some("f32".into()),
            verdict: ExecutedVerdict::AsRequested,
            ..Executed::unverified()
        };
        record.data = Some(crate::support::synthetic());
    }
    // Without a recorded kernel, emulation is unknown.
    assert_eq!(executed(&run), ["11", "f32", "as-requested", "", "true"]);
    run.records[1].executed.operand_bits = Some(24);
    run.records[1].executed.accumulator = None;
    run.records[1].executed.verdict = ExecutedVerdict::Differs;
    assert_eq!(
        executed(&run),
        ["", "f32; unknown", "as-requested; differs", "", "false"]
    );
    let data = |run: &Run| tidy_rows(std::slice::from_ref(run))[0]["data"].clone();
    assert_eq!(data(&run), "synthetic reviews, seed 1");
    let other = |hash: &str, name: &str| {
        let mut data = crate::support::synthetic();
        (data.hash, data.name) = (hash.into(), name.into());
        Some(data)
    };
    run.records[1].data = other("00112233445566aa", "reviews");
    assert_eq!(data(&run), "synthetic reviews, seed 1; reviews");
    run.records[1].data = other("ffff", "synthetic reviews, seed 1");
    assert_eq!(
        data(&run),
        "synthetic reviews, seed 1 (blake3 00112233445566aa); synthetic reviews, seed 1 (blake3 ffff)"
    );
    run.records[1].data = None;
    assert_eq!(data(&run), "synthetic reviews, seed 1; unknown");
    // Failed records are left out of the columns of the executed precision, as they are of the metrics.
    run.records[1].status = Status::Failed;
    // Without a recorded kernel, emulation is unknown.
    assert_eq!(executed(&run), ["11", "f32", "as-requested", "", "true"]);
}

#[test]
fn rows_contain_the_name_of_their_run() {
    let (mut other, run) = (invented(), invented());
    other.name = "another".into();
    let lines = tidy_rows(&[run.clone(), other]);
    let row_count = |name: &str| lines.iter().filter(|line| line["run"] == name).count();
    assert_eq!(row_count("another"), row_count(&run.name));
    assert_eq!(row_count("another") * 2, lines.len());
    let error = export(&[run.clone(), run], ExportFormat::Csv, &[]).unwrap_err();
    assert!(matches!(error, ReportError::SameName { .. }), "{error}");
}

#[test]
fn a_run_without_cells_is_an_error_in_every_format() {
    for format in ExportFormat::ALL {
        let error = export(&[run(vec![suite("s", "S", &[], &[])])], *format, &[]).unwrap_err();
        assert!(matches!(error, ReportError::NoCells { .. }), "{error}");
    }
}

#[test]
fn a_parquet_file_reads_back_as_the_tidy_rows() {
    let run = [invented()];
    let bytes = export(&run, ExportFormat::Parquet, &[]).unwrap();
    assert_eq!(
        bytes,
        export(&run, ExportFormat::Parquet, &[]).unwrap(),
        "the export is not deterministic"
    );
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let created_by = reader.metadata().file_metadata().created_by();
    assert_eq!(
        created_by,
        Some(concat!("mantissa version ", env!("CARGO_PKG_VERSION")))
    );
    let text = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        Field::Bool(truth) => truth.to_string(),
        other => panic!("{other:?}"),
    };
    let expected = tidy_rows(&run);
    let mut numbers = 0;
    let mut rows = 0;
    for (row, line) in reader.get_row_iter(None).unwrap().zip(&expected) {
        let row = row.unwrap();
        assert_eq!(row.get_column_iter().count(), line.len());
        for (name, field) in row.get_column_iter() {
            match field {
                Field::Double(number) => {
                    numbers += 1;
                    assert_eq!(line[name].parse(), Ok(*number), "{name}");
                }
                field => assert_eq!(line[name], text(field), "{name}"),
            }
        }
        rows += 1;
    }
    assert_eq!(rows, expected.len());
    assert_eq!(rows, reader.metadata().file_metadata().num_rows() as usize);
    assert!(numbers > rows, "{numbers} numbers in {rows} rows");
}

#[test]
fn a_seed_too_large_for_parquet_is_an_error() {
    let mut run = [run_of_one_cell(|_| (Status::Ok, vec![final_loss(1.0)]), 1)];
    run[0].plan.cells[0].cell.seed = u64::MAX;
    let error = export(&run, ExportFormat::Parquet, &[]).unwrap_err();
    assert!(error.to_string().contains("`seed`"), "{error}");
    assert!(export_text(&run, ExportFormat::Csv, &[]).contains(&u64::MAX.to_string()));
}

#[test]
fn the_markdown_export_has_the_tables_of_the_summary() {
    let mut run = invented();
    // The summary of several suites has shorter tables.
    let name = run.plan.suites[0].name.clone();
    run.plan.suites.truncate(1);
    run.plan.cells.retain(|planned| planned.cell.suite == name);
    run.records.retain(|record| record.cell.suite == name);
    let summary = mantissa_report::markdown(&mantissa_report::Report::new(&run).unwrap());
    // The overview precedes the first suite and has other tables.
    let (_, of_suites) = summary.split_once("\n## ").unwrap();
    let rows = |text: &str| {
        let rows = text.lines().filter(|line| line.starts_with("| "));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    let tables = export_text(&[run], ExportFormat::Markdown, &[]);
    let (of_summary, of_tables) = (rows(of_suites), rows(&tables));
    assert!(of_summary.len() > 10, "{summary}");
    assert!(of_summary.iter().all(|row| of_tables.contains(row)));
    for part in [
        "Invented CPU 9000",
        "These are CPU times. The data is synthetic. Executed precision differs from requested.",
    ] {
        assert!(tables.contains(part), "{part}");
    }
}

#[test]
fn chosen_metrics_are_the_columns_of_a_table() {
    let tables = export_text(&[invented()], ExportFormat::Markdown, &[MetricName::FinalLoss]);
    let header = tables
        .lines()
        .find(|line| line.starts_with("| precision"))
        .unwrap();
    assert_eq!(
        header,
        "| precision | matmul | verdict | final loss | operands → accumulator (requested, executed) |"
    );
}

#[test]
fn latex_tables_match_the_snapshot() {
    let metrics = [
        MetricName::TrainSeconds,
        MetricName::TestAccuracy,
        MetricName::RelativeError,
    ];
    insta::assert_snapshot!(export_text(&[invented()], ExportFormat::Latex, &metrics));
}

#[test]
fn latex_tables_contain_intervals_and_sample_sizes() {
    let mut run = run(vec![suite("s", "S", &[], &[Axis::Precision])]);
    for (precision, bytes) in [("32-true", 2e9), ("bf16-mixed", 1e9)] {
        let cell = cell("s", &workload("w"), &[(Axis::Precision, precision)]);
        run.plan(&cell, None);
        for repeat in 0..3 {
            let mut record = record(&cell, Status::Ok, None);
            train_metrics(&mut record, 10.0, 800, bytes);
            record.repeat = repeat;
            run.measured(record, None);
        }
    }
    let text = export_text(&[run], ExportFormat::Latex, &[]);
    for part in [
        "10.00 s (3 processes)",
        "1.00 GB (0.50$\\times$ baseline)",
        "80.00 \\% [77.41, 82.36] (n 1,000)",
    ] {
        let part = part.replace("1,000", "1\\,000");
        assert!(text.contains(&part), "{part}: {text}");
    }
}

#[test]
fn latex_labels_are_unique() {
    let run_named = |name: &str| {
        let mut run = run_of_one_cell(|_| (Status::Ok, vec![final_loss(1.0)]), 1);
        run.name = name.into();
        run
    };
    let text = export_text(
        &[
            run_named("a.b"),
            run_named("a-b"),
            run_named("a_b"),
            run_named("a b"),
        ],
        ExportFormat::Latex,
        &[],
    );
    let labels: Vec<&str> = text.lines().filter(|line| line.contains("\\label")).collect();
    let different: BTreeSet<&&str> = labels.iter().collect();
    assert_eq!((labels.len(), different.len()), (4, 4), "{labels:?}");
}

#[test]
fn hostile_names_are_escaped_in_latex() {
    let hostile = "\\end{tabular}\\input{x} $&#%_^~ {[4pt] --\u{202e}\n\\\\";
    let mut run = [run_of_one_cell(|_| (Status::Failed, vec![]), 1)];
    run[0].name = hostile.into();
    run[0].plan.suites[0].title = hostile.into();
    run[0].records[0].reason = Some(hostile.into());
    let text = export_text(&run, ExportFormat::Latex, &[]);
    let count = |part: &str| text.matches(part).count();
    assert_eq!(
        (count("\\end{tabular}"), count("\\end{table}"), count("\\input")),
        (1, 1, 0)
    );
    let mut depth = 0_i32;
    let mut escaped = false;
    for c in text.chars() {
        match c {
            '{' if !escaped => depth += 1,
            '}' if !escaped => depth -= 1,
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        assert!(depth >= 0);
    }
    assert_eq!(depth, 0);
    assert!(text.is_ascii());
}
