//! Compares every field of an export of recorded runs with the files of the runs, which this test reads without the code under test.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use mantissa_core::{Axis, MetricName};
use mantissa_report::{ExportFormat, Report, Run, export, load};
use parquet::{
    file::{reader::FileReader, serialized_reader::SerializedFileReader},
    record::Field,
};
use serde_json::Value;

/// An evaluation with three processes per cell and skipped cells, and trainings of which one diverged.
const RUNS: [&str; 2] = [
    "20261122T190534Z-stories-perplexity",
    "20261122T065440Z-imdb-adam-epsilon",
];

type Line = BTreeMap<String, String>;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../reports")
        .join(name)
}

fn runs() -> Vec<Run> {
    RUNS.iter().map(|name| load(&folder(name)).unwrap()).collect()
}

fn read(csv: &[u8]) -> Vec<Line> {
    let mut reader = csv::Reader::from_reader(csv);
    reader.deserialize().map(Result::unwrap).collect()
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Files of a run without interpretation.
struct Files {
    environment: Value,
    plan: Value,
    records: Vec<Value>,
}

impl Files {
    fn of(name: &str) -> Self {
        let folder = folder(name);
        let records = fs::read_to_string(folder.join("records.jsonl")).unwrap();
        Self {
            environment: json(&folder.join("environment.json")),
            plan: json(&folder.join("plan.json")),
            records: records
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect(),
        }
    }

    fn planned(&self, cell: &str) -> &Value {
        let mut cells = self.plan["cells"].as_array().unwrap().iter();
        cells.find(|planned| planned["cell"]["id"] == cell).unwrap()
    }

    /// Returns the records of a cell, one per process. No cell of these runs was retried.
    fn records(&self, cell: &str) -> Vec<&Value> {
        let of_cell = self.records.iter().filter(|record| record["cell"]["id"] == cell);
        of_cell
            .inspect(|record| assert_eq!(record["attempt"], 0))
            .collect()
    }
}

/// Formats a value as a field of an export.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(all) if all.is_empty() => "none".to_owned(),
        Value::Array(all) => all.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

/// Returns the value at `pointer`, which must be equal in all records.
fn common_value(records: &[&Value], pointer: &str) -> String {
    let values: Vec<String> = records
        .iter()
        .map(|record| text(record.pointer(pointer).unwrap_or(&Value::Null)))
        .collect();
    assert!(
        values.windows(2).all(|pair| pair[0] == pair[1]),
        "{pointer}: {values:?}"
    );
    values.first().cloned().unwrap_or_default()
}

/// Returns the expected value of a column that does not depend on the metric; `None` for other columns.
fn expected_cell_field(run: &str, files: &Files, column: &str, cell: &str) -> Option<String> {
    let (planned, records) = (files.planned(cell), files.records(cell));
    let (of_plan, fingerprint) = (&planned["cell"], &files.environment["fingerprint"]);
    let skipped = !planned["skip"].is_null();
    let ok = records.iter().filter(|record| record["status"] == "ok").count();
    Some(match column {
        "run" => run.to_owned(),
        "profile" => text(&files.plan["profile"]),
        "gpu" => text(&fingerprint["gpu"]["name"]),
        "driver" => text(&fingerprint["gpu"]["driver"]),
        "cpu" | "cores" | "mantissa" | "revision" | "burn" | "build" => text(&fingerprint[column]),
        "framework" => match &fingerprint["peer"] {
            Value::Null => "burn".to_owned(),
            peer => text(peer),
        },
        "suite" => text(&of_plan["suite"]),
        "workload" => text(&of_plan["workload"]["name"]),
        "cell" => cell.to_owned(),
        "task" => of_plan["workload"]["task"].as_object()?.keys().next()?.clone(),
        "seed" => text(&of_plan["seed"]),
        "status" if skipped => "skipped".to_owned(),
        "status" => common_value(&records, "/status"),
        "reason" if skipped => text(&planned["skip"]),
        "reason" => common_value(&records, "/reason"),
        "unexpected" => {
            let events = records
                .iter()
                .flat_map(|record| record["events"].as_array().unwrap());
            let unexpected = events.filter(|event| event["kind"] == "expectation");
            assert_eq!(unexpected.count(), 0);
            String::new()
        }
        "repeats" => records.len().to_string(),
        "processes" => if ok > 0 { ok } else { records.len() }.to_string(),
        "requested_operand_bits" | "requested_exponent_bits" | "requested_accumulator"
            if records.is_empty() =>
        {
            return None;
        }
        "requested_operand_bits" | "requested_exponent_bits" | "requested_accumulator" => {
            common_value(&records, &column.replace("requested_", "/requested/"))
        }
        // Nothing was executed in a skipped cell.
        executed if executed.starts_with("executed_") && skipped => String::new(),
        "executed_alike" => "true".to_owned(),
        executed if executed.starts_with("executed_") => {
            common_value(&records, &executed.replace("executed_", "/executed/"))
        }
        "data" => common_value(&records, "/data/name"),
        axis if Axis::ALL.iter().any(|known| known.name() == axis) => text(&of_plan["setting"][axis]),
        _ => return None,
    })
}

fn close(a: f64, b: f64) -> bool {
    a == b || ((a - b) / b).abs() < 1e-12
}

/// Compares the columns of a metric with the records. The fields of one process must equal the recorded ones. For several processes, the
/// value must be the median of the recorded values, and the interval and n those of the estimate in the report.
fn check_metric_fields(line: &Line, records: &[&Value], report: &Report<'_>) {
    let field = |column: &str| line[column].as_str();
    if field("metric").is_empty() {
        for column in ["unit", "value", "low", "high", "n", "method", "better"] {
            assert_eq!(field(column), "", "{line:?}");
        }
        return;
    }
    let recorded: Vec<&Value> = records
        .iter()
        .map(|record| &record["metrics"][field("metric")])
        .collect();
    for column in ["unit", "better"] {
        assert_eq!(field(column), text(&recorded[0][column]));
    }
    let number = |column: &str| field(column).parse::<f64>().ok();
    if let [only] = recorded.as_slice() {
        for column in ["value", "low", "high", "n"] {
            assert_eq!(number(column), only[column].as_f64(), "{column} of {line:?}");
        }
        assert_eq!(field("method"), text(&only["method"]));
        return;
    }
    let mut values: Vec<f64> = recorded
        .iter()
        .filter_map(|metric| metric["value"].as_f64())
        .collect();
    values.sort_by(f64::total_cmp);
    let Some(value) = number("value") else {
        assert!(values.is_empty() && number("n").is_none(), "{line:?}");
        assert_eq!(field("method"), text(&recorded[0]["method"]));
        return;
    };
    assert_eq!(
        values.len() % 2,
        1,
        "this test expects an odd number of values, so that the median is one of them"
    );
    assert!(
        close(value, values[values.len() / 2]),
        "{value} of {values:?}: {line:?}"
    );
    let (_, row) = report
        .rows()
        .find(|(_, row)| row.cell.id.as_str() == field("cell"))
        .unwrap();
    let name: MetricName = serde_json::from_value(field("metric").into()).unwrap();
    let estimate = row.metric(name).unwrap();
    let ends = estimate.interval.map(|ends| (ends.low, ends.high));
    assert_eq!(number("low").zip(number("high")), ends, "{line:?}");
    assert!(ends.is_none_or(|(low, high)| low <= value && value <= high));
    assert_eq!(field("n").parse(), Ok(estimate.n));
    assert_eq!(field("method"), estimate.method);
}

#[test]
fn every_field_of_the_tidy_rows_matches_the_records() {
    let all = runs();
    let lines = read(&export(&all, ExportFormat::Csv, &[]).unwrap());
    let mut fields = 0;
    for (name, run) in RUNS.iter().zip(&all) {
        let (files, report) = (Files::of(name), Report::new(run).unwrap());
        let run_lines: Vec<&Line> = lines.iter().filter(|line| line["run"] == *name).collect();
        let cells = files.plan["cells"].as_array().unwrap().iter();
        let expected: usize = cells
            .map(|planned| {
                let records = files.records(planned["cell"]["id"].as_str().unwrap());
                let metrics = records
                    .iter()
                    .flat_map(|record| record["metrics"].as_object().unwrap().keys());
                metrics.collect::<std::collections::BTreeSet<_>>().len().max(1)
            })
            .sum();
        assert_eq!(run_lines.len(), expected, "one row for every cell and metric");
        for line in run_lines {
            let cell = line["cell"].as_str();
            let records = files.records(cell);
            for (column, field) in line {
                // CSV prefixes an apostrophe to values that a spreadsheet would interpret as a formula.
                let field = field.strip_prefix('\'').unwrap_or(field);
                match expected_cell_field(name, &files, column, cell) {
                    Some(expected) if field.parse::<f64>().is_ok() => {
                        assert_eq!(field.parse::<f64>(), expected.parse(), "{column} of {line:?}");
                    }
                    Some(expected) => assert_eq!(field, expected, "{column} of {line:?}"),
                    None => assert!(
                        ["metric", "unit", "value", "low", "high", "n", "method", "better"]
                            .contains(&column.as_str())
                            || (records.is_empty() && column.starts_with("requested_")),
                        "this test has no expected value for column `{column}`"
                    ),
                }
                fields += 1;
            }
            check_metric_fields(line, &records, &report);
        }
    }
    assert!(fields > 10_000, "{fields} fields");
}

#[test]
fn every_field_of_parquet_matches_the_tidy_rows() {
    let all = runs();
    let lines = read(&export(&all, ExportFormat::Csv, &[]).unwrap());
    let bytes = export(&all, ExportFormat::Parquet, &[]).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).unwrap();
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        assert_eq!(row.get_column_iter().count(), line.len());
        for (column, field) in row.get_column_iter() {
            let expected = line[column].strip_prefix('\'').unwrap_or(&line[column]);
            match field {
                Field::Null => assert_eq!(expected, "", "{column}"),
                Field::Str(text) => assert_eq!(expected, text, "{column}"),
                Field::Long(number) => assert_eq!(expected.parse(), Ok(*number), "{column}"),
                Field::Double(number) => assert_eq!(expected.parse(), Ok(*number), "{column}"),
                Field::Bool(truth) => assert_eq!(expected.parse(), Ok(*truth), "{column}"),
                other => panic!("{column}: {other:?}"),
            }
        }
    }
}

#[test]
fn every_field_of_the_wide_rows_matches_the_tidy_rows() {
    let all = runs();
    let lines = read(&export(&all, ExportFormat::Csv, &[]).unwrap());
    let wide = read(&export(&all, ExportFormat::CsvWide, &[]).unwrap());
    for row in &wide {
        let same: Vec<&Line> = lines
            .iter()
            .filter(|line| line["run"] == row["run"] && line["cell"] == row["cell"])
            .collect();
        for (column, field) in row {
            if let Some(expected) = same[0].get(column) {
                assert_eq!(field, expected, "{column}");
                continue;
            }
            let ends = [("_low", "low"), ("_high", "high"), ("", "value")];
            let tidy_field = ends.iter().find_map(|(suffix, end)| {
                let metric = column.strip_suffix(suffix)?;
                let line = same.iter().find(|line| line["metric"] == metric)?;
                Some(line[*end].as_str())
            });
            assert_eq!(field, tidy_field.unwrap_or_default(), "{column}");
        }
    }
    let metrics = lines.iter().filter(|line| !line["metric"].is_empty()).count();
    let values = lines.iter().filter(|line| !line["value"].is_empty()).count();
    let wide_values = wide
        .iter()
        .flat_map(|row| {
            row.iter().filter(|(column, field)| {
                !lines[0].contains_key(*column)
                    && !column.ends_with("_low")
                    && !column.ends_with("_high")
                    && !field.is_empty()
            })
        })
        .count();
    assert_eq!(
        wide_values, values,
        "wide and tidy rows have different numbers of values, of {metrics} metrics"
    );
}
