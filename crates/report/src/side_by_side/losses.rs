//! Differences between the training losses of two runs. In the same formats, the losses differ only by rounding.

use mantissa_core::{Model, SeriesName};
use mantissa_run_folder::SampleSelection;

use crate::{Row, Run, figures::curves::curve_of};

/// Maximum number of compared steps. Differences grow from step to step, even in the same formats.
const MAX_STEPS: usize = 20;

/// Losses of two runs at the same steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Losses {
    /// The losses are comparable.
    Compared {
        /// Number of leading steps for which both runs have a finite loss.
        steps: usize,
        /// Maximum difference between the losses of a step, relative to the larger one.
        max_difference: f64,
        /// The step after the compared steps, if only one of the runs has a finite loss there.
        non_finite: Option<NonFinite>,
    },
    /// The losses are not comparable, because dropout may zero different values in each run.
    OtherDropout,
}

/// First step at which only one run has a finite loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NonFinite {
    /// Optimizer step, from 1.
    pub step: f64,
    /// `true` if the loss of the first run is not finite, `false` if that of the other run is not.
    pub first: bool,
}

/// Compares the losses of a row with those of the first run. `None` if a loss curve is missing, if the curves begin at different steps, or
/// if neither loss is finite at the first step.
pub(super) fn compare(mine: (&Run, &Row<'_>), theirs: (&Run, &Row<'_>)) -> Option<Losses> {
    let (my_losses, their_losses) = (first_losses(mine)?, first_losses(theirs)?);
    if !same_dropout(mine, theirs) {
        return Some(Losses::OtherDropout);
    }
    let (mut steps, mut max_difference, mut non_finite) = (0, 0.0_f64, None);
    for (mine, theirs) in my_losses.iter().zip(&their_losses) {
        if mine.0 != theirs.0 {
            break;
        }
        let (Some(one), Some(other)) = (mine.1, theirs.1) else {
            non_finite = (mine.1.is_some() != theirs.1.is_some()).then_some(NonFinite {
                step: mine.0,
                first: theirs.1.is_none(),
            });
            break;
        };
        steps += 1;
        if one != other {
            max_difference = max_difference.max((one - other).abs() / one.abs().max(other.abs()));
        }
    }
    (steps > 0 || non_finite.is_some()).then_some(Losses::Compared {
        steps,
        max_difference,
        non_finite,
    })
}

/// Returns `true` if dropout zeroes the same values in both runs: the model has no dropout, both runs use the same hash, or both use the same
/// random number generator with the same seed. A user-defined model may draw other random numbers, too.
fn same_dropout((run, row): (&Run, &Row<'_>), (other_run, other_row): (&Run, &Row<'_>)) -> bool {
    let model = row.cell.workload.model();
    let generator = |run: &Run, row: &Row<'_>| {
        let fingerprint = &run.environment.fingerprint;
        (fingerprint.framework(), row.cell.setting.backend())
    };
    let hash = |run: &Run| run.environment.fingerprint.dropout_masks.clone();
    let uses_hash = hash(run).is_some() && model.is_some_and(|model| *model != Model::Own);
    let drops = model.is_some_and(|model| model.has_dropout());
    !drops
        || hash(run) == hash(other_run)
            && (uses_hash || generator(run, row) == generator(other_run, other_row))
}

/// Returns the first steps and their losses from the row's first process with a loss curve.
fn first_losses((run, row): (&Run, &Row<'_>)) -> Option<Vec<(f64, Option<f64>)>> {
    let name = SeriesName::TrainLoss;
    let samples = run
        .samples
        .read(curve_of(run, row)?, SampleSelection::series(&[name]))
        .ok()??;
    let series = samples.get(name)?;
    let points = series.x.iter().copied().zip(series.y.iter().copied());
    Some(points.take(MAX_STEPS).collect())
}
