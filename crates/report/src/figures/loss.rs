//! Training loss by optimizer step, a panel a precision; what went wrong is marked where it happened.

use mantissa_core::{Event, Record, Samples, Series, TaskKind};

use super::{
    axis::{Axis, rounded, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    palette::{self, ALARM, Colour, FAINT, MUTED},
    shown_of,
    thin::thin,
    type_setting::{Weight, fit},
};
use crate::{Group, Row, Run, Suite, units};

const MAX_PANELS: usize = 9;
const MAX_LINES: usize = 6;
const PANEL_HEIGHT: f64 = 190.0;
const PANEL_GAP: f64 = 44.0;
const KEY_HEIGHT: f64 = 16.0;
/// Points a line is drawn with: two a logical pixel would not be told apart.
const MAX_POINTS: usize = 400;
/// The smoothing window is this share of a curve: wide enough to see through the noise of micro-batches.
const SMOOTHING: f64 = 0.04;

struct Curve {
    label: String,
    colour: Colour,
    raw: Vec<(f64, f64)>,
    smooth: Vec<(f64, f64)>,
    /// Where the loss stopped being finite.
    lost: Option<f64>,
    /// Where the loss scale fell.
    overflows: Vec<f64>,
}

struct Panel {
    title: &'static str,
    curves: Vec<Curve>,
}

/// Draws the curves of a training workload; nothing where no cell has any.
pub fn draw(run: &Run, suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    if group.kind != TaskKind::Train {
        return None;
    }
    let with_curve: Vec<(&Row<'_>, &Record)> = group
        .rows
        .iter()
        .filter_map(|row| Some((row, curve_of(run, row)?)))
        .collect();
    let mut panels: Vec<Panel> = Vec::new();
    let mut shown = 0;
    for &(row, record) in &with_curve {
        let title = row.cell.setting.precision().name();
        let index = match panels.iter().position(|panel| panel.title == title) {
            Some(index) => index,
            None if panels.len() < MAX_PANELS => {
                panels.push(Panel {
                    title,
                    curves: Vec::new(),
                });
                panels.len() - 1
            }
            None => continue,
        };
        let panel = &mut panels[index];
        if panel.curves.len() < MAX_LINES
            && let Ok(Some(samples)) = run.samples.read(record, &["train_loss"])
            && let Some(curve) = curve(group, row, samples, &record.events, panel.curves.len())
        {
            panel.curves.push(curve);
            shown += 1;
        }
    }
    panels.retain(|panel| !panel.curves.is_empty());
    if panels.is_empty() {
        return None;
    }
    Some(draw_panels(
        suite,
        group,
        &panels,
        shown_of(shown, with_curve.len()),
    ))
}

fn draw_panels(
    suite: &Suite<'_>,
    group: &Group<'_>,
    panels: &[Panel],
    capped: Option<String>,
) -> (Canvas, String) {
    let columns = panels.len().min(3);
    let labelled = |panel: &Panel| {
        panel
            .curves
            .iter()
            .filter(|curve| !curve.label.is_empty())
            .count()
    };
    let lines = panels.iter().map(labelled).max().unwrap_or(0);
    let key = lines as f64 * KEY_HEIGHT;
    let row_height = 22.0 + key + PANEL_HEIGHT + PANEL_GAP;
    let height = Canvas::CONTENT_TOP + panels.len().div_ceil(columns) as f64 * row_height;
    let capped = capped.map(|text| format!(" · {text}")).unwrap_or_default();
    let subtitle = format!(
        "{} · by optimizer step, mean over {:.0} % of a curve; cross: no longer finite; tick: loss scale fell{capped}",
        group.workload,
        SMOOTHING * 100.0
    );
    let mut canvas = Canvas::titled(height, &format!("{}: loss", suite.info.title), &subtitle);
    let every = || panels.iter().flat_map(|panel| &panel.curves);
    let fold = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(x), high.max(x))
        })
    };
    let range = rounded(
        fold(&mut every().flat_map(|curve| &curve.smooth).map(|point| point.1)),
        4,
    );
    let last = every()
        .flat_map(|curve| &curve.raw)
        .map(|point| point.0)
        .fold(1.0, f64::max);
    let last = every().filter_map(|curve| curve.lost).fold(last, f64::max);

    let width = (WIDTH - 2.0 * MARGIN - (columns - 1) as f64 * 28.0) / columns as f64;
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + (index % columns) as f64 * (width + 28.0);
        let top = Canvas::CONTENT_TOP + (index / columns) as f64 * row_height;
        canvas.text((left, top + 14.0), panel.title, TextStyle::new(13.0).bold());
        let style = TextStyle::new(11.5).colour(MUTED);
        for (line, curve) in panel
            .curves
            .iter()
            .filter(|curve| !curve.label.is_empty())
            .enumerate()
        {
            let y = top + 30.0 + line as f64 * KEY_HEIGHT;
            canvas.line(vec![(left, y), (left + 16.0, y)], 3.0, curve.colour);
            canvas.text_centred(
                (left + 22.0, y),
                &fit(&curve.label, 11.5, Weight::Regular, width - 24.0),
                style,
            );
        }
        let plot = (left + 34.0, top + 22.0 + key + 8.0);
        draw_panel(
            &mut canvas,
            panel,
            plot,
            (width - 36.0, PANEL_HEIGHT - 8.0),
            range,
            last,
        );
    }
    let caption = format!(
        "Training loss of {} by optimizer step, a panel a precision.",
        group.workload
    );
    (canvas, caption)
}

fn draw_panel(
    canvas: &mut Canvas,
    panel: &Panel,
    (left, top): (f64, f64),
    (width, height): (f64, f64),
    range: (f64, f64),
    last: f64,
) {
    let x = Axis::linear((0.0, last), (left, left + width));
    let y = Axis::linear(range, (top + height, top));
    let style = TextStyle::new(11.0).colour(MUTED);
    let marks = ticks(range, 4);
    let decimals = tick_decimals(&marks);
    for mark in marks {
        canvas.line(vec![(left, y.at(mark)), (left + width, y.at(mark))], 1.0, FAINT);
        canvas.text_centred(
            (left - 6.0, y.at(mark)),
            &format!("{mark:.decimals$}"),
            style.anchor(Anchor::End),
        );
    }
    for mark in ticks((0.0, last), 4) {
        let text = units::count(mark.round() as u64);
        canvas.text(
            (x.at(mark), top + height + 18.0),
            &text,
            style.anchor(Anchor::Middle),
        );
    }
    for curve in &panel.curves {
        let place = |points: &[(f64, f64)]| points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        canvas.faint_line(place(&curve.raw), 1.0, curve.colour, 0.22);
    }
    for curve in &panel.curves {
        let points: Vec<(f64, f64)> = curve.smooth.iter().map(|p| (x.at(p.0), y.at(p.1))).collect();
        let end = points.last().copied();
        canvas.line(points, 2.0, curve.colour);
        for step in &curve.overflows {
            let at = x.at(*step);
            canvas.line(vec![(at, top + height), (at, top + height + 6.0)], 1.5, ALARM);
        }
        if let Some(step) = curve.lost {
            let at = (x.at(step), end.map_or(top + 8.0, |end| end.1));
            canvas.cross(at, 5.0, ALARM);
            let text = format!("not finite at step {}", units::count(step as u64));
            let note = TextStyle::new(11.0).colour(ALARM);
            let right = at.0 + 10.0 + note.width(&text) < left + width;
            let (dx, anchor) = if right {
                (10.0, Anchor::Start)
            } else {
                (-10.0, Anchor::End)
            };
            canvas.text(
                (at.0 + dx, (at.1 - 8.0).max(top + 12.0)),
                &text,
                note.anchor(anchor),
            );
        }
    }
}

/// A row's first record that has a loss curve.
fn curve_of<'r>(run: &Run, row: &Row<'r>) -> Option<&'r Record> {
    let has_loss = |record: &&Record| run.digest(record).is_some_and(|digest| digest.has_loss);
    row.records.iter().copied().find(has_loss)
}

fn curve(
    group: &Group<'_>,
    row: &Row<'_>,
    samples: Samples,
    events: &[Event],
    index: usize,
) -> Option<Curve> {
    // A record may have a million steps: what is not needed any more is let go.
    let mut series = samples.series.into_iter();
    let (mut points, lost) = split(&series.find(|series| series.name == "train_loss")?);
    drop(series);
    if points.is_empty() && lost.is_none() {
        return None;
    }
    let label = group.label(row, &[mantissa_core::Axis::Precision]);
    let colour = if group.axes.is_empty() {
        palette::matmul(row.cell.setting.matmul())
    } else {
        palette::SERIES[index % palette::SERIES.len()]
    };
    let falls = events
        .iter()
        .filter(|event| event.kind == "loss-scale" && fell(events, event));
    let raw = thin(&points, MAX_POINTS);
    smooth(&mut points);
    Some(Curve {
        label,
        colour,
        raw,
        smooth: thin(&points, MAX_POINTS),
        lost,
        overflows: falls
            .filter_map(|event| event.step)
            .map(|step| step as f64)
            .collect(),
    })
}

/// The finite points, and where the loss was lost for good. A gap in between is a step without a loss, not a loss lost.
fn split(series: &Series) -> (Vec<(f64, f64)>, Option<f64>) {
    let points = || series.x.iter().copied().zip(series.y.iter().copied());
    let finite: Vec<(f64, f64)> = points().filter_map(|(x, y)| Some((x, y?))).collect();
    let last = finite.last().map_or(f64::NEG_INFINITY, |point| point.0);
    let lost = points().find(|(x, y)| y.is_none() && *x > last).map(|(x, _)| x);
    (finite, lost)
}

/// Whether a loss-scale event lowered the scale: it lies below the one before it, or is the first and below 2¹⁶.
fn fell(events: &[Event], event: &Event) -> bool {
    let mut earlier = events
        .iter()
        .rev()
        .filter(|e| e.kind == "loss-scale" && e.step < event.step);
    let before = earlier.find_map(|e| e.value).unwrap_or(65_536.0);
    event.value.is_some_and(|value| value < before)
}

/// Replaces every value by the centred running mean over [`SMOOTHING`] of the curve.
fn smooth(points: &mut [(f64, f64)]) {
    let half = (points.len() as f64 * SMOOTHING / 2.0).round() as usize;
    let mut sums = vec![0.0; points.len() + 1];
    for (index, point) in points.iter().enumerate() {
        sums[index + 1] = sums[index] + point.1;
    }
    let last = points.len();
    for (index, point) in points.iter_mut().enumerate() {
        let (from, to) = (index.saturating_sub(half), (index + half + 1).min(last));
        point.1 = (sums[to] - sums[from]) / (to - from) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> Vec<(f64, f64)> {
        (0..n).map(|i| (i as f64, i as f64)).collect()
    }

    #[test]
    fn a_gap_is_no_loss_lost_and_an_end_without_values_is() {
        let mut series = Series::new("train_loss", "nat", "optimizer step");
        for (step, loss) in [
            (1.0, 0.7),
            (2.0, f64::NAN),
            (3.0, 0.6),
            (4.0, f64::NAN),
            (5.0, f64::NAN),
        ] {
            series.push(step, loss);
        }
        assert_eq!(split(&series), (vec![(1.0, 0.7), (3.0, 0.6)], Some(4.0)));
        series.push(6.0, 0.5);
        assert_eq!(split(&series).1, None);
    }

    #[test]
    fn smoothing_keeps_a_straight_line_straight_away_from_its_ends() {
        let mut points = line(200);
        smooth(&mut points);
        assert!(points[10..190].iter().all(|(x, y)| (x - y).abs() < 1e-9));
    }

    #[test]
    fn one_point_survives_smoothing() {
        let mut one = [(1.0, 2.0)];
        smooth(&mut one);
        assert_eq!(one, [(1.0, 2.0)]);
        smooth(&mut []);
    }
}
