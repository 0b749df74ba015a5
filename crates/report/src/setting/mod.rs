//! A setting: the cells of a workload that differ only in the seed, and their comparison with the baseline.

mod accuracy_verdict;
mod comparison;
mod label;
mod ratio_text;
mod spot;

pub(crate) use accuracy_verdict::{AccuracyVerdict, accuracy_change};
pub(crate) use comparison::{
    Comparison, MIN_EXAMPLES, SPEED_THRESHOLD, WORK_AXES, compare, has_accuracy, ratio_to_baseline, speeds,
};
pub(crate) use label::{label_within_work, precision_label};
pub(crate) use ratio_text::{certainty, memory_text, ratio_text};
pub(crate) use spot::Spot;

use mantissa_analysis::{Doubt, Estimate, Verdict, hodges_lehmann_ratio};
use mantissa_core::{Axis, Better, CellId, MetricName, Requested, Setting, TaskKind};

use crate::{Group, Row, comparability::is_comparable, row::varies};

/// Mark of times of more threads than cores.
pub(crate) const OVERSUBSCRIBED: &str = "oversubscribed";

/// Cells that differ only in the seed. Tables, figures, headlines and advice take every number of a setting from here.
#[derive(Debug, Clone)]
pub(crate) struct SettingResult<'g, 'a> {
    comparison: &'g Comparison,
    /// Rows of the seeds that ran, or of all seeds if none ran; never empty.
    pub seeds: Vec<&'g Row<'a>>,
    /// Baseline row with the same seed, for each of [`Self::seeds`]; `None` if the baseline did not finish for that seed.
    bases: Vec<Option<&'g Row<'a>>>,
    /// Label that distinguishes the setting from the others of the selection.
    pub label: String,
}

impl<'g, 'a> SettingResult<'g, 'a> {
    /// Returns the settings of a group with a row that `accepts`, in plan order. The labels leave out axes that do not vary between them.
    pub fn all(group: &'g Group<'a>, accepts: impl Fn(&Row<'a>) -> bool) -> Vec<Self> {
        let mut settings: Vec<Self> = group
            .comparisons
            .iter()
            .filter(|comparison| comparison.rows.iter().any(|row| accepts(&group.rows[*row])))
            .map(|comparison| Self::new(group, comparison))
            .collect();
        set_labels(group, &mut settings);
        settings
    }

    fn new(group: &'g Group<'a>, comparison: &'g Comparison) -> Self {
        let row = |index: usize| &group.rows[index];
        let both = || comparison.rows.iter().zip(&comparison.baselines);
        let any_ran = both().any(|(index, _)| row(*index).ran());
        let known = both().filter(|(index, _)| !any_ran || row(**index).ran());
        let (seeds, bases) = known.map(|(index, base)| (row(*index), base.map(row))).unzip();
        Self {
            comparison,
            seeds,
            bases,
            label: String::new(),
        }
    }

    /// Returns the row of the first seed that finished, or of the first seed if none did. The rows have the same setting.
    pub fn row(&self) -> &'g Row<'a> {
        let finished = self.seeds.iter().find(|row| row.is_ok());
        finished.unwrap_or(&self.seeds[0])
    }

    /// Returns `true` if the times of a seed are those of more threads than cores.
    pub fn is_oversubscribed(&self) -> bool {
        self.effective_seeds().any(Row::is_oversubscribed)
    }

    /// Returns the label for a figure of times, with a mark if the setting is oversubscribed.
    pub fn label_of_times(&self) -> String {
        match self.is_oversubscribed() {
            true => format!("{} · {OVERSUBSCRIBED}", self.label),
            false => self.label.clone(),
        }
    }

    /// Returns the number of seeds of the plan that did not run, although others of the setting did.
    pub fn missing_seeds(&self) -> usize {
        self.comparison.rows.len() - self.seeds.len()
    }

    /// Returns the ids of the setting's cells.
    pub fn cells(&self) -> Vec<CellId> {
        self.seeds.iter().map(|row| row.cell.id.clone()).collect()
    }

    /// Returns the seeds that finished, or all seeds if none did. All estimates are computed from these.
    pub fn effective_seeds(&self) -> impl Iterator<Item = &'g Row<'a>> {
        let any = self.seeds.iter().any(|row| row.is_ok());
        self.seeds.iter().copied().filter(move |row| !any || row.is_ok())
    }

    /// Returns each effective seed with the baseline row of the same seed. Skips the seeds for which the baseline did not finish.
    pub fn pairs(&self) -> impl Iterator<Item = (&'g Row<'a>, &'g Row<'a>)> {
        let any = self.seeds.iter().any(|row| row.is_ok());
        let both = self.seeds.iter().zip(&self.bases);
        both.filter(move |(row, _)| !any || row.is_ok())
            .filter_map(|(row, base)| Some((*row, (*base)?)))
    }

    /// Returns the number of seeds for which the baseline did not finish.
    pub fn seeds_without_baseline(&self) -> usize {
        self.bases.iter().filter(|base| base.is_none()).count()
    }

    /// Returns `true` if the other settings of the work are compared with this one.
    pub fn is_baseline(&self) -> bool {
        self.comparison.is_baseline
    }

    /// Returns the index of the work: settings with the same index do the same work.
    pub fn work(&self) -> usize {
        self.comparison.work
    }

    /// Returns the number of processes over all seeds that ran.
    pub fn processes(&self) -> usize {
        let seeds = self.seeds.iter().filter(|row| row.ran());
        seeds.map(|row| row.processes()).sum()
    }

    /// Returns the finite values that the processes of all effective seeds recorded for a metric.
    pub fn values(&self, metric: MetricName) -> Vec<f64> {
        let values = self.effective_seeds().flat_map(|row| row.values(metric));
        values.filter(|value| value.is_finite()).collect()
    }

    /// Returns the maximum over processes.
    pub fn maximum(&self, metric: MetricName) -> Option<f64> {
        self.values(metric).into_iter().max_by(f64::total_cmp)
    }

    /// Returns the value of a metric. With one seed, this is the estimate of its row. With several, this is the mean over seeds of an accuracy,
    /// a loss or a perplexity and the median over seeds of any other metric, with the range over seeds as whiskers. `None` for a test accuracy
    /// over too few examples.
    pub fn spot(&self, metric: MetricName) -> Option<Spot> {
        let spots: Vec<Spot> = self
            .effective_seeds()
            .filter(|row| metric != MetricName::TestAccuracy || has_accuracy(row))
            .filter_map(|row| Spot::of(row.metric(metric)?))
            .collect();
        Spot::over_seeds(&spots, metric.is_learned())
    }

    /// Returns the estimate of the only effective seed; With several seeds, returns `None`; [`Self::spot`] then has the value.
    pub fn estimate(&self, metric: MetricName) -> Option<&'g Estimate> {
        let mut seeds = self.effective_seeds();
        match (seeds.next(), seeds.next()) {
            (Some(only), None) if metric != MetricName::TestAccuracy || has_accuracy(only) => {
                only.metric(metric)
            }
            _ => None,
        }
    }

    /// Returns `true` if a test accuracy was recorded, but over too few examples to be shown.
    pub fn has_too_few_examples(&self) -> bool {
        let mut seeds = self.effective_seeds();
        let recorded = |row: &Row<'_>| row.metric(MetricName::TestAccuracy).is_some();
        seeds.any(|row| recorded(row) && !has_accuracy(row))
    }

    /// Returns the value of [`Self::spot`].
    pub fn value(&self, metric: MetricName) -> Option<f64> {
        self.spot(metric).map(|spot| spot.value)
    }

    /// Returns the bytes moved per second relative to a copy of the same size in the same processes.
    pub fn copy_share(&self) -> Option<f64> {
        Some(self.value(MetricName::BytesPerSecond)? / self.value(MetricName::CopyBytesPerSecond)?)
    }

    /// Returns the change of the perplexity against the baseline, as a share. `None` for the baseline.
    pub fn perplexity_change(&self) -> Option<f64> {
        let ratio = self
            .ratio(MetricName::Perplexity)
            .filter(|_| !self.is_baseline())?;
        Some(ratio.value - 1.0)
    }

    /// Returns the speed relative to the baseline over the processes of both, for the seeds that both finished.
    pub fn speed_up(&self) -> Option<&'g Estimate> {
        self.comparison.speed_up.as_ref()
    }

    /// Returns the verdict on the speed relative to the baseline. Its p-value is Holm-corrected over all comparisons of the table.
    pub fn speed_verdict(&self) -> Option<Verdict> {
        self.comparison.speed_verdict
    }

    /// Returns [`Self::speed_verdict`], unless there are too few processes for a test.
    pub fn tested_speed_verdict(&self) -> Option<Verdict> {
        let few = Verdict::Inconclusive(Doubt::TooFewRepeats);
        self.speed_verdict().filter(|verdict| *verdict != few)
    }

    /// Returns the peak memory relative to the baseline.
    pub fn memory_ratio(&self) -> Option<&'g Estimate> {
        self.comparison.memory_ratio.as_ref()
    }

    /// Returns the test accuracy lost against the baseline as a share of the examples, positive if the setting is worse: the mean over the
    /// seeds. `None` unless the loss is known for every seed.
    pub fn accuracy_loss(&self) -> Option<&'g Estimate> {
        self.comparison.accuracy_loss.as_ref()
    }

    /// Returns the verdict on the test accuracy; `None` for the baseline and if the accuracies were not measured.
    pub fn accuracy_verdict(&self) -> Option<AccuracyVerdict> {
        self.accuracy_loss()
            .filter(|_| !self.is_baseline())
            .map(AccuracyVerdict::of)
    }

    /// Returns `true` for a training under one seed, whose accuracy another seed may change by more than its interval over test examples.
    pub fn is_trained_once(&self) -> bool {
        self.row().cell.workload.kind() == TaskKind::Train && self.effective_seeds().count() == 1
    }

    /// Formats the largest loss of accuracy that the data does not exclude: `loss of up to 0.62 points not excluded`. `None` for the baseline,
    /// without an interval, and if a relevant loss is shown.
    pub fn loss_not_excluded(&self) -> Option<String> {
        let verdict = self.accuracy_verdict().filter(|_| self.failure().is_none())?;
        let loss = self
            .accuracy_loss()
            .filter(|_| verdict != AccuracyVerdict::Lost)?;
        let high = 100.0 * loss.interval?.high;
        Some(match high > 0.0 {
            true => format!("loss of up to {high:.2} points not excluded"),
            false => "every loss excluded".to_owned(),
        })
    }

    /// Returns the violated expectations of the suite, or else the reason for the status of the first seed that did not finish.
    pub fn remark(&self) -> String {
        let unexpected = self.seeds.iter().find(|row| !row.unexpected.is_empty());
        let unfinished = self.seeds.iter().find(|row| !row.is_ok());
        unexpected
            .or(unfinished)
            .map(|row| row.remark())
            .unwrap_or_default()
    }

    /// Returns the notes on the seeds, each once.
    pub fn notes(&self) -> Vec<&'g str> {
        let mut notes: Vec<&str> = Vec::new();
        for note in self.seeds.iter().flat_map(|row| &row.notes) {
            if !notes.contains(&note.as_str()) {
                notes.push(note);
            }
        }
        notes
    }

    /// Returns the values of a metric of the setting and of its baseline, for the seeds that both finished.
    pub fn values_with_baseline(&self, metric: MetricName) -> [Vec<f64>; 2] {
        [
            self.pairs().flat_map(|(row, _)| row.values(metric)).collect(),
            self.pairs().flat_map(|(_, base)| base.values(metric)).collect(),
        ]
    }

    /// Returns the ratio of a metric to that of another setting: the Hodges–Lehmann ratio between the processes of the seeds that both
    /// finished. `None` if the metric of the settings is not comparable (see [`is_comparable`]).
    pub fn ratio_to(&self, other: &Self, metric: MetricName) -> Option<Estimate> {
        if !is_comparable(metric, self.row(), other.row()) {
            return None;
        }
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for row in self.effective_seeds() {
            let mut others = other.effective_seeds();
            if let Some(same_seed) = others.find(|other| other.cell.seed == row.cell.seed) {
                mine.extend(row.values(metric));
                theirs.extend(same_seed.values(metric));
            }
        }
        hodges_lehmann_ratio(&mine, &theirs)
    }

    /// Returns `true` if a metric can be compared with that of the baseline.
    pub fn is_comparable_with_baseline(&self, metric: MetricName) -> bool {
        self.pairs().all(|(row, base)| is_comparable(metric, row, base))
    }

    /// Returns the ratio of a metric to the baseline's; `None` if it is not comparable.
    pub fn ratio(&self, metric: MetricName) -> Option<Estimate> {
        if !self.is_comparable_with_baseline(metric) {
            return None;
        }
        let [mine, theirs] = self.values_with_baseline(metric);
        ratio_to_baseline(&mine, &theirs, self.is_baseline())
    }

    /// Returns the ratio by which the setting is faster or cheaper than its baseline; above 1 if it is better. `None` if the metric is not
    /// comparable.
    pub fn advantage(&self, metric: MetricName) -> Option<Estimate> {
        if !self.is_comparable_with_baseline(metric) {
            return None;
        }
        let [mine, theirs] = self.values_with_baseline(metric);
        match metric.better() {
            Better::Higher => ratio_to_baseline(&mine, &theirs, self.is_baseline()),
            Better::Lower => ratio_to_baseline(&theirs, &mine, self.is_baseline()),
        }
    }

    /// Returns the distance from the baseline: the bits of weights and operands that the setting gives up, then the number of axes that
    /// differ. The baseline itself has the smallest distance.
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

    /// Returns the status of the first seed that did not finish; `None` if all finished.
    pub fn failure(&self) -> Option<&'static str> {
        self.seeds
            .iter()
            .find(|row| !row.is_ok())
            .map(|row| row.status_name())
    }

    /// Returns the status from [`Self::failure`], with a count if several seeds ran: `1 of 3 diverged`.
    pub fn failure_text(&self) -> Option<String> {
        let status = self.failure()?;
        let count = self
            .seeds
            .iter()
            .filter(|row| row.status_name() == status)
            .count();
        let seeds = self.seeds.len();
        Some(match seeds > 1 && self.seeds.iter().any(|row| row.ran()) {
            true => format!("{count} of {seeds} {status}"),
            false => status.to_owned(),
        })
    }

    /// Returns the statuses of the seeds that did not finish, each with its number of seeds and the reason of the first:
    /// `diverged for 1 of 3 seeds: the loss is not finite`. `None` if all finished.
    pub fn failure_with_reason(&self) -> Option<String> {
        let unfinished = || self.seeds.iter().filter(|row| !row.is_ok());
        let mut statuses: Vec<&str> = Vec::new();
        for row in unfinished() {
            if !statuses.contains(&row.status_name()) {
                statuses.push(row.status_name());
            }
        }
        let describe = |status: &&str| {
            let with_status: Vec<_> = unfinished().filter(|row| row.status_name() == *status).collect();
            let of_seeds = match self.seeds.len() {
                1 => String::new(),
                seeds => format!(" for {} of {seeds} seeds", with_status.len()),
            };
            let why = with_status.first().and_then(|row| row.reason.as_deref());
            let why = why.map(|why| format!(": {why}"));
            format!("{status}{of_seeds}{}", why.unwrap_or_default())
        };
        let texts: Vec<String> = statuses.iter().map(describe).collect();
        (!texts.is_empty()).then(|| texts.join("; "))
    }
}

/// Sets the labels, which contain only axes that vary between the settings.
fn set_labels(group: &Group<'_>, settings: &mut [SettingResult<'_, '_>]) {
    let left_out: Vec<Axis> = Axis::ALL
        .iter()
        .copied()
        .filter(|axis| {
            let rows = settings.iter().map(SettingResult::row);
            *axis == Axis::Seed || !varies(rows, *axis)
        })
        .collect();
    for setting in settings {
        let label = group.label(setting.row(), &left_out);
        setting.label = match label.is_empty() {
            true => setting.row().cell.setting.precision().name().to_owned(),
            false => label,
        };
    }
}
