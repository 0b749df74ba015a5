//! Everything that advice consists of, as `--json` prints it.

use mantissa_analysis::{Estimate, Interval};
use mantissa_core::{Backend, CellId, MetricName, TaskKind};
use serde::Serialize;

use super::{
    Budget,
    candidate::works,
    choice::{Assessed, Choice, choose},
    gaps::gaps,
    rules::{self, Context},
    words,
};
use crate::{Banner, Group, Report, Suite, banner::this_machine};

/// Version of what `mantissa advise --json` prints.
const SCHEMA: u32 = 1;

/// What a run says of which setting to take.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Version of this format.
    pub schema: u32,
    /// Name of the run folder.
    pub run: String,
    /// What a setting may cost.
    pub budget: Budget,
    /// What a reader must know before the advice.
    pub warnings: Vec<Banner>,
    /// The workloads, in plan order.
    pub workloads: Vec<OfGroup>,
}

/// Advice about a workload of a suite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfGroup {
    /// The suite.
    pub suite: String,
    /// The workload.
    pub workload: String,
    /// What a reader must know before the advice.
    pub warnings: Vec<Banner>,
    /// What is to be as little as possible, or as much in the case of a rate.
    pub cost: Option<MetricName>,
    /// A choice for each kind of work: settings that differ in a size or in the input values are not compared.
    pub choices: Vec<OfWork>,
    /// What was not tested.
    pub untested: Vec<String>,
    /// Best practices that the records bear out.
    pub rules: Vec<Fired>,
}

/// The choice among settings that do the same work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfWork {
    /// What tells it from the workload's other work; empty if there is no other.
    pub work: String,
    /// The answer in sentences.
    pub answer: Vec<String>,
    /// The setting to take; absent if none is within the budget, or nothing tells which is the cheapest or how good it is.
    pub chosen: Option<String>,
    /// The cheapest setting where nothing tells how good any is.
    pub unjudged: Option<String>,
    /// Whether either is the baseline or shown to be cheaper than it; if the baseline is not within the budget, whether nothing
    /// else that is might be cheaper.
    pub shown: bool,
    /// Settings within the budget that are not shown to cost more, the cheapest first.
    pub equals: Vec<String>,
    /// Every setting of which something ran.
    pub evidence: Vec<Evidence>,
}

/// What is known of a setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// The setting.
    pub setting: String,
    /// Its cells, a seed each.
    pub cells: Vec<CellId>,
    /// Its processes, over all seeds.
    pub processes: usize,
    /// Whether others are compared with it.
    pub baseline: bool,
    /// Whether it is within the budget.
    pub kept: bool,
    /// Why it is not; empty if it is.
    pub reasons: Vec<String>,
    /// How many times as fast as its baseline.
    pub speed: Option<Measured>,
    /// What is to be as little as possible, over processes; its metric is the workload's `cost`.
    pub cost: Option<f64>,
    /// The highest peak of memory that a process reached.
    pub memory_bytes: Option<f64>,
    /// Its peak of memory over that of its baseline.
    pub memory: Option<Measured>,
    /// Test accuracy lost against its baseline, as a share of the examples; negative where it won.
    pub accuracy_loss: Option<Measured>,
    /// The largest relative error of a kernel.
    pub error: Option<f64>,
    /// Its perplexity over that of its baseline; told, not judged.
    pub perplexity: Option<f64>,
}

/// An estimate with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The estimate.
    pub value: f64,
    /// Lower end.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// What it comes from.
    pub method: &'static str,
}

/// A best practice whose condition holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fired {
    /// Its name.
    pub rule: &'static str,
    /// When it applies, in words.
    pub when: &'static str,
    /// What to do.
    pub advice: &'static str,
    /// What in the records fulfils the condition.
    pub evidence: Vec<String>,
    /// Those records' cells.
    pub cells: Vec<CellId>,
    /// Where the practice is described.
    pub sources: &'static [&'static str],
}

/// Says which setting to take, for every workload of a run.
pub fn advise(report: &Report<'_>, budget: &Budget) -> Advice {
    let mut warnings = warnings(&report.banners);
    if report.run.environment.backend == Backend::Flex {
        let text = format!(
            "What is cheapest on {} need not be cheapest on a GPU; what is said of accuracy and error is that of the formats.",
            this_machine(report.run)
        );
        warnings.push(Banner {
            level: "warning",
            title: "This is advice about this CPU.".to_owned(),
            text,
        });
    }
    let groups = report
        .suites
        .iter()
        .flat_map(|suite| suite.groups.iter().map(move |group| (suite, group)));
    Advice {
        schema: SCHEMA,
        run: report.run.name.clone(),
        budget: *budget,
        warnings,
        workloads: groups
            .map(|(suite, group)| of_group(report, suite, group, budget))
            .collect(),
    }
}

fn warnings(banners: &[Banner]) -> Vec<Banner> {
    let warnings = banners.iter().filter(|banner| banner.level == "warning");
    warnings.cloned().collect()
}

fn of_group(report: &Report<'_>, suite: &Suite<'_>, group: &Group<'_>, budget: &Budget) -> OfGroup {
    let choices: Vec<Choice<'_, '_>> = works(group)
        .into_iter()
        .map(|work| choose(group, work, budget))
        .collect();
    let context = Context {
        run: report.run,
        group,
        choices: &choices,
    };
    OfGroup {
        suite: suite.info.name.clone(),
        workload: group.workload.to_owned(),
        warnings: warnings(&suite.banners),
        cost: super::choice::cost(group, budget.minimise),
        choices: choices
            .iter()
            .map(|choice| of_work(group, choice, budget))
            .collect(),
        untested: gaps(report, group, &choices),
        rules: rules::fired(&context),
    }
}

fn of_work(group: &Group<'_>, choice: &Choice<'_, '_>, budget: &Budget) -> OfWork {
    let label = |index: usize| choice.assessed[index].candidate.label.clone();
    let taken = |judged: bool| choice.chosen.filter(|_| choice.is_judged == judged).map(label);
    OfWork {
        work: choice.place.clone(),
        answer: words::answer(group, choice, budget),
        chosen: taken(true),
        unjudged: taken(false),
        shown: choice.chosen.is_some() && choice.is_shown(),
        equals: choice.equals().map(label).collect(),
        evidence: choice
            .assessed
            .iter()
            .map(|one| evidence(group, one, choice))
            .collect(),
    }
}

fn evidence(group: &Group<'_>, one: &Assessed<'_, '_>, choice: &Choice<'_, '_>) -> Evidence {
    let (candidate, cost) = (&one.candidate, choice.cost);
    let mut reasons = one.doubts.clone();
    if reasons.is_empty() && !choice.is_judged {
        reasons.push(words::UNJUDGED.to_owned());
    }
    let ran = candidate.ended().is_none();
    let only_if_ran = |value: Option<Estimate>| value.filter(|_| ran).as_ref().map(Measured::of);
    Evidence {
        setting: candidate.label.clone(),
        cells: candidate.cells(),
        processes: candidate.processes(),
        baseline: candidate.is_baseline,
        kept: reasons.is_empty(),
        reasons,
        speed: only_if_ran(candidate.advantage(group.speed)),
        cost: cost.and_then(|metric| candidate.median(metric)).filter(|_| ran),
        memory_bytes: group
            .memory
            .and_then(|metric| candidate.highest(metric))
            .filter(|_| ran),
        memory: only_if_ran(group.memory.and_then(|metric| candidate.ratio(metric))),
        accuracy_loss: only_if_ran(one.loss.clone().filter(|_| !candidate.is_baseline)),
        error: (group.kind == TaskKind::Kernel)
            .then(|| candidate.highest(MetricName::RelativeError))
            .flatten(),
        perplexity: candidate
            .ratio(MetricName::Perplexity)
            .filter(|_| ran)
            .map(|ratio| ratio.value),
    }
}

impl Measured {
    fn of(estimate: &Estimate) -> Self {
        Self {
            value: estimate.value,
            low: estimate.interval.map(|interval| interval.low),
            high: estimate.interval.map(|interval| interval.high),
            method: estimate.method,
        }
    }

    /// As it was; without the number of its samples.
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate {
            value: self.value,
            interval: self.low.zip(self.high).map(|(low, high)| Interval { low, high }),
            n: 0,
            method: self.method,
        }
    }
}
