//! Result of a suite in one sentence, its effect and its certainty.

use std::cmp::Reverse;

use mantissa_analysis::Estimate;
use mantissa_core::{Axis, MetricName, TaskKind};

use super::finding::finding;
use crate::{
    Budget, Group, Suite,
    advise::{Choice, Concluded, Conclusion, choices, conclusions},
    facts::data_names,
    memory_parts,
    setting::{SettingResult, accuracy_change, memory_text, precision_label, ratio_text},
    units,
};

/// Meaning of the word "Keep" in results.
pub(crate) const KEEP_NOTE: &str = "“Keep” means that no other setting is shown to be faster. If the accuracy was measured, a faster setting must also be shown to keep it.";

/// Result of a suite.
#[derive(Debug)]
pub(crate) struct SuiteAnswer {
    /// Index of the suite in the report.
    pub suite: usize,
    /// Name of the suite.
    pub name: String,
    /// Title of the suite.
    pub title: String,
    /// Question of the suite.
    pub question: String,
    /// Names of the data, separated by semicolons; empty without data.
    pub data: String,
    /// Kind of the task.
    pub task: TaskKind,
    /// Index of the workload in the suite.
    pub group: usize,
    /// Result in a few words: `Use bf16-mixed · high`.
    pub short: String,
    /// Result in one sentence.
    pub sentence: String,
    /// [`Self::short`] with the label of the precision setting alone; `None` if all cells have the same precision setting.
    pub format: Option<String>,
    /// Most informative comparison with the baseline.
    pub effect: Option<Effect>,
    /// Certainty of the result.
    pub certainty: Certainty,
}

/// Comparison of a setting with its baseline.
#[derive(Debug, Clone)]
pub(crate) struct Effect {
    /// Label of the setting; empty if the sentence names it.
    pub setting: String,
    /// Label of the baseline.
    pub baseline: String,
    /// Speed relative to the baseline.
    pub speed: Estimate,
    /// Metric of the peak memory, and the memory relative to the baseline.
    pub memory: Option<(MetricName, Estimate)>,
    /// Memory of all tensors relative to the baseline, if it replaces the peak memory of a process.
    pub tensors: Option<f64>,
    /// Test accuracy lost against the baseline, as a share of the examples.
    pub accuracy_loss: Option<Estimate>,
    /// `true` if the accuracies are those of trainings under one seed.
    pub is_trained_once: bool,
    /// Relative error of a kernel.
    pub error: Option<f64>,
}

/// Certainty of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Certainty {
    /// Nothing finished.
    NotMeasured,
    /// One process of the setting, or of its baseline.
    Once,
    /// At least two processes of the setting and of its baseline.
    Repeated,
}

impl Certainty {
    /// Returns the certainty of a value over `n` processes.
    pub fn of(n: u64) -> Self {
        match n {
            0 => Self::NotMeasured,
            1 => Self::Once,
            _ => Self::Repeated,
        }
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotMeasured => "not measured",
            Self::Once => "measured once",
            Self::Repeated => "repeated",
        }
    }

    /// Returns the CSS class.
    pub fn class(self) -> &'static str {
        match self {
            Self::Repeated => "repeated",
            Self::Once => "once",
            Self::NotMeasured => "unknown",
        }
    }
}

impl Effect {
    fn of(group: &Group<'_>, concluded: &Concluded<'_, '_>) -> Option<Self> {
        let compared = concluded.compared.as_ref()?;
        let named = concluded.named.as_ref();
        let is_named = named.is_some_and(|named| named.label == compared.label);
        let is_kernel = group.kind == TaskKind::Kernel;
        let memory = group.memory.filter(|_| !is_kernel);
        Some(Self {
            setting: match is_named {
                true => String::new(),
                false => compared.label.clone(),
            },
            baseline: compared.baseline_label(),
            speed: compared.speed_up()?.clone(),
            memory: memory.and_then(|metric| Some((metric, compared.memory_ratio()?.clone()))),
            tensors: memory_parts::total_ratio(group, compared).filter(|_| memory_parts::replace_peak(group)),
            accuracy_loss: compared.accuracy_loss().cloned(),
            is_trained_once: compared.is_trained_once(),
            error: compared.value(MetricName::RelativeError).filter(|_| is_kernel),
        })
    }

    /// Formats the speed with its interval: `1.90× (1.80–2.00)`. The certainty of the result already states that it was measured once.
    pub fn speed_text(&self) -> String {
        match self.speed.n {
            0 | 1 => units::times(self.speed.value),
            _ => ratio_text(&self.speed),
        }
    }

    /// Formats the memory and the accuracy, or the error: `0.81× tensor memory, accuracy −0.1 points (−0.6 to 0.4), one seed`. Leaves out the peak
    /// memory of a process if the memory of the tensors is known.
    pub fn other_effects(&self) -> String {
        let memory = self.memory.as_ref();
        let memory = memory.map(|(metric, ratio)| match ratio.n {
            0 | 1 => format!("{} {}", units::times(ratio.value), units::memory_noun(*metric)),
            _ => format!("{} {}", memory_text(*metric, ratio), units::memory_noun(*metric)),
        });
        let tensors = self
            .tensors
            .map(|ratio| format!("{} tensor memory", units::times(ratio)));
        let loss = self.accuracy_loss.as_ref();
        let seeds = if self.is_trained_once { ", one seed" } else { "" };
        let accuracy = loss.map(|loss| format!("accuracy {}{seeds}", accuracy_change(loss)));
        let error = self
            .error
            .map(|error| format!("relative error {}", units::scientific(error)));
        let effects = [tensors.or(memory), accuracy, error].into_iter().flatten();
        effects.collect::<Vec<_>>().join(", ")
    }
}

/// Conclusion about one kind of work of one workload.
pub(crate) struct Candidate<'g, 'a> {
    /// Index of the workload in the suite.
    group: usize,
    /// The conclusion.
    pub concluded: Concluded<'g, 'a>,
    /// Comparison of [`Concluded::compared`] with its baseline.
    pub effect: Option<Effect>,
    /// Certainty of the conclusion.
    pub certainty: Certainty,
}

impl SuiteAnswer {
    /// Chooses the most certain conclusion of a suite; of equally certain ones, one with a comparison, then the first in plan order.
    pub fn of(suite: &Suite<'_>, index: usize) -> Self {
        let groups = suite.groups.iter().enumerate();
        let budget = Budget::default();
        let candidates = groups.flat_map(|(at, group)| candidates(at, group, &choices(group, &budget)));
        let best = candidates.min_by_key(|one| (Reverse(one.certainty), one.effect.is_none()));
        let (title, question) = (suite.info.title.clone(), suite.info.question.trim().to_owned());
        let answer = Self {
            suite: index,
            name: suite.info.name.clone(),
            title,
            question,
            data: data_names(suite).join("; "),
            task: suite.groups.first().map_or(TaskKind::Train, |group| group.kind),
            group: 0,
            short: Conclusion::NothingFinished.text(""),
            sentence: format!("{}.", Conclusion::NothingFinished.text("")),
            format: None,
            effect: None,
            certainty: Certainty::NotMeasured,
        };
        match best.filter(|best| best.certainty > Certainty::NotMeasured) {
            None => answer,
            Some(best) => answer.with(suite, best),
        }
    }

    fn with(self, suite: &Suite<'_>, best: Candidate<'_, '_>) -> Self {
        let group = &suite.groups[best.group];
        let conclusion = best.concluded.conclusion;
        let named = best.concluded.named.as_ref();
        let short = conclusion.text(named.map_or("", |named| named.label.as_str()));
        let varies = group.varies(Axis::Precision) || group.varies(Axis::Matmul);
        let format = named.filter(|_| varies);
        Self {
            task: group.kind,
            group: best.group,
            sentence: sentence(suite, group, &best, &short),
            short,
            format: format.map(|named| {
                let text = conclusion.text(&precision_label(named.row()));
                match conclusion {
                    Conclusion::RanFastest => format!("{text}, undecided"),
                    _ => text,
                }
            }),
            effect: best.effect,
            certainty: best.certainty,
            ..self
        }
    }
}

/// Returns the conclusions from the choices within the default budget, for the workload with the index `at` in its suite.
pub(crate) fn candidates<'g, 'a>(
    at: usize,
    group: &'g Group<'a>,
    choices: &[Choice<'g, 'a>],
) -> Vec<Candidate<'g, 'a>> {
    let candidate = |concluded: Concluded<'g, 'a>| {
        let effect = Effect::of(group, &concluded);
        let certainty = match (&effect, concluded.conclusion, &concluded.named) {
            (Some(effect), ..) => Certainty::of(effect.speed.n),
            (None, Conclusion::NothingFinished, _) => Certainty::NotMeasured,
            (None, _, Some(named)) => Certainty::of(named.processes() as u64),
            (None, _, None) => Certainty::of(fewest_processes(group)),
        };
        Candidate {
            group: at,
            concluded,
            effect,
            certainty,
        }
    };
    let conclusions = conclusions(group, choices).into_iter();
    conclusions.map(candidate).collect()
}

/// Returns the smallest number of processes of a finished setting.
fn fewest_processes(group: &Group<'_>) -> u64 {
    let settings = SettingResult::all(group, |row| row.is_ok());
    let processes = settings.iter().map(SettingResult::processes);
    processes.min().unwrap_or(0) as u64
}

/// Formats the result with the finding, the workload if the suite has several, the kind of work, and the size of a kernel.
fn sentence(suite: &Suite<'_>, group: &Group<'_>, best: &Candidate<'_, '_>, short: &str) -> String {
    let Concluded {
        work,
        conclusion,
        named,
        ..
    } = &best.concluded;
    let workload = (suite.groups.len() > 1).then(|| group.workload.to_owned());
    let is_sized = group.kind == TaskKind::Kernel && group.varies(Axis::Size);
    let size = named.as_ref().filter(|_| is_sized);
    let size = size.map(|named| format!("size {}", named.row().axis(Axis::Size)));
    let work = Some(work.clone()).filter(|work| !work.is_empty());
    let parts: Vec<String> = [workload, work, size].into_iter().flatten().collect();
    let prefix = match parts.is_empty() {
        true => String::new(),
        false => format!("{}: ", parts.join(", ")),
    };
    let others = match suite.groups.len() - 1 {
        0 => String::new(),
        1 => " The page has another workload.".to_owned(),
        others => format!(" The page has {others} more workloads."),
    };
    // A note on the overview explains the most frequent reasons once.
    let reason = match conclusion {
        Conclusion::Keep | Conclusion::KeepUnjudged => "",
        _ => conclusion.reason(),
    };
    let finding = finding(suite, group).map(|finding| format!("{finding} "));
    let finding = finding.unwrap_or_default();
    // The finding on kernels is about all sizes.
    let start = match group.kind {
        TaskKind::Kernel => format!("{finding}{prefix}"),
        _ => format!("{prefix}{finding}"),
    };
    format!("{start}{short}{reason}.{others}")
}
