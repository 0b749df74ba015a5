//! Verdict on a claim, for every pair of settings and overall.

use mantissa_analysis::{Finding, test_claim};
use mantissa_core::{Backend, Claim, Claimed, Comparison, ExecutedVerdict, MetricName, Status};

use crate::{
    Group, Row, Run,
    claims::{
        pairs::{Pair, PairMeasurement, pairs},
        sentences, status,
        subject::{ClaimOutcome, Subject},
    },
    comparability::is_of_rank_0,
    units,
};

/// A claim and the evidence from its suite's cells.
#[derive(Debug)]
pub struct ClaimVerdict<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Tested statement as text.
    pub tested_as: String,
    /// Overall verdict.
    pub standing: OverallVerdict,
    /// Overall verdict as text: `confirmed`, or `confirmed in 3 of 4 pairs, refuted in 1`.
    pub verdict: String,
    /// Names of the tests without duplicates, such as `exact McNemar`; empty if nothing was tested.
    pub tests: Vec<String>,
    /// One line per pair, refuting pairs first, or the reason why no pair exists.
    pub evidence: Vec<String>,
    /// Limitations of the verdict.
    pub remarks: Vec<String>,
}

/// Overall verdict on a claim on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OverallVerdict {
    /// Every pair has the same finding.
    Found(Finding),
    /// The findings of pairs differ.
    Mixed,
    /// No pair could be tested.
    NotTested,
}

impl OverallVerdict {
    /// Returns the display name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found(finding) => finding.name(),
            Self::Mixed => "mixed",
            Self::NotTested => "not tested",
        }
    }
}

/// Tests a claim on the groups of its suite.
pub(crate) fn test<'a>(run: &Run, claim: &'a Claim, groups: &[Group<'_>]) -> ClaimVerdict<'a> {
    let concerned = groups
        .iter()
        .filter(|group| claim.workload.as_ref().is_none_or(|name| name == group.workload));
    let (mut subjects, noun) = match &claim.claimed {
        Claimed::Status(claimed) => (status::subjects(concerned, &claim.of, claimed), "settings"),
        Claimed::Ratio(comparison) | Claimed::Difference(comparison) => {
            let pairs = concerned.flat_map(|group| pairs(group, &claim.of, &comparison.against));
            (test_pairs(pairs.collect(), comparison), "pairs")
        }
    };
    // Skipped cells are listed only if nothing else was tested.
    if subjects.iter().any(|subject| subject.outcome.finding().is_some()) {
        let skipped =
            |subject: &Subject<'_, '_>| subject.rows.iter().any(|row| row.status == Some(Status::Skipped));
        subjects.retain(|subject| subject.outcome.finding().is_some() || !skipped(subject));
    }
    if groups.len() > 1 {
        for subject in &mut subjects {
            if let Some(row) = subject.rows.first() {
                subject.label = format!("{}: {}", row.cell.workload.name, subject.label);
            }
        }
    }
    let (standing, verdict) = overall(&subjects, noun);
    ClaimVerdict {
        claim,
        tested_as: sentences::tested_as(claim),
        standing,
        verdict,
        tests: tests(&subjects),
        evidence: lines(&subjects, noun),
        remarks: remarks(run, claim, &subjects),
    }
}

fn test_pairs<'g, 'a>(pairs: Vec<Pair<'g, 'a>>, comparison: &Comparison) -> Vec<Subject<'g, 'a>> {
    let measured: Vec<Result<PairMeasurement, String>> =
        pairs.iter().map(|pair| pair.measure(comparison)).collect();
    let evidence: Vec<_> = measured
        .iter()
        .flatten()
        .map(|measured| measured.evidence.clone())
        .collect();
    let mut tested = test_claim(&evidence, comparison.within).into_iter();
    let subject = |(pair, measured): (Pair<'g, 'a>, Result<PairMeasurement, String>)| {
        let metric = measured.as_ref().ok().map(|measured| measured.metric);
        let learned = measured.as_ref().ok().and_then(|measured| measured.learned);
        let outcome = match measured {
            Err(why) => ClaimOutcome::NotTested(why),
            Ok(measured) => outcome(&measured, comparison, tested.next(), evidence.len()),
        };
        Subject {
            label: pair.label(),
            rows: pair.rows().collect(),
            metric,
            learned,
            outcome,
        }
    };
    pairs.into_iter().zip(measured).map(subject).collect()
}

fn outcome(
    measured: &PairMeasurement,
    comparison: &Comparison,
    tested: Option<mantissa_analysis::Tested>,
    family: usize,
) -> ClaimOutcome {
    let Some(tested) = tested else {
        return ClaimOutcome::NotTested("no metric was measured".to_owned());
    };
    let mut evidence = sentences::evidence(&measured.evidence, measured.metric, &tested, family);
    let (usable, all) = measured.seeds;
    if usable < all {
        evidence +=
            &format!("; {usable} of {all} seeds, the others did not finish or executed another precision");
    }
    // Two settings that predict at chance level are equally accurate, regardless of their formats.
    let guessed = measured.learned == Some(false);
    if guessed {
        evidence += "; neither setting is more accurate than chance";
    }
    ClaimOutcome::Tested {
        finding: if guessed {
            Finding::Inconclusive
        } else {
            tested.finding
        },
        test: sentences::test(&measured.evidence, comparison.within, true),
        evidence,
    }
}

/// Returns the names of the tests behind a verdict, in the order of the pairs.
fn tests(subjects: &[Subject<'_, '_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for subject in subjects {
        if let ClaimOutcome::Tested { test, .. } = &subject.outcome
            && !names.contains(test)
        {
            names.push(test.clone());
        }
    }
    names
}

fn overall(subjects: &[Subject<'_, '_>], noun: &str) -> (OverallVerdict, String) {
    let findings: Vec<Finding> = subjects
        .iter()
        .filter_map(|subject| subject.outcome.finding())
        .collect();
    let Some(&first) = findings.first() else {
        return (
            OverallVerdict::NotTested,
            OverallVerdict::NotTested.name().to_owned(),
        );
    };
    let all = findings.len();
    if findings.iter().all(|finding| *finding == first) {
        let several = match all {
            1 => String::new(),
            2 => format!(" in both {noun}"),
            all => format!(" in all {all} {noun}"),
        };
        return (OverallVerdict::Found(first), format!("{}{several}", first.name()));
    }
    let mut parts: Vec<String> = Vec::new();
    for finding in [Finding::Confirmed, Finding::Refuted, Finding::Inconclusive] {
        let count = findings.iter().filter(|found| **found == finding).count();
        let of = if parts.is_empty() {
            format!(" of {all} {noun}")
        } else {
            String::new()
        };
        if count > 0 {
            parts.push(format!("{} in {count}{of}", finding.name()));
        }
    }
    (OverallVerdict::Mixed, parts.join(", "))
}

/// Returns one line per pair: refuting, confirming, inconclusive and untested, in this order.
fn lines(subjects: &[Subject<'_, '_>], noun: &str) -> Vec<String> {
    /// Maximum number of lines shown with a claim.
    const MAX_LINES: usize = 8;
    if subjects.is_empty() {
        return vec![format!("no {noun} of this run match the claim")];
    }
    let rank = |subject: &Subject<'_, '_>| match subject.outcome.finding() {
        Some(Finding::Refuted) => 0,
        Some(Finding::Confirmed) => 1,
        Some(Finding::Inconclusive) => 2,
        None => 3,
    };
    let mut ordered: Vec<&Subject<'_, '_>> = subjects.iter().collect();
    ordered.sort_by_key(|subject| rank(subject));
    let differ = overall(subjects, noun).0 == OverallVerdict::Mixed;
    let line = |subject: &&Subject<'_, '_>| match &subject.outcome {
        ClaimOutcome::Tested {
            finding, evidence, ..
        } if differ => {
            format!("{}: {evidence}: {}", subject.label, finding.name())
        }
        ClaimOutcome::Tested { evidence, .. } => format!("{}: {evidence}", subject.label),
        ClaimOutcome::NotTested(why) => format!("{}: not tested, {why}", subject.label),
    };
    let mut lines: Vec<String> = ordered.iter().take(MAX_LINES).map(line).collect();
    if let Some(more) = ordered.len().checked_sub(MAX_LINES).filter(|more| *more > 0) {
        lines.push(format!("and {} more", units::count(more as u64)));
    }
    lines
}

/// Lists differences in hardware, data and measurement that limit the comparison with the source.
fn remarks(run: &Run, claim: &Claim, subjects: &[Subject<'_, '_>]) -> Vec<String> {
    let tested: Vec<&Subject<'_, '_>> = subjects
        .iter()
        .filter(|subject| subject.outcome.finding().is_some())
        .collect();
    let rows = || tested.iter().flat_map(|subject| &subject.rows);
    let mut remarks = Vec::new();
    if run.environment.backend == Backend::Flex && !tested.is_empty() {
        remarks.push(match &claim.source.hardware {
            Some(hardware) => format!("The source used {hardware}; this run used a CPU."),
            None => "The hardware of the source is unknown; this run used a CPU.".to_owned(),
        });
    }
    let unknown = |subject: &&Subject<'_, '_>| {
        subject.learned.is_none() && subject.metric.is_some_and(MetricName::is_learned)
    };
    if tested.iter().any(unknown) {
        let text =
            "The chance accuracy is unknown, because the records do not contain the number of classes.";
        remarks.push(text.to_owned());
    }
    let mut data = rows()
        .flat_map(|row| &row.records)
        .filter_map(|record| record.data.as_ref());
    if data.any(|data| data.synthetic) {
        remarks.push("The data is synthetic.".to_owned());
    }
    let is_hardware_independent = tested.iter().all(|subject| {
        subject
            .metric
            .is_none_or(|metric| metric.is_learned() || metric.is_counted())
    });
    if !is_hardware_independent && rows().any(|row| row.records.iter().any(|record| record.executed.emulated))
    {
        let text = "A format is emulated: its matmuls are rounded in software, which costs additional time and memory.";
        remarks.push(text.to_owned());
    }
    if rows().any(|row| row.verdict() == Some(ExecutedVerdict::Unverified)) {
        remarks.push("The executed precision was not observed.".to_owned());
    }
    let is_of_rank_0 = |subject: &&Subject<'_, '_>| {
        let several = |row: &&Row<'_>| row.cell.setting.devices() > 1;
        subject.metric.is_some_and(is_of_rank_0) && subject.rows.iter().any(several)
    };
    if tested.iter().any(is_of_rank_0) {
        remarks.push("Memory and energy are those of rank 0, not of all devices.".to_owned());
    }
    if tested
        .iter()
        .any(|subject| subject.metric == Some(MetricName::HostPeakBytes))
    {
        let text = "Memory is the peak host memory of the worker process, including the program itself.";
        remarks.push(text.to_owned());
    }
    remarks
}
