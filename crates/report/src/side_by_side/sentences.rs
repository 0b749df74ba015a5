//! Formats the results of a comparison as sentences, with notes on the statistics.

use mantissa_analysis::{Doubt, Sample, Verdict, smallest_p};
use mantissa_core::MetricName;

use super::{
    compare::Entry,
    losses::{Losses, NonFinite},
    matching::letter,
    view::Comparison,
};
use crate::{setting::SPEED_THRESHOLD, units};

/// Returns the text of a verdict. Uses "faster" and "slower" instead of "improved" and "regressed", because a difference between runs on
/// two machines is neither an improvement nor a regression.
pub(super) fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Improved => "faster",
        Verdict::Regressed => "slower",
        Verdict::Unchanged => "as fast",
        Verdict::Inconclusive(Doubt::TooFewRepeats) => "too few processes",
        Verdict::Inconclusive(Doubt::TooNoisy | Doubt::Shared) => "no significant difference",
        Verdict::Inconclusive(Doubt::NoRatio) => "no ratio",
    }
}

/// Returns sentences that compare every later run with the first one.
pub(super) fn answer(table: &Comparison<'_, '_>) -> Vec<String> {
    let runs = table.lines.first().map_or(0, Vec::len);
    (1..runs).flat_map(|run| run_sentences(table, run)).collect()
}

fn run_sentences(table: &Comparison<'_, '_>, run: usize) -> Vec<String> {
    let here = letter(run);
    if table.lacks(run) {
        return vec![format!("{here} does not contain any of these settings.")];
    }
    let entries: Vec<&Entry<'_, '_>> = table.lines.iter().map(|line| &line[run]).collect();
    let same = entries.iter().filter(|entry| entry.same_work).count();
    if same == 0 {
        let text = "finished no setting with the same work and data, so nothing can be compared.";
        return vec![format!("A and {here} {text}")];
    }
    let mut sentences = Vec::new();
    sentences.extend(speed(&entries).map(|text| format!("{here} is {text}")));
    let ratios = entries.iter().filter_map(|entry| entry.memory.as_ref());
    let ratios: Vec<f64> = ratios.map(|ratio| ratio.value).collect();
    sentences.extend(range(&ratios).map(|text| format!("Peak memory of {here} is {text} that of A.")));
    sentences.extend(losses(table, run, &entries));
    sentences.extend(quality(table, run, &entries));
    let other = entries.iter().filter(|entry| entry.other_arithmetic).count();
    if other > 0 {
        sentences.push(format!(
            "In {} {here} executed another precision than A: their times and errors are not of the same arithmetic.",
            settings(other)
        ));
    }
    if same < entries.len() {
        sentences.push(format!(
            "Not compared: {} of {}; the remarks give the reasons.",
            units::count((entries.len() - same) as u64),
            settings(entries.len())
        ));
    }
    sentences
}

/// Formats the speed: `1.42× as fast as A in the median of 12 settings (0.98× to 2.20×): 3 faster, 9 as fast.`
fn speed(entries: &[&Entry<'_, '_>]) -> Option<String> {
    let ratios = entries.iter().filter_map(|entry| entry.speed.as_ref());
    let ratios: Vec<f64> = ratios.map(|ratio| ratio.value).collect();
    let middle = match ratios.as_slice() {
        [only] => format!("{} as fast as A in one setting", units::times(*only)),
        several => format!(
            "{} as fast as A in the median of {} ({} to {})",
            units::times(Sample::new(several.iter().copied())?.median()),
            settings(several.len()),
            units::times(several.iter().copied().fold(f64::INFINITY, f64::min)),
            units::times(several.iter().copied().fold(0.0, f64::max)),
        ),
    };
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for verdict in entries.iter().filter_map(|entry| entry.verdict) {
        match counts
            .iter_mut()
            .find(|(known, _)| *known == verdict_text(verdict))
        {
            Some((_, count)) => *count += 1,
            None => counts.push((verdict_text(verdict), 1)),
        }
    }
    let few = verdict_text(Verdict::Inconclusive(Doubt::TooFewRepeats));
    Some(match counts.as_slice() {
        [(only, _)] if *only == few => {
            format!("{middle}: too few processes to detect a difference.")
        }
        counts => {
            let texts = counts.iter().map(|(word, count)| format!("{count} {word}"));
            format!("{middle}: {}.", texts.collect::<Vec<_>>().join(", "))
        }
    })
}

fn settings(count: usize) -> String {
    match count {
        1 => "1 setting".to_owned(),
        count => format!("{} settings", units::count(count as u64)),
    }
}

/// Formats the range of ratios: `0.98× to 1.05×`, or `1.00×`.
fn range(ratios: &[f64]) -> Option<String> {
    let low = ratios.iter().copied().reduce(f64::min)?;
    let high = ratios.iter().copied().reduce(f64::max)?;
    let (low, high) = (units::times(low), units::times(high));
    Some(match low == high {
        true => low,
        false => format!("{low} to {high}"),
    })
}

/// Formats the differences in loss:
/// `Losses of B and A differ by at most 1.70×10⁻⁷ (32-true), 1.10×10⁻² (bf16-mixed) in the first 20 steps, relative to the larger one.`
fn losses(table: &Comparison<'_, '_>, run: usize, entries: &[&Entry<'_, '_>]) -> Vec<String> {
    let here = letter(run);
    let mut most: Vec<(String, f64)> = Vec::new();
    let (mut sentences, mut steps, mut other_dropout) = (vec![], vec![], 0);
    for (row, losses) in entries.iter().filter_map(|entry| entry.row.zip(entry.losses)) {
        let Losses::Compared {
            steps: compared,
            max_difference,
            non_finite,
        } = losses
        else {
            other_dropout += 1;
            continue;
        };
        let arithmetic = table.arithmetic(row);
        if let Some(NonFinite { step, first }) = non_finite {
            let (one, other) = if first { ('A', here) } else { (here, 'A') };
            sentences.push(format!(
                "At step {step} of {} the loss of {other} is finite and that of {one} is not.",
                table.label(row)
            ));
        }
        if compared == 0 {
            continue;
        }
        steps.push(compared);
        match most.iter_mut().find(|(known, _)| *known == arithmetic) {
            Some((_, most)) => *most = most.max(max_difference),
            None => most.push((arithmetic, max_difference)),
        }
    }
    if other_dropout > 0 {
        sentences.push(format!(
            "Losses of {} are not compared: dropout may zero different values in {here} and A.",
            settings(other_dropout)
        ));
    }
    if let Some((fewest, longest)) = steps.iter().min().zip(steps.iter().max()) {
        let steps = match (fewest, longest) {
            (1, 1) => "first step".to_owned(),
            _ if fewest == longest => format!("first {fewest} steps"),
            _ => format!("first {fewest} to {longest} steps"),
        };
        let differences = most
            .iter()
            .map(|(arithmetic, difference)| format!("{} ({arithmetic})", units::scientific(*difference)));
        let differences = differences.collect::<Vec<_>>().join(", ");
        sentences.insert(
            0,
            format!(
                "Losses of {here} and A differ by at most {differences} in the {steps}, relative to the larger one."
            ),
        );
    }
    sentences
}

/// Describes the difference in quality: test accuracy, perplexity or relative error.
fn quality(table: &Comparison<'_, '_>, run: usize, entries: &[&Entry<'_, '_>]) -> Option<String> {
    let metric = table.quality?;
    let name = match metric {
        MetricName::TestAccuracy => "Test accuracies",
        MetricName::Perplexity => "Perplexities",
        _ => "Relative errors",
    };
    let values = table.lines.iter().filter(|line| line[run].same_work);
    let values: Vec<(f64, f64)> = values
        .filter_map(|line| {
            let value = |entry: &Entry<'_, '_>| Some(entry.row?.metric(metric)?.value);
            Some((value(&line[run])?, value(&line[0])?))
        })
        .collect();
    let here = letter(run);
    let equal = values.iter().filter(|(mine, theirs)| mine == theirs).count();
    if values.is_empty() {
        return None;
    }
    if equal == values.len() {
        let count = settings(values.len());
        return Some(format!("{name} of {here} and A are identical in {count}."));
    }
    let different = entries.iter().filter(|entry| entry.accuracy_differs()).count();
    let tested = entries.iter().filter(|entry| entry.accuracy_p.is_some()).count();
    Some(if metric == MetricName::TestAccuracy {
        let points = values.iter().map(|(mine, theirs)| 100.0 * (mine - theirs).abs());
        let most = points.fold(0.0, f64::max);
        let text = format!("{name} of {here} and A differ by at most {most:.2} points");
        match (tested, different) {
            (0, _) => format!("{text}."),
            (_, 0) => format!(
                "{text}; compared example by example, none of {} differs significantly.",
                settings(tested)
            ),
            _ => format!(
                "{text}; {different} of {} differ significantly.",
                settings(tested)
            ),
        }
    } else {
        // A relative difference to 0 is undefined.
        let from_zero = values
            .iter()
            .filter(|(mine, theirs)| *theirs == 0.0 && mine != theirs);
        if from_zero.clone().count() > 0 {
            let count = settings(from_zero.count());
            return Some(format!(
                "{name} of {here} are not 0 in {count} in which those of A are 0."
            ));
        }
        let known = values.iter().filter(|(_, theirs)| *theirs != 0.0);
        let shares = known.map(|(mine, theirs)| 100.0 * (mine / theirs - 1.0).abs());
        let most = shares.fold(0.0, f64::max);
        match most < 0.01 {
            true => format!("{name} of {here} and A differ by less than 0.01 %."),
            false => format!("{name} of {here} and A differ by at most {most:.2} %."),
        }
    })
}

/// Returns notes on the statistics of the ratios, with the number of processes that a verdict would need.
pub(super) fn notes(table: &Comparison<'_, '_>) -> Vec<String> {
    /// Maximum number of processes in the search; more are impractical.
    const MAX_PROCESSES: usize = 100;
    let entries = || table.lines.iter().flatten();
    let verdicts = entries().filter_map(|entry| entry.verdict);
    let compared = verdicts.clone().count();
    let mut notes = Vec::new();
    if table.memory.is_none() {
        notes.push("No memory metric was measured in all runs.".to_owned());
    }
    if compared == 0 {
        return notes;
    }
    let (comparisons, need) = match compared {
        1 => ("1 comparison".to_owned(), "needs"),
        several => (format!("{} comparisons", units::count(several as u64)), "need"),
    };
    let beyond = 100.0 * SPEED_THRESHOLD;
    notes.push(format!(
        "Speeds are Hodges–Lehmann ratios over processes, with 95 % intervals if there are enough processes. Faster and slower: \
         significantly, by more than {beyond:.0} % (Mann–Whitney, Holm's correction for {comparisons}); as fast: within \
         {beyond:.0} %."
    ));
    let few = Verdict::Inconclusive(Doubt::TooFewRepeats);
    if verdicts.clone().any(|verdict| verdict == few) {
        let enough = (2..MAX_PROCESSES).find(|n| smallest_p(*n, *n) * compared as f64 <= 0.05);
        let needed = enough.map_or_else(String::new, |n| {
            format!(": {comparisons} {need} {n} from each run")
        });
        notes.push(format!("Too few processes to detect a difference{needed}."));
    }
    if entries().any(|entry| entry.accuracy_p.is_some()) {
        let text =
            "Correct predictions are compared example by example (McNemar's exact test, Holm's correction).";
        notes.push(text.to_owned());
    }
    notes
}
