//! A cell with everything that was found out about it: the place where records become numbers.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Verdict};
use mantissa_core::{
    Axis, AxisValue, Backend, Cell, Event, Executed, ExecutedVerdict, Format, MetricName, Record, Requested,
    Status,
};

use crate::{
    Run,
    data_sheet::{self, SheetPeak},
    estimates::{Measured, over_processes},
    notes,
};

/// A cell with everything that was found out about it.
#[derive(Debug)]
pub struct Row<'a> {
    /// The cell.
    pub cell: &'a Cell,
    /// How it ended; absent if the run ended before it was tried.
    pub status: Option<Status>,
    /// Why, unless `ok`.
    pub reason: Option<String>,
    /// What its suite expects and does not hold.
    pub unexpected: Vec<String>,
    /// Metrics over its processes.
    pub metrics: BTreeMap<MetricName, Estimate>,
    /// Its records, a repeat each.
    pub records: Vec<&'a Record>,
    /// The records behind its metrics, with what is kept of their samples: those that ran to their end, or else all.
    pub(crate) measured: Vec<Measured<'a>>,
    /// What a reader of its times should know of the samples behind them.
    pub notes: Vec<String>,
    /// Index of the row that it is compared with.
    pub baseline: Option<usize>,
    /// How many times as fast as its baseline: Hodges and Lehmann's ratio of its processes to the baseline's.
    pub speed_up: Option<Estimate>,
    /// Whether it is faster or slower than its baseline by more than chance; the comparisons of its table are one family.
    pub speed_verdict: Option<Verdict>,
    /// How seldom chance alone would let it predict as many test examples better or worse than its baseline: McNemar's
    /// exact test on the same examples, corrected for the comparisons of its table.
    pub accuracy_p: Option<f64>,
    /// How many times the memory of its baseline.
    pub memory_ratio: Option<Estimate>,
    /// Share of the fastest throughput that any kernel of the run reached in the same arithmetic, on a GPU.
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
        let behind = if ok.is_empty() { &records } else { &ok };
        let measured: Vec<Measured<'a>> = behind
            .iter()
            .map(|record| (*record, run.digest(record)))
            .collect();
        let mut unexpected: Vec<String> = Vec::new();
        for event in records.iter().flat_map(|record| &record.events) {
            if event.kind == Event::EXPECTATION && !unexpected.contains(&event.detail) {
                unexpected.push(event.detail.clone());
            }
        }
        Self {
            cell,
            status,
            reason,
            unexpected,
            metrics: over_processes(&measured),
            notes: notes::of_row(&measured),
            records,
            measured,
            baseline: None,
            speed_up: None,
            speed_verdict: None,
            accuracy_p: None,
            memory_ratio: None,
            peak_share: None,
        }
    }

    /// Whether it ran to its end.
    pub fn is_ok(&self) -> bool {
        self.status == Some(Status::Ok)
    }

    /// What is to be said about its status: what its suite does not expect, else the reason.
    pub fn remark(&self) -> String {
        if self.unexpected.is_empty() {
            self.reason.clone().unwrap_or_default()
        } else {
            format!("not as expected: {}", self.unexpected.join("; "))
        }
    }

    /// The name of its status.
    pub fn status_name(&self) -> &'static str {
        self.status.map_or("not run", Status::name)
    }

    /// How many processes are behind its metrics.
    pub fn processes(&self) -> usize {
        self.measured.len()
    }

    /// What each of its processes recorded of a metric.
    pub(crate) fn values(&self, metric: MetricName) -> Vec<f64> {
        let recorded = self.measured.iter();
        recorded
            .filter_map(|(record, _)| record.metrics.get(&metric)?.value)
            .collect()
    }

    /// Bytes moved in a second, over those of a copy of as many in the same processes.
    pub fn copy_share(&self) -> Option<f64> {
        let value = |metric| Some(self.metric(metric)?.value);
        Some(value(MetricName::BytesPerSecond)? / value(MetricName::CopyBytesPerSecond)?)
    }

    /// Throughput over that of cuBLASLt on the same operands in the same processes.
    pub fn cublas_share(&self) -> Option<f64> {
        let value = |metric| Some(self.metric(metric)?.value);
        Some(value(MetricName::FlopsPerSecond)? / value(MetricName::CublasFlopsPerSecond)?)
    }

    /// Peak of its card in its arithmetic, by the data sheet; `None` on a CPU, on a MIG slice and for a card that is not listed.
    pub(crate) fn sheet_peak(&self) -> Option<SheetPeak> {
        let gpu = self.records.first()?.fingerprint.gpu.as_ref()?;
        let slice = gpu.uuid.as_ref().is_some_and(|uuid| uuid.starts_with("MIG-"));
        let whole_gpu = self.cell.setting.backend() != Backend::Flex && !slice;
        data_sheet::peak(&gpu.name, &self.cell.setting).filter(|_| whole_gpu)
    }

    /// Throughput over the peak of the data sheet, where the row computed in the arithmetic of its setting.
    pub(crate) fn sheet_share(&self) -> Option<f64> {
        self.verdict()
            .filter(|verdict| *verdict == ExecutedVerdict::AsRequested)?;
        Some(self.metric(MetricName::FlopsPerSecond)?.value / self.sheet_peak()?.flops_per_second)
    }

    /// The estimate of a metric.
    pub fn metric(&self, metric: MetricName) -> Option<&Estimate> {
        self.metrics.get(&metric)
    }

    /// The value of an axis as text; empty where it does not apply.
    pub fn axis(&self, axis: Axis) -> String {
        match axis {
            Axis::Seed => self.cell.seed.to_string(),
            _ => self
                .cell
                .setting
                .get(axis)
                .map(AxisValue::to_string)
                .unwrap_or_default(),
        }
    }

    /// The precision asked for, in words.
    pub fn requested(&self) -> String {
        let Requested {
            operand_bits,
            exponent_bits,
            accumulator,
        } = Requested::of(&self.cell.setting);
        operands(Some(operand_bits), Some(exponent_bits), Some(&accumulator))
    }

    /// The kernels that were launched, where that was noted.
    pub fn kernel(&self) -> Option<&'a str> {
        self.ran()?.executed.kernel.as_deref()
    }

    /// The precision observed, in words: `as requested`, `unverified`, or what was executed instead.
    pub fn executed(&self) -> Option<String> {
        let executed = &self.ran()?.executed;
        let Executed {
            operand_bits,
            exponent_bits,
            accumulator,
            emulated,
            verdict,
            ..
        } = executed;
        let mut words = match verdict {
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
            words += ", emulated";
        }
        Some(words)
    }

    /// Requested against executed; none where nothing was executed.
    pub fn verdict(&self) -> Option<ExecutedVerdict> {
        self.ran().map(|record| record.executed.verdict)
    }

    /// Its first record, unless the cell was skipped.
    pub(crate) fn ran(&self) -> Option<&'a Record> {
        let first = self.records.first().copied();
        first.filter(|record| record.status != Status::Skipped)
    }

    /// The command that reproduces it.
    pub fn command(&self) -> Option<&'a str> {
        self.records.first().map(|record| record.command.as_str())
    }
}

/// `tf32 → f32`: format of the operands, format of the sums. Bits where no format has that layout.
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
