//! A setting over its seeds, which is one bar, point or line of a figure.

use std::collections::HashMap;

use mantissa_analysis::{Estimate, Sample, Verdict, hodges_lehmann_ratio};
use mantissa_core::{Axis, MetricName};

use crate::{Group, Row};

/// Rows that differ only in the seed.
pub struct Setting<'g, 'r> {
    /// Rows, one per seed; never empty.
    pub seeds: Vec<&'g Row<'r>>,
    /// Label that distinguishes the setting from others.
    pub label: String,
}

/// A finite value with finite whiskers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    pub value: f64,
    pub whiskers: Option<(f64, f64)>,
}

impl Spot {
    /// Converts the estimate of one row, with its interval as whiskers.
    pub fn of(estimate: &Estimate) -> Option<Self> {
        let interval = estimate.interval.map(|interval| (interval.low, interval.high));
        estimate.value.is_finite().then_some(Self {
            value: estimate.value,
            whiskers: interval.filter(|(low, high)| low.is_finite() && high.is_finite()),
        })
    }

    /// Returns the median over several seeds, with whiskers from the lowest to the highest.
    fn over(spots: &[Self]) -> Option<Self> {
        if let [only] = spots {
            return Some(*only);
        }
        let sample = Sample::new(spots.iter().map(|spot| spot.value))?;
        let (low, high) = (sample.quantile(0.0), sample.quantile(1.0));
        Some(Self {
            value: sample.median(),
            whiskers: Some((low, high)),
        })
    }

    /// Applies a monotonic function to value and whiskers. `None` if a result is not finite.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Option<Self> {
        let whiskers = self.whiskers.map(|(low, high)| (function(low), function(high)));
        let whiskers = whiskers.map(|(a, b)| (a.min(b), a.max(b)));
        let value = function(self.value);
        value.is_finite().then_some(Self {
            value,
            whiskers: whiskers.filter(|(low, high)| low.is_finite() && high.is_finite()),
        })
    }

    /// Returns the smallest and the largest drawn value.
    pub fn ends(self) -> (f64, f64) {
        let (low, high) = self.whiskers.unwrap_or((self.value, self.value));
        (low.min(self.value), high.max(self.value))
    }
}

impl<'g, 'r> Setting<'g, 'r> {
    /// Groups the accepted rows into settings, in the order of the first row of each.
    pub fn all(group: &'g Group<'r>, accepts: impl Fn(&Row<'r>) -> bool) -> Vec<Self> {
        let rows: Vec<_> = group
            .rows
            .iter()
            .filter(|row| accepts(row))
            .map(|row| (row, ()))
            .collect();
        // The labels omit axes that do not vary between the accepted rows.
        let differs = |axis: &Axis| {
            rows.windows(2)
                .any(|pair| pair[0].0.axis(*axis) != pair[1].0.axis(*axis))
        };
        let alike = Axis::ALL
            .iter()
            .copied()
            .filter(|axis| *axis == Axis::Seed || !differs(axis));
        let alike: Vec<Axis> = alike.collect();
        let settings = group_by_setting(rows);
        let setting = |seeds: Vec<(&'g Row<'r>, ())>| Self {
            label: label(group, seeds[0].0, &alike),
            seeds: seeds.into_iter().map(|(row, ())| row).collect(),
        };
        settings.into_iter().map(setting).collect()
    }

    /// Returns the row of the first seed.
    pub fn row(&self) -> &'g Row<'r> {
        self.seeds[0]
    }

    /// Aggregates an estimate over the seeds that finished, or over all seeds if none did.
    pub fn spot<'e>(&self, estimate: impl Fn(&'g Row<'r>) -> Option<&'e Estimate>) -> Option<Spot>
    where
        'g: 'e,
    {
        let spots = self.effective_seeds().filter_map(|row| Spot::of(estimate(row)?));
        Spot::over(&spots.collect::<Vec<_>>())
    }

    /// Returns the seeds that finished, or all seeds if none did.
    pub fn effective_seeds(&self) -> impl Iterator<Item = &'g Row<'r>> {
        let any = self.seeds.iter().any(|row| row.is_ok());
        let seeds = self.seeds.iter().copied();
        seeds.filter(move |row| !any || row.is_ok())
    }

    /// Returns the ratio to another setting's value as in the tables: per seed, the Hodges–Lehmann ratio (the median quotient over all pairs
    /// of processes), aggregated over the seeds.
    pub fn ratio(&self, other: &Self, metric: MetricName) -> Option<Spot> {
        let spots = self.effective_seeds().filter_map(|row| {
            let theirs = other
                .effective_seeds()
                .find(|theirs| theirs.cell.seed == row.cell.seed)?;
            Spot::of(&hodges_lehmann_ratio(
                &row.values(metric),
                &theirs.values(metric),
            )?)
        });
        Spot::over(&spots.collect::<Vec<_>>())
    }

    /// Returns the status of the first seed that did not finish.
    pub fn failure(&self) -> Option<&'static str> {
        let failed = self.seeds.iter().find(|row| !row.is_ok());
        failed.map(|row| row.status_name())
    }

    /// Formats the status from [`Self::failure`], with a count for several seeds: `1 of 3 diverged`.
    pub fn failure_text(&self) -> Option<String> {
        let status = self.failure()?;
        let count = self
            .seeds
            .iter()
            .filter(|row| row.status_name() == status)
            .count();
        Some(match self.seeds.len() {
            1 => status.to_owned(),
            all => format!("{count} of {all} {status}"),
        })
    }

    /// Returns the verdict on the speed relative to the baseline, if all seeds agree.
    pub fn speed_verdict(&self) -> Option<Verdict> {
        let first = self.row().speed_verdict?;
        let same = |row: &&Row<'_>| row.speed_verdict == Some(first);
        self.seeds.iter().all(same).then_some(first)
    }

    /// Returns `true` if the setting is a baseline.
    pub fn is_baseline(&self, group: &Group<'_>) -> bool {
        let base = self.row().baseline.map(|index| &group.rows[index].cell.id);
        base == Some(&self.row().cell.id)
    }
}

/// Returns the label of a row without the axes `left_out`. An empty label is replaced by the precision.
fn label(group: &Group<'_>, row: &Row<'_>, left_out: &[Axis]) -> String {
    match group.label(row, left_out) {
        empty if empty.is_empty() => row.cell.setting.precision().name().to_owned(),
        label => label,
    }
}

/// Describes the whiskers for a caption.
pub fn describe_whiskers(settings: &[Setting<'_, '_>]) -> String {
    let seeds = settings.iter().map(|setting| setting.seeds.len());
    match seeds.max().unwrap_or(1) {
        1 => "Whiskers are 95 % intervals; marks without whiskers have too few processes or samples."
            .to_owned(),
        most => format!(
            "Medians over {}{most} seeds. Whiskers reach from the lowest seed to the highest and are not confidence intervals.",
            if settings.iter().all(|setting| setting.seeds.len() == most) {
                ""
            } else {
                "up to "
            }
        ),
    }
}

/// Groups rows that differ only in the seed, in the order of the first row of each.
pub fn group_by_setting<'g, 'r, T>(rows: Vec<(&'g Row<'r>, T)>) -> Vec<Vec<(&'g Row<'r>, T)>> {
    let axes = || Axis::ALL.iter().filter(|axis| **axis != Axis::Seed);
    let mut indices: HashMap<Vec<String>, usize> = HashMap::new();
    let mut settings: Vec<Vec<(&Row<'_>, T)>> = Vec::new();
    for (row, data) in rows {
        let next = settings.len();
        let index = *indices
            .entry(axes().map(|axis| row.axis(*axis)).collect())
            .or_insert(next);
        if index == next {
            settings.push(Vec::new());
        }
        settings[index].push((row, data));
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(value: f64, whiskers: Option<(f64, f64)>) -> Spot {
        Spot { value, whiskers }
    }

    #[test]
    fn several_seeds_become_a_median_with_a_range_and_one_keeps_its_interval() {
        let one = spot(2.0, Some((1.5, 2.5)));
        assert_eq!(Spot::over(&[one]), Some(one));
        let three = [one, spot(4.0, None), spot(3.0, Some((0.0, 9.0)))];
        assert_eq!(Spot::over(&three), Some(spot(3.0, Some((2.0, 4.0)))));
        assert_eq!(Spot::over(&[]), None);
    }

    #[test]
    fn the_inverse_of_a_rate_swaps_its_whiskers_and_drops_infinite_ones() {
        let rate = spot(4.0, Some((2.0, 8.0)));
        assert_eq!(rate.map(|rate| 1.0 / rate), Some(spot(0.25, Some((0.125, 0.5)))));
        let from_zero = spot(4.0, Some((0.0, 8.0)));
        assert_eq!(from_zero.map(|rate| 1.0 / rate), Some(spot(0.25, None)));
        assert_eq!(spot(0.0, None).map(|rate| 1.0 / rate), None);
        assert_eq!(rate.ends(), (2.0, 8.0));
    }
}
