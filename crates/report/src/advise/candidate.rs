//! The settings that there are to choose from: rows that do the same work, seeds of one setting together.

use mantissa_analysis::{Estimate, Sample, hodges_lehmann_ratio, mean_over_seeds};
use mantissa_core::{
    Axis, Better, CellId, MatmulPrecision, MetricName, Precision, Requested, Setting, Status,
};

use crate::{Group, Row, difference::difference};

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
    /// Its name within the work.
    pub label: String,
    rows: Vec<&'r Row<'a>>,
    /// The row of the baseline under the seed of each of them; absent where that did not run to its end.
    bases: Vec<Option<&'r Row<'a>>>,
    /// Whether it is what others are compared with.
    pub is_baseline: bool,
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
                label,
                rows: vec![row],
                bases: Vec::new(),
                is_baseline: false,
            }),
        }
    }
    for work in &mut works {
        compare(&mut work.candidates);
    }
    works
}

/// Gives every setting the rows that it is compared with, seed by seed: those of one setting, so that where it failed under a seed
/// nothing else takes its place.
fn compare(candidates: &mut [Candidate<'_, '_>]) {
    let Some(base) = baseline(candidates) else { return };
    let sound = candidates[base].rows.iter().filter(|row| row.is_ok());
    let sound: Vec<&Row<'_>> = sound.copied().collect();
    for (index, candidate) in candidates.iter_mut().enumerate() {
        let under_its_seed = |row: &&Row<'_>| {
            let found = sound.iter().find(|base| base.cell.seed == row.cell.seed);
            found.copied()
        };
        candidate.bases = candidate.rows.iter().map(under_its_seed).collect();
        candidate.is_baseline = index == base;
    }
}

/// The first setting under 32-true and highest, one that ran to its end under every seed before another; else the first that ran.
fn baseline(candidates: &[Candidate<'_, '_>]) -> Option<usize> {
    let is_f32 = |candidate: &Candidate<'_, '_>| {
        let setting = &candidate.row().cell.setting;
        setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest
    };
    let seeds = |candidate: &Candidate<'_, '_>| candidate.rows.iter().filter(|row| row.is_ok()).count();
    let ran = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| seeds(candidate) > 0);
    let best = ran.min_by_key(|(_, candidate)| {
        let gaps = candidate.rows.len() - seeds(candidate);
        (!is_f32(candidate), gaps > 0)
    });
    best.map(|(index, _)| index)
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

    /// Its rows beside those of the baseline, under the seeds that the baseline ran to its end.
    pub fn pairs(&self) -> impl Iterator<Item = (&'r Row<'a>, &'r Row<'a>)> {
        let rows = self.rows.iter().zip(&self.bases);
        rows.filter_map(|(row, base)| Some((*row, (*base)?)))
    }

    /// Under how many of its seeds the baseline has no end that it could be compared with.
    pub fn without_baseline(&self) -> usize {
        self.rows.len() - self.pairs().count()
    }

    /// What it and its baseline recorded of a metric under the same seeds.
    fn beside(&self, metric: MetricName) -> (Vec<f64>, Vec<f64>) {
        let mine = self.pairs().flat_map(|(row, _)| row.values(metric)).collect();
        let theirs = self.pairs().flat_map(|(_, base)| base.values(metric)).collect();
        (mine, theirs)
    }

    /// A metric over that of its baseline.
    pub fn ratio(&self, metric: MetricName) -> Option<Estimate> {
        let (mine, theirs) = self.beside(metric);
        hodges_lehmann_ratio(&mine, &theirs)
    }

    /// How many times as fast, or as cheap, as its baseline.
    pub fn advantage(&self, metric: MetricName) -> Option<Estimate> {
        let (mine, theirs) = self.beside(metric);
        match metric.better() {
            Better::Higher => hodges_lehmann_ratio(&mine, &theirs),
            Better::Lower => hodges_lehmann_ratio(&theirs, &mine),
        }
    }

    /// The accuracy that it costs against its baseline, a share of the examples, positive where it is worse; absent unless it is known of
    /// every seed. Claims of accuracies are tested by the same interval.
    pub fn loss(&self) -> Option<Estimate> {
        let losses: Option<Vec<Estimate>> = self
            .rows
            .iter()
            .zip(&self.bases)
            .map(|(row, base)| difference((*base)?, row, MetricName::TestAccuracy))
            .collect();
        mean_over_seeds(&losses?)
    }

    /// What it changes of the baseline: the bits of weights and of operands that it gives up, then the axes that differ. The
    /// baseline changes least.
    pub fn distance(&self) -> (u32, usize) {
        let Some((row, base)) = self.pairs().next() else {
            return (u32::MAX, usize::MAX);
        };
        let fewer = |of: fn(&Setting) -> u32| of(&base.cell.setting).saturating_sub(of(&row.cell.setting));
        let lost = fewer(|setting| setting.precision().parameters().significand_bits())
            + fewer(|setting| setting.precision().parameters().exponent_bits())
            + fewer(|setting| Requested::of(setting).operand_bits)
            + fewer(|setting| Requested::of(setting).exponent_bits);
        let differs = |axis: &&Axis| row.axis(**axis) != base.axis(**axis);
        (lost, Axis::ALL.iter().filter(differs).count())
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
