//! Training loss by optimizer step, or by samples seen if batches differ. One panel per precision, with failures marked at their step.

use mantissa_core::TaskKind;

use super::{
    axis::{Axis, rounded, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    curves::{Curve, SMOOTHING, curve, curve_of},
    datum::{Datum, Quantity},
    fonts::{Weight, wrap},
    palette::{self, FAINT, MUTED},
    shown_of,
};
use crate::{Group, Row, Run, setting::SettingResult, units};

const MAX_PANELS: usize = 9;
const MAX_LINES: usize = 6;
const PANEL_HEIGHT: f64 = 190.0;
/// Height below a plot: the numbers and the title of its axis, and the gap to the next panel.
const PANEL_GAP: f64 = 58.0;
/// Height above a plot without its key: the titles of the panel and of the vertical axis.
const HEAD: f64 = 44.0;
const KEY_HEIGHT: f64 = 16.0;
const LINE_WIDTH: f64 = 2.0;

struct Panel {
    title: &'static str,
    curves: Vec<Curve>,
}

/// Draws the curves of a training workload; `None` if no cell has a curve.
pub fn draw(run: &Run, group: &Group<'_>) -> Option<(Canvas, String)> {
    if group.kind != TaskKind::Train {
        return None;
    }
    let settings = SettingResult::all(group, |row| curve_of(run, row).is_some());
    let has_curve = |row: &&&Row<'_>| curve_of(run, row).is_some();
    let all = settings
        .iter()
        .map(|setting| setting.seeds.iter().filter(has_curve).count())
        .sum();
    let mut panels: Vec<Panel> = Vec::new();
    let mut shown = 0;
    for setting in settings {
        let row = setting.row();
        let with_curve = setting
            .seeds
            .iter()
            .filter_map(|row| Some((*row, curve_of(run, row)?)));
        let seeds: Vec<_> = with_curve.collect();
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
        let colour = match group.axes.as_slice() {
            [] | [mantissa_core::Axis::Seed] => palette::matmul(row.cell.setting.matmul()),
            _ => palette::SERIES[panel.curves.len() % palette::SERIES.len()],
        };
        if panel.curves.len() < MAX_LINES
            && let Some(curve) = curve(run, group, &seeds, colour)
        {
            panel.curves.push(curve);
            shown += seeds.len();
        }
    }
    panels.retain(|panel| !panel.curves.is_empty());
    if panels.is_empty() {
        return None;
    }
    let mut curves = panels.iter().flat_map(|panel| &panel.curves);
    let first = curves.next().map(|curve| curve.samples_per_step);
    let progress = match curves.any(|curve| Some(curve.samples_per_step) != first) {
        false => "optimizer step",
        true => {
            let curves = panels.iter_mut().flat_map(|panel| &mut panel.curves);
            curves.for_each(Curve::place_by_samples);
            "samples seen"
        }
    };
    Some(draw_panels(group, &panels, progress, shown_of(shown, all)))
}

/// Names the precisions under which a loss became non-finite.
fn finding(panels: &[Panel]) -> String {
    let is_non_finite = |panel: &&Panel| panel.curves.iter().any(|curve| curve.non_finite_from.is_some());
    let names: Vec<&str> = panels
        .iter()
        .filter(is_non_finite)
        .map(|panel| panel.title)
        .collect();
    match names.split_last() {
        None => "Every training loss stays finite".to_owned(),
        Some((only, [])) => format!("The training loss becomes non-finite under {only}"),
        Some((last, others)) => format!(
            "The training loss becomes non-finite under {} and {last}",
            others.join(", ")
        ),
    }
}

fn draw_panels(
    group: &Group<'_>,
    panels: &[Panel],
    progress: &str,
    capped: Option<String>,
) -> (Canvas, String) {
    let columns = panels.len().min(3);
    let width = (WIDTH - 2.0 * MARGIN - (columns - 1) as f64 * 28.0) / columns as f64;
    let key_lines = |panel: &Panel| -> usize {
        let lines = panel.curves.iter().map(|curve| key_label(curve, width).len());
        lines.sum()
    };
    let lines = panels.iter().map(key_lines).max().unwrap_or(0);
    let key = lines as f64 * KEY_HEIGHT;
    let row_height = HEAD + key + PANEL_HEIGHT + PANEL_GAP;
    let height = Canvas::CONTENT_TOP + panels.len().div_ceil(columns) as f64 * row_height;
    let capped = capped.map(|text| format!(" · {text}")).unwrap_or_default();
    let every = || panels.iter().flat_map(|panel| &panel.curves);
    let seeds = every().map(|curve| curve.seeds).max().unwrap_or(1);
    let alike = every().all(|curve| curve.seeds == seeds);
    let up_to = if alike { "" } else { "up to " };
    let (lines, over) = match seeds {
        1 => (String::new(), String::new()),
        _ => (
            format!("mean and range of {up_to}{seeds} seeds, "),
            format!(
                "Lines are means of {up_to}{seeds} seeds, without those whose loss becomes non-finite unless all do; bands \
                 reach from the lowest to the highest seed."
            ),
        ),
    };
    let subtitle = format!(
        "{} · by {progress}, {lines}smoothed; cross: loss not finite; tick: loss scale lowered{capped}",
        group.workload
    );
    let mut canvas = Canvas::titled(height, &finding(panels), &subtitle);
    let fold = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| {
            (low.min(x), high.max(x))
        })
    };
    let (low, high) = fold(
        &mut every()
            .flat_map(|curve| [&curve.smooth, &curve.low, &curve.high])
            .flatten()
            .map(|point| point.1),
    );
    // Default range if no curve has a finite point.
    let range = rounded(if low <= high { (low, high) } else { (0.0, 1.0) }, 4);
    let last = every()
        .flat_map(|curve| &curve.smooth)
        .map(|point| point.0)
        .fold(1.0, f64::max);
    let last = every()
        .filter_map(|curve| Some(curve.non_finite_from?.0 * curve.step_width))
        .fold(last, f64::max);

    let mut any_coincide = false;
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + (index % columns) as f64 * (width + 28.0);
        let top = Canvas::CONTENT_TOP + (index / columns) as f64 * row_height;
        canvas.text((left, top + 14.0), panel.title, TextStyle::new(13.0).bold());
        let style = TextStyle::new(11.5).colour(MUTED);
        let mut y = top + 30.0;
        for curve in &panel.curves {
            for (line, text) in key_label(curve, width).iter().enumerate() {
                if line == 0 {
                    canvas.line(vec![(left, y), (left + 16.0, y)], 3.0, curve.colour);
                }
                canvas.text_centred((left + 22.0, y), text, style);
                y += KEY_HEIGHT;
            }
        }
        let plot = (left + 34.0, top + HEAD + key);
        any_coincide |= draw_panel(
            &mut canvas,
            panel,
            plot,
            (width - 36.0, PANEL_HEIGHT),
            range,
            (progress, last),
        );
    }
    let mut caption = format!(
        "Training loss of {} by {progress}, smoothed over {:.0} % of each curve, one panel per precision. {over}",
        group.workload,
        SMOOTHING * 100.0
    )
    .trim_end()
    .to_owned();
    if any_coincide {
        caption += " Lines that coincide alternate in pieces.";
    }
    (canvas, caption)
}

/// Returns the lines of the label of a curve; empty without a label.
fn key_label(curve: &Curve, width: f64) -> Vec<String> {
    const MAX_LINES: usize = 8;
    match curve.label.as_str() {
        "" => vec![],
        label => wrap(label, 11.5, Weight::Regular, width - 24.0, MAX_LINES),
    }
}

/// Draws the plot of a panel. Lines that coincide alternate in pieces, so that none hides another. Returns `true` if any coincide.
fn draw_panel(
    canvas: &mut Canvas,
    panel: &Panel,
    (left, top): (f64, f64),
    (width, height): (f64, f64),
    range: (f64, f64),
    (progress, last): (&str, f64),
) -> bool {
    let x = Axis::linear((0.0, last), (left, left + width));
    let y = Axis::linear(range, (top + height, top));
    let style = TextStyle::new(11.0).colour(MUTED);
    let marks = ticks(range, 4);
    let decimals = tick_decimals(&marks);
    canvas.text((left, top - 10.0), "training loss, nat", style);
    let middle = (left + width / 2.0, top + height + 36.0);
    canvas.text(middle, progress, style.anchor(Anchor::Middle));
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
    let place = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().map(|p| (x.at(p.0), y.at(p.1))).collect()
    };
    let lines: Vec<_> = panel.curves.iter().map(|curve| place(&curve.smooth)).collect();
    let turns = turns(&lines);
    for curve in &panel.curves {
        canvas.faint_line(place(&curve.raw), 1.0, curve.colour, 0.22);
        canvas.band(place(&curve.low), place(&curve.high), curve.colour, 0.22);
    }
    for (index, curve) in panel.curves.iter().enumerate() {
        let series = match curve.label.as_str() {
            "" => panel.title.to_owned(),
            label => format!("{} · {label}", panel.title),
        };
        let points = curve.smooth.iter().enumerate().map(|(index, &(at, loss))| {
            let ends = curve.low.get(index).zip(curve.high.get(index));
            let ends = ends.filter(|(low, high)| low.0 == at && high.0 == at);
            let loss_text = format!("{loss:.4} nat");
            let loss_quantity = Quantity {
                ends: ends.map(|(low, high)| (low.1, high.1)),
                ..Quantity::new("training loss", loss, "nat", loss_text)
            };
            let place = Quantity::new(progress, at, "1", units::count(at as u64));
            (
                (x.at(at), y.at(loss)),
                Datum::new(&series, loss_quantity).at(place),
            )
        });
        let end = curve.smooth.last().map(|last| y.at(last.1));
        canvas.alternating_curve(points.collect(), turns[index], LINE_WIDTH, curve.colour);
        for overflow in &curve.overflows {
            let at = x.at(*overflow);
            canvas.line(
                vec![(at, top + height), (at, top + height + 6.0)],
                1.5,
                curve.colour,
            );
        }
        if let Some((step, seeds)) = curve.non_finite_from {
            let at = (x.at(step * curve.step_width), end.unwrap_or(top + 8.0));
            let count = units::count(step as u64);
            let text = match curve.seeds {
                1 => format!("not finite at step {count}"),
                all => format!("not finite from step {count}: {seeds} of {all} seeds"),
            };
            let first = Quantity::new("first step with a non-finite loss", step, "1", text.clone());
            canvas.mark(Datum::new(&series, first), |canvas| {
                canvas.cross(at, 5.0, curve.colour);
            });
            let note = TextStyle::new(11.0);
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
    turns.iter().any(|(_, count)| *count > 1)
}

/// Returns for each line its number among the lines that coincide with the same first line, and the number of these lines.
fn turns(lines: &[Vec<(f64, f64)>]) -> Vec<(usize, usize)> {
    let mut firsts: Vec<usize> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let mut earlier = (0..index).filter(|other| firsts[*other] == *other);
        let first = earlier.find(|other| coincide(&lines[*other], line));
        firsts.push(first.unwrap_or(index));
    }
    let count = |lines: &[usize], first: &usize| lines.iter().filter(|other| *other == first).count();
    let turn = |(index, first)| (count(&firsts[..index], first), count(&firsts, first));
    firsts.iter().enumerate().map(turn).collect()
}

/// Returns `true` if two lines are nowhere further apart than half of their width.
fn coincide(a: &[(f64, f64)], b: &[(f64, f64)]) -> bool {
    let is_near = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.0).hypot(a.1 - b.1) <= LINE_WIDTH / 2.0;
    a.len() > 1 && a.len() == b.len() && a.iter().zip(b).all(is_near)
}
