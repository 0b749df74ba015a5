//! A drawing in logical pixels, before it becomes SVG or PNG.

use std::{collections::HashMap, ops::Range};

use super::{
    datum::{self, Datum},
    fonts::{Weight, width, wrap},
    palette::{CARD, Colour, INK, MUTED},
};

/// Anchor point of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Left end of the text.
    Start,
    /// Middle of the text.
    Middle,
    /// Right end of the text.
    End,
}

/// Style of a text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextStyle {
    /// Font size in pixels per em.
    pub size: f64,
    /// Weight.
    pub weight: Weight,
    /// Colour.
    pub colour: Colour,
    /// Anchor.
    pub anchor: Anchor,
}

impl TextStyle {
    /// Creates a style for regular text in the colour [`INK`], anchored at its left end.
    pub const fn new(size: f64) -> Self {
        Self {
            size,
            weight: Weight::Regular,
            colour: INK,
            anchor: Anchor::Start,
        }
    }

    /// Returns the style in semi-bold.
    pub const fn bold(self) -> Self {
        Self {
            weight: Weight::SemiBold,
            ..self
        }
    }

    /// Returns the style in another colour.
    pub const fn colour(self, colour: Colour) -> Self {
        Self { colour, ..self }
    }

    /// Returns the style with another anchor.
    pub const fn anchor(self, anchor: Anchor) -> Self {
        Self { anchor, ..self }
    }

    /// Returns the width of a text in pixels.
    pub fn width(self, text: &str) -> f64 {
        width(text, self.size, self.weight)
    }
}

/// One element of a drawing. Coordinates are logical pixels, y downwards.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    Rectangle {
        from: (f64, f64),
        to: (f64, f64),
        colour: Colour,
    },
    Outline {
        from: (f64, f64),
        to: (f64, f64),
        colour: Colour,
    },
    Line {
        points: Vec<(f64, f64)>,
        thickness: f64,
        colour: Colour,
        opacity: f64,
    },
    Polygon {
        points: Vec<(f64, f64)>,
        colour: Colour,
        opacity: f64,
    },
    Disc {
        centre: (f64, f64),
        radius: f64,
        colour: Colour,
    },
    Text {
        baseline: (f64, f64),
        text: String,
        style: TextStyle,
    },
}

/// A list of shapes on a sheet of fixed size.
#[derive(Debug, Clone)]
pub struct Canvas {
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) shapes: Vec<Shape>,
    /// Values of marks, with the shapes of each mark. The ranges are in ascending order and do not overlap.
    pub(super) marks: Vec<(Range<usize>, Datum)>,
    /// Downward shift of the content if the title or the subtitle has several lines.
    content_shift: f64,
}

/// Horizontal margin of every figure, in logical pixels.
pub const MARGIN: f64 = 24.0;
/// Width of every figure, in logical pixels.
pub const WIDTH: f64 = 960.0;

impl Canvas {
    /// Creates an empty sheet.
    pub fn new(height: f64) -> Self {
        let sheet = Shape::Rectangle {
            from: (0.0, 0.0),
            to: (WIDTH, height),
            colour: CARD,
        };
        Self {
            width: WIDTH,
            height,
            shapes: vec![sheet],
            marks: vec![],
            content_shift: 0.0,
        }
    }

    /// Creates a sheet with a title and a subtitle of at most six lines each. Callers draw the content from
    /// [`Canvas::CONTENT_TOP`] on; additional lines shift it down and make the sheet higher than `height`.
    pub fn titled(height: f64, title: &str, subtitle: &str) -> Self {
        const LINES: usize = 6;
        let (head, below) = (TextStyle::new(18.0).bold(), TextStyle::new(12.5).colour(MUTED));
        // A fallback font may be wider than the embedded one.
        let room = 0.94 * (WIDTH - 2.0 * MARGIN);
        let title = wrap(title, head.size, head.weight, room, LINES);
        let subtitle = wrap(subtitle, below.size, below.weight, room, LINES);
        let (title_shift, content_shift) = (
            (title.len() - 1) as f64 * 23.0,
            (subtitle.len() - 1) as f64 * 17.0,
        );
        let mut canvas = Self::new(height + title_shift + content_shift);
        for (index, line) in title.iter().enumerate() {
            canvas.text((MARGIN, 38.0 + index as f64 * 23.0), line, head);
        }
        for (index, line) in subtitle.iter().enumerate() {
            canvas.text((MARGIN, 58.0 + title_shift + index as f64 * 17.0), line, below);
        }
        canvas.content_shift = title_shift + content_shift;
        canvas
    }

    /// Height of a line of a label with several lines, in logical pixels.
    pub const LINE_HEIGHT: f64 = 14.0;

    /// Top of the content of a titled figure, in logical pixels.
    pub const CONTENT_TOP: f64 = 76.0;

    fn shifted(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (x, y + self.content_shift)
    }

    /// Draws a mark with its value. Marks must not be nested.
    pub(crate) fn mark(&mut self, datum: Datum, draw: impl FnOnce(&mut Self)) {
        let first = self.shapes.len();
        draw(self);
        self.marks.push((first..self.shapes.len(), datum));
    }

    /// Draws a line through points with values, in pieces of equal length. The hover text of a piece is that of its middle point.
    pub(crate) fn curve(&mut self, points: Vec<((f64, f64), Datum)>, thickness: f64, colour: Colour) {
        self.alternating_curve(points, (0, 1), thickness, colour);
    }

    /// Draws one of `count` lines that alternate: only every `count`-th piece of [`Self::curve`], from the piece `turn` on.
    pub(crate) fn alternating_curve(
        &mut self,
        points: Vec<((f64, f64), Datum)>,
        (turn, count): (usize, usize),
        thickness: f64,
        colour: Colour,
    ) {
        /// More pieces would be too narrow for a mouse pointer.
        const MAX_PIECES: usize = 40;
        let (positions, data): (Vec<_>, Vec<_>) = points.into_iter().unzip();
        let length = positions.len().div_ceil(MAX_PIECES).max(1);
        for (index, datum) in data.into_iter().enumerate() {
            let first = index / length * length;
            let last = (first + length).min(positions.len() - 1);
            self.mark(datum, |canvas| {
                if index == (first + last) / 2 && index / length % count == turn {
                    canvas.line(positions[first..=last].to_vec(), thickness, colour);
                }
            });
        }
    }

    /// Describes the first and the last value of each series in words, for readers who cannot see the figure.
    pub(crate) fn values(&self) -> String {
        /// A longer description is tedious to listen to. The CSV file of the figure contains all values.
        const MAX_VALUES: usize = 40;
        let mut ends: Vec<[&Datum; 2]> = Vec::new();
        let mut known = HashMap::new();
        for (_, datum) in &self.marks {
            let next = ends.len();
            let index = *known.entry((&datum.series, &datum.value.name)).or_insert(next);
            match index == next {
                true => ends.push([datum, datum]),
                false => ends[index][1] = datum,
            }
        }
        let mut texts: Vec<String> = ends.iter().flatten().map(|datum| datum.hover_text()).collect();
        texts.dedup();
        texts.truncate(MAX_VALUES);
        texts.join("; ")
    }

    /// Returns the values of all marks as CSV.
    pub(crate) fn csv(&self) -> Result<Vec<u8>, ::csv::Error> {
        datum::csv(self.marks.iter().map(|(_, datum)| datum))
    }

    /// Draws a filled rectangle.
    pub fn rectangle(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        let (from, to) = (self.shifted(from), self.shifted(to));
        self.shapes.push(Shape::Rectangle { from, to, colour });
    }

    /// Draws the outline of a rectangle.
    pub fn outline(&mut self, from: (f64, f64), to: (f64, f64), colour: Colour) {
        let (from, to) = (self.shifted(from), self.shifted(to));
        self.shapes.push(Shape::Outline { from, to, colour });
    }

    /// Draws a line through points.
    pub fn line(&mut self, points: Vec<(f64, f64)>, thickness: f64, colour: Colour) {
        self.faint_line(points, thickness, colour, 1.0);
    }

    /// Draws a translucent line through points.
    pub fn faint_line(&mut self, points: Vec<(f64, f64)>, thickness: f64, colour: Colour, opacity: f64) {
        if points.len() > 1 {
            let points = points.into_iter().map(|point| self.shifted(point)).collect();
            self.shapes.push(Shape::Line {
                points,
                thickness,
                colour,
                opacity,
            });
        }
    }

    /// Draws a filled convex polygon.
    pub fn polygon(&mut self, points: Vec<(f64, f64)>, colour: Colour) {
        let points = points.into_iter().map(|point| self.shifted(point)).collect();
        self.shapes.push(Shape::Polygon {
            points,
            colour,
            opacity: 1.0,
        });
    }

    /// Fills the area between two lines with a translucent colour. Both lines run from left to right.
    pub fn band(&mut self, low: Vec<(f64, f64)>, high: Vec<(f64, f64)>, colour: Colour, opacity: f64) {
        if low.len() > 1 && high.len() > 1 {
            let outline = low.into_iter().chain(high.into_iter().rev());
            let points = outline.map(|point| self.shifted(point)).collect();
            self.shapes.push(Shape::Polygon {
                points,
                colour,
                opacity,
            });
        }
    }

    /// Draws a filled circle.
    pub fn disc(&mut self, centre: (f64, f64), radius: f64, colour: Colour) {
        let centre = self.shifted(centre);
        self.shapes.push(Shape::Disc {
            centre,
            radius,
            colour,
        });
    }

    /// Draws a cross, which marks a failure.
    pub fn cross(&mut self, (x, y): (f64, f64), arm: f64, colour: Colour) {
        self.line(vec![(x - arm, y - arm), (x + arm, y + arm)], 2.0, colour);
        self.line(vec![(x - arm, y + arm), (x + arm, y - arm)], 2.0, colour);
    }

    /// Draws a line of text with its anchor at `baseline`.
    pub fn text(&mut self, baseline: (f64, f64), text: &str, style: TextStyle) {
        if !text.is_empty() {
            let baseline = self.shifted(baseline);
            self.shapes.push(Shape::Text {
                baseline,
                text: text.to_owned(),
                style,
            });
        }
    }

    /// Draws lines of text that are vertically centred on `y` together.
    pub fn lines_centred(&mut self, (x, y): (f64, f64), lines: &[String], style: TextStyle) {
        let above = Self::LINE_HEIGHT * lines.len().saturating_sub(1) as f64 / 2.0;
        for (index, line) in lines.iter().enumerate() {
            let middle = y - above + Self::LINE_HEIGHT * index as f64;
            self.text_centred((x, middle), line, style);
        }
    }

    /// Draws a line of text whose capitals are vertically centred on `y`.
    pub fn text_centred(&mut self, (x, y): (f64, f64), text: &str, style: TextStyle) {
        // Inter's capitals are 0.727 em high.
        self.text((x, y + 0.3635 * style.size), text, style);
    }
}
