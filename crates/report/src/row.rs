//! One row of a report: a cell with its estimates and comparisons, computed from records.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Verdict};
use mantissa_core::{
    Axis, Backend, Cell, EventKind, Executed, ExecutedVerdict, Format, MetricName, Record, Requested, Status,
};

use crate::{
    Run,
    data_sheet::{self, SheetPeak},
    estimates::{RecordWithDigest, over_processes},
    oversubscription::oversubscription,
    row_notes,
};

/// A cell with its estimates and comparisons.
#[derive(Debug)]
pub struct Row<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// Outcome of the cell; `None` if the run ended before the cell started.
    pub status: Option<Status>,
    /// Reason for any status other than `ok`.
    pub reason: Option<String>,
    /// Expectations of the suite that the cell violates.
    pub unexpected: Vec<String>,
    /// Estimates of the metrics over the processes.
    pub metrics: BTreeMap<MetricName, Estimate>,
    /// Records of the cell, one per repeat.
    pub records: Vec<&'a Record>,
    /// Records from which the metrics are computed, with the digests of their samples: the successful ones, or all if none succeeded.
    pub(crate) measured: Vec<RecordWithDigest<'a>>,
    /// Remarks on the samples, such as drift and outliers, and warnings of the processes.
    pub notes: Vec<String>,
    /// Index of the baseline row.
    pub baseline: Option<usize>,
    /// Speed relative to the baseline: the median ratio over all pairs of a process of the row and one of the baseline (Hodges–Lehmann).
    pub speed_up: Option<Estimate>,
    /// Verdict on the speed relative to the baseline, corrected for all comparisons of the table.
    pub speed_verdict: Option<Verdict>,
    /// Memory relative to the baseline.
    pub memory_ratio: Option<Estimate>,
    /// Throughput as a share of the fastest kernel of the run in the same arithmetic, on a GPU.
    pub peak_share: Option<f64>,
}

impl<'a> Row<'a> {
    pub(crate) fn new(
        run: &'a Run,
        cell: &'a Cell,
        skip: Option<String>,
        mut records: Vec<&'a Record>,
    ) -> Self {
        records.sort_by_key(|record| record.repeat);
        let ok: Vec<_> = records
            .iter()
            .copied()
            .filter(|record| record.status == Status::Ok)
            .collect();
        let worst = records.iter().find(|record| record.status != Status::Ok);
        let (status, reason) = match worst {
            _ if records.is_empty() && skip.is_some() => (Some(Status::Skipped), skip),
            None if records.is_empty() => (None, Some("the run ended before this cell".to_owned())),
            None => (Some(Status::Ok), None),
            Some(record) if records.len() > 1 => {
                let why = record.reason.as_deref().unwrap_or("no reason given");
                (
                    Some(record.status),
                    Some(format!("{} of {} repeats ok; {why}", ok.len(), records.len())),
                )
            }
            Some(record) => (Some(record.status), record.reason.clone()),
        };
        let measured_records = if ok.is_empty() { &records } else { &ok };
        let measured: Vec<RecordWithDigest<'a>> = measured_records
            .iter()
            .map(|record| (*record, run.digest(record)))
            .collect();
        let mut unexpected: Vec<String> = Vec::new();
        for event in records.iter().flat_map(|record| &record.events) {
            if event.kind == EventKind::Expectation && !unexpected.contains(&event.detail) {
                unexpected.push(event.detail.clone());
            }
        }
        let metrics = over_processes(&measured);
        Self {
            cell,
            status,
            reason,
            unexpected,
            notes: row_notes::of_row(&measured, &metrics),
            metrics,
            records,
            measured,
            baseline: None,
            speed_up: None,
            speed_verdict: None,
            memory_ratio: None,
            peak_share: None,
        }
    }

    /// Returns `true` if a process of the cell started. A skipped cell has none.
    pub(crate) fn ran(&self) -> bool {
        self.status.is_some_and(|status| status != Status::Skipped)
    }

    /// Returns `true` if the cell ran to its end.
    pub fn is_ok(&self) -> bool {
        self.status == Some(Status::Ok)
    }

    /// Returns `true` if a process of the cell had more threads than cores, so that its times are not comparable.
    pub(crate) fn is_oversubscribed(&self) -> bool {
        self.records
            .iter()
            .any(|record| oversubscription(record).is_some())
    }

    /// Returns the violated expectations of the suite, or else the reason for the status.
    pub fn remark(&self) -> String {
        if self.unexpected.is_empty() {
            self.reason.clone().unwrap_or_default()
        } else {
            format!("not as expected: {}", self.unexpected.join("; "))
        }
    }

    /// Returns the name of the status.
    pub fn status_name(&self) -> &'static str {
        self.status.map_or("not run", Status::name)
    }

    /// Returns the number of processes from which the metrics are computed.
    pub fn processes(&self) -> usize {
        self.measured.len()
    }

    /// Returns the recorded values of a metric, one per process.
    pub(crate) fn values(&self, metric: MetricName) -> Vec<f64> {
        let recorded = self.measured.iter();
        recorded
            .filter_map(|(record, _)| record.metrics.get(&metric)?.value)
            .collect()
    }

    /// Returns the throughput relative to cuBLASLt on the same operands in the same processes.
    pub fn cublas_share(&self) -> Option<f64> {
        let value = |metric| Some(self.metric(metric)?.value);
        Some(value(MetricName::FlopsPerSecond)? / value(MetricName::CublasFlopsPerSecond)?)
    }

    /// Returns the data-sheet peak of the GPU in the setting's arithmetic; `None` on a CPU, on a MIG slice and for an unlisted GPU.
    pub(crate) fn sheet_peak(&self) -> Option<SheetPeak> {
        let gpu = self.records.first()?.fingerprint.gpu.as_ref()?;
        let slice = gpu.uuid.as_ref().is_some_and(|uuid| uuid.starts_with("MIG-"));
        let whole_gpu = self.cell.setting.backend() != Backend::Flex && !slice;
        data_sheet::peak(&gpu.name, &self.cell.setting).filter(|_| whole_gpu)
    }

    /// Returns the throughput relative to the data-sheet peak, if the row executed the arithmetic of its setting.
    pub(crate) fn sheet_share(&self) -> Option<f64> {
        self.verdict()
            .filter(|verdict| *verdict == ExecutedVerdict::AsRequested)?;
        Some(self.metric(MetricName::FlopsPerSecond)?.value / self.sheet_peak()?.flops_per_second)
    }

    /// Returns the estimate of a metric.
    pub fn metric(&self, metric: MetricName) -> Option<&Estimate> {
        self.metrics.get(&metric)
    }

    /// Returns the value of an axis as text; empty if the axis does not apply.
    pub fn axis(&self, axis: Axis) -> String {
        match axis {
            Axis::Seed => self.cell.seed.to_string(),
            _ => self
                .cell
                .setting
                .get(axis)
                .map(|value| value.to_string())
                .unwrap_or_default(),
        }
    }

    /// Formats the requested precision.
    pub fn requested(&self) -> String {
        let Requested {
            operand_bits,
            exponent_bits,
            accumulator,
        } = Requested::of(&self.cell.setting);
        operands(Some(operand_bits), Some(exponent_bits), Some(&accumulator))
    }

    /// Returns the names of the launched kernels, if recorded.
    pub fn kernel(&self) -> Option<&'a str> {
        self.executed_record()?.executed.kernel.as_deref()
    }

    /// Formats the executed precision: `as requested`, `unverified`, or the precision executed instead.
    pub fn executed(&self) -> Option<String> {
        let executed = &self.executed_record()?.executed;
        let Executed {
            operand_bits,
            exponent_bits,
            accumulator,
            emulated,
            verdict,
            ..
        } = executed;
        let mut text = match verdict {
            ExecutedVerdict::AsRequested => "as requested".to_owned(),
            ExecutedVerdict::Unverified => "unverified".to_owned(),
            ExecutedVerdict::Differs => {
                format!(
                    "executed {}",
                    operands(*operand_bits, *exponent_bits, accumulator.as_deref())
                )
            }
        };
        if *emulated {
            text += ", emulated";
        }
        Some(text)
    }

    /// Returns the comparison of requested and executed precision; `None` if nothing was executed.
    pub fn verdict(&self) -> Option<ExecutedVerdict> {
        self.executed_record().map(|record| record.executed.verdict)
    }

    /// Returns the first record, unless the cell was skipped.
    pub(crate) fn executed_record(&self) -> Option<&'a Record> {
        let first = self.records.first().copied();
        first.filter(|record| record.status != Status::Skipped)
    }

    /// Returns the command that reproduces the cell.
    pub fn command(&self) -> Option<&'a str> {
        self.records.first().map(|record| record.command.as_str())
    }
}

/// Returns `true` if rows differ in an axis. Ignores rows in which the axis has no effect.
pub(crate) fn varies<'r, 'a: 'r>(rows: impl Iterator<Item = &'r Row<'a>>, axis: Axis) -> bool {
    let mut values = rows.map(|row| row.axis(axis)).filter(|value| !value.is_empty());
    let first = values.next();
    values.any(|value| Some(value) != first)
}

/// Describes the formats of operands and accumulator, e.g. `tf32 → f32`, or their bits if no known format has that layout.
pub(crate) fn operands(significand: Option<u32>, exponent: Option<u32>, accumulator: Option<&str>) -> String {
    let known = Format::ALL
        .iter()
        .find(|f| Some(f.significand_bits()) == significand && Some(f.exponent_bits()) == exponent);
    let bits = |bits: Option<u32>| bits.map_or_else(|| "?".to_owned(), |bits| bits.to_string());
    let operands = known.map_or_else(
        || format!("{}+{} bits", bits(significand), bits(exponent)),
        |format| format.name().to_owned(),
    );
    format!("{operands} → {}", accumulator.unwrap_or("?"))
}
