//! How far apart two runs are in the losses of a training: as far as their formats round, where both compute the same.

use crate::{Row, Run, figures::curves::curve_of};

/// Steps that are compared. What the first ones differ by grows from step to step, in the same arithmetic too.
const STEPS: usize = 20;

/// Losses of two runs at the same steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Losses {
    /// The first steps, as many as both have a finite loss of.
    pub steps: usize,
    /// The farthest that a loss is from the first run's, as a share of that.
    pub apart: f64,
}

/// The losses of a row beside those of the first run. None unless both have any at the same steps.
pub(super) fn beside(mine: (&Run, &Row<'_>), theirs: (&Run, &Row<'_>)) -> Option<Losses> {
    let (mine, theirs) = (first(mine)?, first(theirs)?);
    let both = mine.iter().zip(&theirs).map_while(|(mine, theirs)| {
        let same = mine.0 == theirs.0;
        mine.1.zip(theirs.1).filter(|_| same)
    });
    let shares = both.map(|(mine, theirs)| match mine == theirs {
        true => 0.0,
        false => ((mine - theirs) / theirs).abs(),
    });
    let (steps, apart) = shares.fold((0, 0.0), |(steps, most), share| (steps + 1, share.max(most)));
    (steps > 0).then_some(Losses { steps, apart })
}

/// The first steps of a row and their losses, of its first process that has them.
fn first((run, row): (&Run, &Row<'_>)) -> Option<Vec<(f64, Option<f64>)>> {
    let name = "train_loss";
    let samples = run.samples.read(curve_of(run, row)?, &[name]).ok()??;
    let series = samples.get(name)?;
    let points = series.x.iter().copied().zip(series.y.iter().copied());
    Some(points.take(STEPS).collect())
}
