//! Data model of the advice, as printed by `--json`. A cost is *shown* to be higher, lower or equal if its test is conclusive.

use mantissa_analysis::{Estimate, Interval};
use mantissa_core::{Backend, CellId, MetricName, TaskKind};
use serde::Serialize;

use super::{
    Budget,
    choice::{Assessed, Choice, choices},
    gaps::gaps,
    rules::{self, Context},
    sentences,
};
use crate::{Banner, Group, Report, Suite, banner::this_machine};

/// Schema version of `mantissa advise --json`.
const SCHEMA: u32 = 1;

/// Advice derived from a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// Schema version.
    pub schema: u32,
    /// Name of the run folder.
    pub run: String,
    /// Limits on the settings, and the quantity to minimize.
    pub budget: Budget,
    /// Warnings about the run.
    pub warnings: Vec<Banner>,
    /// Workloads in plan order.
    pub workloads: Vec<WorkloadAdvice>,
}

/// Advice about a workload of a suite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkloadAdvice {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload.
    pub workload: String,
    /// Warnings about the suite.
    pub warnings: Vec<Banner>,
    /// Metric to minimize, or to maximize if it is a rate.
    pub cost: Option<MetricName>,
    /// One choice per kind of work. Settings that differ in a size or in the input values are not compared.
    pub choices: Vec<WorkAdvice>,
    /// Gaps: settings, seeds and conditions that were not tested.
    pub untested: Vec<String>,
    /// Best practices that the records confirm.
    pub rules: Vec<FiredRule>,
}

/// Choice among settings that do the same work.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkAdvice {
    /// Label that distinguishes the work from other work of the workload; empty if all settings do the same work.
    pub work: String,
    /// Recommendation in sentences.
    pub answer: Vec<String>,
    /// Recommended setting. `None` if no setting is within the budget, if cost or quality was not measured, or for kernels without an error
    /// limit.
    pub chosen: Option<String>,
    /// Cheapest setting if the quality was not measured.
    pub unjudged: Option<String>,
    /// `true` if the setting in `chosen` or `unjudged` is the baseline or is shown to be cheaper than the baseline. If the baseline is not
    /// within the budget, all other settings within the budget must instead be shown to be equal or costlier.
    pub shown: bool,
    /// Other settings within the budget that are not shown to be costlier than the chosen one, cheapest first.
    pub equals: Vec<String>,
    /// Evidence for every setting that ran.
    pub evidence: Vec<Evidence>,
}

/// Measurements of a setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evidence {
    /// Name of the setting.
    pub setting: String,
    /// Ids of its cells, one per seed.
    pub cells: Vec<CellId>,
    /// Number of processes over all seeds.
    pub processes: usize,
    /// `true` if the other settings are compared with this one.
    pub baseline: bool,
    /// `true` if the setting is within the budget.
    pub kept: bool,
    /// Reasons why the setting is not within the budget; empty if it is.
    pub reasons: Vec<String>,
    /// Speed relative to the baseline.
    pub speed: Option<EstimateRecord>,
    /// Median of the workload's `cost` metric over processes.
    pub cost: Option<f64>,
    /// Maximum peak memory over processes, in bytes.
    pub memory_bytes: Option<f64>,
    /// Peak memory relative to the baseline.
    pub memory: Option<EstimateRecord>,
    /// Test accuracy lost against the baseline, as a share of the examples; negative for a gain.
    pub accuracy_loss: Option<EstimateRecord>,
    /// Maximum relative error of a kernel.
    pub error: Option<f64>,
    /// Perplexity relative to the baseline; not used for the choice.
    pub perplexity: Option<f64>,
}

/// An estimate with its 95 % confidence interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EstimateRecord {
    /// Point estimate.
    pub value: f64,
    /// Lower bound.
    pub low: Option<f64>,
    /// Upper bound.
    pub high: Option<f64>,
    /// Number of processes or samples.
    pub n: u64,
    /// Estimation method.
    pub method: &'static str,
}

/// A best practice whose condition holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FiredRule {
    /// Name of the rule.
    pub rule: &'static str,
    /// Condition in words.
    pub when: &'static str,
    /// Recommended action.
    pub advice: &'static str,
    /// Evidence from the records that fulfils the condition.
    pub evidence: Vec<String>,
    /// Cells of those records.
    pub cells: Vec<CellId>,
    /// Sources that describe the practice.
    pub sources: &'static [&'static str],
}

/// Recommends a setting for every workload of a run.
pub fn advise(report: &Report<'_>, budget: &Budget) -> Advice {
    let mut warnings = warnings(&report.banners);
    if report.run.environment.backend == Backend::Flex {
        let text = format!(
            "The cheapest setting on {} is not necessarily the cheapest on a GPU; accuracies and errors are properties of the formats.",
            this_machine(report.run)
        );
        warnings.push(Banner {
            level: "warning",
            title: "This advice applies to this CPU.".to_owned(),
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
            .map(|(suite, group)| workload_advice(report, suite, group, budget, &choices(group, budget)))
            .collect(),
    }
}

fn warnings(banners: &[Banner]) -> Vec<Banner> {
    let warnings = banners.iter().filter(|banner| banner.level == "warning");
    warnings.cloned().collect()
}

/// Recommends a setting for a workload of a suite, from the choices within the budget.
pub(crate) fn workload_advice<'r, 'a>(
    report: &'r Report<'a>,
    suite: &Suite<'a>,
    group: &'r Group<'a>,
    budget: &Budget,
    choices: &[Choice<'r, 'a>],
) -> WorkloadAdvice {
    let context = Context {
        run: report.run,
        group,
        choices,
    };
    WorkloadAdvice {
        suite: suite.info.name.clone(),
        workload: group.workload.to_owned(),
        warnings: warnings(&suite.banners),
        cost: super::choice::cost(group, budget.minimise),
        choices: choices
            .iter()
            .map(|choice| work_advice(group, choice, budget))
            .collect(),
        untested: gaps(report, group, choices),
        rules: rules::fired(&context),
    }
}

fn work_advice(group: &Group<'_>, choice: &Choice<'_, '_>, budget: &Budget) -> WorkAdvice {
    let label = |index: usize| choice.assessed[index].candidate.label.clone();
    let chosen_if = |measured: bool| {
        choice
            .chosen
            .filter(|_| choice.is_quality_measured == measured)
            .map(label)
    };
    WorkAdvice {
        work: choice.label.clone(),
        answer: sentences::answer(group, choice, budget),
        chosen: chosen_if(true),
        unjudged: chosen_if(false),
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
    let mut reasons = one.reasons.clone();
    if reasons.is_empty() && !choice.is_quality_measured {
        reasons.push(sentences::QUALITY_NOT_MEASURED.to_owned());
    }
    let ran = candidate.failure().is_none();
    let only_if_ran = |value: Option<Estimate>| value.filter(|_| ran).as_ref().map(EstimateRecord::of);
    Evidence {
        setting: candidate.label.clone(),
        cells: candidate.cells(),
        processes: candidate.processes(),
        baseline: candidate.is_baseline(),
        kept: reasons.is_empty(),
        reasons,
        speed: only_if_ran(candidate.advantage(group.speed)),
        cost: cost.and_then(|metric| candidate.value(metric)).filter(|_| ran),
        memory_bytes: group
            .memory
            .and_then(|metric| candidate.maximum(metric))
            .filter(|_| ran),
        memory: only_if_ran(group.memory.and_then(|metric| candidate.ratio(metric))),
        accuracy_loss: only_if_ran(one.loss.clone().filter(|_| !candidate.is_baseline())),
        error: (group.kind == TaskKind::Kernel)
            .then(|| candidate.maximum(MetricName::RelativeError))
            .flatten()
            .filter(|_| ran),
        perplexity: candidate
            .ratio(MetricName::Perplexity)
            .filter(|_| ran)
            .map(|ratio| ratio.value),
    }
}

impl EstimateRecord {
    fn of(estimate: &Estimate) -> Self {
        Self {
            value: estimate.value,
            low: estimate.interval.map(|interval| interval.low),
            high: estimate.interval.map(|interval| interval.high),
            n: estimate.n,
            method: estimate.method,
        }
    }

    /// Converts back to an [`Estimate`], without the number of samples.
    pub(crate) fn estimate(&self) -> Estimate {
        Estimate {
            value: self.value,
            interval: self.low.zip(self.high).map(|(low, high)| Interval { low, high }),
            n: self.n,
            method: self.method,
        }
    }
}
