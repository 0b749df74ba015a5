//! A setting over its seeds: what is one bar, one point or one line of a figure.

use std::collections::HashMap;

use mantissa_analysis::{Estimate, Sample, Verdict, hodges_lehmann_ratio};
use mantissa_core::{Axis, MetricName};

use crate::{Group, Row};

/// Rows that differ in nothing but the seed.
pub struct Setting<'g, 'r> {
    /// A row a seed; never empty.
    pub seeds: Vec<&'g Row<'r>>,
    /// What distinguishes them from others.
    pub label: String,
}

/// A value with its whiskers, all of them finite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spot {
    pub value: f64,
    pub whiskers: Option<(f64, f64)>,
}

impl Spot {
    /// The estimate of one row: its whiskers are its interval.
    pub fn of(estimate: &Estimate) -> Option<Self> {
        let interval = estimate.interval.map(|interval| (interval.low, interval.high));
        estimate.value.is_finite().then_some(Self {
            value: estimate.value,
            whiskers: interval.filter(|(low, high)| low.is_finite() && high.is_finite()),
        })
    }

    /// The median of several seeds: its whiskers reach from the lowest to the highest.
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

    /// Value and whiskers through a function that rises or falls everywhere; nothing where the result is not finite.
    pub fn map(self, function: impl Fn(f64) -> f64) -> Option<Self> {
        let whiskers = self.whiskers.map(|(low, high)| (function(low), function(high)));
        let whiskers = whiskers.map(|(a, b)| (a.min(b), a.max(b)));
        let value = function(self.value);
        value.is_finite().then_some(Self {
            value,
            whiskers: whiskers.filter(|(low, high)| low.is_finite() && high.is_finite()),
        })
    }

    /// The smallest and the largest of what is drawn of it.
    pub fn ends(self) -> (f64, f64) {
        let (low, high) = self.whiskers.unwrap_or((self.value, self.value));
        (low.min(self.value), high.max(self.value))
    }
}

impl<'g, 'r> Setting<'g, 'r> {
    /// The rows of a group that are let in, by setting, in the order of the first row of each.
    pub fn all(group: &'g Group<'r>, of: impl Fn(&Row<'r>) -> bool) -> Vec<Self> {
        let rows: Vec<_> = group
            .rows
            .iter()
            .filter(|row| of(row))
            .map(|row| (row, ()))
            .collect();
        // What all of those shown share distinguishes none of them.
        let differs = |axis: &Axis| {
            rows.windows(2)
                .any(|pair| pair[0].0.axis(*axis) != pair[1].0.axis(*axis))
        };
        let alike = Axis::ALL
            .iter()
            .copied()
            .filter(|axis| *axis == Axis::Seed || !differs(axis));
        let alike: Vec<Axis> = alike.collect();
        let settings = over_seeds(rows);
        let setting = |seeds: Vec<(&'g Row<'r>, ())>| Self {
            label: label(group, seeds[0].0, &alike),
            seeds: seeds.into_iter().map(|(row, ())| row).collect(),
        };
        settings.into_iter().map(setting).collect()
    }

    /// The row of the first seed.
    pub fn row(&self) -> &'g Row<'r> {
        self.seeds[0]
    }

    /// An estimate of each seed as one value: of those that ran to their end, or else of all.
    pub fn spot<'e>(&self, estimate: impl Fn(&'g Row<'r>) -> Option<&'e Estimate>) -> Option<Spot>
    where
        'g: 'e,
    {
        let spots = self.behind().filter_map(|row| Spot::of(estimate(row)?));
        Spot::over(&spots.collect::<Vec<_>>())
    }

    /// The seeds that ran to their end, or else all.
    pub fn behind(&self) -> impl Iterator<Item = &'g Row<'r>> {
        let any = self.seeds.iter().any(|row| row.is_ok());
        let seeds = self.seeds.iter().copied();
        seeds.filter(move |row| !any || row.is_ok())
    }

    /// How many times another setting's value, as the tables compare two: Hodges and Lehmann's ratio of the processes of each seed
    /// to those of the same seed of the other.
    pub fn ratio(&self, other: &Self, metric: MetricName) -> Option<Spot> {
        let spots = self.behind().filter_map(|row| {
            let theirs = other.behind().find(|theirs| theirs.cell.seed == row.cell.seed)?;
            Spot::of(&hodges_lehmann_ratio(
                &row.values(metric),
                &theirs.values(metric),
            )?)
        });
        Spot::over(&spots.collect::<Vec<_>>())
    }

    /// How a seed that did not run to its end ended.
    pub fn trouble(&self) -> Option<&'static str> {
        let fallen = self.seeds.iter().find(|row| !row.is_ok());
        fallen.map(|row| row.status_name())
    }

    /// The same in words that count the seeds, where there are several: `1 of 3 diverged`.
    pub fn trouble_in_words(&self) -> Option<String> {
        let trouble = self.trouble()?;
        let fallen = self
            .seeds
            .iter()
            .filter(|row| row.status_name() == trouble)
            .count();
        Some(match self.seeds.len() {
            1 => trouble.to_owned(),
            all => format!("{fallen} of {all} {trouble}"),
        })
    }

    /// What all seeds say of its speed beside that of its baseline; nothing where they differ.
    pub fn speed_verdict(&self) -> Option<Verdict> {
        let first = self.row().speed_verdict?;
        let same = |row: &&Row<'_>| row.speed_verdict == Some(first);
        self.seeds.iter().all(same).then_some(first)
    }

    /// Whether it is a baseline.
    pub fn is_baseline(&self, group: &Group<'_>) -> bool {
        let base = self.row().baseline.map(|index| &group.rows[index].cell.id);
        base == Some(&self.row().cell.id)
    }
}

/// What distinguishes a row from its neighbours, but for some axes.
fn label(group: &Group<'_>, row: &Row<'_>, left_out: &[Axis]) -> String {
    match group.label(row, left_out) {
        nothing if nothing.is_empty() => row.cell.setting.precision().name().to_owned(),
        label => label,
    }
}

/// What whiskers are, for a caption.
pub fn about_whiskers(settings: &[Setting<'_, '_>]) -> String {
    let seeds = settings.iter().map(|setting| setting.seeds.len());
    match seeds.max().unwrap_or(1) {
        1 => {
            "Whiskers are 95 % intervals; what has none has too few processes or samples for one.".to_owned()
        }
        most => format!(
            "Medians over {most} seeds{}; whiskers reach from the lowest seed to the highest and are no intervals.",
            if settings.iter().all(|setting| setting.seeds.len() == most) {
                ""
            } else {
                " at most"
            }
        ),
    }
}

/// Rows that differ in nothing but the seed together, in the order of the first of each.
pub fn over_seeds<'g, 'r, T>(rows: Vec<(&'g Row<'r>, T)>) -> Vec<Vec<(&'g Row<'r>, T)>> {
    let axes = || Axis::ALL.iter().filter(|axis| **axis != Axis::Seed);
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    let mut settings: Vec<Vec<(&Row<'_>, T)>> = Vec::new();
    for (row, of_row) in rows {
        let next = settings.len();
        let place = *places
            .entry(axes().map(|axis| row.axis(*axis)).collect())
            .or_insert(next);
        if place == next {
            settings.push(Vec::new());
        }
        settings[place].push((row, of_row));
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
    fn seeds_are_their_median_and_range_and_one_keeps_its_interval() {
        let one = spot(2.0, Some((1.5, 2.5)));
        assert_eq!(Spot::over(&[one]), Some(one));
        let three = [one, spot(4.0, None), spot(3.0, Some((0.0, 9.0)))];
        assert_eq!(Spot::over(&three), Some(spot(3.0, Some((2.0, 4.0)))));
        assert_eq!(Spot::over(&[]), None);
    }

    #[test]
    fn a_rate_becomes_a_time_with_its_whiskers_turned_and_none_that_is_endless() {
        let rate = spot(4.0, Some((2.0, 8.0)));
        assert_eq!(rate.map(|rate| 1.0 / rate), Some(spot(0.25, Some((0.125, 0.5)))));
        let from_zero = spot(4.0, Some((0.0, 8.0)));
        assert_eq!(from_zero.map(|rate| 1.0 / rate), Some(spot(0.25, None)));
        assert_eq!(spot(0.0, None).map(|rate| 1.0 / rate), None);
        assert_eq!(rate.ends(), (2.0, 8.0));
    }
}
