//! The values that pages may print, computed from the records with the formulas of the methodology.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, accuracy_difference, mean_over_seeds, wilson};
use mantissa_core::{Better, CellId, MetricName, Record, Unit};
use mantissa_report::{Group, Report, Row};

use super::invented::EXAMPLES;

/// A value that pages may print.
#[derive(Debug, Clone)]
pub struct Fact {
    pub what: String,
    /// Dimension, as in [`super::text::UNITS`].
    pub dimension: &'static str,
    pub value: f64,
}

/// A setting with its values.
#[derive(Debug)]
pub struct Setting {
    pub suite: String,
    /// Texts that name the setting: its label, and the labels without axes that a sentence states elsewhere.
    pub labels: Vec<String>,
    pub cells: Vec<CellId>,
    pub facts: Vec<Fact>,
}

impl Setting {
    /// Returns the value of a fact.
    pub fn get(&self, what: &str) -> Option<f64> {
        self.facts
            .iter()
            .find(|fact| fact.what == what)
            .map(|fact| fact.value)
    }

    fn add(&mut self, what: &str, dimension: &'static str, value: f64) {
        let what = what.to_owned();
        self.facts.push(Fact {
            what,
            dimension,
            value,
        });
    }

    /// Adds a value and the ends of its interval.
    fn add_range(&mut self, what: &str, dimension: &'static str, (value, ends): Range) {
        self.add(what, dimension, value);
        if let Some((low, high)) = ends {
            self.add(&format!("{what}, low"), dimension, low);
            self.add(&format!("{what}, high"), dimension, high);
        }
    }
}

/// A value and the ends of its interval.
type Range = (f64, Option<(f64, f64)>);

/// Values of a metric by seed, one per process.
type BySeed = BTreeMap<u64, Vec<f64>>;

pub fn dimension(metric: MetricName) -> &'static str {
    match metric.unit() {
        Unit::Seconds => "s",
        Unit::Bytes => "bytes",
        Unit::Joules => "J",
        Unit::FlopsPerSecond => "flop/s",
        Unit::SamplesPerSecond => "samples/s",
        Unit::TokensPerSecond => "tokens/s",
        Unit::Ulp => "ulp",
        Unit::Ratio if metric == MetricName::TestAccuracy => "share",
        _ => "",
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

fn ends(values: &[f64]) -> (f64, f64) {
    let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap();
    (fold(f64::min), fold(f64::max))
}

/// Counts the orders of `n` and `m` values in which the first sample has the larger value in `u` of the pairs, for each `u`.
fn orders(n: usize, m: usize) -> Vec<f64> {
    let mut counts = vec![vec![vec![0.0; n * m + 1]; m + 1]; n + 1];
    for i in 0..=n {
        for j in 0..=m {
            for u in 0..=i * j {
                counts[i][j][u] = match (i, j) {
                    (0, _) | (_, 0) => 1.0,
                    _ => counts[i][j - 1][u] + if u >= j { counts[i - 1][j][u - j] } else { 0.0 },
                };
            }
        }
    }
    counts[n][m].clone()
}

/// Returns the Hodges–Lehmann ratio: the median of all quotients, and the quotients at the ends of the interval of Mann and Whitney.
pub fn quotient(mine: &[f64], theirs: &[f64]) -> Range {
    let mut all: Vec<f64> = mine
        .iter()
        .flat_map(|a| theirs.iter().map(move |b| a / b))
        .collect();
    all.sort_by(f64::total_cmp);
    let last = all.len() - 1;
    let value = (all[last / 2] * all[all.len() / 2]).sqrt();
    let counts = orders(mine.len(), theirs.len());
    let total: f64 = counts.iter().sum();
    let mut below = 0.0;
    let rejected = counts.iter().take_while(|count| {
        below += **count;
        below <= 0.025 * total
    });
    let outside = rejected.count().checked_sub(1);
    (value, outside.map(|outside| (all[outside], all[last - outside])))
}

fn values(records: &[&Record], metric: MetricName) -> BySeed {
    let mut by_seed = BySeed::new();
    for record in records {
        if let Some(value) = record.metrics.get(&metric).and_then(|metric| metric.value) {
            by_seed.entry(record.cell.seed).or_default().push(value);
        }
    }
    by_seed
}

fn pooled(by_seed: &BySeed) -> Vec<f64> {
    by_seed.values().flatten().copied().collect()
}

fn wrong(records: &[&Record], seed: u64) -> Option<u64> {
    let record = records.iter().find(|record| record.cell.seed == seed)?;
    let accuracy = record.metrics.get(&MetricName::TestAccuracy)?.value?;
    Some(EXAMPLES - (accuracy * EXAMPLES as f64).round() as u64)
}

/// Returns the value of a metric: the median over the processes of each seed, and over several seeds the mean of what was learned and else
/// the median. One seed has the interval of `row`; several have their range.
fn estimate(metric: MetricName, by_seed: &BySeed, row: &Row<'_>) -> Range {
    let medians: Vec<f64> = by_seed.values().map(|values| median(values)).collect();
    match medians.as_slice() {
        [only] if metric == MetricName::TestAccuracy => {
            let interval = wilson((only * EXAMPLES as f64).round() as u64, EXAMPLES)
                .unwrap()
                .interval
                .unwrap();
            (*only, Some((interval.low, interval.high)))
        }
        [only] => {
            let interval = row.metric(metric).and_then(|estimate| estimate.interval);
            let (lowest, highest) = ends(&pooled(by_seed));
            if let Some(interval) = interval {
                // The ends come from a bootstrap over the processes, rates by way of their inverses.
                let within = |low: f64, value: f64, high: f64| {
                    low * (1.0 - 1e-12) <= value && value * (1.0 - 1e-12) <= high
                };
                assert!(within(lowest, interval.low, *only), "{metric}: {interval:?}");
                assert!(within(*only, interval.high, highest), "{metric}: {interval:?}");
            }
            (*only, interval.map(|interval| (interval.low, interval.high)))
        }
        seeds if metric.is_learned() => (seeds.iter().sum::<f64>() / seeds.len() as f64, Some(ends(seeds))),
        seeds => (median(seeds), Some(ends(seeds))),
    }
}

/// Metrics of the memory breakdown.
const PARTS: [MetricName; 5] = [
    MetricName::WeightsBytes,
    MetricName::OptimizerBytes,
    MetricName::GradientsBytes,
    MetricName::WeightCopiesBytes,
    MetricName::ActivationsBytes,
];

/// Returns the settings of a run with their values.
pub fn settings(report: &Report<'_>) -> Vec<Setting> {
    let mut all = Vec::new();
    for suite in &report.suites {
        for group in &suite.groups {
            let mut members: Vec<(String, Vec<&Row<'_>>)> = Vec::new();
            for row in &group.rows {
                let label = group.setting_label(row);
                match members.iter_mut().find(|(known, _)| *known == label) {
                    Some((_, rows)) => rows.push(row),
                    None => members.push((label, vec![row])),
                }
            }
            for (_, rows) in &members {
                let size = rows[0].cell.setting.size();
                let base = members
                    .iter()
                    .map(|(_, rows)| rows)
                    .find(|rows| rows[0].cell.setting.size() == size);
                all.push(setting(&suite.info.name, group, rows, base.unwrap()));
            }
        }
    }
    all
}

fn setting(suite: &str, group: &Group<'_>, rows: &[&Row<'_>], base: &[&Row<'_>]) -> Setting {
    use mantissa_core::Axis;
    let row = rows[0];
    let mut found = Setting {
        suite: suite.to_owned(),
        labels: vec![
            group.setting_label(row),
            group.label(row, &[Axis::Size, Axis::Seed]),
        ],
        cells: rows.iter().map(|row| row.cell.id.clone()).collect(),
        facts: Vec::new(),
    };
    let values_of = &row.cell.setting;
    let (batch, steps) = (values_of.batch(), values_of.accumulate());
    if group.varies(Axis::Accumulate) {
        found
            .labels
            .push(format!("{batch} × {steps} = {}", batch * steps));
        found.labels.push(format!("{batch} × {steps}"));
    }
    if suite == "ladder" {
        // The label of a rung names its change.
        found.labels.push(match batch {
            8 => format!("→ {}", values_of.precision()),
            _ => format!("→ batch {batch}"),
        });
    }
    let columns = [Axis::Precision, Axis::Matmul];
    let columns = columns
        .iter()
        .chain(group.axes.iter().filter(|axis| **axis != Axis::Seed));
    // Tables have a column per axis, and tables in a terminal only those that vary.
    let fields = |columns: Vec<&Axis>| {
        columns
            .iter()
            .map(|axis| row.axis(**axis))
            .collect::<Vec<_>>()
            .join(" · ")
    };
    found.labels.push(fields(columns.clone().collect()));
    found
        .labels
        .push(fields(columns.filter(|axis| group.varies(**axis)).collect()));
    found
        .labels
        .push(format!("{} · {}", values_of.precision(), values_of.matmul()));
    let records_of = |rows: &[&Row<'_>]| -> Vec<Record> {
        let records = rows
            .iter()
            .flat_map(|row| row.records.iter().map(|record| (*record).clone()));
        records.collect()
    };
    let (mine, theirs) = (records_of(rows), records_of(base));
    let (mine, theirs): (Vec<&Record>, Vec<&Record>) = (mine.iter().collect(), theirs.iter().collect());
    let is_baseline = rows[0].cell.id == base[0].cell.id;
    found.add("processes", "", mine.len() as f64);
    for metric in row.metrics.keys() {
        let (mine, theirs) = (values(&mine, *metric), values(&theirs, *metric));
        let (name, dimension) = (metric.name(), dimension(*metric));
        let (value, interval) = estimate(*metric, &mine, row);
        found.add_range(name, dimension, (value, interval));
        for (seed, values) in &mine {
            found.add(&format!("{name}, seed {seed}"), dimension, median(values));
        }
        found.add(&format!("{name}, largest"), dimension, ends(&pooled(&mine)).1);
        if let (MetricName::TestAccuracy, Some((low, high))) = (*metric, interval) {
            found.add("half the interval of the accuracy", dimension, (high - low) / 2.0);
        }
        if theirs.is_empty() || metric.is_learned() {
            continue;
        }
        if is_baseline {
            found.add(&format!("{name}, ratio"), "ratio", 1.0);
            continue;
        }
        let (mine, theirs) = (pooled(&mine), pooled(&theirs));
        found.add_range(&format!("{name}, ratio"), "ratio", quotient(&mine, &theirs));
        if metric.better() == Better::Lower {
            found.add_range(&format!("{name}, advantage"), "ratio", quotient(&theirs, &mine));
        }
    }
    let losses = rows.iter().filter_map(|row| {
        let (wrong, of_base) = (wrong(&mine, row.cell.seed)?, wrong(&theirs, row.cell.seed)?);
        Some(accuracy_difference(
            wrong.saturating_sub(of_base),
            of_base.saturating_sub(wrong),
            EXAMPLES,
        ))
    });
    let losses: Vec<Estimate> = losses.collect();
    if let Some(loss) = mean_over_seeds(&losses).filter(|_| !is_baseline) {
        let interval = loss.interval.unwrap();
        found.add_range(
            "accuracy change",
            "share",
            (-loss.value, Some((-interval.high, -interval.low))),
        );
        found.add("largest accuracy loss", "share", interval.high);
    }
    add_parts(&mut found, &mine, &theirs);
    if let Some(rate) = found.get("samples_per_second") {
        let end = |end: &str| {
            found
                .get(&format!("samples_per_second, {end}"))
                .map(|rate| 1.0 / rate)
        };
        let ends = end("high").zip(end("low"));
        found.add_range("seconds per sample", "s", (1.0 / rate, ends));
    }
    found
}

fn add_parts(found: &mut Setting, mine: &[&Record], theirs: &[&Record]) {
    let bytes = |records: &[&Record]| PARTS.map(|part| values(records, part));
    if bytes(mine)[0].is_empty() {
        return;
    }
    let medians = |records: &[&Record]| bytes(records).map(|part| median(&pooled(&part)));
    let (mine, theirs) = (medians(mine), medians(theirs));
    let total = |bytes: [f64; 5]| bytes.iter().sum::<f64>();
    let stays = |bytes: [f64; 5]| bytes[..3].iter().sum::<f64>();
    found.add("memory breakdown, total", "bytes", total(mine));
    found.add(
        "memory breakdown, difference of the total",
        "bytes",
        (total(mine) - total(theirs)).abs(),
    );
    found.add("weights, optimizer state and gradients", "bytes", stays(mine));
    for (of, total) in [("the setting", total(mine)), ("the baseline", total(theirs))] {
        found.add(
            &format!("share of weights, optimizer state and gradients in {of}"),
            "share",
            stays(mine) / total,
        );
    }
    found.add("share of copies", "share", mine[3] / total(mine));
    found.add(
        "memory breakdown, ratio of the total",
        "ratio",
        total(mine) / total(theirs),
    );
    for ((part, mine), of_base) in PARTS.iter().zip(mine).zip(theirs) {
        found.add(&format!("{part}, ratio of the part"), "ratio", mine / of_base);
        found.add(
            &format!("{part}, change of the total"),
            "share",
            (mine - of_base) / total(theirs),
        );
        found.add(&format!("{part}, difference"), "bytes", (mine - of_base).abs());
    }
}
