//! Advice on the format for each kind of task, taken from the results of the suites.

use mantissa_core::TaskKind;

use super::suite_answer::{Certainty, SuiteAnswer};

/// Advice on the format for a kind of task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FormatAdvice {
    /// Kind of task: `Training`.
    pub task: &'static str,
    /// Advice with its effect or, with several suites, with the number of suites.
    pub text: String,
    /// Certainty, with the number of suites if they differ.
    pub certainty: String,
}

/// Tasks in the order of the overview.
const TASKS: [(TaskKind, &str); 4] = [
    (TaskKind::Train, "Training"),
    (TaskKind::Generate, "Generation"),
    (TaskKind::Evaluate, "Evaluation"),
    (TaskKind::Kernel, "Kernels"),
];

/// Returns the advice for each kind of task with a measured suite that varies the precision setting.
pub(super) fn of(suites: &[SuiteAnswer]) -> Vec<FormatAdvice> {
    let of_task = |(task, title): (TaskKind, &'static str)| {
        let of_task = suites.iter().filter(|suite| suite.task == task);
        let known: Vec<(&SuiteAnswer, &str)> = of_task
            .filter_map(|suite| Some((suite, suite.format.as_deref()?)))
            .collect();
        let text = match known.as_slice() {
            [] => return None,
            [(only, format)] => format!("{format}{}.", effect(only)),
            known => format!("{}.", counted(known.iter().map(|(_, format)| *format))),
        };
        let certainties = known.iter().map(|(suite, _)| suite.certainty);
        Some(FormatAdvice {
            task: title,
            text,
            certainty: tally(certainties),
        })
    };
    TASKS.into_iter().filter_map(of_task).collect()
}

/// Formats the effect as a continuation of the advice.
fn effect(suite: &SuiteAnswer) -> String {
    let Some(effect) = &suite.effect else {
        return String::new();
    };
    let setting = match effect.setting.as_str() {
        "" => String::new(),
        setting => format!("{setting} is "),
    };
    let others = match effect.other_effects() {
        none if none.is_empty() => none,
        others => format!(", {others}"),
    };
    format!(
        ": {setting}{} as fast as {}{others}",
        effect.speed_text(),
        effect.baseline
    )
}

/// Counts equal texts, the most frequent first: `Use bf16-mixed · high (2 suites); Keep 32-true · highest (1)`. Counts those beyond the
/// first few together.
fn counted<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    /// Maximum number of different texts.
    const MAX_TEXTS: usize = 4;
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for text in texts {
        match counts.iter_mut().find(|(known, _)| *known == text) {
            Some((_, count)) => *count += 1,
            None => counts.push((text, 1)),
        }
    }
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let shown = counts.iter().take(MAX_TEXTS).enumerate();
    let mut parts: Vec<String> = shown
        .map(|(index, (text, count))| match (index, count) {
            (0, 1) => format!("{text} (1 suite)"),
            (0, count) => format!("{text} ({count} suites)"),
            (_, count) => format!("{text} ({count})"),
        })
        .collect();
    let others: usize = counts.iter().skip(MAX_TEXTS).map(|(_, count)| count).sum();
    parts.extend((others > 0).then(|| format!("other settings ({others})")));
    parts.join("; ")
}

/// Formats the certainty of one suite by its name, and that of several as counts: `1 repeated, 2 measured once`.
pub(super) fn tally(certainties: impl Iterator<Item = Certainty>) -> String {
    let all: Vec<Certainty> = certainties.collect();
    if let [only] = all.as_slice() {
        return only.name().to_owned();
    }
    let kinds = [Certainty::Repeated, Certainty::Once, Certainty::NotMeasured];
    let count = |kind: Certainty| all.iter().filter(|one| **one == kind).count();
    let counts = kinds.map(|kind| (count(kind), kind.name()));
    let known = counts.iter().filter(|(count, _)| *count > 0);
    let texts: Vec<String> = known.map(|(count, name)| format!("{count} {name}")).collect();
    texts.join(", ")
}
