//! Comparison of the settings of a model with their baseline: speed, accuracy and memory.

use mantissa_core::{Axis, MetricName};

use super::{
    memory::{leanest, least_memory},
    quality::{
        accuracy_differs, accuracy_text, indistinct_accuracies, is_compared, perplexities, with_interval,
    },
    speed::{beats, certainty, fastest, is_faster, nearest, ratio},
};
use crate::{Group, Row, launches, units};

/// Returns the sentences that compare the settings of a training, an evaluation or a text generation.
pub(super) fn sentences(group: &Group<'_>) -> Vec<String> {
    let baselines = main_baselines(group);
    if let [baseline, ..] = baselines[..]
        && baselines
            .iter()
            .all(|baseline| rivals(group, *baseline).is_empty())
    {
        return vec![match group.ok().count() {
            1 => only_finished(group, &group.rows[baseline]),
            _ => "No two settings did the same work, so there is nothing to compare.".to_owned(),
        }];
    }
    let of_each = baselines.iter().flat_map(|baseline| {
        let mut sentences = compare_with_baseline(group, *baseline);
        if let (Some(first), true) = (sentences.first_mut(), baselines.len() > 1) {
            *first = format!(
                "At sequence length {}: {first}",
                group.rows[*baseline].axis(Axis::Sequence)
            );
        }
        sentences
    });
    of_each.collect()
}

/// Returns the main baseline for each sequence length: the baseline of the first finished row. Rows of different lengths do different
/// work.
fn main_baselines(group: &Group<'_>) -> Vec<usize> {
    let mut known: Vec<(String, usize)> = Vec::new();
    for row in group.ok() {
        let sequence = row.axis(Axis::Sequence);
        if let Some(baseline) = row.baseline
            && known.iter().all(|(other, _)| *other != sequence)
        {
            known.push((sequence, baseline));
        }
    }
    known.into_iter().map(|(_, baseline)| baseline).collect()
}

/// Returns the rows that are compared with a baseline.
fn rivals<'g, 'a>(group: &'g Group<'a>, baseline: usize) -> Vec<&'g Row<'a>> {
    let base = &group.rows[baseline].cell.id;
    let compared = |row: &&Row<'_>| row.baseline == Some(baseline) && row.cell.id != *base;
    group.ok().filter(compared).collect()
}

fn only_finished(group: &Group<'_>, row: &Row<'_>) -> String {
    let name = group.label(row, &[]);
    format!("Only {name} finished, so there is nothing to compare.")
}

/// Compares the settings that did the same work as a baseline.
fn compare_with_baseline(group: &Group<'_>, baseline: usize) -> Vec<String> {
    let base = &group.rows[baseline];
    let rivals = rivals(group, baseline);
    if rivals.is_empty() {
        return vec![only_finished(group, base)];
    }
    if let Some(bound) = launches::headline(group, base, &rivals) {
        return std::iter::once(bound)
            .chain(least_memory(group, &rivals))
            .collect();
    }
    if !rivals.iter().any(|row| is_compared(row, base)) {
        return compare_by_speed(group, &rivals, base);
    }
    let (equal, worse): (Vec<&Row<'_>>, Vec<&Row<'_>>) = rivals
        .iter()
        .copied()
        .partition(|row| !accuracy_differs(row, base));
    let mut sentences = Vec::new();
    match fastest(&equal) {
        Some(row) => sentences.extend(fastest_equal(group, row, base)),
        None => sentences.push(format!(
            "The test accuracy of every other setting differs from that of the baseline, {}{}.",
            group.label(base, &[]),
            accuracy_text(base)
                .map(|text| format!(" ({text})"))
                .unwrap_or_default(),
        )),
    }
    if let Some(row) = fastest(&worse).filter(|row| beats(row, fastest(&equal))) {
        let accuracy = accuracy_text(row)
            .map(|text| format!(" of {text}"))
            .unwrap_or_default();
        sentences.push(format!(
            "{} {} faster still, at {}, but its test accuracy{accuracy} differs from the baseline's.",
            group.label(row, &[]),
            if is_faster(row) { "is" } else { "ran" },
            ratio(row.speed_up.as_ref()),
        ));
    }
    let named = fastest(&equal).map(|row| &row.cell.id);
    if let Some(row) = leanest(&equal).filter(|row| Some(&row.cell.id) != named) {
        sentences.push(format!(
            "Without a significant change of accuracy, {} needs the least memory: {} of the baseline's{}.",
            group.label(row, &[]),
            ratio(row.memory_ratio.as_ref()),
            row.speed_up
                .as_ref()
                .map(|e| format!(", at {} its speed", units::times(e.value)))
                .unwrap_or_default(),
        ));
    }
    sentences.extend(indistinct_accuracies(group, &equal));
    sentences
}

/// Names the fastest setting and the one with the least memory if the accuracies cannot be compared.
fn compare_by_speed(group: &Group<'_>, rivals: &[&Row<'_>], base: &Row<'_>) -> Vec<String> {
    let base_name = group.label(base, &[]);
    let seconds = |row: &Row<'_>| group.value(group.speed, row);
    let mut sentences = vec![];
    let fastest = fastest(rivals);
    if let Some(row) = fastest {
        let (name, speed) = (group.label(row, &[]), row.speed_up.as_ref());
        sentences.push(match is_faster(row) {
            false => format!(
                "No setting is significantly faster than the baseline, {base_name} ({}); {}.",
                seconds(base),
                nearest(group, &name, row)
            ),
            true => format!(
                "{name} is the fastest setting: {} as fast as the baseline ({base_name}), {} instead of {}.",
                ratio(speed),
                seconds(row),
                seconds(base)
            ),
        });
        sentences.extend(row.speed_verdict.map(|verdict| certainty(verdict, row)));
    }
    sentences.extend(least_memory(group, rivals));
    let fastest = fastest.and_then(|row| Some((row, with_interval(row, MetricName::Perplexity)?)));
    sentences.push(match (fastest, with_interval(base, MetricName::Perplexity)) {
        (Some((row, mine)), Some(theirs)) => format!(
            "Perplexity is {mine} for {} and {theirs} for the baseline; the uncertainty of the difference was not estimated.",
            group.label(row, &[]),
        ),
        (_, theirs) => perplexities(group, rivals, (base_name.as_str(), theirs))
            .unwrap_or_else(|| "The quality of their results was not compared.".to_owned()),
    });
    sentences
}

fn fastest_equal(group: &Group<'_>, row: &Row<'_>, base: &Row<'_>) -> Vec<String> {
    let (name, base_name) = (group.label(row, &[]), group.label(base, &[]));
    let seconds = |row: &Row<'_>| group.value(group.speed, row);
    let speed = row.speed_up.as_ref();
    let mut sentences = vec![if is_faster(row) {
        format!(
            "{name} is the fastest setting whose test accuracy does not differ significantly from the baseline's \
             ({base_name}): {} as fast, {} instead of {}.",
            ratio(speed),
            seconds(row),
            seconds(base),
        )
    } else {
        format!(
            "No setting of equal test accuracy is significantly faster than the baseline, {base_name} ({}); {}.",
            seconds(base),
            nearest(group, &name, row),
        )
    }];
    sentences.extend(row.speed_verdict.map(|verdict| certainty(verdict, row)));
    if let (Some(mine), Some(theirs)) = (accuracy_text(row), accuracy_text(base)) {
        sentences.push(format!(
            "Its test accuracy is {mine}; the baseline's is {theirs}."
        ));
    }
    if let Some(memory) = &row.memory_ratio {
        sentences.push(format!(
            "It needs {} of the baseline's peak memory.",
            units::times(memory.value)
        ));
    }
    sentences
}
