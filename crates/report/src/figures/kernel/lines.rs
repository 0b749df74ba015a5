//! Lines of the figure, one per setting.

use mantissa_core::{Axis, MetricName};

use crate::{
    Group, Row,
    figures::{key, palette::Colour},
};

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
                lines.push(Line {
                    label,
                    colour: key::colour(lines.len()),
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
