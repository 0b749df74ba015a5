//! What there is to say about several runs, computed once: everything that the renderers show.

use mantissa_core::{Axis, MatmulPrecision, MetricName, TaskKind};

use super::{
    compare::{Entry, compare},
    environment::{self, Environments},
    matching::{Line, Matched, is_tried, letter},
    said,
};
use crate::{
    Banner, Group, Report, ReportError, Row, Run,
    units::{self, Scale},
    view::{MEMORY, shown_of},
};

/// Several runs, every one beside the first.
#[derive(Debug)]
pub struct Beside<'r, 'a> {
    /// A report for each run.
    pub(super) reports: &'r [Report<'a>],
    pub(super) environments: Environments,
    /// What a reader must know before any number.
    pub banners: Vec<Banner>,
    /// The workloads that at least two runs tried in a common setting.
    pub(super) tables: Vec<Comparison<'r, 'a>>,
    /// What a single run tried, in words.
    pub(super) alone: Vec<String>,
}

/// The settings of a workload that at least two runs tried.
#[derive(Debug)]
pub(super) struct Comparison<'r, 'a> {
    /// Title of its suite, with the workload where a suite has several.
    pub title: String,
    /// Name of its suite and its own, for file names.
    pub name: String,
    pub question: &'r str,
    /// The group of the first run that has it.
    pub group: &'r Group<'a>,
    /// Axes that tell its settings apart, precision first.
    pub axes: Vec<Axis>,
    /// The metric by which speed is compared.
    pub speed: MetricName,
    /// The first of allocator, device and host memory that every run has.
    pub memory: Option<MetricName>,
    /// The metric that a format costs.
    pub worth: Option<MetricName>,
    /// The entries of each setting, one a run.
    pub lines: Vec<Vec<Entry<'r, 'a>>>,
    /// Lines that tables show at most.
    pub most: usize,
    /// What it comes to.
    pub answer: Vec<String>,
    /// What its ratios are.
    pub notes: Vec<String>,
}

impl<'r, 'a> Beside<'r, 'a> {
    /// Compares two runs or more with the first of them.
    ///
    /// # Errors
    /// If no setting was tried by two of them.
    pub fn new(reports: &'r [Report<'a>]) -> Result<Self, ReportError> {
        let (mut tables, mut alone) = (Vec::new(), Vec::new());
        let all = Matched::of(reports);
        let runs: Vec<&Run> = reports.iter().map(|report| report.run).collect();
        for matched in &all {
            let (common, rest): (Vec<_>, Vec<_>) =
                matched.lines().into_iter().partition(|line| line.tried() > 1);
            alone.extend(alone_in(matched, &rest));
            if !common.is_empty() {
                let of_suite = all.iter().filter(|other| other.suite.name == matched.suite.name);
                tables.push(Comparison::new(&runs, matched, &common, of_suite.count() > 1));
            }
        }
        if tables.is_empty() {
            return Err(ReportError::NothingInCommon);
        }
        let lengths: Vec<usize> = tables.iter().map(|table| table.lines.len()).collect();
        let most = shown_of(&lengths);
        tables.iter_mut().for_each(|table| table.most = most);
        let environments = Environments::of(reports);
        Ok(Self {
            reports,
            banners: environment::banners(reports, &environments),
            environments,
            tables,
            alone,
        })
    }
}

impl<'r, 'a> Comparison<'r, 'a> {
    fn new(runs: &[&Run], matched: &Matched<'r, 'a>, lines: &[Line<'r, 'a>], several: bool) -> Self {
        let groups: Vec<&Group<'_>> = matched.groups.iter().flatten().copied().collect();
        let group = groups[0];
        let has = |metric: &MetricName| groups.iter().all(|group| group.has(*metric));
        let memory = MEMORY.iter().copied().find(has);
        let worth = match group.kind {
            TaskKind::Generate => None,
            TaskKind::Kernel => Some(MetricName::RelativeError),
            _ if group.rows.iter().any(|row| row.cell.workload.predicts_words()) => {
                Some(MetricName::Perplexity)
            }
            _ => Some(MetricName::TestAccuracy),
        };
        let rows: Vec<&Row<'_>> = lines.iter().filter_map(Line::any).collect();
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
            worth: worth.filter(|metric| groups.iter().any(|group| group.has(*metric))),
            lines: compare(runs, lines, group.speed, memory),
            most: usize::MAX,
            answer: Vec::new(),
            notes: Vec::new(),
        };
        comparison.answer = said::answer(&comparison);
        comparison.notes = said::notes(&comparison);
        comparison
    }

    /// The lines that tables show.
    pub fn shown(&self) -> &[Vec<Entry<'r, 'a>>] {
        &self.lines[..self.most.min(self.lines.len())]
    }

    /// Whether a run has none of its settings.
    pub fn lacks(&self, run: usize) -> bool {
        self.lines.iter().all(|line| line[run].row.is_none())
    }

    /// What tells a setting from its neighbours: `bf16-mixed · high · batch 8`.
    pub fn label(&self, row: &Row<'_>) -> String {
        label(&self.axes, row)
    }

    /// What of its setting decides how it rounds: `bf16-mixed · high · accumulator f16`.
    pub fn arithmetic(&self, row: &Row<'_>) -> String {
        let rounds = |axis: &Axis| matches!(axis, Axis::Precision | Axis::Matmul | Axis::Accumulator);
        label(&self.axes.iter().copied().filter(rounds).collect::<Vec<_>>(), row)
    }

    /// The scale on which a metric of a line is shown: one for its runs.
    pub fn scale(&self, metric: MetricName, line: &[Entry<'_, '_>]) -> Scale {
        let values = line
            .iter()
            .filter_map(|entry| Some(entry.row?.metric(metric)?.value.abs()));
        Scale::of(metric, values.fold(0.0, f64::max))
    }
}

/// Precision, and the axes in which these rows differ, but for those that follow from a backend.
fn axes(matched: &Matched<'_, '_>, rows: &[&Row<'_>]) -> Vec<Axis> {
    let left_out = matched.of_backend();
    let varies = |axis: Axis| {
        rows.windows(2)
            .any(|pair| pair[0].axis(axis) != pair[1].axis(axis))
    };
    let axes = Axis::ALL.iter().copied();
    axes.filter(|axis| !left_out.contains(axis) && (varies(*axis) || *axis == Axis::Precision))
        .collect()
}

/// The values of axes: `bf16-mixed · high · batch 8`.
fn label(axes: &[Axis], row: &Row<'_>) -> String {
    let setting = &row.cell.setting;
    let no_choice =
        !setting.precision().allows(MatmulPrecision::High) && setting.matmul() == MatmulPrecision::Highest;
    let part = |axis: &Axis| match axis {
        Axis::Precision | Axis::Matmul | Axis::Optimizer | Axis::Backend | Axis::Gelu => row.axis(*axis),
        _ => format!("{} {}", axis.name().replace('_', " "), row.axis(*axis)),
    };
    let shown = axes.iter().filter(|axis| **axis != Axis::Matmul || !no_choice);
    shown.map(part).collect::<Vec<_>>().join(" · ")
}

/// Settings of a workload that a single run tried, in words. Those that none tried are nobody's loss.
fn alone_in(matched: &Matched<'_, '_>, lines: &[Line<'_, '_>]) -> Vec<String> {
    let rows = matched.groups.iter().flatten().flat_map(|group| &group.rows);
    let axes = axes(matched, &rows.collect::<Vec<_>>());
    /// More of them are counted.
    const MOST: usize = 100;
    let told = |line: &Line<'_, '_>| {
        let run = line.rows.iter().position(|row| row.is_some_and(is_tried))?;
        let row = line.rows[run]?;
        let why = |other: usize| match line.rows[other] {
            Some(row) => format!("{} {}: {}", letter(other), row.status_name(), row.remark()),
            None => format!("not in {}", letter(other)),
        };
        let others = (0..line.rows.len()).filter(|other| *other != run);
        let why: Vec<String> = others.map(why).collect();
        let label = format!("{} {}", row.cell.workload.name, label(&axes, row));
        Some(format!("{label}: {} alone ({})", letter(run), why.join("; ")))
    };
    let mut all: Vec<String> = lines.iter().filter_map(told).collect();
    let more = all.len().saturating_sub(MOST);
    if more > 0 {
        all.truncate(MOST);
        all.push(format!(
            "{} more settings of {}",
            units::count(more as u64),
            matched.suite.name
        ));
    }
    all
}
