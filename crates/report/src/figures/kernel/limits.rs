//! Limits of a kernel: data-sheet peaks of the throughput.

use mantissa_core::MetricName;

use super::lines::Line;
use crate::figures::{
    axis::Axis,
    canvas::{Canvas, TextStyle},
    datum::{Datum, Quantity},
    palette::MUTED,
};
use crate::setting::Spot;

/// Returns the data-sheet peaks in ascending order with their formats.
pub(super) fn ceilings(lines: &[Line<'_, '_>]) -> Vec<(f64, String)> {
    let mut all: Vec<(f64, Vec<&str>)> = vec![];
    for peak in lines
        .iter()
        .flat_map(|line| &line.rows)
        .filter_map(|row| row.sheet_peak())
    {
        match all.iter_mut().find(|(other, _)| *other == peak.flops_per_second) {
            Some((_, formats)) if formats.contains(&peak.format) => {}
            Some((_, formats)) => formats.push(peak.format),
            None => all.push((peak.flops_per_second, vec![peak.format])),
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter()
        .map(|(peak, formats)| (peak, formats.join(", ")))
        .collect()
}

/// Draws a dashed line per peak, with the names of its formats below the left end. Names that would overlap the previous ones are moved
/// to the right.
pub(super) fn draw_ceilings(
    canvas: &mut Canvas,
    ceilings: &[(f64, String)],
    y: Axis,
    (left, right): (f64, f64),
) {
    const DASH: f64 = 6.0;
    let style = TextStyle::new(11.0).colour(MUTED);
    let mut last: Option<(f64, f64)> = None;
    for (peak, formats) in ceilings {
        let at = y.at(*peak);
        let dashes = ((right - left) / (2.0 * DASH)).ceil() as usize;
        let spot = Spot {
            value: *peak,
            whiskers: None,
        };
        let series = format!("data-sheet peak of {formats}");
        let datum = Datum::new(&series, Quantity::of(MetricName::FlopsPerSecond, spot));
        canvas.mark(datum, |canvas| {
            for start in (0..dashes).map(|dash| left + 2.0 * DASH * dash as f64) {
                canvas.line(vec![(start, at), ((start + DASH).min(right), at)], 1.5, MUTED);
            }
        });
        let from = match last {
            Some((above, end)) if above - at < 14.0 => end + 8.0,
            _ => left + 28.0,
        };
        canvas.text((from, at + 13.0), formats, style);
        last = Some((at, from + style.width(formats)));
    }
}
