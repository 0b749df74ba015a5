//! Histograms over integers, one per panel, such as the exponents of powers of two.

use super::{
    axis::{Axis, tick_decimals, ticks},
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
/// Smallest share on a logarithmic axis.
const MIN_SHARE: f64 = 1e-6;

/// A histogram: the share of values at each integer.
pub struct Histogram {
    pub title: String,
    /// One-line summary of the values.
    pub note: String,
    /// Integers with their shares, in ascending order of the integer.
    pub bars: Vec<(i64, f64)>,
    /// Limits of the integers that are shaded as out of range: those below the first limit, and those from the second limit on.
    pub out_of_range: (Option<i64>, Option<i64>),
}

/// Axes of the histograms of a figure.
#[derive(Clone, Copy)]
pub struct Axes {
    /// Name of the position of a bar.
    pub name: &'static str,
    /// Unit of the position.
    pub unit: &'static str,
    /// Converts the integer of a bar to its position.
    pub position: fn(i64) -> f64,
    /// Formats the integer of a bar.
    pub format: fn(i64) -> String,
    /// Vertical axis.
    pub shares: ShareAxis,
}

/// Vertical axis of histograms.
#[derive(Clone, Copy)]
pub enum ShareAxis {
    /// Logarithmic from [`MIN_SHARE`] to 100 %, which makes the tails visible.
    Log,
    /// Linear from 0 to the largest share of all panels.
    Linear,
}

impl ShareAxis {
    /// Returns the axis between two pixels, and its grid lines with their labels.
    fn place(self, largest: f64, pixels: (f64, f64)) -> (Axis, Vec<(f64, String)>) {
        match self {
            Self::Log => {
                let label = |power| match power {
                    0 => "100 %".to_owned(),
                    -2 => "1 %".to_owned(),
                    _ => units::power_of_ten(power),
                };
                let lines = [-6, -4, -2, 0].map(|power| (10f64.powi(power), label(power)));
                (Axis::log((MIN_SHARE, 1.0), pixels), lines.to_vec())
            }
            Self::Linear => {
                let levels = ticks((0.0, 100.0 * largest), 3);
                let decimals = tick_decimals(&levels);
                let lines = levels
                    .iter()
                    .map(|level| (level / 100.0, format!("{level:.decimals$} %")));
                (Axis::linear((0.0, largest), pixels), lines.collect())
            }
        }
    }
}

/// Range of all panels of a figure: the first and the last integer, and the largest share.
#[derive(Clone, Copy)]
struct Range {
    first: i64,
    last: i64,
    largest: f64,
}

impl Histogram {
    /// Converts counts to shares, where `first` is the integer of the first count. `None` if all counts are 0.
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

    fn draw(&self, canvas: &mut Canvas, (left, top): (f64, f64), width: f64, (axes, range): (Axes, Range)) {
        let Range { first, last, largest } = range;
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
        let (y, lines) = axes.shares.place(largest, (bottom, top));
        let (below, from) = self.out_of_range;
        let edge = |integer: i64| x.at(integer as f64 - 0.5);
        let spans = [
            below.map(|below| (left, edge(below))),
            from.map(|from| (edge(from), right)),
        ];
        for (from, to) in spans.into_iter().flatten().filter(|(from, to)| to > from) {
            canvas.rectangle((from, top), (to, bottom), ALARM_WASH);
        }
        for (share, text) in lines {
            let at = y.at(share);
            canvas.line(vec![(left, at), (right, at)], 1.0, FAINT);
            canvas.text_centred((left - 6.0, at), &text, style.anchor(Anchor::End));
        }
        let gap = (edge(first + 1) - edge(first)).min(4.0) * 0.2;
        for (integer, share) in &self.bars {
            let (from, to) = (edge(*integer) + gap, edge(integer + 1) - gap);
            let at = Quantity::new(
                axes.name,
                (axes.position)(*integer),
                axes.unit,
                (axes.format)(*integer),
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
        let numbered = (first..=last).filter(|integer| integer.rem_euclid(every) == 0);
        for integer in numbered {
            canvas.text(
                (x.at(integer as f64), bottom + 16.0),
                &(axes.format)(integer),
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

/// Draws histograms side by side, with the same ranges for comparison.
pub fn draw(title: &str, subtitle: &str, panels: &[Histogram], axes: Axes) -> Canvas {
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
    let bars = || panels.iter().flat_map(|panel| &panel.bars);
    let first = bars().map(|bar| bar.0).min().unwrap_or_default();
    let last = bars().map(|bar| bar.0).max().unwrap_or_default();
    let range = Range {
        first,
        last: last.max(first + MIN_BARS - 1),
        largest: bars().map(|bar| bar.1).fold(0.0, f64::max),
    };
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + LABEL_WIDTH + (index % columns) as f64 * share;
        let top = top + (index / columns) as f64 * panel_height;
        panel.draw(
            &mut canvas,
            (left, top),
            share - LABEL_WIDTH - 26.0,
            (axes, range),
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
