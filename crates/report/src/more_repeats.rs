//! The repeats that would decide the undecided speeds of a page, with the command that measures them and its duration.

use mantissa_analysis::{Doubt, Verdict, smallest_p};
use mantissa_core::{TaskKind, command_line};
use serde::Serialize;

use crate::{
    Group, Report, Row, Run, Suite,
    setting::{AccuracyVerdict, SettingResult},
    units,
};

/// Repeats, test examples or seeds that the undecided comparisons of a page need.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct MoreRepeats {
    pub text: String,
    /// Command that measures the missing repeats; empty if more repeats decide nothing.
    pub command: String,
    /// Number of speeds with too few processes, for a terminal; `None` if more repeats decide nothing.
    pub brief: Option<String>,
}

/// Returns the data that the undecided comparisons of `suites` need; `None` if none is undecided for lack of data.
pub(crate) fn more_repeats(report: &Report<'_>, suites: &[&Suite<'_>]) -> Option<MoreRepeats> {
    let groups = || suites.iter().flat_map(|suite| &suite.groups);
    let (undecided, all) = groups()
        .map(speeds)
        .fold((0, 0), |sum, group| (sum.0 + group.0, sum.1 + group.1));
    let repeats = groups().filter_map(repeats_needed).max();
    let speeds = repeats.map(|repeats| {
        let (seconds, suites) = (missing_seconds(report, repeats), report.suites.len());
        let scope = if suites > 1 { " for all suites of the run" } else { "" };
        let duration = seconds.map(|seconds| format!(" ({}{scope})", duration(seconds)));
        format!(
            "{undecided} of {} too few processes to detect a difference. {repeats} repeats of each cell would be enough to detect a clear \
             one{}.",
            match all {
                1 => "1 speed comparison has".to_owned(),
                all => format!("{} speed comparisons have", units::count(all as u64)),
            },
            duration.unwrap_or_default(),
        )
    });
    let accuracies = groups().map(undecided_accuracies).sum::<usize>();
    let trains = groups().any(|group| group.kind == TaskKind::Train);
    let accuracies = (accuracies > 0).then(|| {
        let changes = match accuracies {
            1 => "1 accuracy change is".to_owned(),
            count => format!("{} accuracy changes are", units::count(count as u64)),
        };
        let seeds = if trains { " and seeds" } else { "" };
        format!("{changes} undecided: more test examples{seeds} decide these, more repeats do not.")
    });
    let text = [speeds, accuracies]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" ");
    let command = repeats.map(|repeats| command(report.run, repeats));
    (!text.is_empty()).then(|| MoreRepeats {
        text,
        brief: command.as_ref().map(|_| {
            format!("{undecided} of {all} speeds have too few processes. Command for enough repeats:")
        }),
        command: command.unwrap_or_default(),
    })
}

/// Returns the number of processes per setting with which each of `comparisons` speeds can be significant.
fn processes_needed(comparisons: usize) -> Option<usize> {
    /// Upper limit of the search. More processes per setting are not realistic.
    const MAX_PROCESSES: usize = 100;
    (2..MAX_PROCESSES).find(|n| smallest_p(*n, *n) * comparisons as f64 <= 0.05)
}

fn verdicts(group: &Group<'_>) -> impl Iterator<Item = Verdict> {
    group
        .comparisons
        .iter()
        .filter_map(|comparison| comparison.speed_verdict)
}

fn has_too_few(verdict: &Verdict) -> bool {
    *verdict == Verdict::Inconclusive(Doubt::TooFewRepeats)
}

/// Returns the numbers of speed comparisons with too few processes and of all speed comparisons.
fn speeds(group: &Group<'_>) -> (usize, usize) {
    (
        verdicts(group).filter(has_too_few).count(),
        verdicts(group).count(),
    )
}

/// Returns the number of repeats with which every speed of a group can be significant; `None` if it has enough. The processes of all seeds of
/// a setting are compared together.
fn repeats_needed(group: &Group<'_>) -> Option<usize> {
    verdicts(group).find(has_too_few)?;
    let processes = processes_needed(verdicts(group).count())?;
    let settings = SettingResult::all(group, Row::is_ok);
    let seeds = settings
        .iter()
        .map(|setting| setting.pairs().count())
        .filter(|seeds| *seeds > 0);
    Some(processes.div_ceil(seeds.min()?))
}

fn undecided_accuracies(group: &Group<'_>) -> usize {
    let settings = SettingResult::all(group, Row::is_ok);
    let verdicts = settings.iter().filter_map(SettingResult::accuracy_verdict);
    verdicts
        .filter(|verdict| *verdict == AccuracyVerdict::Undecided)
        .count()
}

/// Returns the time of the missing repeats of all cells of a run, from the mean duration of the recorded repeats of each cell. `None` if a
/// duration is unknown.
fn missing_seconds(report: &Report<'_>, repeats: usize) -> Option<f64> {
    let rows = report.rows().map(|(_, row)| row);
    rows.filter(|row| row.ran())
        .map(|row| {
            let durations = row
                .records
                .iter()
                .map(|record| report.run.digest(record)?.traced_seconds);
            let durations: Vec<f64> = durations.collect::<Option<_>>()?;
            let mean = durations.iter().sum::<f64>() / durations.len() as f64;
            Some(repeats.saturating_sub(row.records.len()) as f64 * mean)
        })
        .sum()
}

fn duration(seconds: f64) -> String {
    match (seconds / 60.0).ceil() {
        1.0 => "about 1 minute".to_owned(),
        minutes if minutes < 120.0 => format!("about {minutes} minutes"),
        minutes => format!("about {:.1} hours", minutes / 60.0),
    }
}

/// Returns the command that resumes a run with more repeats. Leaves out the recorded `--peer`, because the folder may come from an untrusted
/// source; `mantissa run` prints the peer and asks for it.
fn command(run: &Run, repeats: usize) -> String {
    let mut words = run.environment.command.iter();
    let out = words.find_map(|word| match word.strip_prefix("--out")? {
        "" => Some(None),
        joined => Some(joined.strip_prefix('=')),
    });
    let out = out.and_then(|joined| joined.or_else(|| words.next().map(String::as_str)));
    let folder = out.map_or_else(|| format!("reports/{}", run.name), str::to_owned);
    let repeats = repeats.to_string();
    command_line(&["mantissa", "run", "--resume", &folder, "--repeats", &repeats])
}
