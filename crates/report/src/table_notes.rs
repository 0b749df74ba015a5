//! Notes below a table on its intervals and comparisons.

use mantissa_analysis::{Doubt, MIN_PROCESSES, OUTLIER_BEYOND, TOLERATED_LOSS, Verdict};
use mantissa_core::{Axis, MetricName, TaskKind};

use crate::{Group, Row, setting::SPEED_THRESHOLD, units};

/// Returns the notes on the intervals and comparisons of a table.
pub(crate) fn of_group(group: &Group<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(process_note(group));
    notes.extend(speed_note(group));
    notes.extend(accuracy_note(group));
    notes.extend(sample_note(group));
    notes.extend(data_sheet_note(group));
    notes
}

fn process_note(group: &Group<'_>) -> Option<String> {
    let processes = || {
        group
            .rows
            .iter()
            .filter(|row| !row.metrics.is_empty())
            .map(Row::processes)
    };
    let (fewest, most) = (processes().min()?, processes().max()?);
    let several = if fewest == most {
        format!("Medians over {most} processes")
    } else {
        format!("Medians over {fewest} to {most} processes")
    };
    Some(if most == 1 {
        let unit = if group.varies(Axis::Seed) {
            "setting and seed"
        } else {
            "setting"
        };
        format!(
            "One process per {unit}: intervals cover the variation within that process, not between processes."
        )
    } else if most < MIN_PROCESSES {
        format!("{several}, too few for an interval between processes.")
    } else if fewest < MIN_PROCESSES {
        format!(
            "{several}. With {MIN_PROCESSES} or more, intervals are between processes (hierarchical bootstrap); with one, the \
             interval covers the variation within that process; otherwise there is no interval."
        )
    } else {
        format!("{several}; intervals are between processes (hierarchical bootstrap).")
    })
}

fn speed_note(group: &Group<'_>) -> Option<String> {
    let comparisons = group.comparisons.iter();
    let verdicts: Vec<Verdict> = comparisons
        .filter_map(|comparison| comparison.speed_verdict)
        .collect();
    if verdicts.is_empty() {
        return None;
    }
    let few = Verdict::Inconclusive(Doubt::TooFewRepeats);
    let comparisons = match verdicts.len() {
        1 => "1 comparison".to_owned(),
        count => format!("{} comparisons", units::count(count as u64)),
    };
    Some(if verdicts.iter().all(|verdict| *verdict == few) {
        "Speeds are undecided: too few processes to detect a difference.".to_owned()
    } else {
        let beyond = 100.0 * SPEED_THRESHOLD;
        format!(
            "Speeds are Hodges–Lehmann ratios over processes. Faster or slower: a significant change of more than \
             {beyond:.0} % (Mann–Whitney, Holm's correction for {comparisons}); equally fast: within {beyond:.0} %."
        )
    })
}

fn accuracy_note(group: &Group<'_>) -> Option<String> {
    if group.rows.iter().any(|row| row.cell.workload.predicts_tokens()) {
        return token_note(group);
    }
    let compared = group
        .comparisons
        .iter()
        .any(|comparison| comparison.accuracy_loss.is_some());
    let accuracies = || {
        group
            .rows
            .iter()
            .filter_map(|row| row.metric(MetricName::TestAccuracy))
    };
    let intervals = accuracies()
        .any(|accuracy| accuracy.interval.is_some())
        .then_some(match group.varies(Axis::Seed) {
            true => "Accuracies are means over the seeds, with their range",
            false => "Accuracies have Wilson intervals over the test examples",
        });
    let seeds = match group.kind == TaskKind::Train && !group.varies(Axis::Seed) {
        true => {
            " Each setting was trained under one seed, and another seed may change its accuracy by more than these intervals."
        }
        false => "",
    };
    Some(match (intervals, compared) {
        (None, _) => return None,
        (Some(text), false) => format!("{text}."),
        (Some(text), true) => format!(
            "{text}. Accuracy is kept if the interval of its change excludes a loss of more than {:.0} point, lost if it contains no smaller \
             loss, and undecided otherwise. The change is computed example by example where the predictions are known.{seeds}",
            100.0 * TOLERATED_LOSS
        ),
    })
}

/// Explains the basis of the intervals of token metrics, or the reason for their absence.
fn token_note(group: &Group<'_>) -> Option<String> {
    let metrics = [
        MetricName::TestAccuracy,
        MetricName::Agreement,
        MetricName::Perplexity,
    ];
    let rows = group.rows.iter();
    let mut estimates = rows
        .flat_map(|row| metrics.map(|metric| row.metric(metric)))
        .flatten()
        .peekable();
    estimates.peek()?;
    let text = if estimates.any(|estimate| estimate.interval.is_some()) {
        "Tokens of a passage are not independent: intervals come from a cluster bootstrap over passages, which are treated as \
         independent. All settings predict the same passages, so the overlap of intervals does not test a difference."
    } else {
        "Tokens are not independent: shares of tokens have no interval."
    };
    let masked = |row: &Row<'_>| row.cell.workload.model().is_some_and(|model| !model.is_causal());
    let masked_note = match group.rows.iter().any(masked) {
        true => {
            "The model predicts masked tokens, 15 % of all, from the surrounding ones; their perplexity is not comparable with that of next tokens. "
        }
        false => "",
    };
    Some(format!("{masked_note}{text}"))
}

/// Lists the sources of the peaks that throughputs are compared with.
fn data_sheet_note(group: &Group<'_>) -> Option<String> {
    let with_throughput = group
        .ok()
        .filter(|row| row.metrics.contains_key(&MetricName::FlopsPerSecond));
    let mut sources: Vec<&str> = with_throughput
        .filter_map(|row| Some(row.sheet_peak()?.source))
        .collect();
    sources.dedup();
    (!sources.is_empty()).then(|| format!("Peak throughput without sparsity: {}.", sources.join("; ")))
}

/// Explains the notes of the group's rows.
fn sample_note(group: &Group<'_>) -> Option<String> {
    let has_note = |what: &str| {
        let mut notes = group.rows.iter().flat_map(|row| &row.notes);
        notes.any(|note| note.contains(what))
    };
    let outliers = format!("outliers: beyond {OUTLIER_BEYOND} deviations, included in every estimate");
    let meanings = [
        (
            "drift",
            "drift: the second half of the times relative to the first",
        ),
        (
            "effective sample size",
            "effective sample size: successive times are correlated, so an interval within the process is too narrow",
        ),
        ("throttled", "throttled: measured while the clock was throttled"),
        ("outliers", &outliers),
    ];
    let explanations: Vec<&str> = meanings
        .iter()
        .filter(|(what, _)| has_note(what))
        .map(|(_, meaning)| *meaning)
        .collect();
    (!explanations.is_empty()).then(|| format!("Times within a process: {}.", explanations.join("; ")))
}
