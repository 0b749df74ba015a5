//! `results.csv`: a line a record, so that nothing is aggregated away; skipped cells have one too.

use mantissa_core::{Axis, MetricName, Record, Status};

use crate::{Report, ReportError, Row};

/// The results as CSV (RFC 4180, UTF-8). Metrics are in their recorded units, an absent value is an empty field.
pub fn csv(report: &Report<'_>) -> Result<Vec<u8>, ReportError> {
    let present = |metric: &MetricName| report.run.records.iter().any(|r| r.metrics.contains_key(metric));
    let metrics: Vec<MetricName> = MetricName::ALL.iter().copied().filter(present).collect();
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    writer.write_record(header(&metrics))?;
    for (_, row) in report.rows() {
        if row.records.is_empty() {
            writer.write_record(line(row, None, &metrics))?;
        }
        for record in &row.records {
            writer.write_record(line(row, Some(record), &metrics))?;
        }
    }
    writer
        .into_inner()
        .map_err(|error| ReportError::Csv(error.into_error().into()))
}

const FIRST: [&str; 3] = ["suite", "workload", "cell"];
const MIDDLE: [&str; 14] = [
    "repeat",
    "attempt",
    "status",
    "reason",
    "requested_operand_bits",
    "requested_exponent_bits",
    "requested_accumulator",
    "executed_operand_bits",
    "executed_exponent_bits",
    "executed_accumulator",
    "executed_kernel",
    "executed_emulated",
    "executed_verdict",
    "data",
];

fn header(metrics: &[MetricName]) -> Vec<String> {
    let mut header: Vec<String> = FIRST.iter().map(ToString::to_string).collect();
    header.extend(Axis::ALL.iter().map(ToString::to_string));
    header.extend(MIDDLE.iter().map(ToString::to_string));
    for metric in metrics {
        header.extend(["", "_low", "_high", "_n"].map(|suffix| format!("{metric}{suffix}")));
    }
    header.push("command".to_owned());
    header
}

fn line(row: &Row<'_>, record: Option<&Record>, metrics: &[MetricName]) -> Vec<String> {
    fn text<T: ToString>(value: Option<T>) -> String {
        value.map(|value| value.to_string()).unwrap_or_default()
    }
    let cell = row.cell;
    let mut line = vec![
        cell.suite.clone(),
        cell.workload.name.clone(),
        cell.id.to_string(),
    ];
    line.extend(Axis::ALL.iter().map(|axis| row.axis(*axis)));
    let requested = mantissa_core::Requested::of(&cell.setting);
    let executed = record.map(|record| &record.executed);
    line.extend([
        text(record.map(|record| record.repeat)),
        text(record.map(|record| record.attempt)),
        record
            .map_or(row.status_name(), |record| Status::name(record.status))
            .to_owned(),
        match record {
            Some(record) => text(record.reason.as_ref()),
            None => text(row.reason.as_ref()),
        },
        requested.operand_bits.to_string(),
        requested.exponent_bits.to_string(),
        requested.accumulator,
        text(executed.and_then(|executed| executed.operand_bits)),
        text(executed.and_then(|executed| executed.exponent_bits)),
        text(executed.and_then(|executed| executed.accumulator.as_ref())),
        text(executed.and_then(|executed| executed.kernel.as_ref())),
        text(executed.map(|executed| executed.emulated)),
        text(executed.map(|executed| executed.verdict)),
        text(
            record
                .and_then(|record| record.data.as_ref())
                .map(|data| &data.name),
        ),
    ]);
    for metric in metrics {
        let metric = record.and_then(|record| record.metrics.get(metric));
        let number = |value: Option<f64>| text(value.filter(|value| value.is_finite()));
        line.extend([
            number(metric.and_then(|metric| metric.value)),
            number(metric.and_then(|metric| metric.low)),
            number(metric.and_then(|metric| metric.high)),
            text(metric.and_then(|metric| metric.n)),
        ]);
    }
    line.push(text(record.map(|record| &record.command)));
    line
}
