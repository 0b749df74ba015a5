//! Columns of exported rows: name, type and a function that returns the value for a line.

use std::fmt;

use mantissa_analysis::Estimate;
use mantissa_core::{Axis, AxisValue, Backend, Fingerprint, MetricName, Requested, Status};

use super::{
    line::{Line, MetricValue},
    value::{Kind, Value},
};
use crate::{Row, facts::data_text};

type ValueOf = dyn for<'a> Fn(&Line<'a>) -> Value<'a>;

/// A column of an export.
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
    value: Box<ValueOf>,
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.name, self.kind)
    }
}

impl Column {
    pub fn new(
        name: impl Into<String>,
        kind: Kind,
        value: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            value: Box::new(value),
        }
    }

    /// Returns the column's value for a line.
    pub fn value<'a>(&self, line: &Line<'a>) -> Value<'a> {
        (self.value)(line)
    }
}

fn text(name: &str, value: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static) -> Column {
    Column::new(name, Kind::Text, value)
}

fn integer(name: &str, value: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static) -> Column {
    Column::new(name, Kind::Integer, value)
}

fn number(name: impl Into<String>, value: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static) -> Column {
    Column::new(name, Kind::Number, value)
}

/// Returns the columns that describe a cell, independent of the metric.
pub(super) fn cell_columns() -> Vec<Column> {
    let mut columns = run_columns();
    columns.extend(names());
    columns.push(text("task", |line| line.row.cell.workload.kind().name().into()));
    columns.extend(axes());
    columns.extend(outcome());
    columns.push(text("unexpected", |line| match line.row.unexpected.as_slice() {
        [] => Value::Absent,
        details => details.join("; ").into(),
    }));
    columns.push(integer("repeats", |line| (line.row.records.len() as u64).into()));
    columns.push(integer("processes", |line| (line.row.processes() as u64).into()));
    columns.extend(precision());
    columns.push(executed_alike());
    columns.push(data());
    columns
}

/// Returns the columns that describe the metric of a line.
pub(super) fn metric_columns() -> Vec<Column> {
    fn estimate<'a>(line: &Line<'a>) -> Option<MetricValue<'a>> {
        line.value(line.metric?)
    }
    vec![
        text("metric", |line| line.metric.map(MetricName::name).into()),
        text("unit", |line| {
            line.metric.map(|metric| metric.unit().name()).into()
        }),
        number("value", |line| {
            estimate(line).and_then(|estimate| estimate.value).into()
        }),
        number("low", |line| {
            estimate(line).and_then(|estimate| estimate.low).into()
        }),
        number("high", |line| {
            estimate(line).and_then(|estimate| estimate.high).into()
        }),
        integer("n", |line| estimate(line).and_then(|estimate| estimate.n).into()),
        text("method", |line| {
            estimate(line).map(|estimate| estimate.method).into()
        }),
        text("better", |line| {
            line.metric.map(|metric| metric.better().name()).into()
        }),
    ]
}

/// Returns three columns for a metric: value, lower bound and upper bound.
pub(super) fn wide_columns(metric: MetricName) -> [Column; 3] {
    let column = |suffix: &str, end: fn(MetricValue<'_>) -> Option<f64>| {
        number(format!("{metric}{suffix}"), move |line| {
            line.value(metric).and_then(end).into()
        })
    };
    [
        column("", |estimate| estimate.value),
        column("_low", |estimate| estimate.low),
        column("_high", |estimate| estimate.high),
    ]
}

/// Returns the columns for run, machine and software. Only values with the same machine and software are comparable.
pub(super) fn run_columns() -> Vec<Column> {
    fn fingerprint_text<'a>(line: &Line<'a>, field: fn(&'a Fingerprint) -> Option<&'a str>) -> Value<'a> {
        joined(&line.fingerprint_values(field))
    }
    vec![
        text("run", |line| line.run.name.as_str().into()),
        text("profile", |line| line.run.plan.profile.name().into()),
        text("gpu", |line| {
            fingerprint_text(line, |machine| Some(&machine.gpu.as_ref()?.name))
        }),
        text("driver", |line| {
            fingerprint_text(line, |machine| machine.gpu.as_ref()?.driver.as_deref())
        }),
        text("cpu", |line| {
            fingerprint_text(line, |machine| machine.cpu.as_deref())
        }),
        integer("cores", |line| {
            if_equal(&line.fingerprint_values(|machine| machine.cores))
        }),
        text("mantissa", |line| {
            fingerprint_text(line, |machine| Some(&machine.mantissa))
        }),
        text("revision", |line| {
            fingerprint_text(line, |machine| machine.revision.as_deref())
        }),
        text("burn", |line| {
            fingerprint_text(line, |machine| Some(&machine.burn))
        }),
        text("framework", |line| {
            fingerprint_text(line, |machine| Some(machine.peer.as_deref().unwrap_or("burn")))
        }),
        text("build", |line| {
            fingerprint_text(line, |machine| Some(&machine.build))
        }),
    ]
}

/// Returns the columns for the comparison of the cell with its baseline, over all processes of both.
pub(super) fn comparison() -> Vec<Column> {
    fn columns(name: &str, ratio: for<'a> fn(&'a Row<'_>) -> Option<&'a Estimate>) -> [Column; 3] {
        [
            number(name, move |line| ratio(line.row).map(|ratio| ratio.value).into()),
            number(format!("{name}_low"), move |line| {
                let interval = ratio(line.row).and_then(|ratio| ratio.interval);
                interval.map(|interval| interval.low).into()
            }),
            number(format!("{name}_high"), move |line| {
                let interval = ratio(line.row).and_then(|ratio| ratio.interval);
                interval.map(|interval| interval.high).into()
            }),
        ]
    }
    let mut all = Vec::from(columns("speed_ratio", |row| row.speed_up.as_ref()));
    all.push(text("speed_verdict", |line| match line.row.speed_verdict {
        Some(verdict) => verdict.to_string().into(),
        None => Value::Absent,
    }));
    all.extend(columns("memory_ratio", |row| row.memory_ratio.as_ref()));
    all
}

/// Placeholder for a value that only other processes of the cell recorded.
const UNKNOWN: &str = "unknown";

/// Joins the distinct values of processes; absent if no process has one.
fn joined<'a>(values: &[Option<&'a str>]) -> Value<'a> {
    match values {
        [] | [None] => Value::Absent,
        [Some(value)] => (*value).into(),
        values => {
            let values: Vec<&str> = values.iter().map(|value| value.unwrap_or(UNKNOWN)).collect();
            values.join("; ").into()
        }
    }
}

/// Returns the value shared by all processes; absent if they differ.
fn if_equal<'a, T: Copy + Into<Value<'a>>>(values: &[T]) -> Value<'a> {
    match values {
        [value] => (*value).into(),
        _ => Value::Absent,
    }
}

/// Returns the columns for suite, workload and cell.
pub(super) fn names() -> Vec<Column> {
    vec![
        text("suite", |line| line.row.cell.suite.as_str().into()),
        text("workload", |line| line.row.cell.workload.name.as_str().into()),
        text("cell", |line| line.row.cell.id.as_str().into()),
    ]
}

/// Returns a column per axis; absent if the axis does not apply.
pub(super) fn axes() -> Vec<Column> {
    let column = |axis: &Axis| {
        let axis = *axis;
        let kind = match axis.default_value(Backend::Flex) {
            AxisValue::Integer(_) => Kind::Integer,
            AxisValue::Number(_) => Kind::Number,
            AxisValue::Text(_) | AxisValue::List(_) => Kind::Text,
        };
        Column::new(axis.name(), kind, move |line| match axis {
            Axis::Seed => line.row.cell.seed.into(),
            _ => line.row.cell.setting.get(axis).into(),
        })
    };
    Axis::ALL.iter().map(column).collect()
}

/// Returns the columns for the status and, unless it is `ok`, the reason.
pub(super) fn outcome() -> Vec<Column> {
    vec![
        text("status", |line| {
            let of_cell = line.row.status_name();
            let of_process = line.process.map(|record| Status::name(record.status));
            of_process.unwrap_or(of_cell).into()
        }),
        text("reason", |line| match line.process {
            Some(record) => record.reason.as_deref().into(),
            None => line.row.reason.as_deref().into(),
        }),
    ]
}

/// Returns the columns for the requested and the executed precision.
pub(super) fn precision() -> Vec<Column> {
    fn requested(line: &Line<'_>) -> Requested {
        Requested::of(&line.row.cell.setting)
    }
    vec![
        integer("requested_operand_bits", |line| {
            requested(line).operand_bits.into()
        }),
        integer("requested_exponent_bits", |line| {
            requested(line).exponent_bits.into()
        }),
        text("requested_accumulator", |line| requested(line).accumulator.into()),
        integer("executed_operand_bits", |line| {
            if_equal(&line.record_values(|record| record.executed.operand_bits))
        }),
        integer("executed_exponent_bits", |line| {
            if_equal(&line.record_values(|record| record.executed.exponent_bits))
        }),
        text("executed_accumulator", |line| {
            joined(&line.record_values(|record| record.executed.accumulator.as_deref()))
        }),
        text("executed_kernel", |line| {
            joined(&line.record_values(|record| record.executed.kernel.as_deref()))
        }),
        Column::new("executed_emulated", Kind::Truth, |line| {
            if_equal(&line.record_values(|record| record.executed.observed_emulation()))
        }),
        text("executed_verdict", |line| {
            joined(&line.record_values(|record| Some(record.executed.verdict.name())))
        }),
    ]
}

/// Returns a column that is true if all processes of a cell executed the same precision.
fn executed_alike() -> Column {
    Column::new("executed_alike", Kind::Truth, |line| {
        let executed = line.record_values(|record| &record.executed);
        (!executed.is_empty()).then_some(executed.len() == 1).into()
    })
}

/// Returns the column for the data that was read.
pub(super) fn data() -> Column {
    text("data", |line| {
        let data = line.record_values(|record| record.data.as_ref());
        let names: Vec<Option<&str>> = data
            .iter()
            .map(|data| data.map(|data| data.name.as_str()))
            .collect();
        let is_twice = |name: &Option<&str>| names.iter().filter(|other| *other == name).count() > 1;
        match names.iter().any(is_twice) {
            // Data sets with equal names are distinguished by their hashes.
            true => {
                let with_hashes = data
                    .iter()
                    .map(|data| data.map_or_else(|| UNKNOWN.to_owned(), data_text));
                with_hashes.collect::<Vec<_>>().join("; ").into()
            }
            false => joined(&names),
        }
    })
}
