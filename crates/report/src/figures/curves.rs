//! Loss curves for figures: one per setting, aggregated over the seeds, smoothed and downsampled.

use mantissa_core::{Axis, Event, EventKind, Record, Samples, Series, SeriesName};
use mantissa_run_folder::SampleSelection;

use super::{downsample::downsample, palette::Colour};
use crate::{Group, Row, Run};

/// Maximum number of points of a line. More than one point per logical pixel would not be visible.
const MAX_POINTS: usize = 400;
/// Width of the smoothing window as a share of a curve. Smoothing averages out the noise of micro-batches.
pub const SMOOTHING: f64 = 0.04;

/// Points of progress and loss.
type Points = Vec<(f64, f64)>;

/// Loss curve of a setting.
pub struct Curve {
    /// Label that distinguishes the curve from others of its precision; may be empty.
    pub label: String,
    pub colour: Colour,
    /// Number of samples of an optimizer step: micro-batch × accumulation steps.
    pub samples_per_step: f64,
    /// Distance of two steps on the horizontal axis.
    pub step_width: f64,
    /// Number of seeds.
    pub seeds: usize,
    /// Loss as recorded; empty for several seeds.
    pub raw: Points,
    /// Smoothed loss: the mean over the seeds whose loss stayed finite, or over all seeds if none did. Contains only steps at which all of
    /// these seeds have a finite loss.
    pub smooth: Points,
    /// Smoothed minimum and maximum over several seeds; empty for one seed.
    pub low: Points,
    pub high: Points,
    /// First step at which the loss of a seed became non-finite, and the number of such seeds.
    pub non_finite_from: Option<(f64, usize)>,
    /// Positions at which the loss scale fell.
    pub overflows: Vec<f64>,
}

impl Curve {
    /// Replaces steps by numbers of samples as the positions of all points. Steps of different batches are not comparable.
    pub fn place_by_samples(&mut self) {
        self.step_width = self.samples_per_step;
        let lines = [&mut self.raw, &mut self.smooth, &mut self.low, &mut self.high];
        let positions = lines.into_iter().flatten().map(|point| &mut point.0);
        for position in positions.chain(&mut self.overflows) {
            *position *= self.step_width;
        }
    }
}

/// Returns a row's first record that has a loss curve.
pub fn curve_of<'r>(run: &Run, row: &Row<'r>) -> Option<&'r Record> {
    let has_loss = |record: &&Record| run.digest(record).is_some_and(|digest| digest.has_loss);
    row.records.iter().copied().find(has_loss)
}

/// Computes the curve of a setting from one record per seed; `None` if no samples can be read.
pub fn curve(run: &Run, group: &Group<'_>, seeds: &[(&Row<'_>, &Record)], colour: Colour) -> Option<Curve> {
    let setting = &seeds[0].0.cell.setting;
    let mut curve = Curve {
        label: group.label(seeds[0].0, &[Axis::Precision, Axis::Seed]),
        colour,
        samples_per_step: setting.effective_batch() as f64,
        step_width: 1.0,
        seeds: 0,
        raw: vec![],
        smooth: vec![],
        low: vec![],
        high: vec![],
        non_finite_from: None,
        overflows: vec![],
    };
    // Number of seeds and their spreads: first of the seeds whose loss stayed finite, then of the others.
    let mut spreads: [(usize, Option<Vec<Spread>>); 2] = Default::default();
    for (_, record) in seeds {
        let Ok(Some(samples)) = run
            .samples
            .read(record, SampleSelection::series(&[SeriesName::TrainLoss]))
        else {
            continue;
        };
        let Some((mut points, non_finite_from)) = loss(samples) else {
            continue;
        };
        curve.seeds += 1;
        if let Some(step) = non_finite_from {
            let (first, count) = curve.non_finite_from.unwrap_or((step, 0));
            curve.non_finite_from = Some((first.min(step), count + 1));
        }
        curve.overflows.extend(scale_drops(&record.events));
        if seeds.len() == 1 {
            curve.raw = downsample(&points, MAX_POINTS);
        }
        smooth(&mut points);
        // A single seed needs no spread, which would take twice the memory of the points.
        if seeds.len() == 1 {
            curve.smooth = downsample(&points, MAX_POINTS);
            return Some(curve);
        }
        let (count, spread) = &mut spreads[usize::from(non_finite_from.is_some())];
        *count += 1;
        *spread = Some(match spread.take() {
            None => points.into_iter().map(Spread::of).collect(),
            Some(earlier) => merge_seed(earlier, &points),
        });
    }
    let [finite, non_finite] = spreads;
    let (count, spread) = if finite.0 > 0 { finite } else { non_finite };
    let spread = spread?;
    let line = |value: &dyn Fn(&Spread) -> f64| {
        let points: Vec<_> = spread.iter().map(|at| (at.step, value(at))).collect();
        downsample(&points, MAX_POINTS)
    };
    curve.smooth = line(&|at| at.sum / count as f64);
    if count > 1 {
        (curve.low, curve.high) = (line(&|at| at.low), line(&|at| at.high));
    }
    Some(curve)
}

/// Aggregated loss of several seeds at one step.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spread {
    step: f64,
    sum: f64,
    low: f64,
    high: f64,
}

impl Spread {
    fn of((step, loss): (f64, f64)) -> Self {
        Self {
            step,
            sum: loss,
            low: loss,
            high: loss,
        }
    }
}

/// Adds a seed and keeps only the steps that all seeds have. Both inputs are sorted by step.
fn merge_seed(earlier: Vec<Spread>, points: &[(f64, f64)]) -> Vec<Spread> {
    let mut points = points.iter().peekable();
    let join = |at: Spread| {
        while points.next_if(|point| point.0 < at.step).is_some() {}
        let (_, loss) = points.next_if(|point| point.0 == at.step)?;
        Some(Spread {
            step: at.step,
            sum: at.sum + loss,
            low: at.low.min(*loss),
            high: at.high.max(*loss),
        })
    };
    earlier.into_iter().filter_map(join).collect()
}

/// Returns the finite losses by step, and the step from which on the loss is not finite.
fn loss(samples: Samples) -> Option<(Points, Option<f64>)> {
    // A record may have a million steps, so free the series that are not needed.
    let mut series = samples.series.into_iter();
    let (points, non_finite_from) =
        split_non_finite(&series.find(|series| series.name == SeriesName::TrainLoss)?);
    (!points.is_empty() || non_finite_from.is_some()).then_some((points, non_finite_from))
}

/// Returns the finite points, and the step from which on the loss is not finite. A missing value between finite points is ignored: the
/// loss of that step was not recorded.
fn split_non_finite(series: &Series) -> (Points, Option<f64>) {
    let points = || series.x.iter().copied().zip(series.y.iter().copied());
    let mut finite = Points::with_capacity(series.y.iter().flatten().count());
    finite.extend(points().filter_map(|(x, y)| Some((x, y?))));
    let last = finite.last().map_or(f64::NEG_INFINITY, |point| point.0);
    let non_finite_from = points().find(|(x, y)| y.is_none() && *x > last).map(|(x, _)| x);
    (finite, non_finite_from)
}

/// Returns the steps at which the loss scale fell.
fn scale_drops(events: &[Event]) -> impl Iterator<Item = f64> {
    let drops = events
        .iter()
        .filter(|event| event.kind == EventKind::LossScale && lowers_scale(events, event));
    drops.filter_map(|event| event.step).map(|step| step as f64)
}

/// Returns `true` if a loss-scale event lowered the scale: its value is below that of the previous event, or for the first event below
/// the initial scale 2¹⁶.
fn lowers_scale(events: &[Event], event: &Event) -> bool {
    let mut earlier = events
        .iter()
        .rev()
        .filter(|e| e.kind == EventKind::LossScale && e.step < event.step);
    let before = earlier.find_map(|e| e.value).unwrap_or(65_536.0);
    event.value.is_some_and(|value| value < before)
}

/// Replaces every value by the centred moving average over [`SMOOTHING`] of the curve.
fn smooth(points: &mut [(f64, f64)]) {
    let half = (points.len() as f64 * SMOOTHING / 2.0).round() as usize;
    let mut sums = vec![0.0; points.len() + 1];
    for (index, point) in points.iter().enumerate() {
        sums[index + 1] = sums[index] + point.1;
    }
    let last = points.len();
    for (index, point) in points.iter_mut().enumerate() {
        let (from, to) = (index.saturating_sub(half), (index + half + 1).min(last));
        point.1 = (sums[to] - sums[from]) / (to - from) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> Vec<(f64, f64)> {
        (0..n).map(|i| (i as f64, i as f64)).collect()
    }

    #[test]
    fn gaps_between_finite_losses_are_not_divergence() {
        let mut series = Series::new(SeriesName::TrainLoss);
        for (step, loss) in [
            (1.0, 0.7),
            (2.0, f64::NAN),
            (3.0, 0.6),
            (4.0, f64::NAN),
            (5.0, f64::NAN),
        ] {
            series.push(step, loss);
        }
        assert_eq!(
            split_non_finite(&series),
            (vec![(1.0, 0.7), (3.0, 0.6)], Some(4.0))
        );
        series.push(6.0, 0.5);
        assert_eq!(split_non_finite(&series).1, None);
    }

    #[test]
    fn smoothing_keeps_a_straight_line_straight_away_from_its_ends() {
        let mut points = line(200);
        smooth(&mut points);
        assert!(points[10..190].iter().all(|(x, y)| (x - y).abs() < 1e-9));
    }

    #[test]
    fn seeds_are_merged_at_the_steps_at_which_all_have_a_loss() {
        let first: Vec<_> = [(1.0, 4.0), (2.0, 2.0), (4.0, 1.0)].map(Spread::of).into();
        let both = merge_seed(first, &[(2.0, 6.0), (3.0, 9.0), (4.0, 0.5)]);
        let expected = [(2.0, 8.0, 2.0, 6.0), (4.0, 1.5, 0.5, 1.0)];
        assert_eq!(
            both,
            expected.map(|(step, sum, low, high)| Spread { step, sum, low, high })
        );
        // If a seed has no finite loss, there are no common steps.
        assert_eq!(merge_seed(both, &[]), []);
    }

    #[test]
    fn smoothing_keeps_a_single_point() {
        let mut one = [(1.0, 2.0)];
        smooth(&mut one);
        assert_eq!(one, [(1.0, 2.0)]);
        smooth(&mut []);
    }
}
