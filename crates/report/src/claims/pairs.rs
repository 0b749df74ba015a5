//! Pairs of settings that agree in every axis but those of a claim, and what was measured of both.

use std::collections::{BTreeMap, HashMap};

use mantissa_analysis::{Estimate, Evidence};
use mantissa_core::{Axis, AxisValue, Comparison, ExecutedVerdict, MetricName, Status, TaskKind};

use crate::{
    Group, Row,
    claims::learnt::learnt,
    difference::{difference, discordant},
};

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
    /// Whether either setting learnt more than chance; absent where that cannot be told, and for what is not learned.
    pub learnt: Option<bool>,
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
            learnt: metric.is_learned().then(|| either_learnt(&sound)).flatten(),
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

/// Whether one of two settings learnt more than chance. That neither did must be known of both.
fn either_learnt(pairs: &[(&Row<'_>, &Row<'_>)]) -> Option<bool> {
    let (of, against): (Vec<&Row<'_>>, Vec<&Row<'_>>) = pairs.iter().copied().unzip();
    match (learnt(&of), learnt(&against)) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn evidence(pairs: &[(&Row<'_>, &Row<'_>)], metric: MetricName) -> Evidence {
    match pairs {
        // Weights that are given predict the same under every seed.
        [(of, against), ..] if metric.is_learned() && of.cell.workload.kind() == TaskKind::Evaluate => {
            given(of, against, metric)
        }
        _ if metric.is_learned() => over_seeds(pairs, metric),
        _ => over_processes(pairs, metric),
    }
}

fn given(of: &Row<'_>, against: &Row<'_>, metric: MetricName) -> Evidence {
    let examples = discordant(of, against).filter(|_| metric == MetricName::TestAccuracy);
    match examples {
        Some(examples) => Evidence::Examples {
            only_first: examples.only_first,
            only_second: examples.only_second,
            examples: examples.examples,
        },
        None => Evidence::Given(difference(of, against, metric).unwrap_or_else(nothing)),
    }
}

fn over_seeds(pairs: &[(&Row<'_>, &Row<'_>)], metric: MetricName) -> Evidence {
    let of_seed =
        |(of, against): &(&Row<'_>, &Row<'_>)| difference(of, against, metric).unwrap_or_else(nothing);
    Evidence::Seeds {
        differences: pairs.iter().map(of_seed).collect(),
        // What a training saw it saw in another order under each seed.
        same_examples: !matches!(metric, MetricName::FinalLoss | MetricName::TrainAccuracy),
    }
}

/// Of one seed, the values of the processes of either setting.
type Processes = (Vec<f64>, Vec<f64>);

fn over_processes(pairs: &[(&Row<'_>, &Row<'_>)], metric: MetricName) -> Evidence {
    let of_seed = |(of, against): &(&Row<'_>, &Row<'_>)| (of.values(metric), against.values(metric));
    let seeds: Vec<Processes> = pairs.iter().map(of_seed).collect();
    let constant = |pick: fn(&Processes) -> &Vec<f64>| {
        let mut values = seeds.iter().flat_map(pick);
        let first = values.next().copied()?;
        values.all(|value| *value == first).then_some(first)
    };
    match (constant(|seed| &seed.0), constant(|seed| &seed.1)) {
        (Some(first), Some(second)) if metric.is_counted() => Evidence::Counted(first / second),
        _ => Evidence::Processes(seeds),
    }
}

/// What was recorded of neither.
fn nothing() -> Estimate {
    Estimate {
        value: f64::NAN,
        interval: None,
        n: 0,
        method: "not recorded",
    }
}
