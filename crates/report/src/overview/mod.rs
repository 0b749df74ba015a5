//! Overview of a run: the result of each suite with its certainty, and the effects of each precision setting. All numbers are those of
//! [`SettingResult`](crate::setting::SettingResult).

mod finding;
mod format_advice;
mod markdown;
mod matrix;
mod page;
mod skipped;
mod suite_answer;
mod terminal;

pub(crate) use markdown::markdown;
pub(crate) use page::OverviewPage;
pub(crate) use suite_answer::{Candidate, Certainty, candidates};
pub use terminal::terminal_overview;

use crate::Report;

use self::{format_advice::FormatAdvice, matrix::Matrix, skipped::SkippedSuites, suite_answer::SuiteAnswer};

/// Overview of a run.
#[derive(Debug)]
pub(crate) struct Overview {
    /// Advice on the format, one line per kind of task.
    pub advice: Vec<FormatAdvice>,
    /// Results of the other suites, in plan order.
    pub suites: Vec<SuiteAnswer>,
    /// Suites whose cells were all skipped, by the input that they need; empty for a run of one suite.
    pub skipped: Vec<SkippedSuites>,
    /// Effects of each precision setting; `None` without values.
    pub matrix: Option<Matrix>,
    /// Titles of the suites' warnings, each with the number of suites.
    pub warnings: Vec<(String, usize)>,
}

impl Overview {
    /// Computes the overview of a report.
    pub fn new(report: &Report<'_>) -> Self {
        let several = report.suites.len() > 1;
        let is_skipped = |index: &usize| several && skipped::is_skipped(&report.suites[*index]);
        let (skipped, measured): (Vec<usize>, Vec<usize>) = (0..report.suites.len()).partition(is_skipped);
        let suites: Vec<SuiteAnswer> = measured
            .into_iter()
            .map(|index| SuiteAnswer::of(&report.suites[index], index))
            .collect();
        Self {
            advice: format_advice::of(&suites),
            suites,
            skipped: skipped::group(report, &skipped),
            matrix: Matrix::of(report),
            warnings: warnings(report),
        }
    }

    /// Returns the certainty of the result of the suite with an index in the report.
    pub fn certainty(&self, suite: usize) -> Certainty {
        let answer = self.suites.iter().find(|answer| answer.suite == suite);
        answer.map_or(Certainty::NotMeasured, |answer| answer.certainty)
    }

    /// Formats the warnings: `The data is synthetic (3 suites).`
    fn warning_texts(&self) -> impl Iterator<Item = String> {
        self.warnings.iter().map(|(title, suites)| {
            let noun = if *suites == 1 { "suite" } else { "suites" };
            format!("{} ({suites} {noun}).", title.trim_end_matches('.'))
        })
    }
}

fn warnings(report: &Report<'_>) -> Vec<(String, usize)> {
    let mut counts: Vec<(String, usize)> = Vec::new();
    let banners = report.suites.iter().flat_map(|suite| &suite.banners);
    for banner in banners.filter(|banner| banner.level == "warning") {
        match counts.iter_mut().find(|(known, _)| *known == banner.title) {
            Some((_, count)) => *count += 1,
            None => counts.push((banner.title.clone(), 1)),
        }
    }
    counts
}
