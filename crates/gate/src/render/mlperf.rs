//! Log lines in the format of MLPerf's `mllog`.
//!
//! This is not an MLPerf submission or a part of one: the runs are not MLPerf benchmarks and do not follow the rules on timing. The keys
//! `seed`, `global_batch_size`, `micro_batch_size`, `gradient_accumulation_steps`, `max_sequence_length`, `opt_name` and
//! `lowest_numerical_precision_in_{linear,attn}` are MLPerf's and have the same meaning. Keys that begin with `mantissa_` are specific to
//! Mantissa.

use std::collections::BTreeSet;

use jiff::Timestamp;
use mantissa_core::{
    Axis, Better, Cell, ExecutedVerdict, KernelKind, Profile, Setting, Task, TaskKind, Unit,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::{CellEstimates, Measurements};
use crate::{GateError, MeasuredCell};

/// Fields of a log line, in the order of `mllog`.
#[derive(Serialize)]
struct Line<'a> {
    namespace: &'a str,
    time_ms: i64,
    event_type: &'static str,
    key: &'a str,
    value: Value,
    metadata: Metadata<'a>,
}

/// Metadata of a value. `file` and `lineno` are placeholders for the source location that `mllog` requires. The other fields are specific
/// to Mantissa.
#[derive(Default, Serialize)]
struct Metadata<'a> {
    file: &'static str,
    lineno: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Profile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suite: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    setting: Option<&'a Setting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<Unit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    better: Option<Better>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
}

/// Renders one line for the run, then lines for the setting, observed precision and metrics of each cell. Every line is an
/// event of type `POINT_IN_TIME` at the start of the run. The namespace is the identity of the cell.
///
/// # Errors
/// Fails if the start time of the run is invalid.
pub fn mlperf(measurements: &Measurements<'_>) -> Result<String, GateError> {
    let run = measurements.run;
    let started: Timestamp = run.started.parse().map_err(|_| GateError::InvalidStartTime {
        path: run.folder.clone(),
        given: run.started.clone(),
    })?;
    let mut log = Log {
        time_ms: started.as_millisecond(),
        out: String::new(),
    };
    let fingerprint = &run.fingerprint;
    log.event(
        "",
        "mantissa_run",
        json!(run.name),
        Metadata {
            profile: Some(run.profile),
            gpu: fingerprint.gpu.as_ref().map(|gpu| &*gpu.name),
            cpu: fingerprint.cpu.as_deref(),
            version: Some(&fingerprint.mantissa),
            revision: fingerprint.revision.as_deref(),
            ..Metadata::default()
        },
    );
    for cell in &measurements.cells {
        log.cell(cell);
    }
    Ok(log.out)
}

struct Log {
    time_ms: i64,
    out: String,
}

impl Log {
    fn cell(&mut self, measured: &CellEstimates<'_>) {
        let cell = measured.cell();
        let namespace = cell.id.as_str();
        let metadata = Metadata {
            suite: Some(&cell.suite),
            setting: Some(&cell.setting),
            ..Metadata::default()
        };
        self.event(namespace, "mantissa_cell", json!(cell.workload.name), metadata);
        for (key, value) in setting_values(cell) {
            self.event(namespace, key, value, Metadata::default());
        }
        for (key, value) in precision_values(measured.measured) {
            self.event(namespace, key, json!(value), Metadata::default());
        }
        for (metric, estimate) in &measured.estimates {
            let metadata = Metadata {
                unit: Some(metric.unit()),
                better: Some(metric.better()),
                low: estimate.interval.map(|interval| interval.low),
                high: estimate.interval.map(|interval| interval.high),
                n: Some(estimate.n),
                method: Some(estimate.method),
                ..Metadata::default()
            };
            self.event(
                namespace,
                &format!("mantissa_{metric}"),
                json!(estimate.value),
                metadata,
            );
        }
    }

    fn event(&mut self, namespace: &str, key: &str, value: Value, metadata: Metadata<'_>) {
        let line = Line {
            namespace,
            time_ms: self.time_ms,
            event_type: "POINT_IN_TIME",
            key,
            value,
            metadata: Metadata {
                file: "mantissa",
                ..metadata
            },
        };
        let text = serde_json::to_string(&line).expect("log lines serialize as JSON");
        self.out.push_str(":::MLLOG ");
        self.out.push_str(&ascii(&text));
        self.out.push('\n');
    }
}

/// Escapes JSON to ASCII like `mllog`, whose parser reads Latin-1. Also escapes `:::MLLOG`, by which the parser finds the start of the JSON.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            ' '..='~' => out.push(c),
            c => {
                let units = c.encode_utf16(&mut [0; 2]).to_vec();
                out.extend(units.iter().map(|unit| format!("\\u{unit:04x}")));
            }
        }
    }
    // Outside of strings, JSON never contains two consecutive colons.
    out.replace(":::MLLOG", "\\u003a::MLLOG")
}

/// Returns the setting of a cell under the keys of MLPerf.
fn setting_values(cell: &Cell) -> Vec<(&'static str, Value)> {
    let setting = &cell.setting;
    let mut values = vec![("seed", json!(cell.seed))];
    if cell.workload.kind() == TaskKind::Train {
        values.push(("global_batch_size", json!(setting.effective_batch())));
        values.push(("micro_batch_size", json!(setting.batch())));
        values.push(("gradient_accumulation_steps", json!(setting.accumulate())));
        values.push(("opt_name", json!(setting.optimizer().name())));
    }
    if setting.get(Axis::Sequence).is_some() {
        values.push(("max_sequence_length", json!(setting.sequence())));
    }
    values
}

/// Returns the operand format of the matmuls of a cell, as MLPerf names it, if all processes observed the same format.
fn operand_format(measured: &MeasuredCell) -> Option<&'static str> {
    let seen: BTreeSet<Option<(u32, u32)>> = measured
        .completed()
        .map(|process| {
            let executed = &process.executed;
            (executed.verdict != ExecutedVerdict::Unverified)
                .then_some(executed.operand_bits.zip(executed.exponent_bits))
                .flatten()
        })
        .collect();
    match seen.into_iter().collect::<Option<Vec<_>>>()?.first()? {
        (53, 11) => Some("fp64"),
        (24, 8) => Some("fp32"),
        (11, 8) => Some("tf32"),
        (11, 5) => Some("fp16"),
        (8, 8) => Some("bfloat16"),
        _ => None,
    }
}

/// Returns the format of [`operand_format`] under the keys of MLPerf. For a model, the observed format applies to all matmuls only if it
/// equals the requested one. Otherwise it describes only some layers, and the result is empty. Omits the key for communication.
fn precision_values(measured: &MeasuredCell) -> Vec<(&'static str, &'static str)> {
    const LINEAR: &str = "lowest_numerical_precision_in_linear";
    const ATTENTION: &str = "lowest_numerical_precision_in_attn";
    let Some(format) = operand_format(measured) else {
        return vec![];
    };
    let attends = measured.cell.setting.get(Axis::Attention).is_some();
    let differs = measured
        .completed()
        .any(|process| process.executed.verdict == ExecutedVerdict::Differs);
    match &measured.cell.workload.task {
        Task::Kernel(task) => match task.kernel.kind() {
            KernelKind::Matmul => vec![(LINEAR, format)],
            KernelKind::Attention => vec![(ATTENTION, format)],
            _ => vec![],
        },
        _ if differs => vec![],
        _ if attends => vec![(LINEAR, format), (ATTENTION, format)],
        _ => vec![(LINEAR, format)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_json_is_ascii_without_the_marker() {
        let json = json!(["é🦀\u{85}", ":::MLLOG {}", "\":::MLLOG"]).to_string();
        let escaped = ascii(&json);
        assert!(escaped.is_ascii() && !escaped.contains(":::MLLOG"), "{escaped}");
        assert_eq!(serde_json::from_str::<Value>(&escaped).unwrap().to_string(), json);
    }
}
