//! Cells of one workload of a suite, which can be compared with each other.

use std::collections::BTreeMap;

use mantissa_core::{Axis, MatmulPrecision, MetricName, Status, TaskKind};

use crate::{
    Row,
    comparability::is_comparable,
    row::varies,
    setting::{Comparison, SettingResult, compare, ratio_to_baseline, speeds},
    shape,
    units::Scale,
};

/// Metrics of peak memory. The cited articles report the first one.
pub(crate) const MEMORY: [MetricName; 3] = MetricName::PEAK_MEMORY;

/// Cells of one workload of a suite, which can be compared with each other.
#[derive(Debug)]
pub struct Group<'a> {
    /// Name of the workload.
    pub workload: &'a str,
    /// Kind of task.
    pub kind: TaskKind,
    /// Axes whose values differ between the cells.
    pub varying: Vec<Axis>,
    /// Varying axes without precision and matmul, which have columns of their own.
    pub axes: Vec<Axis>,
    /// Metric by which speeds are compared.
    pub speed: MetricName,
    /// Memory metric: the first of allocator, device and host memory that any cell recorded.
    pub memory: Option<MetricName>,
    /// Rows of the cells, in plan order.
    pub rows: Vec<Row<'a>>,
    /// Headline sentences, computed from the rows.
    pub answer: Vec<String>,
    /// Notes below the table, on its intervals and comparisons.
    pub notes: Vec<String>,
    /// Settings, in plan order, with their comparisons.
    pub(crate) comparisons: Vec<Comparison>,
    /// Smallest and largest magnitude of each metric.
    magnitudes: BTreeMap<MetricName, (f64, f64)>,
}

impl<'a> Group<'a> {
    /// Computes the group of a workload, except for its sentences and notes.
    pub(crate) fn new(workload: &'a str, mut rows: Vec<Row<'a>>) -> Self {
        let kind = rows
            .first()
            .map_or(TaskKind::Train, |row| row.cell.workload.kind());
        let varying: Vec<Axis> = Axis::ALL
            .iter()
            .copied()
            .filter(|axis| varies(rows.iter(), *axis))
            .collect();
        let has = |metric: &MetricName| rows.iter().any(|row| row.metrics.contains_key(metric));
        let kernel = rows.first().and_then(|row| shape::kernel(&row.cell.workload));
        let speed = match kernel {
            None if kind == TaskKind::Evaluate => MetricName::SamplesPerSecond,
            None if kind == TaskKind::Generate => MetricName::DecodeTokensPerSecond,
            None => MetricName::TrainSeconds,
            Some(kernel) if kernel.kind().multiplies() => MetricName::FlopsPerSecond,
            Some(_) => MetricName::ValuesPerSecond,
        };
        let memory = MEMORY.iter().copied().find(has);
        let comparisons = compare(&rows, speed, memory);
        set_baselines(&mut rows, &comparisons, speed, memory);
        let has_own_column = |axis: &Axis| matches!(axis, Axis::Precision | Axis::Matmul);
        let axes = varying
            .iter()
            .copied()
            .filter(|axis| !has_own_column(axis))
            .collect();
        let mut magnitudes: BTreeMap<MetricName, (f64, f64)> = BTreeMap::new();
        for (metric, estimate) in rows.iter().flat_map(|row| &row.metrics) {
            let size = estimate.value.abs();
            let (least, most) = magnitudes.entry(*metric).or_insert((size, size));
            (*least, *most) = (least.min(size), most.max(size));
        }
        Self {
            workload,
            kind,
            varying,
            axes,
            speed,
            memory,
            rows,
            answer: Vec::new(),
            notes: Vec::new(),
            comparisons,
            magnitudes,
        }
    }

    /// Iterates over the rows with status `ok`.
    pub fn ok(&self) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(|row| row.status == Some(Status::Ok))
    }

    /// Returns at most `max_rows` settings, in plan order. Settings that failed or violated an expectation take precedence.
    pub(crate) fn shown(&self, max_rows: usize) -> Vec<SettingResult<'_, 'a>> {
        let settings = SettingResult::all(self, |_| true);
        if settings.len() <= max_rows {
            return settings;
        }
        let has_problem = |setting: &SettingResult<'_, '_>| {
            let failed = |row: &&Row<'_>| row.ran() && (!row.is_ok() || !row.unexpected.is_empty());
            setting.seeds.iter().any(failed)
        };
        let (first, rest): (Vec<_>, Vec<_>) = settings
            .into_iter()
            .enumerate()
            .partition(|(_, one)| has_problem(one));
        let mut shown: Vec<_> = first.into_iter().chain(rest).take(max_rows).collect();
        shown.sort_unstable_by_key(|(at, _)| *at);
        shown.into_iter().map(|(_, setting)| setting).collect()
    }

    /// Returns the scale on which a metric of a row is shown. All rows share one scale for comparison, unless small values would lose their
    /// digits on the scale of the largest.
    pub fn scale(&self, metric: MetricName, value: f64) -> Scale {
        /// Above this ratio, two decimals on the scale of the largest value leave fewer than two digits of the smallest.
        const MAX_RATIO_ON_ONE_SCALE: f64 = 50.0;
        let (smallest, largest) = self.magnitudes.get(&metric).copied().unwrap_or_default();
        let together = largest <= smallest * MAX_RATIO_ON_ONE_SCALE;
        Scale::of(metric, if together { largest } else { value })
    }

    /// Returns the skip reason if all rows were skipped for the same reason.
    pub(crate) fn common_skip_reason(&self) -> Option<&str> {
        let mut reasons = self.rows.iter().map(|row| {
            let skipped = row.status == Some(Status::Skipped);
            row.reason.as_deref().filter(|_| skipped)
        });
        let first = reasons.next()??;
        reasons.all(|reason| reason == Some(first)).then_some(first)
    }

    /// Returns `true` if any row has this metric.
    pub fn has(&self, metric: MetricName) -> bool {
        self.magnitudes.contains_key(&metric)
    }

    /// Returns `true` if a row has this metric with a value other than 0.
    pub(crate) fn occurs(&self, metric: MetricName) -> bool {
        self.magnitudes.get(&metric).is_some_and(|(_, most)| *most > 0.0)
    }

    /// Returns `true` if a cell has several devices. Its memory is that of rank 0.
    pub(crate) fn has_several_devices(&self) -> bool {
        self.rows.iter().any(|row| row.cell.setting.devices() > 1)
    }

    /// Returns `true` if the cells differ in an axis.
    pub fn varies(&self, axis: Axis) -> bool {
        self.varying.contains(&axis)
    }

    /// Returns the label of a row's setting: that of the row without the seed, or the precision if nothing else varies.
    pub fn setting_label(&self, row: &Row<'_>) -> String {
        match self.label(row, &[Axis::Seed]) {
            empty if empty.is_empty() => row.cell.setting.precision().name().to_owned(),
            label => label,
        }
    }

    /// Returns a label that distinguishes a row from the others: `bf16-mixed · high · batch 8`, without the axes `left_out`.
    pub fn label(&self, row: &Row<'_>, left_out: &[Axis]) -> String {
        let mut parts = Vec::new();
        let shown = |axis: Axis| !left_out.contains(&axis) && (self.varies(axis) || self.axes.is_empty());
        let (precision, matmul) = (row.cell.setting.precision(), row.cell.setting.matmul());
        if shown(Axis::Precision) {
            parts.push(precision.name().to_owned());
        }
        // Omit `highest` if the precision does not allow `high`.
        let has_choice = row.cell.setting.get(Axis::Matmul).is_some()
            && (precision.allows(MatmulPrecision::High) || matmul != MatmulPrecision::Highest);
        if has_choice && shown(Axis::Matmul) {
            parts.push(matmul.name().to_owned());
        }
        for &axis in self.axes.iter().filter(|axis| !left_out.contains(axis)) {
            let value = row.axis(axis);
            // The axis has no effect in the setting.
            if value.is_empty() {
                continue;
            }
            parts.push(match axis {
                Axis::Optimizer | Axis::Backend | Axis::Gelu => value,
                _ => format!("{} {value}", axis.name().replace('_', " ")),
            });
        }
        parts.join(" · ")
    }
}

/// Sets the baseline of every row and its ratios to the baseline row of the same seed. The speed verdict of a row is that of its setting.
fn set_baselines(
    rows: &mut [Row<'_>],
    comparisons: &[Comparison],
    speed: MetricName,
    memory: Option<MetricName>,
) {
    for comparison in comparisons {
        for (index, base) in comparison.rows.iter().zip(&comparison.baselines) {
            let ratio = |values: &dyn Fn(&Row<'_>) -> Vec<f64>| {
                let [mine, theirs] = [*index, (*base)?].map(|index| values(&rows[index]));
                ratio_to_baseline(&mine, &theirs, *base == Some(*index))
            };
            let speed_up = ratio(&|row| speeds(row, speed));
            let is_memory_comparable = |metric: MetricName| {
                base.is_some_and(|base| is_comparable(metric, &rows[*index], &rows[base]))
            };
            let memory_ratio = memory
                .filter(|metric| is_memory_comparable(*metric))
                .and_then(|metric| ratio(&|row| row.values(metric)));
            let row = &mut rows[*index];
            row.baseline = *base;
            row.speed_up = speed_up;
            row.memory_ratio = memory_ratio;
            row.speed_verdict = comparison.speed_verdict.filter(|_| row.is_ok());
        }
    }
}
