//! The settings that there are to choose from: rows that do the same work, seeds of one setting together.

use mantissa_analysis::{Estimate, Sample, hodges_lehmann_ratio};
use mantissa_core::{Axis, Better, CellId, MatmulPrecision, MetricName, Status};

use super::loss;
use crate::{Group, Row};

/// Axes that make the work another one, whatever the setting.
const OF_THE_WORK: [Axis; 3] = [Axis::Size, Axis::Sequence, Axis::Distribution];

/// Settings that do the same work.
#[derive(Debug)]
pub(crate) struct Work<'r, 'a> {
    /// What tells it from the group's other work: `size 1024 · distribution normal`; empty if there is no other.
    pub place: String,
    /// Its settings, in plan order; those of which nothing ran are left out.
    pub candidates: Vec<Candidate<'r, 'a>>,
}

/// A setting with the rows of its seeds.
#[derive(Debug)]
pub(crate) struct Candidate<'r, 'a> {
    group: &'r Group<'a>,
    /// Its name within the work.
    pub label: String,
    rows: Vec<&'r Row<'a>>,
}

/// The work of a group.
pub(crate) fn works<'r, 'a>(group: &'r Group<'a>) -> Vec<Work<'r, 'a>> {
    let ran = |row: &&Row<'_>| row.status.is_some_and(|status| status != Status::Skipped);
    let mut works: Vec<Work<'r, 'a>> = Vec::new();
    for row in group.rows.iter().filter(ran) {
        let (place, label) = (place(group, row), name(group, row));
        let found = works.iter().position(|work| work.place == place);
        let at = found.unwrap_or_else(|| {
            works.push(Work {
                place,
                candidates: Vec::new(),
            });
            works.len() - 1
        });
        let candidates = &mut works[at].candidates;
        match candidates.iter_mut().find(|candidate| candidate.label == label) {
            Some(candidate) => candidate.rows.push(row),
            None => candidates.push(Candidate {
                group,
                label,
                rows: vec![row],
            }),
        }
    }
    works
}

/// What distinguishes a setting from others that do the same work; its arithmetic, if nothing else does.
pub(crate) fn name(group: &Group<'_>, row: &Row<'_>) -> String {
    let left_out = [&OF_THE_WORK[..], &[Axis::Seed]].concat();
    let (setting, precision) = (&row.cell.setting, row.cell.setting.precision());
    if !group.axes.iter().all(|axis| left_out.contains(axis)) {
        return group.label(row, &left_out);
    }
    match setting.get(Axis::Matmul) {
        Some(matmul) if precision.allows(MatmulPrecision::High) => format!("{precision} · {matmul}"),
        _ => precision.name().to_owned(),
    }
}

fn place(group: &Group<'_>, row: &Row<'_>) -> String {
    let varying = OF_THE_WORK.iter().filter(|axis| group.varies(**axis));
    let parts: Vec<String> = varying
        .map(|axis| format!("{axis} {}", row.axis(*axis)))
        .collect();
    parts.join(" · ")
}

impl<'r, 'a> Candidate<'r, 'a> {
    /// A row of it; they differ in their seeds alone.
    pub fn row(&self) -> &'r Row<'a> {
        self.rows[0]
    }

    /// Its rows, a seed each.
    pub fn rows(&self) -> &[&'r Row<'a>] {
        &self.rows
    }

    /// The cells that it rests on.
    pub fn cells(&self) -> Vec<CellId> {
        self.rows.iter().map(|row| row.cell.id.clone()).collect()
    }

    /// Its processes, over all seeds.
    pub fn processes(&self) -> usize {
        self.rows.iter().map(|row| row.processes()).sum()
    }

    /// What its processes recorded of a metric, over all seeds.
    pub fn values(&self, metric: MetricName) -> Vec<f64> {
        let values = self.rows.iter().flat_map(|row| row.values(metric));
        values.filter(|value| value.is_finite()).collect()
    }

    /// The median over processes.
    pub fn median(&self, metric: MetricName) -> Option<f64> {
        Some(Sample::new(self.values(metric))?.median())
    }

    /// The highest that a process reached.
    pub fn highest(&self, metric: MetricName) -> Option<f64> {
        self.values(metric).into_iter().max_by(f64::total_cmp)
    }

    /// Whether it is what others are compared with.
    pub fn is_baseline(&self) -> bool {
        let base = |row: &&Row<'_>| self.base(row).is_some_and(|base| base.cell.id == row.cell.id);
        self.rows.iter().all(base)
    }

    fn base(&self, row: &Row<'_>) -> Option<&'r Row<'a>> {
        Some(&self.group.rows[row.baseline?])
    }

    /// The rows that it is compared with, seed by seed.
    pub fn baselines(&self) -> Vec<&'r Row<'a>> {
        self.rows.iter().filter_map(|row| self.base(row)).collect()
    }

    /// A metric over that of its baseline.
    pub fn ratio(&self, metric: MetricName) -> Option<Estimate> {
        let theirs: Vec<f64> = self
            .baselines()
            .iter()
            .flat_map(|row| row.values(metric))
            .collect();
        hodges_lehmann_ratio(&self.values(metric), &theirs)
    }

    /// How many times as fast, or as cheap, as its baseline.
    pub fn advantage(&self, metric: MetricName) -> Option<Estimate> {
        let theirs: Vec<f64> = self
            .baselines()
            .iter()
            .flat_map(|row| row.values(metric))
            .collect();
        match metric.better() {
            Better::Higher => hodges_lehmann_ratio(&self.values(metric), &theirs),
            Better::Lower => hodges_lehmann_ratio(&theirs, &self.values(metric)),
        }
    }

    /// The accuracy that it costs against its baseline; absent unless it is known of every seed.
    pub fn loss(&self) -> Option<Estimate> {
        let losses: Option<Vec<Estimate>> = self
            .rows
            .iter()
            .map(|row| loss::of_row(row, self.base(row)?))
            .collect();
        loss::over_seeds(&losses?)
    }

    /// How it ended, unless every seed ran to its end.
    pub fn ended(&self) -> Option<String> {
        let short: Vec<&&Row<'_>> = self.rows.iter().filter(|row| !row.is_ok()).collect();
        let first = short.first()?;
        let of_seeds = match self.rows.len() {
            1 => String::new(),
            seeds => format!(" under {} of {seeds} seeds", short.len()),
        };
        let why = first
            .reason
            .as_deref()
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        Some(format!("{}{of_seeds}{why}", first.status_name()))
    }
}
