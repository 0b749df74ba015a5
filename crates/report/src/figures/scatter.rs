//! Labelled points with whiskers in both directions. A line joins the Pareto front, and dominated points are grey.

use super::{
    axis::{Axis, tick_decimals, ticks},
    canvas::{Anchor, Canvas, TextStyle},
    datum::{Datum, Quantity},
    labels::Labels,
    palette::{self, FAINT, GREY, INK, MUTED},
};
use crate::{setting::Spot, units::Scale};

pub const PLOT_HEIGHT: f64 = 250.0;
/// Width reserved for the numbers of the vertical axis.
pub const LABEL_WIDTH: f64 = 58.0;

/// Point of a setting.
pub struct Point {
    pub cost: Spot,
    pub quality: Spot,
    pub label: String,
}

/// Panel of a quality over a cost.
pub struct Panel {
    pub points: Vec<Point>,
    pub dominated: Vec<bool>,
    /// Number of points that are not compared, because their quality is that of guessing. They are marked as dominated.
    pub guesses: usize,
    /// Indices of the points that are not dominated, in ascending order of cost.
    pub front: Vec<usize>,
    /// Titles and scales of the axes.
    pub x: (String, Scale),
    pub y: (String, Scale),
    /// Base units of the axes.
    pub units: (&'static str, &'static str),
}

/// Returns the range of an axis with a margin.
fn range(spots: impl Iterator<Item = Spot>) -> (f64, f64) {
    let (low, high) = spots
        .map(Spot::ends)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), ends| {
            (low.min(ends.0), high.max(ends.1))
        });
    let room = 0.1 * (high - low).max(0.01 * high.abs());
    (low - room, high + room)
}

impl Panel {
    /// Returns `true` if some quality value lies within the whiskers of every point.
    pub fn overlaps(&self) -> bool {
        let ends = || self.points.iter().map(|point| point.quality.ends());
        let known = self.points.iter().all(|point| point.quality.whiskers.is_some());
        let low = ends().map(|ends| ends.0).fold(f64::NEG_INFINITY, f64::max);
        known && low <= ends().map(|ends| ends.1).fold(f64::INFINITY, f64::min)
    }

    /// Draws the panel and returns the number of points without a label.
    pub fn draw(&self, canvas: &mut Canvas, (left, top, width): (f64, f64, f64)) -> usize {
        let (right, bottom) = (left + width, top + PLOT_HEIGHT);
        let shown = |spot: Spot, scale: Scale| spot.map(|value| value * scale.factor).unwrap_or(spot);
        let xs = || self.points.iter().map(|point| shown(point.cost, self.x.1));
        let ys = || self.points.iter().map(|point| shown(point.quality, self.y.1));
        let (x_range, y_range) = (range(xs()), range(ys()));
        let x = Axis::linear(x_range, (left, right));
        let y = Axis::linear(y_range, (bottom, top));
        canvas.text(
            (left - LABEL_WIDTH, top - 14.0),
            &self.y.0,
            TextStyle::new(12.0).bold(),
        );
        grid(canvas, (x, x_range), (y, y_range), (left, top, right, bottom));
        canvas.text(
            ((left + right) / 2.0, bottom + 38.0),
            &self.x.0,
            TextStyle::new(12.0).bold().anchor(Anchor::Middle),
        );
        let positions: Vec<_> = xs()
            .zip(ys())
            .map(|(cost, quality)| (x.at(cost.value), y.at(quality.value)))
            .collect();
        let mut labels = Labels::new((left, top, right, bottom), &positions);
        let steps = self.front.windows(2).flat_map(|pair| {
            let (from, to) = (positions[pair[0]], positions[pair[1]]);
            [from, (to.0, from.1), to]
        });
        let steps: Vec<(f64, f64)> = steps.collect();
        steps.windows(2).for_each(|ends| labels.avoid(ends[0], ends[1]));
        canvas.line(steps, 1.5, palette::SERIES[5]);
        for ((index, place), (cost, quality)) in positions.iter().enumerate().zip(xs().zip(ys())) {
            let (thickness, colour) = if self.dominated[index] {
                (1.0, GREY)
            } else {
                (1.5, palette::SERIES[0])
            };
            let across = cost
                .whiskers
                .map(|(low, high)| ((x.at(low), place.1), (x.at(high), place.1)));
            let along = quality
                .whiskers
                .map(|(low, high)| ((place.0, y.at(low)), (place.0, y.at(high))));
            for (from, to) in across.into_iter().chain(along) {
                canvas.line(vec![from, to], thickness, colour);
                labels.avoid(from, to);
            }
        }
        let unlabelled = self.place_labels(&mut labels, &positions);
        labels.draw(canvas);
        // Draw grey points first, below the others.
        for grey in [true, false] {
            let colour = if grey { GREY } else { palette::SERIES[0] };
            for (point, (place, _)) in self
                .points
                .iter()
                .zip(positions.iter().zip(&self.dominated))
                .filter(|(_, (_, dominated))| **dominated == grey)
            {
                canvas.mark(self.datum(point), |canvas| canvas.disc(*place, 5.0, colour));
            }
        }
        unlabelled
    }

    fn datum(&self, point: &Point) -> Datum {
        let quantity = |(title, scale): &(String, Scale), unit: &'static str, spot: Spot| {
            let name = title.split(", ").next().unwrap_or_default();
            let quantity = Quantity::new(name, spot.value, unit, scale.text(spot.value));
            let ends = spot.whiskers;
            Quantity { ends, ..quantity }
        };
        let (cost, quality) = self.units;
        Datum::new(&point.label, quantity(&self.y, quality, point.quality))
            .at(quantity(&self.x, cost, point.cost))
    }

    /// Places the labels, those of the Pareto front first, and returns the number of points without a label.
    fn place_labels(&self, labels: &mut Labels, positions: &[(f64, f64)]) -> usize {
        let mut order: Vec<usize> = (0..positions.len()).collect();
        order.sort_by_key(|index| self.dominated[*index]);
        let style = |index: usize| match self.dominated[index] {
            true => TextStyle::new(11.0).colour(MUTED),
            false => TextStyle::new(11.0).bold().colour(INK),
        };
        let unlabelled = order
            .iter()
            .filter(|index| !labels.place(positions[**index], &self.points[**index].label, style(**index)));
        unlabelled.count()
    }
}

/// Draws grid lines with their numbers.
fn grid(
    canvas: &mut Canvas,
    (x, x_range): (Axis, (f64, f64)),
    (y, y_range): (Axis, (f64, f64)),
    (left, top, right, bottom): (f64, f64, f64, f64),
) {
    let style = TextStyle::new(11.0).colour(MUTED);
    let texts = |range| {
        let marks = ticks(range, 4);
        let decimals = tick_decimals(&marks);
        marks
            .into_iter()
            .map(move |mark| (mark, format!("{mark:.decimals$}")))
    };
    for (mark, text) in texts(y_range) {
        canvas.line(vec![(left, y.at(mark)), (right, y.at(mark))], 1.0, FAINT);
        canvas.text_centred((left - 8.0, y.at(mark)), &text, style.anchor(Anchor::End));
    }
    for (mark, text) in texts(x_range) {
        canvas.line(vec![(x.at(mark), top), (x.at(mark), bottom)], 1.0, FAINT);
        canvas.text((x.at(mark), bottom + 18.0), &text, style.anchor(Anchor::Middle));
    }
}
