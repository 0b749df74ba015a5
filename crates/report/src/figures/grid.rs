//! Horizontal grid lines of a plot.

use super::{
    axis::{Axis, decades},
    canvas::{Anchor, Canvas, TextStyle},
    palette::{FAINT, MUTED},
};
use crate::units;

/// Draws a grid line with its label on the left.
pub fn line(canvas: &mut Canvas, y: f64, (left, width): (f64, f64), label: &str) {
    canvas.line(vec![(left, y), (left + width, y)], 1.0, FAINT);
    canvas.text_centred(
        (left - 8.0, y),
        label,
        TextStyle::new(11.0).colour(MUTED).anchor(Anchor::End),
    );
}

/// Draws a vertical logarithmic axis over whole decades with a grid line per power of ten, at most about eight.
pub fn log_axis(
    canvas: &mut Canvas,
    range: (f64, f64),
    (left, width): (f64, f64),
    (bottom, top): (f64, f64),
) -> Axis {
    let (first, last) = decades(range);
    let axis = Axis::log((10f64.powi(first), 10f64.powi(last)), (bottom, top));
    let step = (last - first).div_euclid(8) + 1;
    for power in (first..=last).step_by(step as usize) {
        let y = axis.at(10f64.powi(power));
        line(canvas, y, (left, width), &units::power_of_ten(power));
    }
    axis
}
