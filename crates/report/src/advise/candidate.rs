//! Candidate settings: rows that do the same work, with the seeds of one setting grouped together.

use mantissa_analysis::{Estimate, Sample, hodges_lehmann_ratio, mean_over_seeds};
use mantissa_core::{
    Axis, Better, CellId, MatmulPrecision, MetricName, Precision, Requested, Setting, Status,
};

use crate::{Group, Row, difference::difference};

/// Axes whose values change the work itself.
const WORK_AXES: [Axis; 3] = [Axis::Size, Axis::Sequence, Axis::Distribution];

/// Settings that do the same work.
#[derive(Debug)]
pub(crate) struct Work<'r, 'a> {
    /// Label that distinguishes this work from other work of the group, such as `size 1024 · distribution normal`. Empty if all
    /// settings do the same work.
    pub label: String,
    /// Settings that ran, in plan order.
    pub candidates: Vec<Candidate<'r, 'a>>,
}

/// A setting and the rows of its seeds.
#[derive(Debug)]
pub(crate) struct Candidate<'r, 'a> {
    /// Label that distinguishes the setting from others that do the same work.
    pub label: String,
    rows: Vec<&'r Row<'a>>,
    /// Baseline row with the same seed, for each row; `None` if the baseline did not finish for that seed.
    bases: Vec<Option<&'r Row<'a>>>,
    /// `true` if the other settings are compared with this one.
    pub is_baseline: bool,
}

/// Splits the rows of a group by the work they do.
pub(crate) fn works<'r, 'a>(group: &'r Group<'a>) -> Vec<Work<'r, 'a>> {
    let ran = |row: &&Row<'_>| row.status.is_some_and(|status| status != Status::Skipped);
    let mut works: Vec<Work<'r, 'a>> = Vec::new();
    for row in group.rows.iter().filter(ran) {
        let (work_label, label) = (work_label(group, row), setting_label(group, row));
        let found = works.iter().position(|work| work.label == work_label);
        let index = found.unwrap_or_else(|| {
            works.push(Work {
                label: work_label,
                candidates: Vec::new(),
            });
            works.len() - 1
        });
        let candidates = &mut works[index].candidates;
        match candidates.iter_mut().find(|candidate| candidate.label == label) {
            Some(candidate) => candidate.rows.push(row),
            None => candidates.push(Candidate {
                label,
                rows: vec![row],
                bases: Vec::new(),
                is_baseline: false,
            }),
        }
    }
    for work in &mut works {
        set_baselines(&mut work.candidates);
    }
    works
}

/// Sets the baseline row of each setting, seed by seed. All baseline rows belong to one setting. If that setting failed for a seed, the
/// seed has no baseline.
fn set_baselines(candidates: &mut [Candidate<'_, '_>]) {
    let Some(base) = choose_baseline(candidates) else {
        return;
    };
    let finished = candidates[base].rows.iter().filter(|row| row.is_ok());
    let finished: Vec<&Row<'_>> = finished.copied().collect();
    for (index, candidate) in candidates.iter_mut().enumerate() {
        let with_same_seed = |row: &&Row<'_>| {
            let found = finished.iter().find(|base| base.cell.seed == row.cell.seed);
            found.copied()
        };
        candidate.bases = candidate.rows.iter().map(with_same_seed).collect();
        candidate.is_baseline = index == base;
    }
}

/// Returns the first 32-true/highest setting that finished, or else the first setting that finished. Prefers settings that finished under
/// every seed.
fn choose_baseline(candidates: &[Candidate<'_, '_>]) -> Option<usize> {
    let is_f32 = |candidate: &Candidate<'_, '_>| {
        let setting = &candidate.row().cell.setting;
        setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest
    };
    let finished_seeds =
        |candidate: &Candidate<'_, '_>| candidate.rows.iter().filter(|row| row.is_ok()).count();
    let ran = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| finished_seeds(candidate) > 0);
    let best = ran.min_by_key(|(_, candidate)| {
        let unfinished = candidate.rows.len() - finished_seeds(candidate);
        (!is_f32(candidate), unfinished > 0)
    });
    best.map(|(index, _)| index)
}

/// Returns the label that distinguishes a setting from others that do the same work, or its precision if no axis varies.
pub(crate) fn setting_label(group: &Group<'_>, row: &Row<'_>) -> String {
    let left_out = [&WORK_AXES[..], &[Axis::Seed]].concat();
    let (setting, precision) = (&row.cell.setting, row.cell.setting.precision());
    if !group.axes.iter().all(|axis| left_out.contains(axis)) {
        return group.label(row, &left_out);
    }
    match setting.get(Axis::Matmul) {
        Some(matmul) if precision.allows(MatmulPrecision::High) => format!("{precision} · {matmul}"),
        _ => precision.name().to_owned(),
    }
}

/// Returns the label that distinguishes the work of a row from other work of the group.
fn work_label(group: &Group<'_>, row: &Row<'_>) -> String {
    let varying = WORK_AXES.iter().filter(|axis| group.varies(**axis));
    let parts: Vec<String> = varying
        .map(|axis| format!("{axis} {}", row.axis(*axis)))
        .collect();
    parts.join(" · ")
}

impl<'r, 'a> Candidate<'r, 'a> {
    /// Returns the first row. The rows differ only in their seeds.
    pub fn row(&self) -> &'r Row<'a> {
        self.rows[0]
    }

    /// Returns the rows, one per seed.
    pub fn rows(&self) -> &[&'r Row<'a>] {
        &self.rows
    }

    /// Returns the ids of the setting's cells.
    pub fn cells(&self) -> Vec<CellId> {
        self.rows.iter().map(|row| row.cell.id.clone()).collect()
    }

    /// Returns the number of processes over all seeds.
    pub fn processes(&self) -> usize {
        self.rows.iter().map(|row| row.processes()).sum()
    }

    /// Returns the finite values that the processes of all seeds recorded for a metric.
    pub fn values(&self, metric: MetricName) -> Vec<f64> {
        let values = self.rows.iter().flat_map(|row| row.values(metric));
        values.filter(|value| value.is_finite()).collect()
    }

    /// Returns the median over processes.
    pub fn median(&self, metric: MetricName) -> Option<f64> {
        Some(Sample::new(self.values(metric))?.median())
    }

    /// Returns the maximum over processes.
    pub fn maximum(&self, metric: MetricName) -> Option<f64> {
        self.values(metric).into_iter().max_by(f64::total_cmp)
    }

    /// Returns each row with its baseline row. Skips the seeds for which the baseline did not finish.
    pub fn pairs(&self) -> impl Iterator<Item = (&'r Row<'a>, &'r Row<'a>)> {
        let rows = self.rows.iter().zip(&self.bases);
        rows.filter_map(|(row, base)| Some((*row, (*base)?)))
    }

    /// Returns the number of seeds for which the baseline did not finish.
    pub fn seeds_without_baseline(&self) -> usize {
        self.rows.len() - self.pairs().count()
    }

    /// Returns the values of a metric of the setting and of its baseline, for the seeds that both finished.
    fn values_with_baseline(&self, metric: MetricName) -> (Vec<f64>, Vec<f64>) {
        let mine = self.pairs().flat_map(|(row, _)| row.values(metric)).collect();
        let theirs = self.pairs().flat_map(|(_, base)| base.values(metric)).collect();
        (mine, theirs)
    }

    /// Returns the ratio of a metric to that of the baseline.
    pub fn ratio(&self, metric: MetricName) -> Option<Estimate> {
        let (mine, theirs) = self.values_with_baseline(metric);
        hodges_lehmann_ratio(&mine, &theirs)
    }

    /// Returns the ratio by which the setting is faster or cheaper than its baseline; above 1 if it is better.
    pub fn advantage(&self, metric: MetricName) -> Option<Estimate> {
        let (mine, theirs) = self.values_with_baseline(metric);
        match metric.better() {
            Better::Higher => hodges_lehmann_ratio(&mine, &theirs),
            Better::Lower => hodges_lehmann_ratio(&theirs, &mine),
        }
    }

    /// Returns the accuracy lost against the baseline as a share of the examples, positive if the setting is worse. `None` unless the loss
    /// is known for every seed. Tests of claims about accuracies use the same interval.
    pub fn loss(&self) -> Option<Estimate> {
        let losses: Option<Vec<Estimate>> = self
            .rows
            .iter()
            .zip(&self.bases)
            .map(|(row, base)| difference((*base)?, row, MetricName::TestAccuracy))
            .collect();
        mean_over_seeds(&losses?)
    }

    /// Returns the distance from the baseline: first the number of bits by which weights and operands are narrower, then the number of axes
    /// that differ. The baseline itself has the smallest distance.
    pub fn distance(&self) -> (u32, usize) {
        let Some((row, base)) = self.pairs().next() else {
            return (u32::MAX, usize::MAX);
        };
        let fewer =
            |bits: fn(&Setting) -> u32| bits(&base.cell.setting).saturating_sub(bits(&row.cell.setting));
        let lost_bits = fewer(|setting| setting.precision().parameters().significand_bits())
            + fewer(|setting| setting.precision().parameters().exponent_bits())
            + fewer(|setting| Requested::of(setting).operand_bits)
            + fewer(|setting| Requested::of(setting).exponent_bits);
        let differs = |axis: &&Axis| row.axis(**axis) != base.axis(**axis);
        (lost_bits, Axis::ALL.iter().filter(differs).count())
    }

    /// Returns the status and reason of the first seed that did not finish; `None` if all finished.
    pub fn failure(&self) -> Option<String> {
        let unfinished: Vec<&&Row<'_>> = self.rows.iter().filter(|row| !row.is_ok()).collect();
        let first = unfinished.first()?;
        let of_seeds = match self.rows.len() {
            1 => String::new(),
            seeds => format!(" for {} of {seeds} seeds", unfinished.len()),
        };
        let why = first
            .reason
            .as_deref()
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        Some(format!("{}{of_seeds}{why}", first.status_name()))
    }
}
