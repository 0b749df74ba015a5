//! Pairs of settings that agree in every axis but those of a claim, and what was measured of both.

use std::collections::{BTreeMap, HashMap};

use mantissa_analysis::Evidence;
use mantissa_core::{Axis, AxisValue, Comparison, ExecutedVerdict, MetricName, Status, TaskKind};

use crate::{Group, Row, baseline::right};

/// The cells of two settings, those of either differing in the seed alone.
pub(crate) struct Pair<'g, 'a> {
    pub group: &'g Group<'a>,
    pub of: Vec<&'g Row<'a>>,
    pub against: Vec<&'g Row<'a>>,
}

/// What was measured of a pair.
pub(crate) struct Measured {
    pub evidence: Evidence,
    pub metric: MetricName,
    /// Seeds under which both settings ran to their end, of all.
    pub seeds: (usize, usize),
}

/// Whether a setting has these values.
pub(crate) fn has(row: &Row<'_>, values: &BTreeMap<Axis, AxisValue>) -> bool {
    values
        .iter()
        .all(|(axis, value)| row.cell.setting.get(*axis) == Some(value))
}

/// A setting without some of its axes, as text.
pub(crate) fn rest(row: &Row<'_>, left_out: impl Fn(Axis) -> bool) -> String {
    let kept = row.cell.setting.iter().filter(|(axis, _)| !left_out(*axis));
    kept.map(|(axis, value)| format!("{axis}={value} ")).collect()
}

/// Rows that fit, in the order of the plan, those together that `rest` does not tell apart.
pub(crate) fn together<'g, 'a>(
    group: &'g Group<'a>,
    fits: impl Fn(&Row<'a>) -> bool,
    left_out: impl Fn(Axis) -> bool,
) -> (Vec<Vec<&'g Row<'a>>>, HashMap<String, usize>) {
    let (mut found, mut places) = (Vec::<Vec<&Row<'a>>>::new(), HashMap::new());
    for row in group.rows.iter().filter(|row| fits(row)) {
        let place = *places.entry(rest(row, &left_out)).or_insert(found.len());
        match found.get_mut(place) {
            Some(rows) => rows.push(row),
            None => found.push(vec![row]),
        }
    }
    (found, places)
}

/// Every pair of a group: an axis that both settings name may differ, any other is equal, and seeds are put together.
pub(crate) fn pairs<'g, 'a>(
    group: &'g Group<'a>,
    of: &BTreeMap<Axis, AxisValue>,
    against: &BTreeMap<Axis, AxisValue>,
) -> Vec<Pair<'g, 'a>> {
    let both = |axis: Axis| of.contains_key(&axis) && against.contains_key(&axis);
    let (firsts, _) = together(group, |row| has(row, of), both);
    let (seconds, places) = together(group, |row| has(row, against), both);
    let pair = |of: Vec<&'g Row<'a>>| {
        let place = *places.get(&rest(of.first()?, both))?;
        let against = seconds.get(place)?.clone();
        Some(Pair { group, of, against })
    };
    firsts.into_iter().filter_map(pair).collect()
}

impl<'g, 'a> Pair<'g, 'a> {
    /// `bf16-mixed · high against 32-true · high`.
    pub fn label(&self) -> String {
        let label = |rows: &[&Row<'a>]| rows.first().map(|row| self.group.label(row, &[Axis::Seed]));
        let (of, against) = (label(&self.of), label(&self.against));
        format!(
            "{} against {}",
            of.unwrap_or_default(),
            against.unwrap_or_default()
        )
    }

    /// Every row of both.
    pub fn rows(&self) -> impl Iterator<Item = &'g Row<'a>> {
        self.of.iter().chain(&self.against).copied()
    }

    /// What was measured of both under the same seeds, or why nothing can be compared.
    pub fn measured(&self, comparison: &Comparison) -> Result<Measured, String> {
        let same: Vec<(&Row<'a>, &Row<'a>)> = self
            .of
            .iter()
            .filter_map(|row| {
                let other = self
                    .against
                    .iter()
                    .find(|other| other.cell.seed == row.cell.seed)?;
                Some((*row, *other))
            })
            .collect();
        let sound: Vec<_> = same
            .iter()
            .copied()
            .filter(|(of, against)| {
                [of, against]
                    .into_iter()
                    .all(|row| unfit(self.group, row).is_none())
            })
            .collect();
        if sound.is_empty() {
            let why = self.rows().find_map(|row| unfit(self.group, row));
            return Err(why.unwrap_or_else(|| "the two settings have no seed in common".to_owned()));
        }
        let has = |metric: &&MetricName| {
            let recorded = |row: &Row<'_>| row.metric(**metric).is_some();
            sound
                .iter()
                .all(|(of, against)| recorded(of) && recorded(against))
        };
        let Some(&metric) = comparison.metrics.iter().find(has) else {
            let names: Vec<&str> = comparison.metrics.iter().map(|metric| metric.name()).collect();
            return Err(format!("{} was not recorded of both", names.join(" or ")));
        };
        Ok(Measured {
            evidence: evidence(&sound, metric),
            metric,
            seeds: (sound.len(), same.len()),
        })
    }
}

/// Why nothing can be said of a row, if so.
pub(crate) fn unfit(group: &Group<'_>, row: &Row<'_>) -> Option<String> {
    let name = || group.label(row, &[]);
    if row.verdict() == Some(ExecutedVerdict::Differs) {
        return Some(format!("{} executed another precision than asked for", name()));
    }
    (!row.is_ok()).then(|| match row.status {
        Some(Status::Skipped) => format!("{} was skipped", name()),
        Some(status) => format!("{} ended as {status}", name()),
        None => format!("{} was not run", name()),
    })
}

fn evidence(pairs: &[(&Row<'_>, &Row<'_>)], metric: MetricName) -> Evidence {
    let value = |row: &Row<'_>| row.metric(metric).map_or(f64::NAN, |estimate| estimate.value);
    let evaluated = |(of, _): &(&Row<'_>, &Row<'_>)| of.cell.workload.kind() == TaskKind::Evaluate;
    match pairs {
        // Weights that are given predict the same under every seed.
        [pair @ (of, against), ..] if metric.is_learned() && evaluated(pair) => {
            return examples(of, against, metric).unwrap_or(Evidence::Size(value(of) - value(against)));
        }
        _ if metric.is_learned() => {
            return Evidence::Seeds(
                pairs.iter().map(|(of, _)| value(of)).collect(),
                pairs.iter().map(|(_, against)| value(against)).collect(),
            );
        }
        _ => {}
    }
    let of: Vec<f64> = pairs.iter().flat_map(|(of, _)| of.values(metric)).collect();
    let against: Vec<f64> = pairs
        .iter()
        .flat_map(|(_, against)| against.values(metric))
        .collect();
    let constant = |values: &[f64]| values.windows(2).all(|pair| pair[0] == pair[1]);
    match (of.first(), against.first()) {
        (Some(first), Some(second)) if metric.is_counted() && constant(&of) && constant(&against) => {
            Evidence::Counted(first / second)
        }
        _ => Evidence::Processes(of, against),
    }
}

/// Which of the same examples the same weights got right. Words of a text depend on each other: they are no examples.
fn examples(of: &Row<'_>, against: &Row<'_>, metric: MetricName) -> Option<Evidence> {
    if metric != MetricName::TestAccuracy || of.cell.workload.predicts_words() {
        return None;
    }
    let ((data, mine), (same, theirs)) = (right(of)?, right(against)?);
    let (only_first, only_second) = mine.apart(theirs).filter(|_| data == same)?;
    Some(Evidence::Examples {
        only_first,
        only_second,
        examples: mine.examples(),
    })
}
