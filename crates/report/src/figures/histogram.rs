//! Histograms over powers of two, one per panel. Shares are on a logarithmic axis, which makes the tails visible.

use super::{
    axis::Axis,
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    fonts::{Weight, wrap},
    palette::{self, ALARM_WASH, FAINT, MUTED},
};
use crate::units;

pub const MAX_PANELS: usize = 9;
const COLUMNS: usize = 3;
const PLOT_HEIGHT: f64 = 120.0;
const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 96.0;
const LABEL_WIDTH: f64 = 42.0;
const HEAD: TextStyle = TextStyle::new(12.0).bold();
/// Minimum number of bars for which a panel has room. A single bar as wide as its panel would not look like a bar.
const MIN_BARS: i64 = 8;
/// Smallest share on the vertical axis.
const MIN_SHARE: f64 = 1e-6;

/// A histogram: the share of values at each power of two.
pub struct Histogram {
    pub title: String,
    /// One-line summary of the values.
    pub note: String,
    /// Exponents with their shares, in ascending order of the exponent.
    pub bars: Vec<(i64, f64)>,
    /// Limits of the exponents that are shaded as out of range: those below the first limit, and those from the second limit on.
    pub out_of_range: (Option<i64>, Option<i64>),
}

/// Horizontal axis of the histograms of a figure.
#[derive(Clone, Copy)]
pub struct ExponentAxis {
    /// Name of the position of a bar.
    pub name: &'static str,
    /// Base unit of the powers of two.
    pub unit: &'static str,
    /// Formats an exponent.
    pub format: fn(i64) -> String,
}

impl Histogram {
    /// Converts counts to shares, where `first` is the exponent of the first count. `None` if all counts are 0.
    pub fn shares(first: i64, counts: &[f64]) -> Option<Vec<(i64, f64)>> {
        let all: f64 = counts.iter().sum();
        let share = |(index, count): (usize, &f64)| (first.saturating_add(index as i64), count / all);
        let bars = || {
            counts
                .iter()
                .enumerate()
                .map(share)
                .filter(|(_, share)| *share > 0.0)
        };
        (all > 0.0 && all.is_finite()).then(|| bars().collect())
    }

    fn title_lines(&self, room: f64) -> Vec<String> {
        const MAX_LINES: usize = 8;
        wrap(&self.title, HEAD.size, HEAD.weight, room, MAX_LINES)
    }

    fn draw(
        &self,
        canvas: &mut Canvas,
        (left, top): (f64, f64),
        width: f64,
        (axis, first, last): (ExponentAxis, i64, i64),
    ) {
        let room = width + LABEL_WIDTH;
        for (line, text) in self.title_lines(room).iter().rev().enumerate() {
            let baseline = top - 42.0 - Canvas::LINE_HEIGHT * line as f64;
            canvas.text((left - LABEL_WIDTH, baseline), text, HEAD);
        }
        let style = TextStyle::new(11.0).colour(MUTED);
        for (line, text) in wrap(&self.note, style.size, Weight::Regular, room, 2)
            .iter()
            .enumerate()
        {
            canvas.text((left - LABEL_WIDTH, top - 27.0 + 14.0 * line as f64), text, style);
        }
        let (right, bottom) = (left + width, top + PLOT_HEIGHT);
        let x = Axis::linear((first as f64 - 0.5, last as f64 + 0.5), (left, right));
        let y = Axis::log((MIN_SHARE, 1.0), (bottom, top));
        let (below, from) = self.out_of_range;
        let edge = |exponent: i64| x.at(exponent as f64 - 0.5);
        let spans = [
            below.map(|below| (left, edge(below))),
            from.map(|from| (edge(from), right)),
        ];
        for (from, to) in spans.into_iter().flatten().filter(|(from, to)| to > from) {
            canvas.rectangle((from, top), (to, bottom), ALARM_WASH);
        }
        for power in [-6, -4, -2, 0] {
            let at = y.at(10f64.powi(power));
            canvas.line(vec![(left, at), (right, at)], 1.0, FAINT);
            let text = match power {
                0 => "100 %".to_owned(),
                -2 => "1 %".to_owned(),
                _ => units::power_of_ten(power),
            };
            canvas.text_centred((left - 6.0, at), &text, style.anchor(Anchor::End));
        }
        let gap = (edge(first + 1) - edge(first)).min(4.0) * 0.2;
        for (exponent, share) in &self.bars {
            let (from, to) = (edge(*exponent) + gap, edge(exponent + 1) - gap);
            let at = Quantity::new(
                axis.name,
                (*exponent as f64).exp2(),
                axis.unit,
                (axis.format)(*exponent),
            );
            let datum = Datum::new(&self.title, Quantity::new("share", *share, "1", percent(*share)));
            canvas.mark(datum.at(at), |canvas| {
                canvas.rectangle(
                    (from, y.at(*share).min(bottom - 1.0)),
                    (to, bottom),
                    palette::SERIES[0],
                );
            });
        }
        let every = ((last - first) / 4).max(1);
        let numbered = (first..=last).filter(|exponent| exponent.rem_euclid(every) == 0);
        for exponent in numbered {
            canvas.text(
                (x.at(exponent as f64), bottom + 16.0),
                &(axis.format)(exponent),
                style.anchor(Anchor::Middle),
            );
        }
    }
}

/// Formats a share in percent, small shares in scientific notation. Only a share of 1 is `100 %`.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        100.0 => "100 %".to_owned(),
        percent if percent > 99.99 => "> 99.99 %".to_owned(),
        small if small < 0.01 => format!("{} %", units::scientific(small)),
        percent => format!("{percent:.2} %"),
    }
}

/// Draws histograms side by side, with the same horizontal range for comparison.
pub fn draw(title: &str, subtitle: &str, panels: &[Histogram], axis: ExponentAxis) -> Canvas {
    let columns = if panels.len() == 4 {
        2
    } else {
        panels.len().clamp(1, COLUMNS)
    };
    let share = (WIDTH - 2.0 * MARGIN + 26.0) / columns as f64;
    let title_lines = panels.iter().map(|panel| panel.title_lines(share - 26.0).len());
    let more = Canvas::LINE_HEIGHT * (title_lines.max().unwrap_or(1) - 1) as f64;
    let top = Canvas::CONTENT_TOP + 52.0 + more;
    let rows = panels.len().div_ceil(columns) as f64;
    let panel_height = PANEL_HEIGHT + more;
    let mut canvas = Canvas::titled(top + rows * panel_height - 36.0, title, subtitle);
    let exponents = || panels.iter().flat_map(|panel| &panel.bars).map(|bar| bar.0);
    let first = exponents().min().unwrap_or_default();
    let last = exponents().max().unwrap_or_default().max(first + MIN_BARS - 1);
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + LABEL_WIDTH + (index % columns) as f64 * share;
        let top = top + (index / columns) as f64 * panel_height;
        panel.draw(
            &mut canvas,
            (left, top),
            share - LABEL_WIDTH - 26.0,
            (axis, first, last),
        );
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_one_and_empty_bins_are_left_out() {
        let shares = Histogram::shares(-3, &[1.0, 0.0, 3.0]).unwrap();
        assert_eq!(shares, [(-3, 0.25), (-1, 0.75)]);
        assert_eq!(Histogram::shares(0, &[]), None);
        assert_eq!(Histogram::shares(0, &[0.0]), None);
        assert_eq!(Histogram::shares(0, &[f64::NAN]), None);
    }
}
