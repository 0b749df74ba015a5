//! Formats the trends of a history as sentences.

use std::collections::BTreeMap;

use super::view::{Direction, TrendLine, TrendRun, Trends};
use crate::{
    digits,
    units::{self, Scale},
};

/// Maximum number of metrics in a sentence.
const MAX_METRICS: usize = 5;
/// Maximum number of runs that get a sentence.
const MAX_RUNS: usize = 8;

impl TrendLine {
    /// Returns the scale on which the values are shown.
    pub(super) fn scale(&self) -> Scale {
        let size = |run: &TrendRun| Some(run.value.abs()).filter(|size| size.is_finite());
        Scale::of(self.metric, self.runs.iter().filter_map(size).fold(0.0, f64::max))
    }

    /// Formats a change: `7.0 % lower`, `2.10× as high`, `0.050 higher`.
    pub(super) fn format_change(&self, before: f64, after: f64) -> String {
        let way = if after < before { "lower" } else { "higher" };
        let ratio = after / before;
        match () {
            () if self.difference => format!("{} {way}", self.difference(after - before)),
            () if !ratio.is_finite() || ratio <= 0.0 => way.to_owned(),
            () if ratio >= 100.0 => format!("{}× as high", units::count(ratio.round() as u64)),
            () if !(0.5..2.0).contains(&ratio) => format!("{} as high", units::times(ratio)),
            () => format!("{:.1} % {way}", 100.0 * (ratio - 1.0).abs()),
        }
    }

    /// Formats a difference with its unit; differences of shares are percentage points.
    fn difference(&self, size: f64) -> String {
        let scale = self.scale();
        match scale.unit {
            "%" => format!("{} points", digits::number(scale, size.abs())),
            _ => digits::text(scale, size.abs()),
        }
    }

    /// Formats the noise: `± 3.1 %`.
    pub(super) fn noise(&self, size: f64) -> String {
        match self.difference {
            true => format!("± {}", self.difference(size)),
            false => format!("± {:.1} %", 100.0 * size),
        }
    }

    /// Formats a regression in short: `matmul bf16-true: step_seconds 11.0 % higher (1.20 ms → 1.33 ms)`.
    fn regression(&self) -> Option<String> {
        let (turn, now) = self.worse()?;
        let scale = self.scale();
        let (before, after) = (digits::text(scale, turn.before), digits::text(scale, now));
        let again = self.turns[self.stayed? + 1..]
            .iter()
            .rfind(|later| later.towards == Direction::Worse && self.run(later).is_some());
        let again = again
            .and_then(|later| self.run(later))
            .map(|run| format!(", and worse again since {}", run_name(run)));
        Some(format!(
            "{}: {} {} ({before} → {after}){}",
            self.name(),
            self.metric,
            self.format_change(turn.before, now),
            again.unwrap_or_default()
        ))
    }
}

/// Formats a run: `run-12 (revision 0123456789ab)`.
pub(super) fn run_name(run: &TrendRun) -> String {
    match run.short_revision() {
        Some(revision) => format!("{} (revision {revision})", run.run),
        None => format!("{} (revision unknown)", run.run),
    }
}

impl Trends {
    /// Returns the summary: the metrics that are still regressed, grouped by the run of the regression, latest run first.
    pub(super) fn answer(&self) -> Vec<String> {
        let worse: Vec<&TrendLine> = self.lines.iter().filter(|line| line.worse().is_some()).collect();
        let mut answer = vec![self.headline(worse.len())];
        answer.extend(self.sentences(&worse));
        let has = |line: &TrendLine, towards| line.turns.iter().any(|turn| turn.towards == towards);
        let recovered = |line: &&TrendLine| line.worse().is_none() && has(line, Direction::Worse);
        let improved = |line: &&TrendLine| {
            line.worse().is_none() && !has(line, Direction::Worse) && has(line, Direction::Better)
        };
        let counted = |count: usize, what: &str| (count > 0).then(|| format!("{} {what}", metrics(count)));
        answer.extend(counted(
            self.lines.iter().filter(recovered).count(),
            "regressed and recovered.",
        ));
        answer.extend(counted(
            self.lines.iter().filter(improved).count(),
            "improved without a regression.",
        ));
        answer
    }

    fn headline(&self, worse: usize) -> String {
        let runs = units::count(self.runs as u64);
        match (self.runs, worse) {
            (0, _) => "The history contains no runs.".to_owned(),
            (1, _) => "The history contains one run, so there are no changes yet.".to_owned(),
            (_, 0) if self.lines.is_empty() => {
                format!("None of the {runs} runs has a metric that the gate compares.")
            }
            (_, 0) => format!("No metric is worse than before, over {runs} runs."),
            (_, worse) => format!(
                "{} regressed and did not recover, over {runs} runs.",
                metrics(worse)
            ),
        }
    }

    /// Returns one sentence per run at which metrics became worse and stayed so.
    fn sentences(&self, worse: &[&TrendLine]) -> Vec<String> {
        let mut runs: BTreeMap<(&str, &str, &str), Vec<&TrendLine>> = BTreeMap::new();
        for line in worse {
            if let Some(run) = line.worse().and_then(|(turn, _)| line.run(turn)) {
                let key = (run.started.as_str(), run.run.as_str(), line.machine.as_str());
                runs.entry(key).or_default().push(line);
            }
        }
        let all = runs.len();
        let many = self.many_machines();
        let sentence = |((_, _, machine), mut lines): ((&str, &str, &str), Vec<&TrendLine>)| {
            lines.sort_by(|a, b| a.by_severity(b));
            let run = lines.first().and_then(|line| line.run(line.worse()?.0))?;
            let regressions = lines
                .iter()
                .take(MAX_METRICS)
                .filter_map(|line| line.regression());
            let regressions: Vec<String> = regressions.collect();
            let more = match lines.len().saturating_sub(MAX_METRICS) {
                0 => String::new(),
                more => format!("; and {} more", units::count(more as u64)),
            };
            let on = if many {
                format!(" on {machine}")
            } else {
                String::new()
            };
            Some(format!(
                "Since run {}{on}: {}{more}.",
                run_name(run),
                regressions.join("; ")
            ))
        };
        let mut sentences: Vec<String> = runs
            .into_iter()
            .rev()
            .take(MAX_RUNS)
            .filter_map(sentence)
            .collect();
        if all > MAX_RUNS {
            sentences.push(format!(
                "Other metrics are worse since {} earlier runs; the table below lists all of them.",
                units::count((all - MAX_RUNS) as u64)
            ));
        }
        sentences
    }
}

/// Formats a number of metrics: `One metric`, `3 metrics`.
fn metrics(count: usize) -> String {
    match count {
        1 => "One metric".to_owned(),
        count => format!("{} metrics", units::count(count as u64)),
    }
}
