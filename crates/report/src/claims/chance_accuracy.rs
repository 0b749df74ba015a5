//! Comparison of accuracies with chance. Two settings that predict at chance level are equally accurate. This is not evidence that their
//! formats are equivalent.

use mantissa_analysis::Sample;
use mantissa_core::{DatasetKind, MetricName, Task, Workload};

use crate::{Correct, Row, difference::correct_predictions};

/// Positive and negative reviews.
const REVIEW_CLASSES: f64 = 2.0;
/// Classes of the synthetic image generator.
const SYNTHETIC_IMAGE_CLASSES: f64 = 10.0;

/// Upper limit of the chance accuracy if the number of classes is unknown: that of two classes.
const MAX_CHANCE: f64 = 0.5;

/// Returns the chance accuracy: one divided by the number of classes, or by the size of the vocabulary. `None` if the workload does not
/// determine that number.
/// If classes are not balanced, predicting the most frequent class is more accurate than this.
pub(crate) fn chance(workload: &Workload) -> Option<f64> {
    let dataset = match &workload.task {
        Task::Train(task) => task.dataset,
        Task::Evaluate(task) => task.dataset,
        Task::Generate(_) | Task::Kernel(_) => return None,
    };
    match dataset {
        DatasetKind::SyntheticReviews | DatasetKind::Reviews => Some(1.0 / REVIEW_CLASSES),
        DatasetKind::SyntheticImages => Some(1.0 / SYNTHETIC_IMAGE_CLASSES),
        DatasetKind::SyntheticText | DatasetKind::Text => {
            Some(1.0 / f64::from(workload.model()?.vocabulary()?))
        }
        DatasetKind::Images | DatasetKind::Own => None,
    }
}

/// Returns the chance accuracy for the classes that a row's data has.
fn chance_of_classes(row: &Row<'_>) -> Option<f64> {
    let classes = row
        .records
        .iter()
        .find_map(|record| Some(record.data.as_ref()?.classes.len()));
    classes
        .filter(|classes| *classes > 0)
        .map(|classes| 1.0 / classes as f64)
}

/// Returns `Some(true)` if a setting predicts better than chance. `rows` has one row per seed; the median of the lower bounds of their
/// accuracies must be above chance accuracy. A model that always predicts one class does not qualify, however frequent that class is.
/// `None` if unknown.
pub(crate) fn is_above_chance(rows: &[&Row<'_>]) -> Option<bool> {
    if always_predicts_one_class(rows) {
        return Some(false);
    }
    let low = |row: &&Row<'_>| Some(row.metric(MetricName::TestAccuracy)?.interval?.low);
    let lows: Option<Vec<f64>> = rows.iter().map(low).collect();
    let low = Sample::new(lows?)?.median();
    let first = rows.first()?;
    match chance(&first.cell.workload).or_else(|| chance_of_classes(first)) {
        Some(chance) => Some(low > chance),
        None => (low > MAX_CHANCE).then_some(true),
    }
}

/// Returns `true` if every training appears to predict only one class. This needs at least two seeds: for every two of them, the sets of
/// correctly predicted examples must be identical or disjoint, and some predictions must be wrong.
fn always_predicts_one_class(rows: &[&Row<'_>]) -> bool {
    let all: Option<Vec<_>> = rows.iter().map(|row| correct_predictions(row)).collect();
    let Some(all) = all.filter(|all| all.len() > 1 && rows.iter().all(|row| is_trained(row))) else {
        return false;
    };
    let pairs = (0..all.len()).flat_map(|at| (0..at).map(move |before| (at, before)));
    pairs.into_iter().all(|(at, before)| {
        let ((data, first), (other_data, second)) = (all[at], all[before]);
        data == other_data && identical_or_disjoint(first, second)
    })
}

fn identical_or_disjoint(first: &Correct, second: &Correct) -> bool {
    let (hits, others) = (first.hits(), second.hits());
    let is_informative = hits < first.examples() && hits + others > 0;
    let apart = first.apart(second).filter(|_| is_informative);
    apart.is_some_and(|apart| apart == (0, 0) || apart == (hits, others))
}

/// Returns `true` for trainings. Evaluations of given weights do not depend on the seed.
fn is_trained(row: &Row<'_>) -> bool {
    matches!(row.cell.workload.task, Task::Train(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_predictions_are_detected() {
        let is_constant =
            |first: &str, second: &str| identical_or_disjoint(&Correct::new(first), &Correct::new(second));
        assert!(is_constant("1101", "1101"), "the same class");
        assert!(is_constant("1101", "0010"), "the other class");
        assert!(!is_constant("1101", "0101"));
        assert!(!is_constant("1111", "1111"), "all predictions are correct");
        assert!(
            !is_constant("0000", "0000"),
            "no correct prediction is not evidence"
        );
    }
}
