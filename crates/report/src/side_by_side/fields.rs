//! Columns and fields of a comparison table, shared by the HTML page and the Markdown summary.

use mantissa_analysis::Estimate;
use mantissa_core::MetricName;
use serde::Serialize;

use super::{compare::Entry, matching::letter, sentences::verdict_text, view::Comparison};
use crate::{
    Row,
    estimates::is_token_metric,
    table::{Align, Column, Field},
    units::{self, Scale},
};

/// Column heading: title, smaller line below it, run and alignment.
#[derive(Debug, Serialize)]
pub(super) struct Heading {
    /// Letter of the run; empty for settings and remarks.
    pub run: String,
    pub title: String,
    pub below: String,
    pub align: Align,
}

/// Column of a run: a metric, or the speed relative to the first run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum RunColumn {
    Speed,
    Ratio,
    Memory(MetricName),
    Quality(MetricName),
}

fn columns(table: &Comparison<'_, '_>, run: usize) -> Vec<RunColumn> {
    if table.lacks(run) {
        return vec![];
    }
    let mut columns = vec![RunColumn::Speed];
    columns.extend((run > 0).then_some(RunColumn::Ratio));
    columns.extend(table.memory.map(RunColumn::Memory));
    columns.extend(table.quality.map(RunColumn::Quality));
    columns
}

/// Returns the column headings, one per field of a line.
pub(super) fn headings(table: &Comparison<'_, '_>) -> Vec<Heading> {
    let axes = table.axes.iter().map(|axis| {
        let column = Column::Axis(*axis);
        Heading {
            run: String::new(),
            title: column.title(table.group).0,
            below: String::new(),
            align: column.align(),
        }
    });
    let runs = 0..table.lines.first().map_or(0, Vec::len);
    let of_runs = runs.flat_map(|run| {
        columns(table, run).into_iter().map(move |column| {
            let (title, below) = match column {
                RunColumn::Speed => Column::Metric(table.speed).title(table.group),
                RunColumn::Ratio => ("speed".to_owned(), "relative to A"),
                RunColumn::Memory(metric) => ("peak memory".to_owned(), units::memory_title(metric)),
                RunColumn::Quality(metric) => Column::Metric(metric).title(table.group),
            };
            Heading {
                run: letter(run).to_string(),
                title,
                below: below.to_owned(),
                align: Align::Right,
            }
        })
    });
    let remarks = Heading {
        run: String::new(),
        title: "remarks".to_owned(),
        below: String::new(),
        align: Align::Left,
    };
    axes.chain(of_runs).chain([remarks]).collect()
}

/// Returns the fields of a setting.
pub(super) fn fields(table: &Comparison<'_, '_>, line: &[Entry<'_, '_>]) -> Vec<Field> {
    let Some(any) = line.iter().find_map(|entry| entry.row) else {
        return vec![];
    };
    let mut fields: Vec<Field> = table
        .axes
        .iter()
        .map(|axis| Field::axis(any.axis(*axis)))
        .collect();
    for (run, entry) in line.iter().enumerate() {
        let of_entry = |column: RunColumn| field(table, line, entry, column);
        fields.extend(columns(table, run).into_iter().map(of_entry));
    }
    let present = line.iter().enumerate().filter(|(run, _)| !table.lacks(*run));
    let remarks: Vec<&str> = present
        .flat_map(|(_, entry)| &entry.remarks)
        .map(String::as_str)
        .collect();
    fields.push(Field {
        text: remarks.join("; "),
        ..Field::default()
    });
    fields
}

fn field(
    table: &Comparison<'_, '_>,
    line: &[Entry<'_, '_>],
    entry: &Entry<'_, '_>,
    column: RunColumn,
) -> Field {
    let Some(row) = entry.row else {
        return Field::absent();
    };
    match column {
        RunColumn::Speed => {
            let status = if row.is_ok() { "" } else { row.status_name() };
            measured(row, table.speed, table.scale(table.speed, line)).append_detail(status)
        }
        RunColumn::Ratio => match entry.verdict {
            Some(verdict) => {
                let note = if entry.other_arithmetic {
                    "another precision"
                } else {
                    ""
                };
                Field::ratio(entry.speed.as_ref())
                    .append_detail(verdict_text(verdict))
                    .append_detail(note)
            }
            None => Field::absent(),
        },
        RunColumn::Memory(metric) => Field {
            detail: entry.memory.as_ref().map(relative_to_first).unwrap_or_default(),
            ..measured(row, metric, table.scale(metric, line))
        },
        RunColumn::Quality(metric) => {
            let field = measured(row, metric, table.scale(metric, line));
            match entry.accuracy_differs() {
                true => field.append_detail("differs from A"),
                false => field,
            }
        }
    }
}

fn measured(row: &Row<'_>, metric: MetricName, scale: Scale) -> Field {
    let Some(estimate) = row.metric(metric) else {
        return Field::absent();
    };
    let of_samples = metric == MetricName::TestAccuracy || is_token_metric(&row.cell.workload, metric);
    Field::estimate(estimate, scale, row.processes() > 1 && !of_samples)
}

/// Formats a ratio to the first run: `1.02× of A, 0.99–1.05`.
fn relative_to_first(ratio: &Estimate) -> String {
    let interval = ratio.interval.map(|i| format!(", {:.2}–{:.2}", i.low, i.high));
    format!(
        "{} of A{}",
        units::times(ratio.value),
        interval.unwrap_or_default()
    )
}
