//! Key of lines: a sample of each line with its marker and its label.

use super::{
    canvas::{Canvas, MARGIN, TextStyle, WIDTH},
    fonts::fit,
    palette::{self, Colour, MUTED},
};

/// Height of a row of the key.
pub const ROW: f64 = 20.0;
const MAX_COLUMNS: usize = 4;
const LABEL: TextStyle = TextStyle::new(11.5).colour(MUTED);
/// Width of the sample of a line in front of its label.
const SAMPLE: f64 = 26.0;
/// Gap to the next column.
const GAP: f64 = 14.0;

/// Returns the number of columns in which the widest label fits.
fn columns(labels: &[&str]) -> usize {
    let widest = labels.iter().map(|label| LABEL.width(label)).fold(0.0, f64::max);
    let columns = (WIDTH - 2.0 * MARGIN) / (SAMPLE + widest + GAP);
    (columns as usize).clamp(1, MAX_COLUMNS)
}

/// Returns the height of the key.
pub fn height(labels: &[&str]) -> f64 {
    labels.len().div_ceil(columns(labels)) as f64 * ROW
}

/// Returns the colour of a line by index.
pub fn colour(index: usize) -> Colour {
    palette::SERIES[index % palette::SERIES.len()]
}

/// Draws the key below the title of a figure.
pub fn draw(canvas: &mut Canvas, labels: &[&str]) {
    let columns = columns(labels);
    let width = (WIDTH - 2.0 * MARGIN) / columns as f64;
    for (index, label) in labels.iter().enumerate() {
        let x = MARGIN + (index % columns) as f64 * width;
        let y = Canvas::CONTENT_TOP + 6.0 + (index / columns) as f64 * ROW;
        canvas.line(vec![(x, y), (x + 18.0, y)], 2.0, colour(index));
        marker(canvas, (x + 9.0, y), index);
        let label = fit(label, LABEL.size, LABEL.weight, width - SAMPLE - 6.0);
        canvas.text_centred((x + SAMPLE, y), &label, LABEL);
    }
}

/// Draws the marker of a line: one of four shapes by index, in the colour of the line. The shapes distinguish lines without colour, and
/// lines of the same colour.
pub fn marker(canvas: &mut Canvas, (x, y): (f64, f64), index: usize) {
    let colour = colour(index);
    match (index + index / palette::SERIES.len()) % 4 {
        0 => canvas.disc((x, y), 4.0, colour),
        1 => canvas.rectangle((x - 3.5, y - 3.5), (x + 3.5, y + 3.5), colour),
        2 => canvas.polygon(vec![(x, y - 5.0), (x + 5.0, y + 3.5), (x - 5.0, y + 3.5)], colour),
        _ => canvas.polygon(
            vec![(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)],
            colour,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::kernel::MAX_LINES;

    #[test]
    fn no_two_lines_have_the_same_marker_and_colour() {
        let drawn = (0..MAX_LINES).map(|index| {
            let mut canvas = Canvas::new(20.0);
            marker(&mut canvas, (10.0, 10.0), index);
            canvas.svg().unwrap()
        });
        let mut drawn: Vec<String> = drawn.collect();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), MAX_LINES);
    }
}
