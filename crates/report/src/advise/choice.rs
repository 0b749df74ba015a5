//! Which setting is within the budget, and which of those is the cheapest.

use mantissa_analysis::{Estimate, Groups, Verdict, judge, pareto};
use mantissa_core::{Better, ExecutedVerdict, MetricName, TaskKind};

use super::{
    Budget, Goal,
    candidate::{Candidate, Work},
    words,
};
use crate::{Group, baseline::SPEED_MATTERS, units};

/// A setting beside the budget.
#[derive(Debug)]
pub(crate) struct Assessed<'r, 'a> {
    /// The setting.
    pub candidate: Candidate<'r, 'a>,
    /// The accuracy that it costs, a share; nothing for kernels.
    pub loss: Option<Estimate>,
    /// Why it is not within the budget; empty if it is.
    pub doubts: Vec<String>,
}

impl Assessed<'_, '_> {
    /// Whether it is within the budget.
    pub fn is_kept(&self) -> bool {
        self.doubts.is_empty()
    }
}

/// The settings of some work, and which of them to take.
#[derive(Debug)]
pub(crate) struct Choice<'r, 'a> {
    /// What tells the work from other work of its group.
    pub place: String,
    /// What is to be as little as possible, or as much in the case of a rate; absent where nothing was recorded that says it.
    pub cost: Option<MetricName>,
    /// Every setting of which something ran.
    pub assessed: Vec<Assessed<'r, 'a>>,
    /// The cheapest of those within the budget.
    pub chosen: Option<usize>,
    /// The others within the budget beside the chosen one: regressed is costlier by more than chance, anything else is not.
    pub rivals: Vec<(usize, Verdict)>,
    /// Settings that no other one beats in both speed and error, where no bound of the error was given.
    pub front: Vec<usize>,
}

impl Choice<'_, '_> {
    /// Whether the chosen setting is shown to be cheaper than the baseline, where that is within the budget.
    pub fn is_shown(&self) -> bool {
        let mut rivals = self.rivals.iter();
        let base = rivals.find(|(index, _)| self.assessed[*index].candidate.is_baseline());
        base.is_none_or(|(_, verdict)| *verdict == Verdict::Regressed)
    }

    /// The others within the budget that are not shown to cost more than the chosen one, the cheapest first.
    pub fn equals(&self) -> impl Iterator<Item = usize> {
        let equals = self
            .rivals
            .iter()
            .filter(|(_, verdict)| *verdict != Verdict::Regressed);
        equals.map(|(index, _)| *index)
    }
}

/// What tells how much of what is to be little a setting takes.
///
/// Kernels and generations are sampled until their times are known, so that their energy is that of any number of launches.
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

/// Compares the settings of some work with the budget and chooses among them.
pub(crate) fn choose<'r, 'a>(group: &Group<'_>, work: Work<'r, 'a>, budget: &Budget) -> Choice<'r, 'a> {
    let cost = cost(group, budget.minimise);
    let assess = |candidate| assess(group, candidate, budget, cost);
    let mut choice = Choice {
        place: work.place,
        cost,
        assessed: work.candidates.into_iter().map(assess).collect(),
        chosen: None,
        rivals: Vec::new(),
        front: Vec::new(),
    };
    if group.kind == TaskKind::Kernel && budget.error.is_none() {
        choice.front = front(&choice, group.speed);
    } else if let Some(cost) = cost {
        choice.chosen = cheapest(&choice, cost, |one| one.is_kept());
        choice.rivals = rivals(&choice, cost);
    }
    choice
}

fn assess<'r, 'a>(
    group: &Group<'_>,
    candidate: Candidate<'r, 'a>,
    budget: &Budget,
    cost: Option<MetricName>,
) -> Assessed<'r, 'a> {
    let is_kernel = group.kind == TaskKind::Kernel;
    let loss = candidate.loss().filter(|_| !is_kernel);
    let mut doubts: Vec<String> = candidate.ended().into_iter().collect();
    if doubts.is_empty() {
        doubts.extend(otherwise_than_asked(&candidate));
        if is_kernel {
            doubts.extend(budget.error.and_then(|most| too_wrong(&candidate, most)));
        } else if !candidate.is_baseline() {
            doubts.extend(too_inaccurate(loss.as_ref(), budget.accuracy_loss));
        }
        doubts.extend(
            budget
                .memory_bytes
                .and_then(|most| too_large(group, &candidate, most)),
        );
        let unknown = cost.filter(|metric| candidate.median(*metric).is_none());
        doubts.extend(unknown.map(|metric| format!("its `{metric}` was not measured")));
    }
    Assessed {
        candidate,
        loss,
        doubts,
    }
}

/// What it did that its suite or its name does not say.
fn otherwise_than_asked(candidate: &Candidate<'_, '_>) -> Option<String> {
    let row = candidate
        .rows()
        .iter()
        .find(|row| !row.unexpected.is_empty() || row.verdict() == Some(ExecutedVerdict::Differs))?;
    if row.unexpected.is_empty() {
        Some(format!("not what was asked for: {}", row.executed()?))
    } else {
        Some(row.remark())
    }
}

fn too_wrong(candidate: &Candidate<'_, '_>, most: f64) -> Option<String> {
    match candidate.highest(MetricName::RelativeError) {
        None => Some("its error was not measured".to_owned()),
        Some(error) if error > most => Some(format!(
            "its relative error of {} is above {}",
            units::scientific(error),
            units::scientific(most)
        )),
        Some(_) => None,
    }
}

fn too_inaccurate(loss: Option<&Estimate>, most: f64) -> Option<String> {
    let unshown = |why: String| Some(format!("not shown to keep accuracy: {why}"));
    let Some(loss) = loss else {
        return unshown("none was measured that could be compared".to_owned());
    };
    match loss.interval {
        None => unshown(format!(
            "its change of {} has no interval ({})",
            words::accuracy_change(loss),
            loss.method
        )),
        Some(interval) if interval.low > most => Some(format!(
            "its accuracy changes by {}",
            words::accuracy_change(loss)
        )),
        Some(interval) if interval.high > most => unshown(format!(
            "it may lose up to {:.2} points ({})",
            100.0 * interval.high,
            loss.method
        )),
        Some(_) => None,
    }
}

fn too_large(group: &Group<'_>, candidate: &Candidate<'_, '_>, most: f64) -> Option<String> {
    let Some((metric, peak)) = group
        .memory
        .and_then(|metric| Some((metric, candidate.highest(metric)?)))
    else {
        return Some("its memory was not measured".to_owned());
    };
    let text = |bytes| units::Scale::of(metric, bytes).text(bytes);
    (peak > most).then(|| format!("it peaks at {}, above {}", text(peak), text(most)))
}

/// The cheapest of some settings that ran to their end; of equal ones the first.
pub(crate) fn cheapest(
    choice: &Choice<'_, '_>,
    cost: MetricName,
    among: impl Fn(&Assessed<'_, '_>) -> bool,
) -> Option<usize> {
    let known = choice.assessed.iter().enumerate().filter_map(|(index, one)| {
        let value = one.candidate.median(cost)?;
        let ran = one.candidate.ended().is_none() && among(one);
        ran.then_some((index, lower_is_better(cost, value)))
    });
    known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index)
}

/// A value such that less of it is better.
fn lower_is_better(metric: MetricName, value: f64) -> f64 {
    match metric.better() {
        Better::Lower => value,
        Better::Higher => -value,
    }
}

fn rivals(choice: &Choice<'_, '_>, cost: MetricName) -> Vec<(usize, Verdict)> {
    let Some(chosen) = choice.chosen else {
        return Vec::new();
    };
    let is_rival = |index: &usize| *index != chosen && choice.assessed[*index].is_kept();
    let mut rivals: Vec<usize> = (0..choice.assessed.len()).filter(is_rival).collect();
    let values = |index: usize| choice.assessed[index].candidate.values(cost);
    let order = |index: usize| {
        lower_is_better(
            cost,
            choice.assessed[index].candidate.median(cost).unwrap_or(f64::NAN),
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
            threshold: SPEED_MATTERS,
        })
        .collect();
    let verdicts = judge(&family).into_iter().map(|judgement| judgement.verdict);
    rivals.into_iter().zip(verdicts).collect()
}

/// The settings within the rest of the budget that no other one beats in speed and error alike, the fastest first.
fn front(choice: &Choice<'_, '_>, metric: MetricName) -> Vec<usize> {
    let point = |one: &Assessed<'_, '_>| {
        let candidate = &one.candidate;
        let speed = candidate.median(metric).filter(|_| one.is_kept());
        let error = candidate.highest(MetricName::RelativeError);
        (
            speed.map_or(f64::NAN, |value| lower_is_better(metric, value)),
            error.unwrap_or(f64::NAN),
        )
    };
    pareto::front(&choice.assessed.iter().map(point).collect::<Vec<_>>())
}
