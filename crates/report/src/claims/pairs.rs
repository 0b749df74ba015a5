//! Pairs of settings that differ only in the axes of a claim, and their measurements.

use std::collections::{BTreeMap, HashMap};

use mantissa_analysis::{Estimate, Evidence};
use mantissa_core::{Axis, AxisValue, Comparison, ExecutedVerdict, MetricName, Status, TaskKind};

use crate::{
    Group, Row,
    claims::chance_accuracy::is_above_chance,
    comparability::{depends_on_speed, is_of_rank_0, is_same_rank_0},
    difference::{difference, discordant},
    units,
};

/// Smallest peak of a whole process, in bytes, at which claims about memory are tested. The program itself needs about 30 MB, at most 6 % of
/// such a peak.
const MIN_PROCESS_PEAK: f64 = 0.5e9;

/// Cells of two settings. The cells of each setting differ only in the seed.
pub(crate) struct Pair<'g, 'a> {
    pub group: &'g Group<'a>,
    pub of: Vec<&'g Row<'a>>,
    pub against: Vec<&'g Row<'a>>,
}

/// Measurements of a pair.
pub(crate) struct PairMeasurement {
    pub evidence: Evidence,
    pub metric: MetricName,
    /// Number of usable seeds (both settings finished and executed the requested precision), and of all common seeds.
    pub seeds: (usize, usize),
    /// `Some(true)` if either setting predicts better than chance. `None` if unknown, or if the metric is not an accuracy, a loss or the
    /// perplexity.
    pub learned: Option<bool>,
}

/// Returns `true` if a setting has these values.
pub(crate) fn has(row: &Row<'_>, values: &BTreeMap<Axis, AxisValue>) -> bool {
    values
        .iter()
        .all(|(axis, value)| row.cell.setting.get(*axis).as_ref() == Some(value))
}

/// Formats a setting without the axes for which `left_out` returns `true`.
pub(crate) fn setting_key(row: &Row<'_>, left_out: impl Fn(Axis) -> bool) -> String {
    let axes = row.cell.setting.iter().filter(|(axis, _)| !left_out(*axis));
    axes.map(|(axis, value)| format!("{axis}={value} ")).collect()
}

/// Groups the rows for which `fits` returns `true` by their setting, ignoring the seed and the axes for which `left_out` returns `true`.
/// Returns the groups in plan order.
pub(crate) fn group_rows<'g, 'a>(
    group: &'g Group<'a>,
    fits: impl Fn(&Row<'a>) -> bool,
    left_out: impl Fn(Axis) -> bool,
) -> Vec<Vec<&'g Row<'a>>> {
    let (mut found, mut indices) = (Vec::<Vec<&Row<'a>>>::new(), HashMap::new());
    for row in group.rows.iter().filter(|row| fits(row)) {
        let index = *indices.entry(setting_key(row, &left_out)).or_insert(found.len());
        match found.get_mut(index) {
            Some(rows) => rows.push(row),
            None => found.push(vec![row]),
        }
    }
    found
}

/// Returns the axes without an effect in some settings of a group, such as the algorithm of an all-reduce with one device. An absent
/// `threads` is a value: all threads.
fn conditional_axes(group: &Group<'_>) -> Vec<Axis> {
    let is_conditional = |axis: &Axis| {
        let mut present = group.rows.iter().map(|row| row.cell.setting.get(*axis).is_some());
        let first = present.next();
        *axis != Axis::Threads && present.any(|present| Some(present) != first)
    };
    Axis::ALL.iter().copied().filter(is_conditional).collect()
}

/// Returns every pair of a group: a setting with the values `of` and one with the values `against`. Only axes in both maps may differ, and
/// axes without an effect in one of the settings. The seeds of a setting are grouped.
pub(crate) fn pairs<'g, 'a>(
    group: &'g Group<'a>,
    of: &BTreeMap<Axis, AxisValue>,
    against: &BTreeMap<Axis, AxisValue>,
) -> Vec<Pair<'g, 'a>> {
    let named_by_both = |axis: Axis| of.contains_key(&axis) && against.contains_key(&axis);
    let conditional = conditional_axes(group);
    let key = |rows: &[&Row<'_>]| {
        let left_out = |axis: Axis| named_by_both(axis) || conditional.contains(&axis);
        rows.first().map(|row| setting_key(row, left_out))
    };
    let same = |of: &[&Row<'_>], against: &[&Row<'_>]| {
        let value = |rows: &[&Row<'_>], axis: Axis| rows.first()?.cell.setting.get(axis);
        let mut compared = conditional.iter().filter(|axis| !named_by_both(**axis));
        compared.all(|axis| match (value(of, *axis), value(against, *axis)) {
            (Some(of), Some(against)) => of == against,
            _ => true,
        })
    };
    let mut seconds: HashMap<Option<String>, Vec<Vec<&'g Row<'a>>>> = HashMap::new();
    for against in group_rows(group, |row| has(row, against), |_| false) {
        seconds.entry(key(&against)).or_default().push(against);
    }
    let of_first = |of: Vec<&'g Row<'a>>| {
        let candidates = seconds.get(&key(&of)).into_iter().flatten();
        let found = candidates.filter(|against| same(&of, against)).cloned();
        let pair = |against| Pair {
            group,
            of: of.clone(),
            against,
        };
        found.map(pair).collect::<Vec<_>>()
    };
    let firsts = group_rows(group, |row| has(row, of), |_| false);
    firsts.into_iter().flat_map(of_first).collect()
}

impl<'g, 'a> Pair<'g, 'a> {
    /// Formats the pair: `bf16-mixed · high against 32-true · high`.
    pub fn label(&self) -> String {
        let label = |rows: &[&Row<'a>]| rows.first().map(|row| self.group.label(row, &[Axis::Seed]));
        let (of, against) = (label(&self.of), label(&self.against));
        format!(
            "{} against {}",
            of.unwrap_or_default(),
            against.unwrap_or_default()
        )
    }

    /// Returns the rows of both settings.
    pub fn rows(&self) -> impl Iterator<Item = &'g Row<'a>> {
        self.of.iter().chain(&self.against).copied()
    }

    /// Returns the measurements of both settings for their common seeds, or the reason why the settings cannot be compared.
    pub fn measure(&self, comparison: &Comparison) -> Result<PairMeasurement, String> {
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
        let usable: Vec<_> = same
            .iter()
            .copied()
            .filter(|(of, against)| {
                [of, against]
                    .into_iter()
                    .all(|row| exclusion_reason(self.group, row).is_none())
            })
            .collect();
        if usable.is_empty() {
            let why = self.rows().find_map(|row| exclusion_reason(self.group, row));
            return Err(why.unwrap_or_else(|| "the two settings have no seed in common".to_owned()));
        }
        let has = |metric: &&MetricName| {
            let recorded = |row: &Row<'_>| row.metric(**metric).is_some();
            usable
                .iter()
                .all(|(of, against)| recorded(of) && recorded(against))
        };
        let Some(&metric) = comparison.metrics.iter().find(has) else {
            let names: Vec<&str> = comparison.metrics.iter().map(|metric| metric.name()).collect();
            return Err(format!(
                "{} was not recorded for both settings",
                names.join(" or ")
            ));
        };
        let is_oversubscribed = usable
            .iter()
            .any(|(of, against)| of.is_oversubscribed() || against.is_oversubscribed());
        if depends_on_speed(metric) && is_oversubscribed {
            return Err("a setting has more threads than cores, so times are not comparable".to_owned());
        }
        if is_of_rank_0(metric) && usable.iter().any(|(of, against)| !is_same_rank_0(of, against)) {
            return Err(
                "memory and energy are those of rank 0, which are not comparable between settings with other `devices` or `reduce`"
                    .to_owned(),
            );
        }
        if metric == MetricName::HostPeakBytes
            && let Some(peak) = smallest(&usable, metric).filter(|peak| *peak < MIN_PROCESS_PEAK)
        {
            return Err(format!(
                "a process peaks at {}: below {}, the program itself is a relevant part of the peak",
                units::Scale::of(metric, peak).text(peak),
                units::Scale::of(metric, MIN_PROCESS_PEAK).text(MIN_PROCESS_PEAK)
            ));
        }
        Ok(PairMeasurement {
            evidence: evidence(&usable, metric),
            metric,
            seeds: (usable.len(), same.len()),
            learned: metric.is_learned().then(|| either_learned(&usable)).flatten(),
        })
    }
}

/// Returns the smallest value of a metric.
fn smallest(pairs: &[(&Row<'_>, &Row<'_>)], metric: MetricName) -> Option<f64> {
    let rows = pairs.iter().flat_map(|(of, against)| [of, against]);
    let values = rows.filter_map(|row| Some(row.metric(metric)?.value));
    values.min_by(f64::total_cmp)
}

/// Returns the reason why a row cannot be used, or `None` if it can.
pub(crate) fn exclusion_reason(group: &Group<'_>, row: &Row<'_>) -> Option<String> {
    let name = || group.label(row, &[]);
    if row.verdict() == Some(ExecutedVerdict::Differs) {
        return Some(format!("{} executed another precision than requested", name()));
    }
    (!row.is_ok()).then(|| match row.status {
        Some(Status::Skipped) => format!("{} was skipped", name()),
        Some(status) => format!("{} ended as {status}", name()),
        None => format!("{} was not run", name()),
    })
}

/// Returns `Some(true)` if either setting predicts better than chance, `Some(false)` if neither does, and `None` if unknown.
fn either_learned(pairs: &[(&Row<'_>, &Row<'_>)]) -> Option<bool> {
    let (of, against): (Vec<&Row<'_>>, Vec<&Row<'_>>) = pairs.iter().copied().unzip();
    match (is_above_chance(&of), is_above_chance(&against)) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn evidence(pairs: &[(&Row<'_>, &Row<'_>)], metric: MetricName) -> Evidence {
    match pairs {
        // Evaluations of loaded weights do not depend on the seed, so one pair is enough.
        [(of, against), ..] if metric.is_learned() && of.cell.workload.kind() == TaskKind::Evaluate => {
            with_same_weights(of, against, metric)
        }
        _ if metric.is_learned() => over_seeds(pairs, metric),
        _ => over_processes(pairs, metric),
    }
}

fn with_same_weights(of: &Row<'_>, against: &Row<'_>, metric: MetricName) -> Evidence {
    let examples = discordant(of, against).filter(|_| metric == MetricName::TestAccuracy);
    match examples {
        Some(examples) => Evidence::Examples {
            only_first: examples.only_first,
            only_second: examples.only_second,
            examples: examples.examples,
        },
        None => Evidence::Given(difference(of, against, metric).unwrap_or_else(not_recorded)),
    }
}

fn over_seeds(pairs: &[(&Row<'_>, &Row<'_>)], metric: MetricName) -> Evidence {
    let of_seed =
        |(of, against): &(&Row<'_>, &Row<'_>)| difference(of, against, metric).unwrap_or_else(not_recorded);
    Evidence::Seeds {
        differences: pairs.iter().map(of_seed).collect(),
        // Metrics on the training data are computed from different examples under each seed, because the seed determines the order of the data.
        same_examples: !matches!(metric, MetricName::FinalLoss | MetricName::TrainAccuracy),
    }
}

/// Values of a metric under one seed, for the first and the second setting. Each has one value per process.
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

/// Returns a placeholder for a pair without recorded values.
fn not_recorded() -> Estimate {
    Estimate {
        value: f64::NAN,
        interval: None,
        n: 0,
        method: "not recorded",
    }
}
