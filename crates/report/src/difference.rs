//! Difference in a metric between two settings with the same seed, with its confidence interval.

use mantissa_analysis::{Estimate, Interval, accuracy_difference};
use mantissa_core::{MatmulPrecision, MetricName, Precision};

use crate::{Correct, Row};

/// Returns the metric of the first row minus that of the second; `None` if either row lacks it. The rows have the same seed. The interval
/// of a difference in test accuracy comes from the first available source:
///
/// 1. the numbers of examples that only one of the rows predicted correctly,
/// 2. the share of predictions that differ from the baseline's, because only these can change the accuracy,
/// 3. the intervals of both accuracies: from the smallest to the largest difference between a value in one and a value in the other.
///
/// Any other metric uses the third source.
pub(crate) fn difference(first: &Row<'_>, second: &Row<'_>, metric: MetricName) -> Option<Estimate> {
    let (mine, theirs) = (first.metric(metric)?, second.metric(metric)?);
    let of_accuracy = || {
        let counted = discordant(first, second).map(|examples| examples.difference());
        counted.or_else(|| bound_by_agreement(first, second, mine.value - theirs.value))
    };
    (metric == MetricName::TestAccuracy)
        .then(of_accuracy)
        .flatten()
        .or_else(|| Some(by_intervals(mine, theirs)))
}

/// Numbers of examples that only one of two rows predicted correctly.
pub(crate) struct Discordant {
    pub only_first: u64,
    pub only_second: u64,
    /// Number of examples that both rows were tested on.
    pub examples: u64,
}

impl Discordant {
    fn difference(&self) -> Estimate {
        Estimate {
            method: "example by example",
            ..accuracy_difference(self.only_first, self.only_second, self.examples)
        }
    }
}

/// Counts the discordant examples of two rows tested on the same examples. `None` for models that predict tokens: tokens of one
/// text are not independent.
pub(crate) fn discordant(first: &Row<'_>, second: &Row<'_>) -> Option<Discordant> {
    if first.cell.workload.predicts_tokens() {
        return None;
    }
    let ((data, mine), (other_data, theirs)) = (correct_predictions(first)?, correct_predictions(second)?);
    let (only_first, only_second) = mine.apart(theirs).filter(|_| data == other_data)?;
    Some(Discordant {
        only_first,
        only_second,
        examples: mine.examples(),
    })
}

/// Returns the hash of a row's data and the correctness of its predictions, from the first process that recorded them.
pub(crate) fn correct_predictions<'a>(row: &Row<'a>) -> Option<(&'a str, &'a Correct)> {
    let (record, digest) = row
        .measured
        .iter()
        .copied()
        .find(|(_, digest)| digest.is_some_and(|digest| digest.correct.is_some()))?;
    Some((&record.data.as_ref()?.hash, digest?.correct.as_ref()?))
}

/// Bounds the difference in accuracy by the share of predictions that differ, which is 1 minus the metric `agreement`. The agreement is
/// recorded relative to the 32-true/highest row, so one of the two rows must be that row.
fn bound_by_agreement(first: &Row<'_>, second: &Row<'_>, value: f64) -> Option<Estimate> {
    let is_reference = |row: &Row<'_>| {
        let setting = &row.cell.setting;
        setting.precision() == Precision::True32 && setting.matmul() == MatmulPrecision::Highest
    };
    let agreement = match (is_reference(first), is_reference(second)) {
        (_, true) => first.metric(MetricName::Agreement)?,
        (true, false) => second.metric(MetricName::Agreement)?,
        (false, false) => return None,
    };
    let Some(max_difference) = agreement.interval.map(|interval| 1.0 - interval.low) else {
        // An agreement over passages of text may lack an interval. Without one, it bounds the difference only if all predictions are equal.
        return (agreement.value >= 1.0).then_some(Estimate {
            value,
            interval: None,
            n: agreement.n,
            method: "every prediction is the baseline's",
        });
    };
    Some(Estimate {
        value,
        interval: Some(Interval {
            low: (-max_difference).min(value),
            high: max_difference.max(value),
        }),
        n: agreement.n,
        method: "share of predictions that differ",
    })
}

fn by_intervals(first: &Estimate, second: &Estimate) -> Estimate {
    let ends = first.interval.zip(second.interval);
    Estimate {
        value: first.value - second.value,
        interval: ends.map(|(first, second)| Interval {
            low: first.low - second.high,
            high: first.high - second.low,
        }),
        n: first.n.min(second.n),
        method: "intervals of both",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_difference_of_two_intervals_spans_their_ends() {
        let estimate = |value: f64, ends: Option<(f64, f64)>| Estimate {
            value,
            interval: ends.map(|(low, high)| Interval { low, high }),
            n: 1000,
            method: "",
        };
        let loss = by_intervals(
            &estimate(0.91, Some((0.89, 0.93))),
            &estimate(0.90, Some((0.88, 0.92))),
        );
        let interval = loss.interval.unwrap();
        assert!((loss.value - 0.01).abs() < 1e-12);
        assert!((interval.low + 0.03).abs() < 1e-12 && (interval.high - 0.05).abs() < 1e-12);
        assert_eq!(
            by_intervals(&estimate(0.9, Some((0.8, 1.0))), &estimate(0.9, None)).interval,
            None
        );
    }
}
