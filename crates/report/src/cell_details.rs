//! Details of each cell, for the folded sections of the page.
//!
//! With thousands of cells, markup for all details would be tens of megabytes. Every text and every table is therefore written once, and
//! cells refer to them by index. `page.js` creates the markup of a cell when it is unfolded.

use std::collections::{BTreeMap, HashMap};

use mantissa_core::{Record, Status, Workload};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Row, Run, digits,
    facts::{data_text, machine_facts},
    units::{self, Scale},
};

/// Maximum number of events listed per cell; a loss scale may change thousands of times.
const MAX_EVENTS: usize = 30;

/// Interned texts, tables of texts, and the tables of each cell.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Cells {
    texts: Vec<String>,
    tables: Vec<Table>,
    cells: Vec<Vec<usize>>,
    #[serde(skip)]
    text_indices: HashMap<String, usize>,
    #[serde(skip)]
    table_indices: HashMap<Table, usize>,
}

/// Title, headings (empty for tables of names and values) and rows, all as indices of texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
struct Table(usize, Vec<usize>, Vec<Vec<usize>>);

impl Cells {
    /// Adds the details of a cell and returns its index.
    pub fn add(&mut self, run: &Run, row: &Row<'_>) -> usize {
        let sections = [
            ("Arithmetic", vec!["", "requested", "executed"], arithmetic(row)),
            (
                "Metrics",
                vec!["", "value", "95 % interval", "n", "method"],
                metrics(row),
            ),
            ("Processes", PROCESSES.to_vec(), processes(run, row)),
            (
                "Events",
                vec!["repeat", "event", "step", "value", "detail"],
                events(row),
            ),
            (
                "Differences from the machine of the run",
                vec!["", "cell", "run"],
                machine_differences(run, row),
            ),
            ("Remarks", vec![], remarks(row)),
            ("Setting", vec![], setting(row)),
            ("Workload", vec![], workload(&row.cell.workload)),
        ];
        let present = sections.into_iter().filter(|(.., rows)| !rows.is_empty());
        let tables = present
            .map(|(title, headings, rows)| self.table(title, &headings, rows))
            .collect();
        self.cells.push(tables);
        self.cells.len() - 1
    }

    /// Returns the JSON, escaped so that it cannot close the script element around it.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string(self)?.replace('<', "\\u003c"))
    }

    fn table(&mut self, title: &str, headings: &[&str], rows: Vec<Vec<String>>) -> usize {
        let title = self.text(title.to_owned());
        let headings = headings
            .iter()
            .map(|text| self.text((*text).to_owned()))
            .collect();
        let rows = rows
            .into_iter()
            .map(|row| row.into_iter().map(|text| self.text(text)).collect())
            .collect();
        let table = Table(title, headings, rows);
        let next = self.tables.len();
        let index = *self.table_indices.entry(table.clone()).or_insert(next);
        if index == next {
            self.tables.push(table);
        }
        index
    }

    fn text(&mut self, text: String) -> usize {
        if let Some(index) = self.text_indices.get(&text) {
            return *index;
        }
        self.texts.push(text.clone());
        self.text_indices.insert(text, self.texts.len() - 1);
        self.texts.len() - 1
    }
}

fn setting(row: &Row<'_>) -> Vec<Vec<String>> {
    let axes = row.cell.setting.iter();
    let axes = axes.map(|(axis, value)| vec![axis.to_string(), value.to_string()]);
    let seed = vec!["seed".to_owned(), row.cell.seed.to_string()];
    axes.chain([seed]).collect()
}

/// Lists all fields of the workload, with the numbers that the profile set.
fn workload(workload: &Workload) -> Vec<Vec<String>> {
    let mut rows = vec![vec!["name".to_owned(), workload.name.clone()]];
    add_leaves(
        "",
        &serde_json::to_value(&workload.task).unwrap_or_default(),
        &mut rows,
    );
    rows
}

/// Adds a row per leaf of a JSON value, named by its path.
fn add_leaves(name: &str, value: &Value, rows: &mut Vec<Vec<String>>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = match name {
                    "" => key.clone(),
                    name => format!("{name} · {key}"),
                };
                add_leaves(&path, value, rows);
            }
        }
        Value::Null => rows.push(vec![name.to_owned(), units::ABSENT.to_owned()]),
        Value::String(text) => rows.push(vec![name.to_owned(), text.clone()]),
        other => rows.push(vec![name.to_owned(), other.to_string()]),
    }
}

/// Lists the requested and the executed precision.
fn arithmetic(row: &Row<'_>) -> Vec<Vec<String>> {
    let ran = |record: &&&Record| record.status != Status::Skipped;
    let Some(record) = row.records.iter().find(ran) else {
        return vec![];
    };
    fn text<T: ToString>(value: Option<T>) -> String {
        value.map_or_else(|| units::ABSENT.to_owned(), |value| value.to_string())
    }
    let (requested, executed) = (&record.requested, &record.executed);
    let line = |name: &str, requested: String, executed: String| vec![name.to_owned(), requested, executed];
    let none = || units::ABSENT.to_owned();
    let emulated = executed
        .observed_emulation()
        .map(|emulated| if emulated { "yes" } else { "no" });
    vec![
        line(
            "significand bits",
            requested.operand_bits.to_string(),
            text(executed.operand_bits),
        ),
        line(
            "exponent bits",
            requested.exponent_bits.to_string(),
            text(executed.exponent_bits),
        ),
        line(
            "accumulator",
            requested.accumulator.clone(),
            text(executed.accumulator.as_ref()),
        ),
        line("rounding", none(), text(executed.rounding.as_ref())),
        line("kernel", none(), text(executed.kernel.as_ref())),
        line("emulated", none(), text(emulated)),
        line("verdict", none(), executed.verdict.to_string()),
    ]
}

/// Lists the metrics with their intervals and methods. With a single process, the method is the recorded one.
fn metrics(row: &Row<'_>) -> Vec<Vec<String>> {
    let single_record = match row.measured.as_slice() {
        [(record, _)] => Some(record),
        _ => None,
    };
    let line = |(name, estimate): (&mantissa_core::MetricName, &mantissa_analysis::Estimate)| {
        let scale = Scale::of(*name, estimate.value);
        let interval = estimate.interval.map(|interval| digits::range(scale, interval));
        let recorded = single_record.and_then(|record| record.metrics.get(name));
        let method = recorded.map_or(estimate.method, |metric| &metric.method);
        vec![
            name.to_string(),
            digits::text(scale, estimate.value),
            interval.unwrap_or_else(|| units::ABSENT.to_owned()),
            units::count(estimate.n),
            match estimate.interval {
                Some(_) => method.to_owned(),
                // Remove the part after the comma, which describes the interval.
                None => method.split(", ").next().unwrap_or(method).to_owned(),
            },
        ]
    };
    let known = row.metrics.iter().map(line);
    // Metrics without a value in any process show the reason instead.
    let records = row.measured.iter().flat_map(|(record, _)| &record.metrics);
    let without_value: BTreeMap<_, _> = records
        .filter(|(name, _)| !row.metrics.contains_key(name))
        .collect();
    let absent = || units::ABSENT.to_owned();
    let without_value = without_value.into_iter().map(|(name, metric)| {
        vec![
            name.to_string(),
            absent(),
            absent(),
            absent(),
            metric.method.clone(),
        ]
    });
    known.chain(without_value).collect()
}

const PROCESSES: [&str; 8] = [
    "repeat",
    "attempt",
    "status",
    "times",
    "median",
    "outliers",
    "throttled",
    "raw samples",
];

/// Lists all processes, including failed ones, with a summary of their samples.
fn processes(run: &Run, row: &Row<'_>) -> Vec<Vec<String>> {
    let line = |record: &&Record| {
        let times = run.digest(record).and_then(|digest| digest.times.as_ref());
        let or_absent = |text: Option<String>| text.unwrap_or_else(|| units::ABSENT.to_owned());
        let median = times.map(|times| {
            let seconds = times.process.median();
            digits::text(
                Scale::of(mantissa_core::MetricName::StepSeconds, seconds),
                seconds,
            )
        });
        vec![
            record.repeat.to_string(),
            record.attempt.to_string(),
            record.reason.as_ref().map_or_else(
                || record.status.to_string(),
                |reason| format!("{}: {reason}", record.status),
            ),
            or_absent(times.map(|times| units::count(times.n()))),
            or_absent(median),
            or_absent(times.map(|times| units::count(times.outliers))),
            or_absent(times.map(|times| units::count(times.throttled))),
            or_absent(record.samples.clone()),
        ]
    };
    row.records.iter().map(line).collect()
}

fn events(row: &Row<'_>) -> Vec<Vec<String>> {
    let all: usize = row.records.iter().map(|record| record.events.len()).sum();
    let or_absent = |text: Option<String>| text.unwrap_or_else(|| units::ABSENT.to_owned());
    let events = row
        .records
        .iter()
        .flat_map(|record| record.events.iter().map(move |event| (record.repeat, event)));
    let lines = events.take(MAX_EVENTS).map(|(repeat, event)| {
        vec![
            repeat.to_string(),
            event.kind.to_string(),
            or_absent(event.step.map(units::count)),
            or_absent(event.value.filter(|value| value.is_finite()).map(short)),
            event.detail.clone(),
        ]
    });
    let mut lines: Vec<Vec<String>> = lines.collect();
    let more = all.saturating_sub(lines.len());
    if more > 0 {
        let omitted = format!("{} more in records.jsonl", units::count(more as u64));
        lines.push(vec![
            String::new(),
            String::new(),
            String::new(),
            String::new(),
            omitted,
        ]);
    }
    lines
}

/// Formats integers in full and other numbers with four significant digits.
fn short(value: f64) -> String {
    if value.fract() == 0.0 {
        return value.to_string();
    }
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    rounded.to_string()
}

/// Lists the facts about machine and software in which the cell differs from the run, for example after a resume on another machine.
fn machine_differences(run: &Run, row: &Row<'_>) -> Vec<Vec<String>> {
    let run_facts = machine_facts(&run.environment.fingerprint);
    let mut lines: Vec<Vec<String>> = Vec::new();
    for record in &row.records {
        for (name, cell) in machine_facts(&record.fingerprint) {
            let run = run_facts.iter().find(|(known, _)| *known == name);
            let run = run.map_or(units::ABSENT, |(_, text)| text.as_str());
            let line = vec![name.to_owned(), cell, run.to_owned()];
            if line[1] != line[2] && !lines.contains(&line) {
                lines.push(line);
            }
        }
    }
    lines
}

fn remarks(row: &Row<'_>) -> Vec<Vec<String>> {
    let data = row.records.iter().find_map(|record| record.data.as_ref());
    let data = data.map(|data| ("data", data_text(data)));
    let status = row.remark();
    let status = (!status.is_empty()).then(|| (row.status_name(), status));
    let notes = row.notes.iter().map(|note| ("times", note.clone()));
    let all = data.into_iter().chain(status).chain(notes);
    all.map(|(name, text)| vec![name.to_owned(), text]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_and_tables_are_written_once() {
        let mut cells = Cells::default();
        let rows = || {
            vec![
                vec!["batch".to_owned(), "8".to_owned()],
                vec!["size".to_owned(), "8".to_owned()],
            ]
        };
        assert_eq!(cells.table("Setting", &[], rows()), 0);
        assert_eq!(cells.table("Setting", &[], rows()), 0);
        assert_eq!(cells.table("Setting", &["8"], rows()), 1);
        cells.cells.push(vec![0, 1]);
        assert_eq!(
            cells.json().unwrap(),
            r#"{"texts":["Setting","batch","8","size"],"tables":[[0,[],[[1,2],[3,2]]],[0,[2],[[1,2],[3,2]]]],"cells":[[0,1]]}"#
        );
    }

    #[test]
    fn no_text_can_close_the_script_element() {
        let mut cells = Cells::default();
        cells.text("</script><!--<script>".to_owned());
        let json = cells.json().unwrap();
        assert!(!json.contains('<'), "{json}");
        let read: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["texts"][0], "</script><!--<script>");
    }
}
