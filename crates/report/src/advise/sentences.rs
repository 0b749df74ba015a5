//! Formats the advice as sentences.

use mantissa_analysis::{Doubt, Estimate, Interval, Verdict};
use mantissa_core::{MatmulPrecision, MetricName, Precision, TaskKind};

use super::{
    Budget, Goal,
    choice::{Assessed, Choice, cheapest, cost},
    conclusion::{Conclusion, leanest},
    tokens,
};
use crate::{
    Group, launches,
    setting::{SPEED_THRESHOLD, SettingResult, accuracy_change, label_within_work, memory_text, ratio_text},
    units,
};

/// Reason why no setting is within the budget if the quality was not measured.
pub(crate) const QUALITY_NOT_MEASURED: &str = "its quality was not measured";

/// Returns the recommendation as self-contained sentences.
pub(crate) fn answer(group: &Group<'_>, choice: &Choice<'_, '_>, budget: &Budget) -> Vec<String> {
    let ran = choice
        .assessed
        .iter()
        .any(|one| one.candidate.failure().is_none());
    if !ran {
        return vec!["No setting finished, so no setting is recommended.".to_owned()];
    }
    if let Some(only) = choice.only_finished() {
        return vec![format!(
            "Only {} finished, so there is nothing to compare.",
            only.label
        )];
    }
    let candidates: Vec<_> = choice.assessed.iter().map(|one| &one.candidate).collect();
    if let Some(launch_bound) = launches::headline(group, &candidates) {
        return vec![launch_bound];
    }
    if group.kind == TaskKind::Kernel && budget.error.is_none() && choice.is_quality_measured {
        return describe_front(group, choice);
    }
    let Some(cost) = choice.cost else {
        return vec![cost_not_recorded(group, budget.minimise)];
    };
    if choice.is_oversubscribed(cost) {
        return vec![all_oversubscribed()];
    }
    let mut sentences = match choice.chosen() {
        _ if !choice.is_quality_measured => unjudged(group, choice, budget.minimise),
        None => vec![format!(
            "No setting is shown to {}, so none is recommended.",
            condition(budget)
        )],
        Some(one) if one.candidate.is_baseline() && !is_kernel(group) => vec![keep_baseline(one, budget)],
        Some(one) => vec![recommend(group, one, choice.is_shown(), budget)],
    };
    sentences.extend(certainty(choice, budget.minimise));
    sentences.extend(equals(group, choice, cost, budget.minimise));
    sentences.extend(cheapest_outside_budget(choice, cost, budget.minimise));
    sentences.extend(perplexities(choice));
    sentences.extend(least_memory(group, choice).filter(|_| budget.minimise != Goal::Memory));
    if choice.is_quality_measured {
        sentences.extend(other_baseline(group, choice));
        sentences.extend(one_seed(group, choice));
    }
    sentences
}

fn all_oversubscribed() -> String {
    let conclusion = Conclusion::Oversubscribed;
    format!("{}{}.", conclusion.text(""), conclusion.reason())
}

fn is_kernel(group: &Group<'_>) -> bool {
    group.kind == TaskKind::Kernel
}

fn cost_not_recorded(group: &Group<'_>, goal: Goal) -> String {
    let what = match goal {
        Goal::Time => "time",
        Goal::Memory => "memory",
        Goal::Energy => "energy",
    };
    match (goal, group.kind) {
        (Goal::Energy, TaskKind::Kernel | TaskKind::Generate) => {
            "Energy covers all sampled launches, and their number differs between settings, so energy cannot rank settings.".to_owned()
        }
        _ => format!("No {what} was recorded, so no setting can be chosen by {what}."),
    }
}

fn keep_baseline(one: &Assessed<'_, '_>, budget: &Budget) -> String {
    format!(
        "Keep {}: no other setting that is shown to {} is shown to be {}.",
        one.candidate.label,
        condition(budget),
        budget.minimise.comparative()
    )
}

/// Describes the limits of a budget, as a continuation of "is shown to".
fn condition(budget: &Budget) -> String {
    if budget.memory_bytes.is_some() || budget.error.is_some() {
        return "be within the budget".to_owned();
    }
    let points = 100.0 * budget.accuracy_loss;
    let unit = if points == 1.0 { "point" } else { "points" };
    format!("keep the accuracy within {points} {unit}")
}

/// Formats the recommendation: `Use bf16-mixed · high: 1.90× (1.80–2.00) as fast as 32-true · highest, …`
fn recommend(group: &Group<'_>, one: &Assessed<'_, '_>, shown: bool, budget: &Budget) -> String {
    let candidate = &one.candidate;
    if candidate.is_baseline() {
        let error = error_of(candidate).map(|error| format!("largest relative error {error}; "));
        return format!(
            "Use {}: {}no other setting within the budget is shown to be {}.",
            candidate.label,
            error.unwrap_or_default(),
            budget.minimise.comparative()
        );
    }
    let mut facts = costs(group, candidate);
    if is_kernel(group) {
        facts.extend(error_of(candidate).map(|error| format!("largest relative error {error}")));
    } else {
        facts.extend(
            one.loss
                .as_ref()
                .map(|loss| format!("accuracy {}", accuracy_change(loss))),
        );
    }
    let facts = facts.join(", ");
    match shown {
        true => format!("Use {}: {facts}.", candidate.label),
        false => format!("{} has the lowest median cost: {facts}.", candidate.label),
    }
}

/// Formats the cost of a setting relative to the baseline: `1.90× (1.80–2.00) as fast as 32-true · highest`, …
fn costs(group: &Group<'_>, candidate: &SettingResult<'_, '_>) -> Vec<String> {
    let base = base_label(group, candidate);
    let speed = candidate.advantage(group.speed);
    let energy = cost(group, Goal::Energy).and_then(|metric| candidate.ratio(metric));
    let memory = group
        .memory
        .and_then(|metric| Some(memory_text(metric, &candidate.ratio(metric)?)));
    let facts = [
        speed.map(|ratio| format!("{} as fast as {base}", ratio_text(&ratio))),
        energy.map(|ratio| format!("{} the energy", ratio_text(&ratio))),
        memory.map(|text| format!("{text} the peak memory")),
    ];
    facts.into_iter().flatten().collect()
}

/// Names the cheapest setting if the quality was not measured.
fn unjudged(group: &Group<'_>, choice: &Choice<'_, '_>, goal: Goal) -> Vec<String> {
    let what = match group.kind {
        TaskKind::Kernel => "no error was measured",
        TaskKind::Generate => "generated text is timed, not evaluated",
        TaskKind::Train | TaskKind::Evaluate if group.has(MetricName::TestAccuracy) => {
            "too few test examples"
        }
        TaskKind::Train | TaskKind::Evaluate => "no accuracy was measured",
    };
    let unknown =
        format!("The quality of the results was not measured ({what}), so no setting is recommended.");
    let Some(one) = choice.chosen() else {
        return vec![
            unknown,
            "No setting is shown to be within the other limits of the budget.".to_owned(),
        ];
    };
    let candidate = &one.candidate;
    let cost = |one: &Assessed<'_, '_>| {
        choice
            .cost
            .and_then(|cost| one.candidate.advantage(cost))
            .map(|ratio| ratio.value)
    };
    let is_undecided = |(_, verdict): &&(usize, Verdict)| matches!(verdict, Verdict::Inconclusive(_));
    let mut undecided = choice.rivals.iter().filter(is_undecided);
    let median = match choice.is_shown() {
        true if undecided.any(|(index, _)| cost(&choice.assessed[*index]) > cost(one)) => {
            " of those shown to differ"
        }
        true => "",
        false => " by median",
    };
    let facts = match candidate.is_baseline() {
        true => "the baseline".to_owned(),
        false => costs(group, candidate).join(", "),
    };
    let superlative = goal.superlative();
    let fastest = format!("{superlative}{median}: {}, {facts}.", candidate.label);
    let tokens = tokens::matching_tokens(candidate, &base_label(group, candidate));
    [fastest, unknown].into_iter().chain(tokens).collect()
}

/// Reports the lowest, the highest and the baseline's perplexity.
fn perplexities(choice: &Choice<'_, '_>) -> Option<String> {
    let metric = MetricName::Perplexity;
    let text = |setting: &SettingResult<'_, '_>| {
        let spot = setting.spot(metric)?;
        let scale = units::Scale::of(metric, spot.value);
        let ends = spot
            .whiskers
            .map(|(low, high)| scale.range(Interval { low, high }));
        let ends = ends.map(|ends| format!(" ({ends})"));
        Some(format!("{}{}", scale.text(spot.value), ends.unwrap_or_default()))
    };
    let known = choice.assessed.iter().map(|one| &one.candidate);
    let mut others: Vec<&SettingResult<'_, '_>> = known
        .clone()
        .filter(|one| one.failure().is_none() && !one.is_baseline() && one.value(metric).is_some())
        .collect();
    others.sort_by(|a, b| {
        a.value(metric)
            .unwrap_or(0.0)
            .total_cmp(&b.value(metric).unwrap_or(0.0))
    });
    let describe = |one: &SettingResult<'_, '_>| Some(format!("{} for {}", text(one)?, one.label));
    let range = match others.as_slice() {
        [] => return None,
        [only] => describe(only)?,
        [lowest, .., highest] => format!("from {} to {}", describe(lowest)?, describe(highest)?),
    };
    let base = known.clone().find(|one| one.is_baseline());
    let base = base.and_then(describe).map(|base| format!(", and {base}"));
    Some(format!(
        "Perplexity is {range}{}; the uncertainty of the differences was not estimated.",
        base.unwrap_or_default()
    ))
}

/// Formats the largest relative error over the processes, which the error limit of a budget applies to.
fn error_of(candidate: &SettingResult<'_, '_>) -> Option<String> {
    candidate
        .maximum(MetricName::RelativeError)
        .map(units::scientific)
}

fn base_label(group: &Group<'_>, candidate: &SettingResult<'_, '_>) -> String {
    let mut pairs = candidate.pairs();
    pairs.next().map_or_else(
        || units::ABSENT.to_owned(),
        |(_, base)| label_within_work(group, base),
    )
}

/// Describes the comparison with the baseline unless the chosen setting is shown to be cheaper.
fn certainty(choice: &Choice<'_, '_>, goal: Goal) -> Option<String> {
    let (index, verdict) = choice
        .rivals
        .iter()
        .find(|(index, _)| choice.assessed[*index].candidate.is_baseline())?;
    let (base, better) = (&choice.assessed[*index].candidate.label, goal.comparative());
    match verdict {
        Verdict::Regressed => None,
        Verdict::Unchanged => Some(format!(
            "Its difference from {base} is within {:.0} %, so a change has almost no benefit.",
            100.0 * SPEED_THRESHOLD
        )),
        Verdict::Improved | Verdict::Inconclusive(_) => Some(format!(
            "It is not shown to be {better} than {base} ({}), so there is no evidence against {base} yet.",
            doubt(*verdict)
        )),
    }
}

/// Returns the reason why a comparison is inconclusive.
pub(crate) fn doubt(verdict: Verdict) -> String {
    match verdict {
        Verdict::Inconclusive(Doubt::TooFewRepeats) => "too few processes to detect a difference".to_owned(),
        Verdict::Inconclusive(doubt) => doubt.to_string(),
        verdict => verdict.to_string(),
    }
}

/// Lists the other settings within the budget that are equally cheap or not shown to be costlier, and states why the chosen one is
/// preferred. Leaves out the baseline, which [`certainty`] covers.
fn equals(group: &Group<'_>, choice: &Choice<'_, '_>, cost: MetricName, goal: Goal) -> Vec<String> {
    let Some(chosen) = choice.chosen().map(|one| &one.candidate) else {
        return Vec::new();
    };
    let names_with = |is: &dyn Fn(Verdict) -> bool| -> Vec<String> {
        let rivals = choice.rivals.iter().filter(|(_, verdict)| is(*verdict));
        let others = rivals.map(|(index, _)| &choice.assessed[*index].candidate);
        let others = others.filter(|candidate| !candidate.is_baseline());
        let names = others.map(|candidate| match candidate.advantage(cost) {
            Some(ratio) => format!("{} ({})", candidate.label, relative_cost(goal, &ratio)),
            None => candidate.label.clone(),
        });
        names.collect()
    };
    let ties = names_with(&|verdict| verdict == Verdict::Unchanged);
    let few = |verdict| verdict == Verdict::Inconclusive(Doubt::TooFewRepeats);
    let untested = names_with(&few);
    let undecided =
        names_with(&|verdict| !matches!(verdict, Verdict::Unchanged | Verdict::Regressed) && !few(verdict));
    let (as_cheap, quantity) = match goal {
        Goal::Time => ("as fast as", "speed"),
        Goal::Energy => ("as energy-efficient as", "energy"),
        Goal::Memory => ("as memory-efficient as", "memory"),
    };
    let (name, base) = (&chosen.label, base_label(group, chosen));
    let brackets = format!("in brackets: {quantity} relative to {base}");
    let lowest = match choice.is_shown() {
        true => format!(
            "it has the lowest median cost of those shown to be {} than {base}",
            goal.comparative()
        ),
        false => "it has the lowest median cost".to_owned(),
    };
    let mut sentences = Vec::new();
    if !ties.is_empty() {
        let rule = match choice.is_nearest {
            true => {
                "it is nearest to the baseline: fewest bits lost in weights and operands, then fewest changed axes"
            }
            false => lowest.as_str(),
        };
        sentences.push(format!(
            "Shown to be {as_cheap} {name} within {:.0} % ({brackets}): {}. Of these, {name} is chosen because {rule}.",
            100.0 * SPEED_THRESHOLD,
            listed(&ties, ", ")
        ));
    }
    let not_shown = format!("Also within the budget and not shown to cost more than {name}");
    let others = [
        (not_shown, undecided),
        (
            "Within the budget, but with too few processes for a comparison".to_owned(),
            untested,
        ),
    ];
    let others: Vec<_> = others
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .collect();
    let of_others = others
        .iter()
        .map(|(state, names)| format!("{state} ({brackets}): {}.", listed(names, ", ")));
    sentences.extend(of_others);
    if !others.is_empty() && ties.is_empty() && !chosen.is_baseline() {
        sentences.push(format!("{name} is chosen because {lowest}."));
    }
    sentences
}

/// Formats a speed or a cost relative to the baseline, given the advantage over it.
fn relative_cost(goal: Goal, advantage: &Estimate) -> String {
    units::times(match goal {
        Goal::Time => advantage.value,
        Goal::Energy | Goal::Memory => 1.0 / advantage.value,
    })
}

/// Lists the first few names and the number of the others.
pub(crate) fn listed(names: &[String], gap: &str) -> String {
    /// Maximum number of names in a sentence.
    const MAX_NAMES: usize = 6;
    let shown = names[..names.len().min(MAX_NAMES)].join(gap);
    let more = names.len().saturating_sub(MAX_NAMES);
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Names the cheapest of all settings and the reasons why it is not within the budget. `None` if it is within the budget.
fn cheapest_outside_budget(choice: &Choice<'_, '_>, cost: MetricName, goal: Goal) -> Option<String> {
    let one = &choice.assessed[cheapest(choice, cost, |one| one.has_comparable_cost)?];
    if one.is_within_budget() {
        return None;
    }
    let ratio = one.candidate.advantage(cost);
    let by = ratio.map(|ratio| match goal {
        Goal::Time => format!(" ({} as fast as its baseline)", relative_cost(goal, &ratio)),
        Goal::Energy => format!(" ({} the energy of its baseline)", relative_cost(goal, &ratio)),
        Goal::Memory => format!(" ({} the memory of its baseline)", relative_cost(goal, &ratio)),
    });
    Some(format!(
        "{} of all is {}{}, which is not recommended: {}.",
        goal.superlative(),
        one.candidate.label,
        by.unwrap_or_default(),
        one.reasons.join("; ")
    ))
}

/// Names the setting within the budget with the least memory, if it saves a relevant share and is not the chosen one.
fn least_memory(group: &Group<'_>, choice: &Choice<'_, '_>) -> Option<String> {
    let least = leanest(choice).filter(|least| Some(*least) != choice.chosen)?;
    let candidate = &choice.assessed[least].candidate;
    let base = choice.assessed.iter().find(|one| one.candidate.is_baseline())?;
    Some(format!(
        "{} needs the least memory: {} that of {}.",
        candidate.label,
        memory_text(group.memory?, candidate.memory_ratio()?),
        base.candidate.label
    ))
}

/// Warns if the baseline is not a 32-true/highest setting, because it is then a weaker reference.
fn other_baseline(group: &Group<'_>, choice: &Choice<'_, '_>) -> Option<String> {
    let base = choice.assessed.iter().find(|one| one.candidate.is_baseline())?;
    let setting = &base.candidate.row().cell.setting;
    let is_f32 = setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest;
    (!is_f32 && !is_kernel(group)).then(|| {
        format!(
            "Accuracies are compared with {}, because no 32-true setting with matmul highest finished.",
            base.candidate.label
        )
    })
}

/// Warns that the accuracy comes from one seed. An interval over test examples does not cover the variation between seeds.
fn one_seed(group: &Group<'_>, choice: &Choice<'_, '_>) -> Option<String> {
    let chosen = &choice.chosen()?.candidate;
    let single_seed = group.kind == TaskKind::Train && chosen.seeds.len() == 1 && !chosen.is_baseline();
    single_seed.then(|| {
        "Its accuracy comes from one seed; another seed may change it by more than this interval.".to_owned()
    })
}

fn describe_front(group: &Group<'_>, choice: &Choice<'_, '_>) -> Vec<String> {
    let point = |index: &usize| {
        let candidate = &choice.assessed[*index].candidate;
        let speed = candidate.value(group.speed);
        let speed = speed.map(|value| group.scale(group.speed, value).text(value));
        format!(
            "{} ({}, largest error {})",
            candidate.label,
            speed.unwrap_or_default(),
            error_of(candidate).unwrap_or_default()
        )
    };
    let settings: Vec<String> = choice.front.iter().map(point).collect();
    if choice.is_oversubscribed(group.speed) {
        return vec![all_oversubscribed()];
    }
    if settings.is_empty() {
        return vec!["No setting has both a speed and an error, so no setting is recommended.".to_owned()];
    }
    vec![format!(
        "No error limit was given (`--error`), so no setting is recommended. Pareto front of speed and error: {}.",
        listed(&settings, ", ")
    )]
}
