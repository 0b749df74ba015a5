//! The columns of exported rows: a name, a type, and what is said of a line.

use std::fmt;

use mantissa_core::{Axis, AxisValue, Backend, Fingerprint, MetricName, Requested, Status};

use super::{
    line::{Line, Told},
    value::{Kind, Value},
};

type Say = dyn for<'a> Fn(&Line<'a>) -> Value<'a>;

/// A column.
pub(super) struct Column {
    pub name: String,
    pub kind: Kind,
    say: Box<Say>,
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
        say: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            kind,
            say: Box::new(say),
        }
    }

    /// What it says of a line.
    pub fn say<'a>(&self, line: &Line<'a>) -> Value<'a> {
        (self.say)(line)
    }
}

fn text(name: &str, say: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static) -> Column {
    Column::new(name, Kind::Text, say)
}

fn integer(name: &str, say: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static) -> Column {
    Column::new(name, Kind::Integer, say)
}

fn number(name: impl Into<String>, say: impl for<'a> Fn(&Line<'a>) -> Value<'a> + 'static) -> Column {
    Column::new(name, Kind::Number, say)
}

/// What is said of a cell, whatever its metrics.
pub(super) fn of_cell() -> Vec<Column> {
    let mut columns = of_run();
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
    columns.push(data());
    columns
}

/// What is said of the metric of a line.
pub(super) fn of_metric() -> Vec<Column> {
    fn told<'a>(line: &Line<'a>) -> Option<Told<'a>> {
        line.told(line.metric?)
    }
    vec![
        text("metric", |line| line.metric.map(MetricName::name).into()),
        text("unit", |line| {
            line.metric.map(|metric| metric.unit().name()).into()
        }),
        number("value", |line| told(line).and_then(|told| told.value).into()),
        number("low", |line| told(line).and_then(|told| told.low).into()),
        number("high", |line| told(line).and_then(|told| told.high).into()),
        integer("n", |line| told(line).and_then(|told| told.n).into()),
        text("method", |line| told(line).map(|told| told.method).into()),
        text("better", |line| {
            line.metric.map(|metric| metric.better().name()).into()
        }),
    ]
}

/// A metric in columns of its own: value and interval.
pub(super) fn wide(metric: MetricName) -> [Column; 3] {
    let column = |suffix: &str, end: fn(Told<'_>) -> Option<f64>| {
        number(format!("{metric}{suffix}"), move |line| {
            line.told(metric).and_then(end).into()
        })
    };
    [
        column("", |told| told.value),
        column("_low", |told| told.low),
        column("_high", |told| told.high),
    ]
}

/// The run and what it was made on and with: what must be the same for two values to be compared.
fn of_run() -> Vec<Column> {
    fn joined<'a>(line: &Line<'a>, of: fn(&'a Fingerprint) -> Option<&'a str>) -> Value<'a> {
        let answers: Vec<&str> = line.machines(of).into_iter().flatten().collect();
        match answers.as_slice() {
            [] => Value::Absent,
            [answer] => (*answer).into(),
            answers => answers.join("; ").into(),
        }
    }
    vec![
        text("run", |line| line.run.name.as_str().into()),
        text("profile", |line| line.run.plan.profile.name().into()),
        text("gpu", |line| {
            joined(line, |machine| Some(&machine.gpu.as_ref()?.name))
        }),
        text("driver", |line| {
            joined(line, |machine| machine.gpu.as_ref()?.driver.as_deref())
        }),
        text("cpu", |line| joined(line, |machine| machine.cpu.as_deref())),
        integer("cores", |line| {
            match line.machines(|machine| machine.cores).as_slice() {
                [cores] => (*cores).into(),
                _ => Value::Absent,
            }
        }),
        text("mantissa", |line| joined(line, |machine| Some(&machine.mantissa))),
        text("revision", |line| {
            joined(line, |machine| machine.revision.as_deref())
        }),
        text("burn", |line| joined(line, |machine| Some(&machine.burn))),
        text("build", |line| joined(line, |machine| Some(&machine.build))),
    ]
}

/// Suite, workload and cell.
pub(super) fn names() -> Vec<Column> {
    vec![
        text("suite", |line| line.row.cell.suite.as_str().into()),
        text("workload", |line| line.row.cell.workload.name.as_str().into()),
        text("cell", |line| line.row.cell.id.as_str().into()),
    ]
}

/// Every axis; absent where it means nothing.
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

/// How it ended, and why unless `ok`.
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

/// The precision asked for, and beside it what was executed.
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
            line.record()
                .and_then(|record| record.executed.operand_bits)
                .into()
        }),
        integer("executed_exponent_bits", |line| {
            line.record()
                .and_then(|record| record.executed.exponent_bits)
                .into()
        }),
        text("executed_accumulator", |line| {
            line.record()
                .and_then(|record| record.executed.accumulator.as_deref())
                .into()
        }),
        text("executed_kernel", |line| {
            line.record()
                .and_then(|record| record.executed.kernel.as_deref())
                .into()
        }),
        Column::new("executed_emulated", Kind::Truth, |line| {
            line.record().map(|record| record.executed.emulated).into()
        }),
        text("executed_verdict", |line| {
            line.record().map(|record| record.executed.verdict.name()).into()
        }),
    ]
}

/// What it read.
pub(super) fn data() -> Column {
    text("data", |line| {
        let data = line.record().and_then(|record| record.data.as_ref());
        data.map(|data| data.name.as_str()).into()
    })
}
