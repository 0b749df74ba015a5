//! Data model of a comparison, computed once and shared by all renderers.

use mantissa_core::{Axis, MatmulPrecision, MetricName, TaskKind};

use super::{
    compare::{Entry, compare},
    environment::{self, Environments},
    matching::{Line, Matched, is_attempted, letter},
    sentences,
};
use crate::{
    Banner, Group, Report, ReportError, Row, Run,
    group::MEMORY,
    units::{self, Scale},
    view::max_rows_per_table,
};

/// Several runs, each compared with the first.
#[derive(Debug)]
pub struct RunComparison<'r, 'a> {
    /// Report of each run.
    pub(super) reports: &'r [Report<'a>],
    pub(super) environments: Environments,
    /// Warnings and notes shown above the results.
    pub banners: Vec<Banner>,
    /// Workloads with settings that at least two runs attempted.
    pub(super) tables: Vec<Comparison<'r, 'a>>,
    /// Settings that only one run attempted, as text.
    pub(super) only_in_one_run: Vec<String>,
}

/// Settings of a workload that at least two runs attempted.
#[derive(Debug)]
pub(super) struct Comparison<'r, 'a> {
    /// Title of the suite, with the workload if the suite has several.
    pub title: String,
    /// Names of suite and workload, for file names.
    pub name: String,
    pub question: &'r str,
    /// Group of the first run that has the workload.
    pub group: &'r Group<'a>,
    /// Axes that distinguish the settings, precision first.
    pub axes: Vec<Axis>,
    /// Metric by which speed is compared.
    pub speed: MetricName,
    /// Memory metric: the first of allocator, device and host memory that every run recorded.
    pub memory: Option<MetricName>,
    /// Quality metric: test accuracy, perplexity or relative error.
    pub quality: Option<MetricName>,
    /// Entries of each setting, one per run.
    pub lines: Vec<Vec<Entry<'r, 'a>>>,
    /// Maximum number of lines in a table.
    pub max_lines: usize,
    /// Summary of the results.
    pub answer: Vec<String>,
    /// Notes on the statistics.
    pub notes: Vec<String>,
}

impl<'r, 'a> RunComparison<'r, 'a> {
    /// Compares two or more runs with the first of them.
    ///
    /// # Errors
    /// Fails if no setting was attempted by at least two runs.
    pub fn new(reports: &'r [Report<'a>]) -> Result<Self, ReportError> {
        let (mut tables, mut only_in_one_run) = (Vec::new(), Vec::new());
        let all = Matched::of(reports);
        let runs: Vec<&Run> = reports.iter().map(|report| report.run).collect();
        for matched in &all {
            let (common, single): (Vec<_>, Vec<_>) =
                matched.lines().into_iter().partition(|line| line.attempts() > 1);
            only_in_one_run.extend(settings_in_one_run(matched, &single));
            if !common.is_empty() {
                let of_suite = all.iter().filter(|other| other.suite.name == matched.suite.name);
                tables.push(Comparison::new(&runs, matched, &common, of_suite.count() > 1));
            }
        }
        if tables.is_empty() {
            return Err(ReportError::NothingInCommon);
        }
        let lengths: Vec<usize> = tables.iter().map(|table| table.lines.len()).collect();
        let max_lines = max_rows_per_table(&lengths);
        tables.iter_mut().for_each(|table| table.max_lines = max_lines);
        let environments = Environments::of(reports);
        Ok(Self {
            reports,
            banners: environment::banners(reports, &environments),
            environments,
            tables,
            only_in_one_run,
        })
    }
}

impl<'r, 'a> Comparison<'r, 'a> {
    fn new(runs: &[&Run], matched: &Matched<'r, 'a>, lines: &[Line<'r, 'a>], several: bool) -> Self {
        let groups: Vec<&Group<'_>> = matched.groups.iter().flatten().copied().collect();
        let group = groups[0];
        let has = |metric: &MetricName| groups.iter().all(|group| group.has(*metric));
        let memory = MEMORY.iter().copied().find(has);
        let quality = match group.kind {
            TaskKind::Generate => None,
            TaskKind::Kernel => Some(MetricName::RelativeError),
            _ if group.rows.iter().any(|row| row.cell.workload.predicts_tokens()) => {
                Some(MetricName::Perplexity)
            }
            _ => Some(MetricName::TestAccuracy),
        };
        let rows: Vec<&Row<'_>> = lines.iter().filter_map(Line::first_row).collect();
        let mut comparison = Self {
            title: match several {
                true => format!("{}: {}", matched.suite.title, group.workload),
                false => matched.suite.title.clone(),
            },
            name: format!("{}-{}", matched.suite.name, group.workload),
            question: matched.suite.question.trim(),
            group,
            axes: axes(matched, &rows),
            speed: group.speed,
            memory,
            quality: quality.filter(|metric| groups.iter().any(|group| group.has(*metric))),
            lines: compare(runs, lines, group.speed, memory),
            max_lines: usize::MAX,
            answer: Vec::new(),
            notes: Vec::new(),
        };
        comparison.answer = sentences::answer(&comparison);
        comparison.notes = sentences::notes(&comparison);
        comparison
    }

    /// Returns the lines that tables show.
    pub fn shown(&self) -> &[Vec<Entry<'r, 'a>>] {
        &self.lines[..self.max_lines.min(self.lines.len())]
    }

    /// Returns `true` if a run lacks all of the settings.
    pub fn lacks(&self, run: usize) -> bool {
        self.lines.iter().all(|line| line[run].row.is_none())
    }

    /// Returns the label that distinguishes the setting of a row: `bf16-mixed · high · batch 8`.
    pub fn label(&self, row: &Row<'_>) -> String {
        label(&self.axes, row)
    }

    /// Returns the part of the setting that determines rounding: `bf16-mixed · high · accumulator f16`.
    pub fn arithmetic(&self, row: &Row<'_>) -> String {
        let rounds = |axis: &Axis| matches!(axis, Axis::Precision | Axis::Matmul | Axis::Accumulator);
        label(&self.axes.iter().copied().filter(rounds).collect::<Vec<_>>(), row)
    }

    /// Returns the scale on which a metric of a line is shown, shared by all runs.
    pub fn scale(&self, metric: MetricName, line: &[Entry<'_, '_>]) -> Scale {
        let values = line
            .iter()
            .filter_map(|entry| Some(entry.row?.metric(metric)?.value.abs()));
        Scale::of(metric, values.fold(0.0, f64::max))
    }
}

/// Returns the precision axis and the axes in which these rows differ, without the axes that depend on the backend.
fn axes(matched: &Matched<'_, '_>, rows: &[&Row<'_>]) -> Vec<Axis> {
    let left_out = matched.backend_axes();
    let varies = |axis: Axis| {
        rows.windows(2)
            .any(|pair| pair[0].axis(axis) != pair[1].axis(axis))
    };
    let axes = Axis::ALL.iter().copied();
    axes.filter(|axis| !left_out.contains(axis) && (varies(*axis) || *axis == Axis::Precision))
        .collect()
}

/// Formats the values of axes: `bf16-mixed · high · batch 8`.
fn label(axes: &[Axis], row: &Row<'_>) -> String {
    let setting = &row.cell.setting;
    let no_choice =
        !setting.precision().allows(MatmulPrecision::High) && setting.matmul() == MatmulPrecision::Highest;
    let part = |axis: &Axis| match axis {
        Axis::Precision | Axis::Matmul | Axis::Optimizer | Axis::Backend | Axis::Gelu => row.axis(*axis),
        _ => format!("{} {}", axis.name().replace('_', " "), row.axis(*axis)),
    };
    let shown = axes
        .iter()
        .filter(|axis| (**axis != Axis::Matmul || !no_choice) && !row.axis(**axis).is_empty());
    shown.map(part).collect::<Vec<_>>().join(" · ")
}

/// Lists the settings of a workload that only one run attempted, with the reasons why the other runs did not. Settings that no run
/// attempted are left out.
fn settings_in_one_run(matched: &Matched<'_, '_>, lines: &[Line<'_, '_>]) -> Vec<String> {
    let rows = matched.groups.iter().flatten().flat_map(|group| &group.rows);
    let axes = axes(matched, &rows.collect::<Vec<_>>());
    /// Maximum number of settings listed; the others are counted.
    const MAX_LISTED: usize = 100;
    let describe = |line: &Line<'_, '_>| {
        let run = line.rows.iter().position(|row| row.is_some_and(is_attempted))?;
        let row = line.rows[run]?;
        let why = |other: usize| match line.rows[other] {
            Some(row) => format!("{} {}: {}", letter(other), row.status_name(), row.remark()),
            None => format!("not in {}", letter(other)),
        };
        let others = (0..line.rows.len()).filter(|other| *other != run);
        let why: Vec<String> = others.map(why).collect();
        let label = format!("{} {}", row.cell.workload.name, label(&axes, row));
        Some(format!("{label}: only in {} ({})", letter(run), why.join("; ")))
    };
    let mut all: Vec<String> = lines.iter().filter_map(describe).collect();
    let more = all.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        all.truncate(MAX_LISTED);
        all.push(format!(
            "{} more settings of {}",
            units::count(more as u64),
            matched.suite.name
        ));
    }
    all
}
