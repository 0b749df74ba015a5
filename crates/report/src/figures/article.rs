//! The articles' chart: horizontal bars with the time inside, accuracy and memory as aligned columns.

use mantissa_core::{Axis as SettingAxis, MatmulPrecision, MetricName, Status, TaskKind};

use super::{
    accumulation,
    axis::{Axis, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    finding,
    palette::{self, ALARM, FAINT, INK, MUTED},
    setting::Setting,
    shown_of,
    type_setting::{Weight, fit},
};
use crate::{
    Group, Row, Suite,
    units::{self, Scale},
};

/// More bars than this make a picture that nobody reads.
const MAX_BARS: usize = 40;
const BAR: f64 = 26.0;
const GAP: f64 = 6.0;
const GROUP_GAP: f64 = 14.0;
const PRECISION_WIDTH: f64 = 104.0;
const ACCURACY_RIGHT: f64 = 786.0;
const MEMORY_RIGHT: f64 = WIDTH - MARGIN;

/// Draws the chart of a training workload; nothing for kernels, where no cell was tried, and where the accumulation
/// figure says the same because neither precision nor matmul differ.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let tried: Vec<&Row<'_>> = group
        .rows
        .iter()
        .filter(|row| row.status.is_some_and(|status| status != Status::Skipped))
        .collect();
    let of_precision = group.varies(SettingAxis::Precision) || group.varies(SettingAxis::Matmul);
    let elsewhere = accumulation::applies(group) && !of_precision;
    if group.kind != TaskKind::Train || tried.is_empty() || elsewhere {
        return None;
    }
    let rows = by_precision(&tried[..tried.len().min(MAX_BARS)]);
    let seconds = |row: &Row<'_>| row.metric(MetricName::TrainSeconds).map(|e| e.value);
    let longest = rows.iter().filter_map(|row| seconds(row)).fold(0.0, f64::max);
    let scale = Scale::of(MetricName::TrainSeconds, longest);

    let breaks = rows
        .windows(2)
        .filter(|pair| precision(pair[0]) != precision(pair[1]))
        .count();
    let top = Canvas::CONTENT_TOP + 52.0;
    let bottom = top + rows.len() as f64 * (BAR + GAP) + breaks as f64 * GROUP_GAP;
    let epochs = match &rows[0].cell.workload.task {
        mantissa_core::Task::Train(task) => task.epochs,
        _ => 0,
    };
    let plural = if epochs == 1 { "epoch" } else { "epochs" };
    let capped = shown_of(rows.len(), tried.len())
        .map(|text| format!(" · {text}"))
        .unwrap_or_default();
    let subtitle = format!(
        "{} · training time, {epochs} {plural}, validation included (lower is better){capped}",
        group.workload
    );
    let all = Setting::all(group, Row::is_ok);
    let title = finding::speed(group, &all).unwrap_or_else(|| suite.info.title.clone());
    let mut canvas = Canvas::titled(bottom + 52.0, &title, &subtitle);
    legend(&mut canvas, &rows);

    let label_width = rows
        .iter()
        .map(|row| LABEL.width(&label(group, row)))
        .fold(30.0, f64::max)
        .min(210.0);
    let left = MARGIN + PRECISION_WIDTH + label_width + 12.0;
    // Room for a status beside the longest bar.
    let status = if rows.iter().all(|row| row.is_ok()) {
        0.0
    } else {
        72.0
    };
    let right = ACCURACY_RIGHT - 132.0 - status;
    let axis = Axis::linear((0.0, longest * scale.factor), (left, right));
    draw_axis(
        &mut canvas,
        axis,
        longest * scale.factor,
        scale.unit,
        (top, bottom),
    );
    columns(&mut canvas, group, top);

    let mut y = top;
    for (index, row) in rows.iter().enumerate() {
        let starts = index == 0 || precision(rows[index - 1]) != precision(row);
        if starts && index > 0 {
            y += GROUP_GAP;
        }
        if starts {
            let style = TextStyle::new(13.0).bold();
            canvas.text_centred((MARGIN, y + BAR / 2.0), precision(row), style);
        }
        let room = label_width;
        let text = fit(&label(group, row), LABEL.size, Weight::Regular, room);
        canvas.text_centred((left - 12.0, y + BAR / 2.0), &text, LABEL.anchor(Anchor::End));
        draw_row(&mut canvas, group, row, (axis, left, y, scale));
        y += BAR + GAP;
    }
    let caption = format!(
        "Training time of {} settings of {}, grouped by precision and coloured by matmul precision, with test accuracy \
         and peak memory.",
        rows.len(),
        group.workload
    );
    Some((canvas, caption))
}

const LABEL: TextStyle = TextStyle::new(12.5).colour(MUTED);

fn precision(row: &Row<'_>) -> &'static str {
    row.cell.setting.precision().name()
}

/// Rows of one precision together, in the order in which the precisions first appear.
fn by_precision<'r, 'a>(rows: &[&'r Row<'a>]) -> Vec<&'r Row<'a>> {
    let mut order: Vec<&str> = Vec::new();
    for row in rows {
        if !order.contains(&precision(row)) {
            order.push(precision(row));
        }
    }
    let of = |name: &str| {
        rows.iter()
            .copied()
            .filter(|row| precision(row) == name)
            .collect::<Vec<_>>()
    };
    order.into_iter().flat_map(of).collect()
}

fn label(group: &Group<'_>, row: &Row<'_>) -> String {
    group.label(row, &[SettingAxis::Precision])
}

fn draw_axis(canvas: &mut Canvas, axis: Axis, longest: f64, unit: &str, (top, bottom): (f64, f64)) {
    let marks = ticks((0.0, longest), 5);
    let decimals = tick_decimals(&marks);
    let style = TextStyle::new(11.5).colour(MUTED).anchor(Anchor::Middle);
    for mark in marks {
        let x = axis.at(mark);
        canvas.line(vec![(x, top - 8.0), (x, bottom)], 1.0, FAINT);
        canvas.text((x, bottom + 18.0), &format!("{mark:.decimals$}"), style);
    }
    let unit = if unit == "min" {
        "minutes"
    } else if unit == "s" {
        "seconds"
    } else {
        unit
    };
    canvas.text((axis.at(0.0), bottom + 36.0), unit, style.anchor(Anchor::Start));
}

fn columns(canvas: &mut Canvas, group: &Group<'_>, top: f64) {
    let style = TextStyle::new(11.5).colour(MUTED).anchor(Anchor::End);
    canvas.text((ACCURACY_RIGHT, top - 30.0), "Predictive acc.", style);
    canvas.text((ACCURACY_RIGHT, top - 16.0), "(test set, 95 %)", style);
    if let Some(memory) = group.memory {
        canvas.text((MEMORY_RIGHT, top - 30.0), "Peak memory", style);
        canvas.text(
            (MEMORY_RIGHT, top - 16.0),
            &format!("({})", units::memory_title(memory)),
            style,
        );
    }
}

fn draw_row(
    canvas: &mut Canvas,
    group: &Group<'_>,
    row: &Row<'_>,
    (axis, left, y, scale): (Axis, f64, f64, Scale),
) {
    let middle = y + BAR / 2.0;
    let inside = TextStyle::new(12.5).bold();
    let mut status_at = left + 8.0;
    if let Some(estimate) = row.metric(MetricName::TrainSeconds) {
        let colour = palette::matmul(row.cell.setting.matmul());
        let end = axis.at(estimate.value * scale.factor).max(left + 2.0);
        canvas.rectangle((left, y), (end, y + BAR), colour);
        let text = scale.text(estimate.value);
        let width = inside.width(&text);
        if width + 16.0 <= end - left {
            canvas.text_centred((left + 8.0, middle), &text, inside.colour(palette::on(colour)));
            status_at = end + 8.0;
        } else {
            canvas.text_centred((end + 6.0, middle), &text, inside);
            status_at = end + width + 16.0;
        }
        if let Some(interval) = estimate.interval {
            let (low, high) = (
                axis.at(interval.low * scale.factor),
                axis.at(interval.high * scale.factor),
            );
            if high - low > 2.0 && low > left + width + 20.0 {
                canvas.line(vec![(low, middle), (high, middle)], 1.5, INK);
            }
        }
    }
    if !row.is_ok() {
        let style = TextStyle::new(12.5).bold().colour(ALARM);
        let name = row.status_name();
        let limit = ACCURACY_RIGHT - 128.0;
        let x = status_at.min(limit - style.width(name));
        if x < status_at - 1.0 {
            // No room beside the bar: on it, at its end, on a patch of the sheet.
            canvas.rectangle((x - 6.0, y + 4.0), (limit, y + BAR - 4.0), palette::CARD);
        }
        canvas.text_centred((x, middle), name, style);
    }
    let figure = TextStyle::new(12.5).anchor(Anchor::End);
    let accuracy = row.metric(MetricName::TestAccuracy);
    let half = accuracy
        .and_then(|e| e.interval)
        .map(|interval| (interval.high - interval.low) * 50.0)
        .filter(|half| half.is_finite())
        .map(|half| format!(" ± {half:.1}"));
    let half = half.unwrap_or_default();
    let small = TextStyle::new(11.0).colour(MUTED);
    canvas.text_centred(
        (ACCURACY_RIGHT - 38.0, middle),
        &units::value(MetricName::TestAccuracy, accuracy),
        figure,
    );
    canvas.text_centred((ACCURACY_RIGHT, middle), &half, small.anchor(Anchor::End));
    if let Some(memory) = group.memory {
        canvas.text_centred((MEMORY_RIGHT, middle), &group.value(memory, row), figure);
    }
}

fn legend(canvas: &mut Canvas, rows: &[&Row<'_>]) {
    let style = TextStyle::new(11.5).colour(MUTED);
    let y = Canvas::CONTENT_TOP + 6.0;
    let mut x = MARGIN;
    canvas.text_centred((x, y), "matmul precision", style);
    x += style.width("matmul precision") + 28.0;
    for &matmul in MatmulPrecision::ALL {
        if rows.iter().any(|row| row.cell.setting.matmul() == matmul) {
            canvas.rectangle((x, y - 6.0), (x + 12.0, y + 6.0), palette::matmul(matmul));
            canvas.text_centred((x + 18.0, y), matmul.name(), style);
            x += 18.0 + style.width(matmul.name()) + 18.0;
        }
    }
}
