//! Selects the settings within the budget and chooses the cheapest of them. A cost is *shown* to be higher, lower or equal if the verdict
//! of [`judge`] is conclusive.

use mantissa_analysis::{Estimate, Groups, Verdict, judge, pareto};
use mantissa_core::{Better, ExecutedVerdict, MetricName, Record, TaskKind};

use super::{
    Budget, Goal,
    work::{Work, works},
};
use crate::{
    Group, Row,
    comparability::{depends_on_speed, is_of_rank_0, is_same_rank_0},
    setting::{SPEED_THRESHOLD, SettingResult, accuracy_change, has_accuracy},
    units,
};

/// A setting and its assessment against the budget.
#[derive(Debug)]
pub(crate) struct Assessed<'r, 'a> {
    /// The setting.
    pub candidate: SettingResult<'r, 'a>,
    /// Accuracy lost, as a share; `None` for kernels.
    pub loss: Option<Estimate>,
    /// Reasons why the setting is not within the budget; empty if it is.
    pub reasons: Vec<String>,
    /// `true` if the cost can be compared with that of other settings (see [`incomparable_cost`]).
    pub has_comparable_cost: bool,
}

impl Assessed<'_, '_> {
    /// Returns `true` if the setting is within the budget.
    pub fn is_within_budget(&self) -> bool {
        self.reasons.is_empty()
    }
}

/// Settings that do the same work (see [`Work`]), and the choice among them.
#[derive(Debug)]
pub(crate) struct Choice<'r, 'a> {
    /// Label that distinguishes the work from other work of the group.
    pub label: String,
    /// Metric to minimize, or to maximize if it is a rate; `None` if no suitable metric was recorded.
    pub cost: Option<MetricName>,
    /// `true` if the quality of the results was measured: an accuracy, or the error of a kernel.
    pub is_quality_measured: bool,
    /// Every setting that ran.
    pub assessed: Vec<Assessed<'r, 'a>>,
    /// Index of the chosen setting (see [`choose_cheapest`]); `None` if no setting was chosen.
    pub chosen: Option<usize>,
    /// `true` if the chosen setting is the one nearest to the baseline among those shown to be equally cheap.
    pub is_nearest: bool,
    /// The other settings within the budget, each with its verdict against the chosen one. `Regressed` means significantly costlier.
    pub rivals: Vec<(usize, Verdict)>,
    /// Pareto front of speed and error, used if no error limit was given.
    pub front: Vec<usize>,
}

impl Choice<'_, '_> {
    /// Returns the only setting that finished; `None` if several or none did.
    pub fn only_finished(&self) -> Option<&SettingResult<'_, '_>> {
        let candidates = self.assessed.iter().map(|one| &one.candidate);
        let mut finished = candidates.filter(|candidate| candidate.failure().is_none());
        let only = finished.next();
        only.filter(|_| finished.next().is_none())
    }

    /// Returns `true` if a cost depends on the speed and all settings that finished have more threads than cores, so that none of their costs
    /// is comparable.
    pub fn is_oversubscribed(&self, cost: MetricName) -> bool {
        let mut finished = self
            .assessed
            .iter()
            .filter(|one| one.candidate.failure().is_none());
        depends_on_speed(cost) && finished.all(|one| one.candidate.is_oversubscribed())
    }

    /// Returns the chosen setting.
    pub fn chosen(&self) -> Option<&Assessed<'_, '_>> {
        self.assessed.get(self.chosen?)
    }

    /// Returns `true` if the chosen setting is the baseline or is shown to be cheaper than the baseline. If the baseline is not within the
    /// budget, all other settings within the budget must be shown to be equal or costlier instead.
    pub fn is_shown(&self) -> bool {
        self.is_shown_against(self.chosen, &self.rivals)
    }

    fn is_shown_against(&self, chosen: Option<usize>, rivals: &[(usize, Verdict)]) -> bool {
        let is_baseline = |index: usize| self.assessed[index].candidate.is_baseline();
        let base = rivals.iter().find(|(index, _)| is_baseline(*index));
        match base {
            _ if chosen.is_some_and(is_baseline) => true,
            Some((_, verdict)) => *verdict == Verdict::Regressed,
            None => rivals
                .iter()
                .all(|(_, verdict)| matches!(verdict, Verdict::Regressed | Verdict::Unchanged)),
        }
    }

    /// Returns the other settings within the budget that are not shown to be costlier than the chosen one, cheapest first.
    pub fn equals(&self) -> impl Iterator<Item = usize> {
        let equals = self
            .rivals
            .iter()
            .filter(|(_, verdict)| *verdict != Verdict::Regressed);
        equals.map(|(index, _)| *index)
    }
}

/// Returns the metric that measures the cost of a setting.
///
/// Kernels and generations are not compared by energy, because the recorded energy covers all sampled launches, and settings differ in the
/// number of launches.
pub(crate) fn cost(group: &Group<'_>, goal: Goal) -> Option<MetricName> {
    let energies = [MetricName::EnergyCounterJoules, MetricName::EnergyIntegralJoules];
    match goal {
        Goal::Time => Some(group.speed),
        Goal::Memory => group.memory,
        Goal::Energy => match group.kind {
            TaskKind::Train | TaskKind::Evaluate => energies.into_iter().find(|metric| group.has(*metric)),
            TaskKind::Generate | TaskKind::Kernel => None,
        },
    }
}

/// Returns the choice for each kind of work of a group.
pub(crate) fn choices<'r, 'a>(group: &'r Group<'a>, budget: &Budget) -> Vec<Choice<'r, 'a>> {
    let works = works(group).into_iter();
    works.map(|work| choose(group, work, budget)).collect()
}

/// Assesses the settings against the budget and chooses among them.
fn choose<'r, 'a>(group: &Group<'_>, work: Work<'r, 'a>, budget: &Budget) -> Choice<'r, 'a> {
    let cost = cost(group, budget.minimise);
    let is_quality_measured = is_quality_measured(group, &work.candidates);
    let assess = |candidate| assess(group, candidate, budget, (cost, is_quality_measured));
    let mut choice = Choice {
        label: work.label,
        cost,
        is_quality_measured,
        assessed: work.candidates.into_iter().map(assess).collect(),
        chosen: None,
        is_nearest: false,
        rivals: Vec::new(),
        front: Vec::new(),
    };
    if group.kind == TaskKind::Kernel && budget.error.is_none() && is_quality_measured {
        choice.front = pareto_front(&choice, group.speed);
    } else if let Some(cost) = cost {
        choose_cheapest(&mut choice, cost);
    }
    choice
}

/// Returns `true` if any setting that finished has a quality metric.
fn is_quality_measured(group: &Group<'_>, candidates: &[SettingResult<'_, '_>]) -> bool {
    let mut ran = candidates
        .iter()
        .filter(|candidate| candidate.failure().is_none());
    ran.any(|candidate| match group.kind {
        TaskKind::Kernel => candidate.value(MetricName::RelativeError).is_some(),
        TaskKind::Train | TaskKind::Evaluate | TaskKind::Generate => {
            candidate.effective_seeds().all(has_accuracy)
        }
    })
}

/// Chooses the setting with the lowest median cost among those within the budget. If some of these are shown to be cheaper than the
/// baseline, considers only those. Prefers the setting nearest to the baseline ([`SettingResult::distance`]) among those shown to be
/// equally cheap, if [`Choice::is_shown`] holds for it.
fn choose_cheapest(choice: &mut Choice<'_, '_>, cost: MetricName) {
    let Some(cheapest) =
        cheapest_shown(choice, cost).or_else(|| cheapest(choice, cost, |one| one.is_within_budget()))
    else {
        return;
    };
    let rivals_of_cheapest = rivals(choice, cost, cheapest);
    let ties = rivals_of_cheapest
        .iter()
        .filter(|(_, verdict)| *verdict == Verdict::Unchanged);
    let ties = ties.map(|(index, _)| *index).chain([cheapest]);
    let distance = |index: &usize| (choice.assessed[*index].candidate.distance(), *index);
    let nearest = ties.min_by_key(distance).unwrap_or(cheapest);
    let rivals_of_nearest = rivals(choice, cost, nearest);
    choice.is_nearest = choice.is_shown_against(Some(nearest), &rivals_of_nearest);
    let (chosen, rivals) = match choice.is_nearest {
        true => (nearest, rivals_of_nearest),
        false => (cheapest, rivals_of_cheapest),
    };
    (choice.chosen, choice.rivals) = (Some(chosen), rivals);
}

/// Returns the setting with the lowest median cost among those within the budget that are shown to be cheaper than the baseline. Candidates
/// are compared with all others, so the correction for multiple comparisons is that of the verdicts in [`Choice::rivals`].
fn cheapest_shown(choice: &Choice<'_, '_>, cost: MetricName) -> Option<usize> {
    let base = choice
        .assessed
        .iter()
        .position(|one| one.candidate.is_baseline())?;
    let all_within = (0..choice.assessed.len()).filter(|index| choice.assessed[*index].is_within_budget());
    let others: Vec<usize> = all_within.filter(|index| *index != base).collect();
    if others.is_empty() || !choice.assessed[base].is_within_budget() {
        return None;
    }
    // Verdicts of the baseline against all others: `Regressed` if the baseline is costlier.
    let of_base = choice.assessed[base].candidate.values(cost);
    let of_others: Vec<Vec<f64>> = others
        .iter()
        .map(|index| choice.assessed[*index].candidate.values(cost))
        .collect();
    let family: Vec<Groups<'_>> = of_others
        .iter()
        .map(|baseline| Groups {
            baseline,
            candidate: &of_base,
            better: cost.better(),
            threshold: SPEED_THRESHOLD,
        })
        .collect();
    let verdicts = others.iter().zip(judge(&family));
    let shown: Vec<usize> = verdicts
        .filter(|(_, judgement)| judgement.verdict == Verdict::Regressed)
        .map(|(index, _)| *index)
        .collect();
    let value = |index: &usize| {
        choice.assessed[*index]
            .candidate
            .value(cost)
            .map_or(f64::NAN, |value| as_cost(cost, value))
    };
    let mut shown = shown
        .into_iter()
        .filter(|index| value(index).is_finite())
        .collect::<Vec<_>>();
    shown.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let holds = |index: &usize| choice.is_shown_against(Some(*index), &rivals(choice, cost, *index));
    shown.into_iter().find(holds)
}

fn assess<'r, 'a>(
    group: &Group<'_>,
    candidate: SettingResult<'r, 'a>,
    budget: &Budget,
    (cost, is_quality_measured): (Option<MetricName>, bool),
) -> Assessed<'r, 'a> {
    let is_kernel = group.kind == TaskKind::Kernel;
    let loss = candidate.accuracy_loss().filter(|_| !is_kernel);
    let mut reasons: Vec<String> = candidate.failure_with_reason().into_iter().collect();
    let incomparable = cost.and_then(|metric| incomparable_cost(&candidate, metric));
    let has_comparable_cost = incomparable.is_none();
    if reasons.is_empty() {
        reasons.extend(incomparable);
        reasons.extend(precision_deviation(&candidate));
        if is_kernel {
            let limit = budget.error.filter(|_| is_quality_measured);
            reasons.extend(limit.and_then(|limit| error_violation(&candidate, limit)));
        } else if is_quality_measured && !candidate.is_baseline() {
            reasons.extend(accuracy_violation(&candidate, loss, budget.accuracy_loss));
        }
        reasons.extend(
            budget
                .memory_bytes
                .and_then(|limit| memory_violation(group, &candidate, limit)),
        );
        let unknown = cost.filter(|metric| candidate.value(*metric).is_none());
        reasons.extend(unknown.map(|metric| format!("its `{metric}` was not measured")));
    }
    Assessed {
        loss: loss.cloned(),
        candidate,
        reasons,
        has_comparable_cost,
    }
}

/// Returns the reason why the cost of a setting cannot be compared with that of others: more threads than cores, or the memory or energy of
/// a rank 0 that does another part of the work than that of the baseline.
fn incomparable_cost(candidate: &SettingResult<'_, '_>, cost: MetricName) -> Option<String> {
    if depends_on_speed(cost) && candidate.is_oversubscribed() {
        return Some("it has more threads than cores, so its times are not comparable".to_owned());
    }
    let (row, base) = candidate.pairs().find(|(row, base)| !is_same_rank_0(row, base))?;
    let [setting, base] = [row, base].map(|row| &row.cell.setting);
    is_of_rank_0(cost).then(|| match setting.devices() {
        1 => format!("its `{cost}` is that of one process, and the baseline has several"),
        devices if devices == base.devices() => {
            format!("its `{cost}` is that of rank 0, and the baseline has another `reduce`")
        }
        devices => format!("its `{cost}` is that of rank 0, one of {devices} processes"),
    })
}

/// Describes deviations from the suite's expectation or from the requested precision.
fn precision_deviation(candidate: &SettingResult<'_, '_>) -> Option<String> {
    let of_row = |row: &&Row<'_>| {
        let differs = |record: &&&Record| record.executed.verdict == ExecutedVerdict::Differs;
        let (differ, all) = (row.records.iter().filter(differs).count(), row.records.len());
        match differ {
            _ if !row.unexpected.is_empty() => Some(row.remark()),
            0 => None,
            _ if differ == all => Some(format!("not as requested: {}", row.executed()?)),
            _ => Some(format!(
                "{differ} of {all} processes executed another precision than requested"
            )),
        }
    };
    candidate.seeds.iter().find_map(of_row)
}

fn error_violation(candidate: &SettingResult<'_, '_>, limit: f64) -> Option<String> {
    match candidate.maximum(MetricName::RelativeError) {
        None => Some("its error was not measured".to_owned()),
        Some(error) if error > limit => Some(format!(
            "its relative error of {} is above {}",
            units::scientific(error),
            units::scientific(limit)
        )),
        Some(_) => None,
    }
}

fn accuracy_violation(
    candidate: &SettingResult<'_, '_>,
    loss: Option<&Estimate>,
    limit: f64,
) -> Option<String> {
    let Some(loss) = loss else {
        return Some(
            match (candidate.seeds_without_baseline(), candidate.seeds.len()) {
                (0, _) | (_, 1) => "no comparable accuracy was measured".to_owned(),
                (without, seeds) => {
                    format!("the baseline did not finish for {without} of {seeds} seeds")
                }
            },
        );
    };
    match loss.interval {
        None => Some(format!(
            "its accuracy change of {} has no confidence interval ({})",
            accuracy_change(loss),
            loss.method
        )),
        Some(interval) if interval.low > limit => {
            Some(format!("its accuracy changes by {}", accuracy_change(loss)))
        }
        Some(interval) if interval.high > limit => Some(format!(
            "its accuracy may drop by up to {:.2} points ({})",
            100.0 * interval.high,
            loss.method
        )),
        Some(_) => None,
    }
}

fn memory_violation(group: &Group<'_>, candidate: &SettingResult<'_, '_>, limit: f64) -> Option<String> {
    let Some((metric, peak)) = group
        .memory
        .and_then(|metric| Some((metric, candidate.maximum(metric)?)))
    else {
        return Some("its memory was not measured".to_owned());
    };
    let text = |bytes| units::Scale::of(metric, bytes).text(bytes);
    (peak > limit).then(|| format!("its peak memory of {} is above {}", text(peak), text(limit)))
}

/// Returns the finished setting with the lowest median cost among those that `accepts` selects; the first one in a tie.
pub(crate) fn cheapest(
    choice: &Choice<'_, '_>,
    cost: MetricName,
    accepts: impl Fn(&Assessed<'_, '_>) -> bool,
) -> Option<usize> {
    let costs = choice.assessed.iter().enumerate().filter_map(|(index, one)| {
        let value = one.candidate.value(cost)?;
        let ran = one.candidate.failure().is_none() && accepts(one);
        ran.then_some((index, as_cost(cost, value)))
    });
    costs.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}

/// Negates values of metrics for which higher is better.
fn as_cost(metric: MetricName, value: f64) -> f64 {
    match metric.better() {
        Better::Lower => value,
        Better::Higher => -value,
    }
}

/// Returns the other settings within the budget with their verdict against the chosen one, cheapest first.
fn rivals(choice: &Choice<'_, '_>, cost: MetricName, chosen: usize) -> Vec<(usize, Verdict)> {
    let is_rival = |index: &usize| *index != chosen && choice.assessed[*index].is_within_budget();
    let mut rivals: Vec<usize> = (0..choice.assessed.len()).filter(is_rival).collect();
    let values = |index: usize| choice.assessed[index].candidate.values(cost);
    let order = |index: usize| {
        as_cost(
            cost,
            choice.assessed[index].candidate.value(cost).unwrap_or(f64::NAN),
        )
    };
    rivals.sort_by(|a, b| order(*a).total_cmp(&order(*b)));
    let of_chosen = values(chosen);
    let of_rivals: Vec<Vec<f64>> = rivals.iter().map(|index| values(*index)).collect();
    let family: Vec<Groups<'_>> = of_rivals
        .iter()
        .map(|candidate| Groups {
            baseline: &of_chosen,
            candidate,
            better: cost.better(),
            threshold: SPEED_THRESHOLD,
        })
        .collect();
    let verdicts = judge(&family).into_iter().map(|judgement| judgement.verdict);
    rivals.into_iter().zip(verdicts).collect()
}

/// Returns the Pareto front of speed and error among the settings that are otherwise within the budget, fastest first. Leaves out speeds of more
/// threads than cores, which the budget accepts if it minimizes the memory.
fn pareto_front(choice: &Choice<'_, '_>, metric: MetricName) -> Vec<usize> {
    let point = |one: &Assessed<'_, '_>| {
        let candidate = &one.candidate;
        let is_comparable = one.is_within_budget() && !candidate.is_oversubscribed();
        let speed = candidate.value(metric).filter(|_| is_comparable);
        let error = candidate.maximum(MetricName::RelativeError);
        (
            speed.map_or(f64::NAN, |value| as_cost(metric, value)),
            error.unwrap_or(f64::NAN),
        )
    };
    pareto::front(&choice.assessed.iter().map(point).collect::<Vec<_>>())
}
