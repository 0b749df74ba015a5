//! Compares the results of each run with those of the first run, setting by setting.

use mantissa_analysis::{CONFIDENCE, Estimate, Groups, Verdict, hodges_lehmann_ratio, holm, judge, mcnemar};
use mantissa_core::{Better, ExecutedVerdict, MetricName};

use super::{
    incomparable::{other_arithmetic, other_work},
    losses::{self, Losses},
    matching::{Line, is_attempted, letter},
};
use crate::{
    Row, Run,
    difference::correct_predictions,
    setting::{SPEED_THRESHOLD, speeds},
};

/// Results of one run for a setting.
#[derive(Debug, Default)]
pub(super) struct Entry<'r, 'a> {
    /// The run's row; `None` if the run lacks the setting.
    pub row: Option<&'r Row<'a>>,
    /// Speed relative to the first run: Hodges–Lehmann ratio, the median quotient over all pairs of processes (one from each run).
    pub speed: Option<Estimate>,
    /// Verdict on the speed ratio. Its p-value is Holm-corrected over all comparisons of the table.
    pub verdict: Option<Verdict>,
    /// Memory relative to the first run, also as a Hodges–Lehmann ratio.
    pub memory: Option<Estimate>,
    /// p-value of McNemar's test for equal accuracy on the same test examples as in the first run, Holm-corrected.
    pub accuracy_p: Option<f64>,
    /// Training losses compared with those of the first run.
    pub losses: Option<Losses>,
    /// `true` if both runs finished the setting with the same work and data.
    pub same_work: bool,
    /// `true` if this run and the first run executed different precisions.
    pub other_arithmetic: bool,
    /// Remarks for the table.
    pub remarks: Vec<String>,
}

impl Entry<'_, '_> {
    /// Returns `true` if the accuracy differs significantly from that of the first run.
    pub fn accuracy_differs(&self) -> bool {
        self.accuracy_p.is_some_and(|p| p <= 1.0 - CONFIDENCE)
    }
}

/// Compares every line and returns its entries, one per run.
pub(super) fn compare<'r, 'a>(
    runs: &[&Run],
    lines: &[Line<'r, 'a>],
    speed: MetricName,
    memory: Option<MetricName>,
) -> Vec<Vec<Entry<'r, 'a>>> {
    let mut entries: Vec<Vec<Entry<'r, 'a>>> = lines.iter().map(new_entries).collect();
    judge_speeds(&mut entries, speed);
    judge_accuracies(&mut entries);
    for line in &mut entries {
        let Some((first, others)) = line.split_first_mut() else {
            continue;
        };
        for (entry, run) in others.iter_mut().zip(&runs[1..]) {
            let Some((mine, theirs)) = entry.row.zip(first.row).filter(|_| entry.same_work) else {
                continue;
            };
            entry.memory =
                memory.and_then(|memory| hodges_lehmann_ratio(&mine.values(memory), &theirs.values(memory)));
            entry.losses = losses::compare((run, mine), (runs[0], theirs));
        }
    }
    entries
}

/// Returns the entries of a line with their remarks. Ratios and results of tests are filled in later.
fn new_entries<'r, 'a>(line: &Line<'r, 'a>) -> Vec<Entry<'r, 'a>> {
    let first = line.rows.first().copied().flatten();
    let entry = |(run, row): (usize, &Option<&'r Row<'a>>)| {
        let (here, there) = (letter(run), letter(0));
        let Some(row) = *row else {
            return Entry {
                remarks: vec![format!("not in {here}")],
                ..Entry::default()
            };
        };
        let mut entry = Entry {
            row: Some(row),
            ..Entry::default()
        };
        if !row.is_ok() || !row.unexpected.is_empty() {
            let text = format!("{here} {}: {}", row.status_name(), row.remark());
            entry.remarks.push(text);
        }
        if let Some(first) = first.filter(|_| run > 0 && is_attempted(row)) {
            let work = other_work(row, first, (here, there));
            let arithmetic = other_arithmetic(row, first, (here, there));
            entry.other_arithmetic = arithmetic.is_some();
            entry.same_work = work.is_none() && row.is_ok() && first.is_ok();
            entry.remarks.extend(work.into_iter().chain(arithmetic));
        }
        let verdict = row.verdict().filter(|_| !entry.other_arithmetic);
        let executed = row.executed().unwrap_or_default();
        entry.remarks.extend(match verdict {
            Some(ExecutedVerdict::Differs) => {
                Some(format!("{here} {executed}, requested {}", row.requested()))
            }
            Some(ExecutedVerdict::Unverified) => Some(format!("{here} {executed}")),
            _ => None,
        });
        entry
    };
    line.rows.iter().enumerate().map(entry).collect()
}

/// Returns the indices (line, run) of the entries that can be compared with the first run.
fn pairs(entries: &[Vec<Entry<'_, '_>>]) -> Vec<(usize, usize)> {
    let of_line = |(line, entries): (usize, &Vec<Entry<'_, '_>>)| {
        let runs = 1..entries.len();
        let same: Vec<usize> = runs.filter(|run| entries[*run].same_work).collect();
        same.into_iter().map(move |run| (line, run)).collect::<Vec<_>>()
    };
    entries.iter().enumerate().flat_map(of_line).collect()
}

fn judge_speeds(entries: &mut [Vec<Entry<'_, '_>>], metric: MetricName) {
    let values = |line: usize, run: usize| {
        let row = entries[line][run].row;
        row.map(|row| speeds(row, metric)).unwrap_or_default()
    };
    let pairs = pairs(entries).into_iter();
    let sampled: Vec<_> = pairs
        .map(|(line, run)| ((line, run), values(line, run), values(line, 0)))
        .filter(|(_, mine, theirs)| !mine.is_empty() && !theirs.is_empty())
        .collect();
    let family: Vec<Groups<'_>> = sampled
        .iter()
        .map(|(_, candidate, baseline)| Groups {
            baseline,
            candidate,
            better: Better::Higher,
            threshold: SPEED_THRESHOLD,
        })
        .collect();
    for (((line, run), ..), judgement) in sampled.iter().zip(judge(&family)) {
        let entry = &mut entries[*line][*run];
        (entry.speed, entry.verdict) = (judgement.ratio, Some(judgement.verdict));
    }
}

fn judge_accuracies(entries: &mut [Vec<Entry<'_, '_>>]) {
    let test = |(line, run): (usize, usize)| {
        let (mine, theirs) = (entries[line][run].row?, entries[line][0].row?);
        let ((data, mine), (other_data, theirs)) = (correct_predictions(mine)?, correct_predictions(theirs)?);
        let (only_mine, only_theirs) = mine.apart(theirs).filter(|_| data == other_data)?;
        Some(((line, run), mcnemar(only_mine, only_theirs)))
    };
    let tested: Vec<_> = pairs(entries).into_iter().filter_map(test).collect();
    let p_values: Vec<f64> = tested.iter().map(|(_, p)| *p).collect();
    for (((line, run), _), p) in tested.into_iter().zip(holm(&p_values)) {
        entries[line][run].accuracy_p = Some(p);
    }
}
