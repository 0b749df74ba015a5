//! Bar chart of times or throughputs by setting, with one bar per run.

use super::{compare::Entry, matching::letter, view::Comparison};
use crate::{
    Canvas, Figure,
    figures::{
        axis::{Axis, tick_decimals, ticks},
        canvas::{Anchor, MARGIN, TextStyle, WIDTH},
        datum::{Datum, Quantity},
        file_name,
        fonts::{Weight, fit, wrap},
        palette::{ALARM, FAINT, INK, MUTED, SERIES},
        shown_of,
    },
    setting::Spot,
    table::Column,
    units::Scale,
};

/// Maximum number of bars. More are not readable.
const MAX_BARS: usize = 60;
const BAR_HEIGHT: f64 = 16.0;
const GAP: f64 = 12.0;
/// Width reserved for the number next to the longest bar.
const NUMBER_WIDTH: f64 = 150.0;
const LABEL: TextStyle = TextStyle::new(12.5);
const MAX_LABEL_LINES: usize = 8;
const SMALL: TextStyle = TextStyle::new(11.5).colour(MUTED);

/// Draws the bar chart; `None` if no setting has a speed. `names` are the names of the runs.
pub(super) fn draw(table: &Comparison<'_, '_>, names: &[&str]) -> Option<Figure> {
    let runs: Vec<usize> = (0..names.len()).filter(|run| !table.lacks(*run)).collect();
    let speed = table.speed;
    let value = |entry: &Entry<'_, '_>| Some(entry.row?.metric(speed)?.value);
    let timed = |line: &&Vec<Entry<'_, '_>>| line.iter().any(|entry| value(entry).is_some());
    let all: Vec<&Vec<Entry<'_, '_>>> = table.lines.iter().filter(timed).collect();
    let lines = &all[..all.len().min(MAX_BARS / runs.len().max(1))];
    let ends = lines.iter().flat_map(|line| line.iter()).filter_map(|entry| {
        let estimate = entry.row?.metric(speed)?;
        Some(
            estimate
                .interval
                .map_or(estimate.value, |ends| ends.high)
                .max(estimate.value),
        )
    });
    let longest = ends.reduce(f64::max)?;
    let scale = Scale::of(speed, longest);

    let labels: Vec<String> = lines.iter().map(|line| label(table, line)).collect();
    let room = labels
        .iter()
        .map(|text| LABEL.width(text))
        .fold(60.0, f64::max)
        .min(300.0);
    let (left, right) = (MARGIN + room + 14.0, WIDTH - MARGIN - NUMBER_WIDTH);
    let top = Canvas::CONTENT_TOP + 20.0 * runs.len() as f64 + 18.0;
    let lines_of = |label: &String| wrap(label, LABEL.size, LABEL.weight, room, MAX_LABEL_LINES).len();
    let most = labels.iter().map(lines_of).max().unwrap_or(1) as f64;
    let step = (BAR_HEIGHT * runs.len() as f64).max(most * Canvas::LINE_HEIGHT) + GAP;
    let bottom = top + step * lines.len() as f64;
    let (title, below) = Column::Metric(speed).title(table.group);
    let better = speed.better();
    let capped =
        shown_of(lines.len(), all.len()).map_or_else(String::new, |text| format!(" · {text} settings"));
    let note = if below.is_empty() {
        String::new()
    } else {
        format!(", {below}")
    };
    let subtitle = format!(
        "{} · {title}{note}, side by side ({better} is better){capped}",
        table.group.workload
    );
    let mut canvas = Canvas::titled(bottom + 44.0, &table.title, &subtitle);

    for (position, run) in runs.iter().copied().enumerate() {
        let y = Canvas::CONTENT_TOP + 6.0 + 20.0 * position as f64;
        canvas.rectangle(
            (MARGIN, y - 6.0),
            (MARGIN + 12.0, y + 6.0),
            SERIES[run % SERIES.len()],
        );
        let text = format!("{}  {}", letter(run), names[run]);
        let text = fit(&text, SMALL.size, Weight::Regular, WIDTH - 2.0 * MARGIN - 40.0);
        canvas.text_centred((MARGIN + 20.0, y), &text, SMALL);
    }
    let axis = Axis::linear((0.0, longest * scale.factor), (left, right));
    let marks = ticks((0.0, longest * scale.factor), 5);
    let decimals = tick_decimals(&marks);
    for mark in marks {
        let x = axis.at(mark);
        canvas.line(vec![(x, top - 8.0), (x, bottom)], 1.0, FAINT);
        canvas.text(
            (x, bottom + 18.0),
            &format!("{mark:.decimals$}"),
            SMALL.anchor(Anchor::Middle),
        );
    }
    canvas.text((right + 12.0, bottom + 18.0), scale.unit, SMALL);
    for (at, (line, label)) in lines.iter().zip(&labels).enumerate() {
        let y = top + step * at as f64;
        let middle = y + BAR_HEIGHT * runs.len() as f64 / 2.0;
        let text = wrap(label, LABEL.size, LABEL.weight, room, MAX_LABEL_LINES);
        canvas.lines_centred((left - 12.0, middle), &text, LABEL.anchor(Anchor::End));
        for (position, run) in runs.iter().copied().enumerate() {
            bar(
                &mut canvas,
                table,
                &line[run],
                (axis, scale, y + BAR_HEIGHT * position as f64),
                (run, &format!("{}, {label}", names[run])),
            );
        }
    }
    let caption = format!(
        "{title} of {} settings of {}, one bar for each of {} runs. Lines are 95 % intervals, where available.",
        lines.len(),
        table.group.workload,
        runs.len()
    );
    Some(Figure {
        id: file_name(&format!("side-by-side-{}", table.name)),
        suite: None,
        workload: None,
        caption: capitalised(&caption),
        folded: false,
        canvas,
    })
}

/// Returns the label of a line's setting, without axes that do not vary.
fn label(table: &Comparison<'_, '_>, line: &[Entry<'_, '_>]) -> String {
    let row = line.iter().find_map(|entry| entry.row);
    row.map(|row| table.label(row)).unwrap_or_default()
}

fn bar(
    canvas: &mut Canvas,
    table: &Comparison<'_, '_>,
    entry: &Entry<'_, '_>,
    (axis, scale, y): (Axis, Scale, f64),
    (run, series): (usize, &str),
) {
    let middle = y + BAR_HEIGHT / 2.0;
    let start = axis.at(0.0);
    let mut end = start;
    let small = TextStyle::new(11.0);
    if let Some(estimate) = entry.row.and_then(|row| row.metric(table.speed)) {
        end = axis.at(estimate.value * scale.factor).max(start + 1.0);
        let draw = |canvas: &mut Canvas| {
            let colour = SERIES[run % SERIES.len()];
            canvas.rectangle((start, y + 1.0), (end, y + BAR_HEIGHT - 1.0), colour);
        };
        match Spot::of(estimate) {
            Some(spot) => canvas.mark(Datum::new(series, Quantity::of(table.speed, spot)), draw),
            None => draw(canvas),
        }
        if let Some(interval) = estimate.interval {
            let ends = [interval.low, interval.high].map(|value| axis.at(value * scale.factor));
            canvas.line(vec![(ends[0], middle), (ends[1], middle)], 1.5, INK);
            end = end.max(ends[1]);
        }
        let own_scale = table.scale(table.speed, std::slice::from_ref(entry));
        let text = own_scale.text(estimate.value);
        canvas.text_centred((end + 6.0, middle), &text, small);
        end += small.width(&text) + 6.0;
    }
    let status = match entry.row {
        Some(row) if row.is_ok() => return,
        Some(row) => row.status_name(),
        None => "not in this run",
    };
    let text = fit(status, small.size, Weight::SemiBold, NUMBER_WIDTH - 60.0);
    canvas.text_centred((end + 8.0, middle), &text, small.bold().colour(ALARM));
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters.next().map(|c| c.to_uppercase().collect::<String>());
    first.unwrap_or_default() + characters.as_str()
}
