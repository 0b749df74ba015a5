//! Time, accuracy and memory over micro-batch × accumulation steps, side by side.

use mantissa_analysis::Estimate;
use mantissa_core::{Axis as SettingAxis, MetricName, TaskKind};

use super::{
    axis::{Axis, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    palette::{self, ALARM, FAINT, INK, MUTED},
    shown_of,
    type_setting::{Weight, fit},
};
use crate::{
    Group, Row, Suite,
    units::{self, Scale},
};

const MAX_ROWS: usize = 40;
const ROW: f64 = 30.0;
const BAR: f64 = 20.0;
const PANEL_GAP: f64 = 34.0;

/// Whether a group sweeps the micro-batch or the accumulation steps of a training.
pub fn applies(group: &Group<'_>) -> bool {
    let swept = group.varies(SettingAxis::Batch) || group.varies(SettingAxis::Accumulate);
    group.kind == TaskKind::Train && swept
}

/// Draws the panels where a suite sweeps the micro-batch or the accumulation steps.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let tried: Vec<&Row<'_>> = group.rows.iter().filter(|row| !row.records.is_empty()).collect();
    if !applies(group) || tried.is_empty() {
        return None;
    }
    let rows = &tried[..tried.len().min(MAX_ROWS)];
    let top = Canvas::CONTENT_TOP + 34.0;
    let bottom = top + rows.len() as f64 * ROW;
    let capped = shown_of(rows.len(), tried.len())
        .map(|text| format!(" · {text}"))
        .unwrap_or_default();
    let subtitle = format!(
        "{} · micro-batch × accumulation steps = effective batch{capped}",
        group.workload
    );
    let title = format!("{}: what accumulation costs", suite.info.title);
    let mut canvas = Canvas::titled(bottom + 44.0, &title, &subtitle);

    let style = TextStyle::new(12.5);
    let labels: Vec<String> = rows.iter().map(|row| label(group, row)).collect();
    let label_width = labels
        .iter()
        .map(|text| style.width(text))
        .fold(60.0, f64::max)
        .min(280.0);
    for (index, text) in labels.iter().enumerate() {
        let y = top + (index as f64 + 0.5) * ROW;
        canvas.text_centred(
            (MARGIN, y),
            &fit(text, style.size, Weight::Regular, label_width),
            style,
        );
    }
    let panels = 2 + usize::from(group.memory.is_some());
    let left = MARGIN + label_width + 20.0;
    let width = (WIDTH - MARGIN - left - (panels - 1) as f64 * PANEL_GAP) / panels as f64;
    let at = |index: usize| (left + index as f64 * (width + PANEL_GAP), top, width, bottom);
    bars(
        &mut canvas,
        rows,
        MetricName::TrainSeconds,
        "Training time",
        at(0),
    );
    dots(&mut canvas, rows, at(1));
    if let Some(memory) = group.memory {
        bars(&mut canvas, rows, memory, "Peak memory", at(2));
    }
    let caption = format!(
        "Training time, test accuracy and peak memory of {} for every micro-batch and number of accumulation steps.",
        group.workload
    );
    Some((canvas, caption))
}

fn label(group: &Group<'_>, row: &Row<'_>) -> String {
    let setting = &row.cell.setting;
    let (batch, steps) = (setting.batch(), setting.accumulate());
    let product = format!("{batch} × {steps} = {}", u64::from(batch) * u64::from(steps));
    match group.label(row, &[SettingAxis::Batch, SettingAxis::Accumulate]) {
        rest if rest.is_empty() => product,
        rest => format!("{product} · {rest}"),
    }
}

type Place = (f64, f64, f64, f64);

fn head(canvas: &mut Canvas, title: &str, (left, top, ..): Place) {
    canvas.text((left, top - 12.0), title, TextStyle::new(12.0).bold());
}

fn foot(canvas: &mut Canvas, axis: Axis, marks: &[f64], (_, top, _, bottom): Place) {
    let decimals = tick_decimals(marks);
    let style = TextStyle::new(11.0).colour(MUTED).anchor(Anchor::Middle);
    for mark in marks {
        canvas.line(
            vec![(axis.at(*mark), top - 4.0), (axis.at(*mark), bottom)],
            1.0,
            FAINT,
        );
        canvas.text(
            (axis.at(*mark), bottom + 18.0),
            &format!("{mark:.decimals$}"),
            style,
        );
    }
}

fn bars(canvas: &mut Canvas, rows: &[&Row<'_>], metric: MetricName, title: &str, place: Place) {
    let (left, top, width, _) = place;
    let largest = rows
        .iter()
        .filter_map(|row| row.metric(metric))
        .map(|e| e.value)
        .fold(0.0, f64::max);
    let scale = Scale::of(metric, largest);
    head(
        canvas,
        &format!("{title}, {} (lower is better)", scale.unit),
        place,
    );
    let range = (0.0, largest * scale.factor);
    let axis = Axis::linear(range, (left, left + width));
    foot(canvas, axis, &ticks(range, 3), place);
    let style = TextStyle::new(11.5).bold();
    for (index, row) in rows.iter().enumerate() {
        let middle = top + (index as f64 + 0.5) * ROW;
        let Some(estimate) = row.metric(metric) else {
            canvas.text_centred((left + 6.0, middle), row.status_name(), style.colour(ALARM));
            continue;
        };
        let colour = palette::matmul(row.cell.setting.matmul());
        let end = axis.at(estimate.value * scale.factor).max(left + 2.0);
        canvas.rectangle((left, middle - BAR / 2.0), (end, middle + BAR / 2.0), colour);
        let text = scale.text(estimate.value);
        if style.width(&text) + 14.0 < end - left {
            canvas.text_centred((left + 7.0, middle), &text, style.colour(palette::on(colour)));
        } else {
            canvas.text_centred((end + 5.0, middle), &text, style);
        }
    }
}

/// Accuracies as points with their intervals: bars from zero would hide every difference.
fn dots(canvas: &mut Canvas, rows: &[&Row<'_>], place: Place) {
    let (left, top, width, _) = place;
    head(canvas, "Test accuracy, % (higher is better)", place);
    let metric = MetricName::TestAccuracy;
    let ends = |e: &Estimate| {
        e.interval
            .map_or((e.value, e.value), |interval| (interval.low, interval.high))
    };
    let known = || rows.iter().filter_map(|row| row.metric(metric)).map(ends);
    let low = known().map(|(low, _)| low).fold(1.0, f64::min) * 100.0;
    let high = known().map(|(_, high)| high).fold(0.0, f64::max) * 100.0;
    if low > high {
        canvas.text(
            (left, top + 18.0),
            "no values",
            TextStyle::new(11.0).colour(MUTED),
        );
        return;
    }
    let range = (low, high);
    let axis = Axis::linear(range, (left + 4.0, left + width - 62.0));
    foot(canvas, axis, &ticks(range, 3), place);
    for (index, row) in rows.iter().enumerate() {
        let middle = top + (index as f64 + 0.5) * ROW;
        let value = TextStyle::new(11.5).anchor(Anchor::End);
        canvas.text_centred(
            (left + width, middle),
            &units::value(metric, row.metric(metric)),
            value,
        );
        let Some(estimate) = row.metric(metric) else {
            continue;
        };
        let (from, to) = ends(estimate);
        canvas.line(
            vec![(axis.at(from * 100.0), middle), (axis.at(to * 100.0), middle)],
            2.0,
            MUTED,
        );
        canvas.disc((axis.at(estimate.value * 100.0), middle), 4.5, INK);
    }
}
