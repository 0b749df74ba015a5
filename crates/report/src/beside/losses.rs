//! How far apart two runs are in the losses of a training: as far as their formats round, where both compute the same.

use crate::{Row, Run, figures::curves::curve_of};

/// Steps that are compared. What the first ones differ by grows from step to step, in the same arithmetic too.
const STEPS: usize = 20;

/// Losses of two runs at the same steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Losses {
    /// They can be compared.
    Beside {
        /// The first steps, as many as both have a finite loss of.
        steps: usize,
        /// The farthest that two losses of a step are, as a share of the larger one.
        apart: f64,
        /// The step after those, if one of them alone has no finite loss there.
        lost: Option<Lost>,
    },
    /// What is dropped at random may be other values in each.
    OtherMasks,
}

/// Where one run stopped having finite losses.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lost {
    /// Optimizer step, from 1.
    pub step: f64,
    /// Whether it is the first run.
    pub first: bool,
}

/// The losses of a row beside those of the first run. None unless both have any of the same first step.
pub(super) fn beside(mine: (&Run, &Row<'_>), theirs: (&Run, &Row<'_>)) -> Option<Losses> {
    let (my_losses, their_losses) = (first(mine)?, first(theirs)?);
    if !same_masks(mine, theirs) {
        return Some(Losses::OtherMasks);
    }
    let (mut steps, mut apart, mut lost) = (0, 0.0_f64, None);
    for (mine, theirs) in my_losses.iter().zip(&their_losses) {
        if mine.0 != theirs.0 {
            break;
        }
        let (Some(one), Some(other)) = (mine.1, theirs.1) else {
            lost = (mine.1.is_some() != theirs.1.is_some()).then_some(Lost {
                step: mine.0,
                first: theirs.1.is_none(),
            });
            break;
        };
        steps += 1;
        if one != other {
            apart = apart.max((one - other).abs() / one.abs().max(other.abs()));
        }
    }
    (steps > 0 || lost.is_some()).then_some(Losses::Beside { steps, apart, lost })
}

/// Whether both drop the same values: nothing, or what one generator of random numbers draws from one seed.
fn same_masks((run, row): (&Run, &Row<'_>), (other_run, other_row): (&Run, &Row<'_>)) -> bool {
    let generator = |run: &Run, row: &Row<'_>| {
        (
            run.environment.fingerprint.framework(),
            row.cell.setting.backend(),
        )
    };
    let drops = row.cell.workload.model().is_some_and(|model| model.has_dropout());
    !drops || generator(run, row) == generator(other_run, other_row)
}

/// The first steps of a row and their losses, of its first process that has them.
fn first((run, row): (&Run, &Row<'_>)) -> Option<Vec<(f64, Option<f64>)>> {
    let name = "train_loss";
    let samples = run.samples.read(curve_of(run, row)?, &[name]).ok()??;
    let series = samples.get(name)?;
    let points = series.x.iter().copied().zip(series.y.iter().copied());
    Some(points.take(STEPS).collect())
}
