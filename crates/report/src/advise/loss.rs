//! How much accuracy a setting costs against its baseline, and what that is known from.

use mantissa_analysis::{Estimate, Interval, accuracy_difference, mean};
use mantissa_core::{MatmulPrecision, MetricName, Precision};

use crate::{Row, baseline::right};

/// The accuracy of a baseline less that of a row, a share of the examples; positive where the row is worse. Of one seed; absent
/// where either has no accuracy. In this order it comes from
///
/// 1. the examples that only one of both predicted right,
/// 2. the share of predictions that are the baseline's, since equal predictions are equally right,
/// 3. the intervals of both accuracies, from the lowest to the highest difference between their ends.
pub(crate) fn of_row(row: &Row<'_>, base: &Row<'_>) -> Option<Estimate> {
    let accuracy = |row: &Row<'_>| row.metric(MetricName::TestAccuracy).cloned();
    let (mine, theirs) = (accuracy(row)?, accuracy(base)?);
    by_example(row, base)
        .or_else(|| by_agreement(row, base, theirs.value - mine.value))
        .or_else(|| Some(by_intervals(&mine, &theirs)))
}

fn by_example(row: &Row<'_>, base: &Row<'_>) -> Option<Estimate> {
    let ((data, mine), (same, theirs)) = (right(row)?, right(base)?);
    let (only_mine, only_theirs) = mine.apart(theirs).filter(|_| data == same)?;
    Some(Estimate {
        method: "example by example",
        ..accuracy_difference(only_theirs, only_mine, mine.examples())
    })
}

fn by_agreement(row: &Row<'_>, base: &Row<'_>, loss: f64) -> Option<Estimate> {
    let setting = &base.cell.setting;
    let as_agreed = setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest;
    let agreement = row.metric(MetricName::Agreement).filter(|_| as_agreed)?;
    let Some(most) = agreement.interval.map(|interval| 1.0 - interval.low) else {
        // That all are equal is no sign of a difference, and of passages no interval either.
        return (agreement.value >= 1.0).then_some(Estimate {
            value: loss,
            interval: None,
            n: agreement.n,
            method: "every prediction is the baseline's",
        });
    };
    Some(Estimate {
        value: loss,
        interval: Some(Interval {
            low: (-most).min(loss),
            high: most.max(loss),
        }),
        n: agreement.n,
        method: "share of predictions that differ",
    })
}

fn by_intervals(mine: &Estimate, theirs: &Estimate) -> Estimate {
    let ends = mine.interval.zip(theirs.interval);
    Estimate {
        value: theirs.value - mine.value,
        interval: ends.map(|(mine, theirs)| Interval {
            low: theirs.low - mine.high,
            high: theirs.high - mine.low,
        }),
        n: mine.n.min(theirs.n),
        method: "intervals of both accuracies",
    }
}

/// The mean over seeds. Its interval reaches as far as that of the mean over seeds or as the mean of their own intervals does,
/// whichever is farther: seeds share their test examples, so that more of them say nothing new of other examples. Absent without
/// losses; without an interval if one of them has none.
pub(crate) fn over_seeds(losses: &[Estimate]) -> Option<Estimate> {
    if let [loss] = losses {
        return Some(loss.clone());
    }
    let between = mean(&losses.iter().map(|loss| loss.value).collect::<Vec<_>>())?;
    let ends: Option<Vec<Interval>> = losses.iter().map(|loss| loss.interval).collect();
    let within = |pick: fn(&Interval) -> f64| {
        let ends = ends.as_ref()?;
        Some(ends.iter().map(pick).sum::<f64>() / ends.len() as f64)
    };
    let interval = between.interval.and_then(|between| {
        Some(Interval {
            low: between.low.min(within(|ends| ends.low)?),
            high: between.high.max(within(|ends| ends.high)?),
        })
    });
    Some(Estimate {
        value: between.value,
        interval,
        n: losses.len() as u64,
        method: "over seeds",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, ends: Option<(f64, f64)>) -> Estimate {
        Estimate {
            value,
            interval: ends.map(|(low, high)| Interval { low, high }),
            n: 1000,
            method: "",
        }
    }

    #[test]
    fn two_intervals_are_as_far_apart_as_their_ends() {
        let loss = by_intervals(
            &estimate(0.90, Some((0.88, 0.92))),
            &estimate(0.91, Some((0.89, 0.93))),
        );
        let interval = loss.interval.unwrap();
        assert!((loss.value - 0.01).abs() < 1e-12);
        assert!((interval.low + 0.03).abs() < 1e-12 && (interval.high - 0.05).abs() < 1e-12);
        assert_eq!(
            by_intervals(&estimate(0.9, None), &estimate(0.9, Some((0.8, 1.0)))).interval,
            None
        );
    }

    #[test]
    fn seeds_that_agree_do_not_narrow_what_the_examples_leave_open() {
        let one = estimate(0.01, Some((-0.02, 0.04)));
        let found = over_seeds(&[one.clone(), one.clone(), one])
            .unwrap()
            .interval
            .unwrap();
        assert!((found.low + 0.02).abs() < 1e-12 && (found.high - 0.04).abs() < 1e-12);
    }

    #[test]
    fn seeds_that_differ_widen_it() {
        // Mean 0.02, deviation 0.01: 0.02 ± 4.302653 · 0.01/√3 = 0.0448.
        let seed = |value: f64| estimate(value, Some((value - 0.001, value + 0.001)));
        let found = over_seeds(&[seed(0.01), seed(0.02), seed(0.03)]).unwrap();
        assert!(
            (found.interval.unwrap().high - 0.044_841).abs() < 1e-5,
            "{found:?}"
        );
    }

    #[test]
    fn a_seed_without_an_interval_leaves_none() {
        let losses = [estimate(0.0, None), estimate(0.0, Some((0.0, 0.0)))];
        assert_eq!(over_seeds(&losses).unwrap().interval, None);
        assert_eq!(over_seeds(&[]), None);
    }
}
