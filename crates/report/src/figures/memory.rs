//! Memory breakdown of a training: one stacked bar per setting, above a thin bar of the estimates from shapes.

use mantissa_core::MetricName;

use super::{
    axis::{Axis, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    fonts::wrap,
    palette::{self, Colour, FAINT, MUTED},
    selection::Selection,
    settings_of,
};
use crate::{
    Group, Suite,
    memory_parts::{Bytes, PARTS, estimated, over_seeds, parts, saving_title},
    setting::SettingResult,
    units::Scale,
};

const BAR_HEIGHT: f64 = 22.0;
/// Minimum height of a row.
const ROW_HEIGHT: f64 = 30.0;
const MAX_LABEL_LINES: usize = 8;
/// Gap between two parts of a bar, which separates them without colour.
const PART_GAP: f64 = 1.5;
/// Height of the bar of estimates below the measured bar.
const ESTIMATE_HEIGHT: f64 = 4.0;

/// Colours of the parts. All hues differ clearly, and adjacent parts also differ in lightness.
const COLOURS: [Colour; PARTS.len()] = [
    palette::SERIES[0],
    palette::SERIES[3],
    palette::SERIES[2],
    palette::SERIES[1],
    palette::SERIES[4],
];

/// Draws the bars of the settings whose parts are known; `None` without such settings.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let known = SettingResult::all(group, |row| parts(row).is_some());
    let selection = Selection::fastest(group, known);
    let settings = &selection.settings[..];
    let bars = settings.iter().flat_map(|setting| {
        over_seeds(setting, parts)
            .into_iter()
            .chain(over_seeds(setting, estimated))
    });
    let largest = bars.map(|bytes| bytes.iter().sum::<f64>()).reduce(f64::max)?;
    let scale = Scale::of(MetricName::WeightsBytes, largest);
    let style = TextStyle::new(12.5);
    let labels = settings.iter().map(|setting| group.setting_label(setting.row()));
    let labels: Vec<String> = labels.collect();
    let widths = labels.iter().map(|text| style.width(text));
    let label_width = widths.fold(60.0, f64::max).min(300.0);
    let wrapped = labels
        .iter()
        .map(|text| wrap(text, style.size, style.weight, label_width, MAX_LABEL_LINES));
    let wrapped: Vec<Vec<String>> = wrapped.collect();
    let most = wrapped.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let row_height = ROW_HEIGHT.max(most * Canvas::LINE_HEIGHT + 10.0);
    let top = Canvas::CONTENT_TOP + 40.0;
    let bottom = top + settings.len() as f64 * row_height;
    let source = settings[0].row().records.iter().find_map(|record| {
        let metric = record.metrics.get(&MetricName::WeightsBytes)?;
        metric.value.map(|_| format!(" · {}", metric.method))
    });
    let subtitle = format!(
        "{} · parts measured one by one within a step{}; not all are allocated at the same time{}{}",
        group.workload,
        if group.has_several_devices() {
            " of rank 0"
        } else {
            ""
        },
        source.unwrap_or_default(),
        selection.subtitle_suffix()
    );
    let title = saving_title(group).unwrap_or_else(|| format!("{}: memory breakdown", suite.info.title));
    let mut canvas = Canvas::titled(bottom + 44.0, &title, &subtitle);
    let is_estimated = settings
        .iter()
        .any(|setting| over_seeds(setting, estimated).is_some());
    draw_key(&mut canvas, is_estimated);

    let left = MARGIN + label_width + 20.0;
    let right = WIDTH - MARGIN - 84.0;
    let shown = largest * scale.factor;
    let axis = Axis::linear((0.0, shown), (left, right));
    draw_axis(&mut canvas, axis, (shown, scale.unit), (top, bottom));
    for (index, (setting, label)) in settings.iter().zip(&labels).enumerate() {
        let middle = top + (index as f64 + 0.5) * row_height;
        canvas.lines_centred((MARGIN, middle), &wrapped[index], style);
        draw_bar(&mut canvas, (setting, label), axis, middle, scale);
    }
    let strip = match is_estimated {
        true => " The strip below each bar is the estimate from shapes.",
        false => "",
    };
    let seeds = match settings.iter().map(|setting| setting.seeds.len()).max() {
        Some(most) if most > 1 => format!("; medians over up to {most} seeds"),
        _ => String::new(),
    };
    let caption = format!(
        "Memory breakdown of {} by setting ({}): weights, optimizer state, gradients, copies of weights, activations{seeds}.{strip}",
        group.workload,
        settings_of(settings.len(), selection.all)
    );
    Some((canvas, caption))
}

fn draw_key(canvas: &mut Canvas, is_estimated: bool) {
    let style = TextStyle::new(11.5).colour(MUTED);
    let y = Canvas::CONTENT_TOP + 6.0;
    let mut x = MARGIN;
    for ((_, name), colour) in PARTS.iter().zip(COLOURS) {
        canvas.rectangle((x, y - 6.0), (x + 12.0, y + 6.0), colour);
        canvas.text_centred((x + 18.0, y), name, style);
        x += 18.0 + style.width(name) + 22.0;
    }
    if is_estimated {
        canvas.rectangle((x, y + 6.0 - ESTIMATE_HEIGHT), (x + 12.0, y + 6.0), MUTED);
        canvas.text_centred((x + 18.0, y), "strip: estimated from shapes", style);
    }
}

fn draw_axis(canvas: &mut Canvas, axis: Axis, (shown, unit): (f64, &str), (top, bottom): (f64, f64)) {
    let marks = ticks((0.0, shown), 6);
    let decimals = tick_decimals(&marks);
    let style = TextStyle::new(11.5).colour(MUTED).anchor(Anchor::Middle);
    for (index, mark) in marks.iter().enumerate() {
        let x = axis.at(*mark);
        canvas.line(vec![(x, top - 4.0), (x, bottom)], 1.0, FAINT);
        let text = format!("{mark:.decimals$}");
        let text = if index + 1 == marks.len() {
            format!("{text} {unit}")
        } else {
            text
        };
        canvas.text((x, bottom + 18.0), &text, style);
    }
}

fn draw_bar(
    canvas: &mut Canvas,
    (setting, label): (&SettingResult<'_, '_>, &str),
    axis: Axis,
    middle: f64,
    scale: Scale,
) {
    let Some(measured) = over_seeds(setting, parts) else {
        return;
    };
    let (top, bottom) = (middle - BAR_HEIGHT / 2.0, middle + BAR_HEIGHT / 2.0);
    let mut foot = bottom;
    if let Some(estimated) = over_seeds(setting, estimated) {
        foot -= ESTIMATE_HEIGHT + PART_GAP;
        draw_parts(
            canvas,
            (&format!("{label}, estimated"), &estimated),
            axis,
            (bottom - ESTIMATE_HEIGHT, bottom),
            scale,
        );
    }
    draw_parts(canvas, (label, &measured), axis, (top, foot), scale);
    let all: f64 = measured.iter().sum();
    canvas.text_centred(
        (axis.at(all * scale.factor) + 6.0, middle),
        &scale.text(all),
        TextStyle::new(12.5).bold(),
    );
}

fn draw_parts(
    canvas: &mut Canvas,
    (label, bytes): (&str, &Bytes),
    axis: Axis,
    (top, bottom): (f64, f64),
    scale: Scale,
) {
    let mut below = 0.0;
    for ((part, colour), (metric, name)) in bytes.iter().zip(COLOURS).zip(PARTS) {
        let (from, to) = (
            axis.at(below * scale.factor),
            axis.at((below + part) * scale.factor),
        );
        below += part;
        let text = format!("{name} {}", Scale::of(metric, *part).text(*part));
        let datum = Datum::new(label, Quantity::new(name, *part, metric.unit().name(), text));
        canvas.mark(datum, |canvas| {
            if to - from > PART_GAP {
                canvas.rectangle((from, top), (to - PART_GAP, bottom), colour);
            }
        });
    }
}
