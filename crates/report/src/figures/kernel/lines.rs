//! Lines of the figure, one per setting, and their key.

use mantissa_core::{Axis, MetricName};

use crate::{
    Group, Row,
    figures::{
        canvas::{Canvas, MARGIN, TextStyle, WIDTH},
        fonts::fit,
        palette::{self, Colour, MUTED},
    },
};

pub(super) const KEY_ROW: f64 = 20.0;
const MAX_KEY_COLUMNS: usize = 4;
const KEY_LABEL: TextStyle = TextStyle::new(11.5).colour(MUTED);
/// Width of the sample of a line in front of its label.
const KEY_SAMPLE: f64 = 26.0;
/// Gap to the next column.
const KEY_GAP: f64 = 14.0;

/// Rows of one setting at several sizes, drawn as a line.
pub(super) struct Line<'r, 'a> {
    pub label: String,
    pub colour: Colour,
    pub rows: Vec<&'r Row<'a>>,
}

/// Returns the lines of a group, in plan order, with their rows in ascending order of size.
pub(super) fn lines<'r, 'a>(group: &'r Group<'a>) -> Vec<Line<'r, 'a>> {
    let mut lines: Vec<Line<'r, 'a>> = Vec::new();
    for row in group.ok() {
        let label = group.label(row, &[Axis::Size, Axis::Distribution]);
        match lines.iter_mut().find(|line| line.label == label) {
            Some(line) => line.rows.push(row),
            None => {
                let colour = palette::SERIES[lines.len() % palette::SERIES.len()];
                lines.push(Line {
                    label,
                    colour,
                    rows: vec![row],
                });
            }
        }
    }
    for line in &mut lines {
        line.rows.sort_by_key(|row| row.cell.setting.size());
    }
    lines
}

/// Names the settings whose error is zero, which a logarithmic axis cannot show.
pub(super) fn describe_exact(lines: &[Line<'_, '_>]) -> Option<String> {
    let error = |row: &&Row<'_>| row.metric(MetricName::RelativeError).map(|e| e.value);
    let zero = |line: &&Line<'_, '_>| line.rows.iter().filter_map(error).any(|error| error == 0.0);
    let names: Vec<&str> = lines
        .iter()
        .filter(zero)
        .map(|line| line.label.as_str())
        .collect();
    (!names.is_empty()).then(|| format!("error 0, not drawn: {}", names.join(", ")))
}

/// Returns the number of columns of the key in which the widest label fits.
pub(super) fn key_columns(lines: &[Line<'_, '_>]) -> usize {
    let widths = lines.iter().map(|line| KEY_LABEL.width(&line.label));
    let widest = widths.fold(0.0, f64::max);
    let columns = (WIDTH - 2.0 * MARGIN) / (KEY_SAMPLE + widest + KEY_GAP);
    (columns as usize).clamp(1, MAX_KEY_COLUMNS)
}

pub(super) fn draw_key(canvas: &mut Canvas, lines: &[Line<'_, '_>]) {
    let columns = key_columns(lines);
    let width = (WIDTH - 2.0 * MARGIN) / columns as f64;
    for (index, line) in lines.iter().enumerate() {
        let x = MARGIN + (index % columns) as f64 * width;
        let y = Canvas::CONTENT_TOP + 6.0 + (index / columns) as f64 * KEY_ROW;
        canvas.line(vec![(x, y), (x + 18.0, y)], 2.0, line.colour);
        marker(canvas, (x + 9.0, y), index, line.colour);
        canvas.text_centred(
            (x + KEY_SAMPLE, y),
            &fit(
                &line.label,
                KEY_LABEL.size,
                KEY_LABEL.weight,
                width - KEY_SAMPLE - 6.0,
            ),
            KEY_LABEL,
        );
    }
}

/// Draws one of four shapes by index. The shapes distinguish lines without colour, and lines of the same colour.
pub(super) fn marker(canvas: &mut Canvas, (x, y): (f64, f64), index: usize, colour: Colour) {
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
            let colour = palette::SERIES[index % palette::SERIES.len()];
            marker(&mut canvas, (10.0, 10.0), index, colour);
            canvas.svg().unwrap()
        });
        let mut drawn: Vec<String> = drawn.collect();
        drawn.sort();
        drawn.dedup();
        assert_eq!(drawn.len(), MAX_LINES);
    }
}
