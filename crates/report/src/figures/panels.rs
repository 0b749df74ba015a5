//! Labelled rows with panels side by side, each of which shows a quantity of every row as bars from zero, points or text.

use super::{
    axis::{Axis, decades, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    fonts::wrap,
    palette::{ALARM, Colour, FAINT, GREY, INK, MUTED},
};
use crate::{setting::Spot, units};

/// Minimum height of a row.
const ROW: f64 = 30.0;
/// Gap between the labels of two rows.
const LABEL_GAP: f64 = 10.0;
const BAR: f64 = 18.0;
const PANEL_GAP: f64 = 30.0;
/// Height of the panels' titles and notes.
const HEAD: f64 = 46.0;
/// Height of the axes' numbers.
const FOOT: f64 = 44.0;
/// Maximum width of a label in one line. Wider labels take several lines.
const MAX_LABEL: f64 = 230.0;
const MAX_LABEL_LINES: usize = 8;
const LABEL: TextStyle = TextStyle::new(12.5);
const VALUE: TextStyle = TextStyle::new(11.5);

/// Kind of marks in a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bars from zero.
    Bars,
    /// Points on an axis that need not start at zero, for small differences.
    Points,
    /// Points on a logarithmic axis. Values of 0 are drawn at its left end.
    LogPoints,
    /// Text without a drawn mark.
    Text,
}

/// Mark of a row in a panel.
#[derive(Debug, Clone)]
pub struct Mark {
    /// Value to draw, in the base unit of the panel.
    pub spot: Option<Spot>,
    /// Published value and its text, drawn in grey next to the mark.
    pub published: Option<(f64, String)>,
    /// Text at the right.
    pub text: String,
    pub colour: Colour,
}

impl Mark {
    /// Creates a mark without a value, with the reason.
    pub fn missing(why: &str) -> Self {
        Self {
            spot: None,
            published: None,
            text: why.to_owned(),
            colour: ALARM,
        }
    }
}

/// Panel with a quantity of every row.
pub struct Panel {
    pub kind: Kind,
    /// Quantity with its unit.
    pub title: String,
    /// Base unit of the values.
    pub unit: &'static str,
    /// Ratio of the shown to the base unit.
    pub factor: f64,
    /// Note below the title: the direction that is better.
    pub note: &'static str,
    /// Marks, one per row.
    pub marks: Vec<Mark>,
    /// Vertical reference lines: value, first row, and the row after the last one.
    pub guides: Vec<(f64, usize, usize)>,
}

/// Draws labels and panels below a title.
pub fn draw(title: &str, subtitle: &str, labels: &[String], panels: &[Panel]) -> Canvas {
    let top = Canvas::CONTENT_TOP + HEAD;
    let widths = labels.iter().map(|text| LABEL.width(text));
    let label_width = widths.fold(60.0, f64::max).min(MAX_LABEL);
    let wrapped = labels.iter().map(|label| {
        let (size, weight) = (LABEL.size, LABEL.weight);
        wrap(label, size, weight, label_width, MAX_LABEL_LINES)
    });
    let wrapped: Vec<Vec<String>> = wrapped.collect();
    let most = wrapped.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let rows = Rows {
        top,
        height: ROW.max(most * Canvas::LINE_HEIGHT + LABEL_GAP),
        count: labels.len(),
    };
    let mut canvas = Canvas::titled(rows.edge(rows.count) + FOOT, title, subtitle);
    for (row, lines) in wrapped.iter().enumerate() {
        canvas.lines_centred((MARGIN, rows.middle(row)), lines, LABEL);
    }
    let mut left = MARGIN + label_width + 24.0;
    let gaps = panels.len().saturating_sub(1) as f64 * PANEL_GAP;
    let text_widths: f64 = panels
        .iter()
        .filter(|panel| panel.kind == Kind::Text)
        .map(Panel::text_width)
        .sum();
    let drawn = panels
        .iter()
        .filter(|panel| panel.kind != Kind::Text)
        .count()
        .max(1);
    let share = (WIDTH - MARGIN - left - gaps - text_widths) / drawn as f64;
    for panel in panels {
        let width = match panel.kind {
            Kind::Text => panel.text_width(),
            Kind::Bars | Kind::Points | Kind::LogPoints => share,
        };
        panel.draw(&mut canvas, labels, (left, width), rows);
        left += width + PANEL_GAP;
    }
    canvas
}

/// Vertical positions of the rows.
#[derive(Clone, Copy)]
struct Rows {
    top: f64,
    height: f64,
    count: usize,
}

impl Rows {
    fn middle(self, row: usize) -> f64 {
        self.top + (row as f64 + 0.5) * self.height
    }

    /// Returns the upper edge of a row. That of row `count` is the lower edge of the last row.
    fn edge(self, row: usize) -> f64 {
        self.top + row as f64 * self.height
    }
}

impl Panel {
    /// Returns the width of the widest text.
    fn text_width(&self) -> f64 {
        let widths = self.marks.iter().map(|mark| VALUE.bold().width(&mark.text));
        widths.fold(TextStyle::new(12.0).bold().width(&self.title).min(90.0), f64::max)
    }

    fn draw(&self, canvas: &mut Canvas, labels: &[String], (left, width): (f64, f64), rows: Rows) {
        let top = rows.top;
        let head = TextStyle::new(12.0).bold();
        for (line, text) in wrap(&self.title, head.size, head.weight, width, 2)
            .iter()
            .rev()
            .enumerate()
        {
            canvas.text((left, top - 27.0 - 14.0 * line as f64), text, head);
        }
        canvas.text((left, top - 12.0), self.note, TextStyle::new(11.0).colour(MUTED));
        if self.kind == Kind::Text {
            for (row, mark) in self.marks.iter().enumerate() {
                canvas.text_centred((left, rows.middle(row)), &mark.text, VALUE.colour(mark.colour));
            }
            return;
        }
        let right = left + width;
        let bottom = rows.edge(rows.count);
        let axis = self.axis(canvas, (left, right - self.text_width() - 12.0), (top, bottom));
        let guides = || {
            self.guides
                .iter()
                .filter_map(|guide| Some((guide, axis?.at(guide.0))))
        };
        let draw_guides = |canvas: &mut Canvas| {
            for ((_, from, to), x) in guides() {
                let (from, to) = (rows.edge(*from), rows.edge(*to));
                canvas.line(vec![(x, from), (x, to)], 1.5, MUTED);
            }
        };
        if matches!(self.kind, Kind::Points | Kind::LogPoints) {
            draw_guides(canvas);
        }
        for (row, mark) in self.marks.iter().enumerate() {
            let y = rows.middle(row);
            let colour = if mark.spot.is_some() { INK } else { mark.colour };
            let style = VALUE.bold().colour(colour).anchor(Anchor::End);
            let theirs = mark.published.as_ref();
            canvas.text_centred(
                (right, if theirs.is_some() { y - 6.0 } else { y }),
                &mark.text,
                style,
            );
            if let Some((_, text)) = theirs {
                let style = TextStyle::new(10.5).colour(MUTED).anchor(Anchor::End);
                canvas.text_centred((right, y + 7.0), text, style);
            }
            if let Some(axis) = axis {
                self.draw_mark(canvas, (&labels[row], mark), axis, y);
            }
        }
        if self.kind == Kind::Bars {
            draw_guides(canvas);
        }
    }

    /// Draws the axis with its numbers. `None` if there are no values.
    fn axis(
        &self,
        canvas: &mut Canvas,
        (left, right): (f64, f64),
        (top, bottom): (f64, f64),
    ) -> Option<Axis> {
        if self.kind == Kind::LogPoints {
            return self.log_axis(canvas, (left, right), (top, bottom));
        }
        let spots = self.marks.iter().filter_map(|mark| mark.spot).map(Spot::ends);
        let published = self
            .marks
            .iter()
            .filter_map(|mark| Some(mark.published.as_ref()?.0));
        let guides = self.guides.iter().map(|guide| guide.0);
        let all = spots.chain(published.chain(guides).map(|value| (value, value)));
        let (low, high) = all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let range = match self.kind {
            Kind::Bars => (0.0, high.max(f64::MIN_POSITIVE)),
            Kind::Points | Kind::LogPoints | Kind::Text => {
                let room = 0.04 * (high - low);
                (low - room, high + room)
            }
        };
        let axis = Axis::linear(range, (left, right));
        let marks = ticks((range.0 * self.factor, range.1 * self.factor), 4);
        let decimals = tick_decimals(&marks);
        let marks = marks.into_iter().filter(|mark| mark.is_finite());
        let marks = marks.map(|mark| (axis.at(mark / self.factor), format!("{mark:.decimals$}")));
        draw_ticks(canvas, marks, (top, bottom));
        Some(axis)
    }

    /// Draws a logarithmic axis over whole decades. `None` if there are no positive values.
    fn log_axis(&self, canvas: &mut Canvas, pixels: (f64, f64), (top, bottom): (f64, f64)) -> Option<Axis> {
        let spots = self.marks.iter().filter_map(|mark| mark.spot).map(Spot::ends);
        let positive = spots
            .flat_map(|(low, high)| [low, high])
            .filter(|value| *value > 0.0);
        let range = positive
            .map(|value| (value, value))
            .reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let (first, last) = decades(range);
        let axis = Axis::log((10f64.powi(first), 10f64.powi(last)), pixels);
        let powers = (first..=last).map(|power| (axis.at(10f64.powi(power)), units::power_of_ten(power)));
        draw_ticks(canvas, powers, (top, bottom));
        Some(axis)
    }

    /// Returns the datum of a mark. A bar of a ratio may have the absolute value as its text.
    fn datum(&self, series: &str, spot: Spot, text: &str) -> Datum {
        let name = self.title.split(", ").next().unwrap_or_default();
        let text = match self.unit == "1" && !text.ends_with(['×', '%']) {
            true if self.kind == Kind::Bars => format!("{}, {text}", units::times(spot.value)),
            _ => text.to_owned(),
        };
        let quantity = Quantity::new(name, spot.value, self.unit, text);
        let ends = spot.whiskers;
        Datum::new(series, Quantity { ends, ..quantity })
    }

    fn draw_mark(&self, canvas: &mut Canvas, (label, mark): (&str, &Mark), axis: Axis, y: f64) {
        let (top, bottom) = (y - BAR / 2.0, y + BAR / 2.0);
        let foot = match mark.published {
            Some(_) if self.kind == Kind::Bars => bottom - 6.0,
            _ => bottom,
        };
        if let Some((published, text)) = &mark.published {
            let x = axis.at(*published);
            let spot = Spot {
                value: *published,
                whiskers: None,
            };
            let datum = self.datum(&format!("{label} (published)"), spot, text);
            canvas.mark(datum, |canvas| match self.kind {
                Kind::Bars => canvas.rectangle((axis.at(0.0), foot + 1.5), (x, bottom), GREY),
                Kind::Points | Kind::LogPoints | Kind::Text => canvas.disc((x, y), 4.5, GREY),
            });
        }
        let Some(spot) = mark.spot else { return };
        canvas.mark(self.datum(label, spot, &mark.text), |canvas| {
            self.draw_spot(canvas, (spot, mark.colour), axis, (y, top, foot));
        });
    }

    /// Draws a value with its whiskers, as a bar from `top` to `foot` or as a point at `y`.
    fn draw_spot(
        &self,
        canvas: &mut Canvas,
        (spot, colour): (Spot, Colour),
        axis: Axis,
        (y, top, foot): (f64, f64, f64),
    ) {
        let x = axis.at(spot.value);
        if self.kind == Kind::Bars {
            let start = axis.at(0.0);
            canvas.rectangle((start, top), (x.max(start + 1.5), foot), colour);
        }
        if let Some(whiskers) = spot.whiskers {
            let y = if self.kind == Kind::Bars {
                (top + foot) / 2.0
            } else {
                y
            };
            let ends = (axis.at(whiskers.0), axis.at(whiskers.1));
            let ink = if self.kind == Kind::Bars { INK } else { colour };
            draw_whiskers(canvas, ends, y, ink);
        }
        if matches!(self.kind, Kind::Points | Kind::LogPoints) {
            canvas.disc((x, y), 4.5, colour);
        }
    }
}

/// Draws a vertical grid line per tick, with its label below unless it would cover the previous one.
fn draw_ticks(canvas: &mut Canvas, ticks: impl Iterator<Item = (f64, String)>, (top, bottom): (f64, f64)) {
    let style = TextStyle::new(11.0).colour(MUTED).anchor(Anchor::Middle);
    let mut free = f64::NEG_INFINITY;
    for (x, text) in ticks {
        canvas.line(vec![(x, top - 4.0), (x, bottom)], 1.0, FAINT);
        let half = style.width(&text) / 2.0;
        if x - half > free {
            canvas.text((x, bottom + 18.0), &text, style);
            free = x + half + 8.0;
        }
    }
}

fn draw_whiskers(canvas: &mut Canvas, (from, to): (f64, f64), y: f64, colour: Colour) {
    if to - from > 1.0 {
        canvas.line(vec![(from, y), (to, y)], 1.5, colour);
        for end in [from, to] {
            canvas.line(vec![(end, y - 4.0), (end, y + 4.0)], 1.5, colour);
        }
    }
}
