//! Advice within the default budget in a few words, with the comparison that it is based on.

use mantissa_analysis::Verdict;
use mantissa_core::{MetricName, TaskKind};

use super::choice::Choice;
use crate::{Group, headline::LargestSize, launches, setting::SettingResult};

/// Kind of advice about settings that do the same work. All but the last four name a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conclusion {
    /// The setting is shown to be faster than the baseline and to keep the accuracy.
    Use,
    /// The setting is the baseline. No other is shown to be faster and to keep the accuracy.
    Keep,
    /// The setting is the baseline. No other is shown to be faster; the quality was not measured.
    KeepUnjudged,
    /// The setting is shown to be faster than the baseline; the quality was not measured.
    FastestUnjudged,
    /// The setting is a kernel's fastest, and shown to be faster than the baseline.
    Fastest,
    /// The setting has the lowest median cost, but is not shown to be faster than the baseline.
    RanFastest,
    /// The setting is the only one that finished.
    OnlyFinished,
    /// No setting is shown to be within the budget.
    NoneWithinBudget,
    /// The host limits the speeds.
    LaunchBound,
    /// All settings have more threads than cores.
    Oversubscribed,
    /// No setting finished.
    NothingFinished,
}

impl Conclusion {
    /// Formats the conclusion about the setting `name` in a few words: `Use bf16-mixed · high`.
    pub fn text(self, name: &str) -> String {
        match self {
            Self::Use => format!("Use {name}"),
            Self::Keep | Self::KeepUnjudged => format!("Keep {name}"),
            Self::Fastest | Self::FastestUnjudged => format!("{name} is fastest"),
            Self::RanFastest => format!("{name} ran fastest"),
            Self::OnlyFinished => format!("Only {name} finished"),
            Self::NoneWithinBudget | Self::Oversubscribed => "No setting is recommended".to_owned(),
            Self::LaunchBound => "Launch-bound".to_owned(),
            Self::NothingFinished => "No cell finished".to_owned(),
        }
    }

    /// Returns the reason, as a continuation of [`Self::text`].
    pub fn reason(self) -> &'static str {
        match self {
            Self::Keep => ": nothing faster is shown to keep the accuracy",
            Self::KeepUnjudged => ": nothing is shown to be faster",
            Self::FastestUnjudged => "; quality not measured",
            Self::RanFastest => ", not shown to be faster",
            Self::OnlyFinished => ", so there is nothing to compare",
            Self::NoneWithinBudget => ": none is shown to keep the accuracy",
            Self::LaunchBound => ": the host limits the speeds, so they do not rank formats",
            Self::Oversubscribed => ": all have more threads than cores, so their times are not comparable",
            Self::Use | Self::Fastest | Self::NothingFinished => "",
        }
    }
}

/// Smallest saving of memory that is reported, as a share of the baseline's memory.
pub(crate) const MIN_MEMORY_SAVING: f64 = 0.05;

/// Conclusion about settings that do the same work.
#[derive(Debug)]
pub(crate) struct Concluded<'g, 'a> {
    /// Label that distinguishes the work from other work of the group; empty if all settings do the same work.
    pub work: String,
    /// The conclusion.
    pub conclusion: Conclusion,
    /// Setting that the conclusion names.
    pub named: Option<SettingResult<'g, 'a>>,
    /// Setting whose comparison with the baseline is the most informative: the named one or, if that is the baseline, the fastest other one.
    /// If no other is faster, the one that saves the most memory takes precedence. `None` without a comparison.
    pub compared: Option<SettingResult<'g, 'a>>,
    /// `true` if the quality of the results was measured: an accuracy, or the error of a kernel.
    pub is_quality_measured: bool,
    /// Setting within the budget with the least memory, if it saves a relevant share.
    pub leanest: Option<SettingResult<'g, 'a>>,
    /// Fastest setting outside the budget, if it is faster than the baseline and than every setting within the budget.
    pub rejected_fastest: Option<Rejected<'g, 'a>>,
    /// Setting outside the budget with the least memory, if it saves a relevant share and more than every setting within the budget.
    pub rejected_leanest: Option<Rejected<'g, 'a>>,
}

/// Setting outside the budget.
#[derive(Debug)]
pub(crate) struct Rejected<'g, 'a> {
    /// The setting.
    pub setting: SettingResult<'g, 'a>,
    /// Reasons why it is outside the budget.
    pub reasons: String,
}

/// Returns the conclusion for each of the choices within the default budget. A kernel has one, for its largest size.
pub(crate) fn conclusions<'g, 'a>(
    group: &'g Group<'a>,
    choices: &[Choice<'g, 'a>],
) -> Vec<Concluded<'g, 'a>> {
    match group.kind {
        TaskKind::Kernel => of_kernel(group).into_iter().collect(),
        _ => choices.iter().map(|choice| of_choice(group, choice)).collect(),
    }
}

fn of_kernel<'g, 'a>(group: &'g Group<'a>) -> Option<Concluded<'g, 'a>> {
    let LargestSize {
        settings,
        fastest,
        base,
        ..
    } = LargestSize::of(group)?;
    let is_faster = fastest.speed_up().is_some_and(|ratio| ratio.value > 1.0);
    let (conclusion, named) = match &base {
        Some(_) if fastest.speed_verdict() == Some(Verdict::Improved) => (Conclusion::Fastest, &fastest),
        Some(_) if is_faster => (Conclusion::RanFastest, &fastest),
        Some(base) => (Conclusion::KeepUnjudged, base),
        None if settings.len() == 1 => (Conclusion::OnlyFinished, &fastest),
        None => (Conclusion::KeepUnjudged, &fastest),
    };
    Some(Concluded {
        work: String::new(),
        conclusion,
        named: Some(named.clone()),
        compared: base.is_some().then_some(fastest),
        is_quality_measured: group.has(MetricName::RelativeError),
        leanest: None,
        rejected_fastest: None,
        rejected_leanest: None,
    })
}

fn of_choice<'g, 'a>(group: &Group<'_>, choice: &Choice<'g, 'a>) -> Concluded<'g, 'a> {
    let candidates: Vec<_> = choice.assessed.iter().map(|one| &one.candidate).collect();
    let finished = candidates.iter().any(|candidate| candidate.failure().is_none());
    let only = candidates.iter().filter(|one| one.failure().is_none()).count() == 1;
    let chosen = choice.chosen.map(|index| &choice.assessed[index].candidate);
    let (conclusion, named) = match chosen {
        _ if !finished => (Conclusion::NothingFinished, None),
        _ if only => {
            let only = candidates.iter().find(|one| one.failure().is_none());
            (Conclusion::OnlyFinished, only.copied())
        }
        _ if launches::headline(group, &candidates).is_some() => (Conclusion::LaunchBound, None),
        None if choice.cost.is_some_and(|cost| choice.is_oversubscribed(cost)) => {
            (Conclusion::Oversubscribed, None)
        }
        None => (Conclusion::NoneWithinBudget, None),
        Some(one) => (of_chosen(choice, one), chosen),
    };
    let compared = match conclusion {
        Conclusion::NothingFinished
        | Conclusion::OnlyFinished
        | Conclusion::LaunchBound
        | Conclusion::Oversubscribed => None,
        _ => named
            .filter(|one| !one.is_baseline())
            .or_else(|| most_informative(choice)),
    };
    Concluded {
        work: choice.label.clone(),
        conclusion,
        named: named.cloned(),
        compared: compared.cloned(),
        is_quality_measured: choice.is_quality_measured,
        leanest: leanest(choice).map(|index| choice.assessed[index].candidate.clone()),
        rejected_fastest: rejected(choice, |one| one.speed_up().map(|ratio| ratio.value), 1.0),
        rejected_leanest: rejected(
            choice,
            |one| Some(1.0 / one.memory_ratio()?.value),
            1.0 / (1.0 - MIN_MEMORY_SAVING),
        ),
    }
}

/// Returns the finished setting with the largest advantage over the baseline, if that is more than `least` and the setting is outside the
/// budget.
fn rejected<'g, 'a>(
    choice: &Choice<'g, 'a>,
    advantage: impl Fn(&SettingResult<'g, 'a>) -> Option<f64>,
    least: f64,
) -> Option<Rejected<'g, 'a>> {
    let finished = choice
        .assessed
        .iter()
        .filter(|one| one.candidate.failure().is_none());
    let known = finished.filter_map(|one| Some((one, advantage(&one.candidate)?)));
    let (best, _) = known
        .filter(|(_, value)| *value > least)
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    (!best.is_within_budget()).then(|| Rejected {
        setting: best.candidate.clone(),
        reasons: best.reasons.join("; "),
    })
}

fn of_chosen(choice: &Choice<'_, '_>, chosen: &SettingResult<'_, '_>) -> Conclusion {
    match (
        chosen.is_baseline(),
        choice.is_shown(),
        choice.is_quality_measured,
    ) {
        (true, _, true) => Conclusion::Keep,
        (true, _, false) => Conclusion::KeepUnjudged,
        (false, true, true) => Conclusion::Use,
        (false, true, false) => Conclusion::FastestUnjudged,
        (false, false, _) => Conclusion::RanFastest,
    }
}

/// Returns the fastest setting other than the baseline. If no other is faster, prefers the one that saves the most memory.
fn most_informative<'c, 'g, 'a>(choice: &'c Choice<'g, 'a>) -> Option<&'c SettingResult<'g, 'a>> {
    let candidates = choice.assessed.iter().map(|one| &one.candidate);
    let others = candidates.filter(|one| !one.is_baseline() && one.failure().is_none());
    let speed = |one: &SettingResult<'_, '_>| one.speed_up().map(|ratio| ratio.value);
    let compared = others.filter_map(|one| Some((one, speed(one)?)));
    let (fastest, ratio) = compared.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let leanest = leanest(choice).map(|index| &choice.assessed[index].candidate);
    Some(match ratio > 1.0 {
        true => fastest,
        false => leanest.unwrap_or(fastest),
    })
}

/// Returns the setting within the budget with the least memory, if it saves a relevant share.
pub(super) fn leanest(choice: &Choice<'_, '_>) -> Option<usize> {
    let ratio = |index: usize| {
        choice.assessed[index]
            .candidate
            .memory_ratio()
            .map(|ratio| ratio.value)
    };
    let within = (0..choice.assessed.len()).filter(|index| choice.assessed[*index].is_within_budget());
    let known = within.filter_map(|index| Some((index, ratio(index)?)));
    let (least, ratio) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
    (ratio < 1.0 - MIN_MEMORY_SAVING).then_some(least)
}
