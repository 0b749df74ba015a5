//! Error of summed gradients over the number of devices, with a panel per format of the reduction.
//!
//! The error has two sources. Each rank first rounds its gradient to the format, which also loses small values to underflow in f16. Then each
//! addition adds a relative error of at most the unit roundoff u of the format. The number of additions on the path of a value is N − 1 for
//! a ring or a linear order, and log2 N for a tree or recursive doubling. The guides with √N and N are for orientation: a chain of additions
//! whose rounding errors have random signs grows with √N, and one whose rounding errors have equal signs with N. They do not contain the
//! rounding of the gradients, so they are not bounds of the error.

use std::collections::BTreeSet;

use mantissa_core::{Axis as SettingAxis, Format, MetricName, ReduceFormat, TaskKind};

use super::{
    axis::Axis,
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    describe_whiskers, grid, key,
    palette::{GREY, MUTED},
    settings_of, shown_of,
};
use crate::{
    Group, Row, Suite,
    setting::{SettingResult, Spot},
    units,
};

const MAX_LINES: usize = 16;
const MAX_COLUMNS: usize = 3;
const PLOT_HEIGHT: f64 = 280.0;
/// Height of a plot with its title and axis.
const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 96.0;
/// Width of the numbers of the vertical axis.
const NUMBERS: f64 = 42.0;
const GAP: f64 = 30.0;
/// Room at the right for the names of the guides.
const GUIDE_NAME: f64 = 30.0;
const METRIC: MetricName = MetricName::GradientError;

/// Growths of the error with the number of devices N: names and exponents of N. The embedded fonts do not contain a root sign.
const GROWTHS: [(&str, f64); 2] = [("N^½", 0.5), ("N", 1.0)];

/// Error of a setting.
struct Point {
    devices: u32,
    error: Spot,
}

/// Settings that differ only in the number of devices and in the format.
struct Line {
    label: String,
    /// Points of each format, in ascending order of devices.
    points: Vec<(ReduceFormat, Vec<Point>)>,
}

/// Draws the errors of the trainings with several devices. `None` if all of them have the same number of devices, or no error.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let is_shown = |row: &Row<'_>| row.is_ok() && row.cell.setting.devices() > 1;
    if group.kind != TaskKind::Train {
        return None;
    }
    let settings = SettingResult::all(group, is_shown);
    let mut lines = lines(group, &settings);
    let points = || {
        lines
            .iter()
            .flat_map(|line| &line.points)
            .flat_map(|(_, points)| points)
    };
    let devices: BTreeSet<u32> = points().map(|point| point.devices).collect();
    if devices.len() < 2 {
        return None;
    }
    let known = points().count();
    let exact = points().filter(|point| point.error.value == 0.0).count();
    let all = lines.len();
    lines.truncate(MAX_LINES);
    let formats = formats(&lines);
    let title = finding(&lines, &formats).unwrap_or_else(|| suite.info.title.clone());
    let subtitle = format!(
        "{} · error of the sums against float64 · grey: growth with N^½ and N, for orientation; dashed: unit roundoff u{}{}",
        group.workload,
        if exact > 0 {
            "; at the lower edge: error 0"
        } else {
            ""
        },
        shown_of(lines.len(), all).map_or_else(String::new, |text| format!(" · {text} lines"))
    );
    let labels: Vec<&str> = lines.iter().map(|line| line.label.as_str()).collect();
    let columns = formats.len().clamp(2, MAX_COLUMNS);
    let rows = formats.len().div_ceil(columns) as f64;
    let top = Canvas::CONTENT_TOP + key::height(&labels) + 40.0;
    let mut canvas = Canvas::titled(top + rows * PANEL_HEIGHT - 28.0, &title, &subtitle);
    key::draw(&mut canvas, &labels);
    let gaps = (columns - 1) as f64 * GAP;
    let width = (WIDTH - 2.0 * MARGIN - gaps) / columns as f64 - NUMBERS;
    for (index, format) in formats.iter().enumerate() {
        let left = MARGIN + NUMBERS + (index % columns) as f64 * (width + NUMBERS + GAP);
        let top = top + (index / columns) as f64 * PANEL_HEIGHT;
        draw_panel(&mut canvas, &lines, *format, &devices, (left, top, width));
    }
    let count = |number: usize, text: &str| match number {
        0 => String::new(),
        1 => format!(" 1 setting has {text}."),
        _ => format!(" {number} settings have {text}."),
    };
    let caption = format!(
        "Error of the summed gradients of {} ({}) by number of devices N, algorithm and format of the reduction, in the first optimizer step. \
         The error includes rounding the gradient of each rank to the format; in f16, small values underflow. \
         The grey lines show growth with the square root of N and with N, for orientation: they begin at the geometric mean of the errors \
         with the fewest devices and are not bounds. A single addition has a relative error of at most u.\
         {}{} {}",
        group.workload,
        settings_of(known, settings.len()),
        count(exact, "an error of 0, drawn at the lower edge"),
        count(
            settings.len() - known,
            "no error, for example because a sum is not finite"
        ),
        describe_whiskers(&settings)
    );
    Some((canvas, caption))
}

/// Returns the lines in plan order.
fn lines(group: &Group<'_>, settings: &[SettingResult<'_, '_>]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for setting in settings {
        let Some(error) = setting.spot(METRIC) else {
            continue;
        };
        let row = setting.row();
        let devices = row.cell.setting.devices();
        let (label, format) = (label(group, settings, row), row.cell.setting.reduce_format());
        let point = Point { devices, error };
        let at = lines.iter().position(|line| line.label == label);
        let line = at.unwrap_or_else(|| {
            lines.push(Line {
                label,
                points: Vec::new(),
            });
            lines.len() - 1
        });
        let points = &mut lines[line].points;
        match points.iter_mut().find(|(known, _)| *known == format) {
            Some((_, points)) => points.push(point),
            None => points.push((format, vec![point])),
        }
    }
    for (_, points) in lines.iter_mut().flat_map(|line| &mut line.points) {
        points.sort_by_key(|point| point.devices);
    }
    lines
}

/// Returns the label of a line: the algorithm, and the axes that vary besides the number of devices and the micro-batch.
fn label(group: &Group<'_>, settings: &[SettingResult<'_, '_>], row: &Row<'_>) -> String {
    let left_out = [
        SettingAxis::Devices,
        SettingAxis::Batch,
        SettingAxis::Accumulate,
        SettingAxis::ReduceAlgorithm,
        SettingAxis::ReduceFormat,
        SettingAxis::Seed,
    ];
    let effective = |row: &Row<'_>| row.cell.setting.effective_batch();
    let several = settings
        .iter()
        .any(|other| effective(other.row()) != effective(row));
    let parts = [
        row.axis(SettingAxis::ReduceAlgorithm),
        group.label(row, &left_out),
        match several {
            true => format!("effective batch {}", effective(row)),
            false => String::new(),
        },
    ];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

/// Returns the formats of all lines, the widest first.
fn formats(lines: &[Line]) -> Vec<ReduceFormat> {
    let has = |format: &&ReduceFormat| {
        let mut known = lines.iter().flat_map(|line| &line.points);
        known.any(|(known, _)| known == *format)
    };
    ReduceFormat::ALL.iter().filter(has).copied().collect()
}

impl Line {
    fn points(&self, format: ReduceFormat) -> &[Point] {
        let points = self.points.iter().find(|(known, _)| *known == format);
        points.map_or(&[], |(_, points)| points)
    }
}

/// Returns the unit roundoff: half the distance from 1 to the next larger value.
fn unit_roundoff(format: ReduceFormat) -> f64 {
    Format::from(format).epsilon() / 2.0
}

/// Returns the smallest number of devices with a positive error, and the geometric mean of the errors there.
fn start(lines: &[Line], format: ReduceFormat) -> Option<(u32, f64)> {
    let points = || {
        let points = lines.iter().flat_map(|line| line.points(format));
        points.filter(|point| point.error.value > 0.0)
    };
    let devices = points().map(|point| point.devices).min()?;
    let first = points().filter(|point| point.devices == devices);
    let logs: Vec<f64> = first.map(|point| point.error.value.ln()).collect();
    Some((devices, (logs.iter().sum::<f64>() / logs.len() as f64).exp()))
}

fn draw_panel(
    canvas: &mut Canvas,
    lines: &[Line],
    format: ReduceFormat,
    devices: &BTreeSet<u32>,
    (left, top, width): (f64, f64, f64),
) {
    let note = TextStyle::new(11.0).colour(MUTED);
    let title = format!("Gradient error · {format} (lower is better)");
    canvas.text((left - NUMBERS, top - 14.0), &title, TextStyle::new(12.5).bold());
    let Some((fewest, error)) = start(lines, format) else {
        canvas.text((left, top + 24.0), "all errors are 0", note);
        return;
    };
    let ends = [devices.first(), devices.last()].map(|end| f64::from(*end.unwrap_or(&1)));
    let roundoff = unit_roundoff(format);
    let guide_end = GROWTHS.map(|(_, exponent)| error * (ends[1] / f64::from(fewest)).powf(exponent));
    let positive = lines
        .iter()
        .flat_map(|line| line.points(format))
        .map(|point| point.error.value)
        .filter(|error| *error > 0.0);
    let shown = || positive.clone().chain(guide_end).chain([roundoff]);
    let range = (shown().fold(f64::INFINITY, f64::min), shown().fold(0.0, f64::max));
    let bottom = top + PLOT_HEIGHT;
    let y = grid::log_axis(canvas, range, (left, width), (bottom, top));
    let x = Axis::log(
        (ends[0], ends[1]),
        (left + 16.0, left + width - GUIDE_NAME - 12.0),
    );
    for count in devices {
        let text = units::count(u64::from(*count));
        let at = (x.at(f64::from(*count)), bottom + 20.0);
        canvas.text(at, &text, note.anchor(Anchor::Middle));
    }
    let middle = (left + width / 2.0, bottom + 40.0);
    canvas.text(middle, "number of devices N", note.anchor(Anchor::Middle));
    draw_roundoff(canvas, (roundoff, format), y, (left, width));
    for ((name, _), end) in GROWTHS.iter().zip(guide_end) {
        let from = (x.at(f64::from(fewest)), y.at(error));
        let to = (x.at(ends[1]), y.at(end));
        canvas.line(vec![from, to], 1.5, GREY);
        canvas.text_centred((to.0 + 12.0, to.1), name, note);
    }
    for (index, line) in lines.iter().enumerate() {
        draw_line(canvas, (line, index), format, (x, y), bottom);
    }
}

/// Draws the unit roundoff as a dashed line with its value.
fn draw_roundoff(
    canvas: &mut Canvas,
    (roundoff, format): (f64, ReduceFormat),
    y: Axis,
    (left, width): (f64, f64),
) {
    const DASH: f64 = 6.0;
    let at = y.at(roundoff);
    let dashes = (width / (2.0 * DASH)) as usize;
    let text = format!("u = {}", units::power_of_two(roundoff.log2() as i64));
    let quantity = Quantity::new(METRIC.name(), roundoff, METRIC.unit().name(), text.clone());
    canvas.mark(
        Datum::new(&format!("unit roundoff of {format}"), quantity),
        |canvas| {
            for start in (0..dashes).map(|dash| left + 2.0 * DASH * dash as f64) {
                canvas.line(vec![(start, at), (start + DASH, at)], 1.5, MUTED);
            }
        },
    );
    let style = TextStyle::new(11.0).colour(MUTED);
    canvas.text((left + 4.0, at - 6.0), &text, style);
}

/// Draws the errors of a line in a format. Errors of 0 are markers at the lower edge, without a line.
fn draw_line(
    canvas: &mut Canvas,
    (line, index): (&Line, usize),
    format: ReduceFormat,
    (x, y): (Axis, Axis),
    bottom: f64,
) {
    let points = line.points(format);
    let place = |point: &Point| {
        let at = if point.error.value > 0.0 {
            y.at(point.error.value)
        } else {
            bottom
        };
        (x.at(f64::from(point.devices)), at)
    };
    for drawn in points.split(|point| point.error.value <= 0.0) {
        canvas.line(drawn.iter().map(place).collect(), 2.0, key::colour(index));
    }
    for point in points {
        let (x, y_of_point) = place(point);
        if let Some((low, high)) = point.error.whiskers.filter(|(low, _)| *low > 0.0) {
            canvas.line(vec![(x, y.at(low)), (x, y.at(high))], 1.5, key::colour(index));
        }
        let devices = units::count(u64::from(point.devices));
        let at = Quantity::new("devices", f64::from(point.devices), "1", devices);
        let series = format!("{} · {format}", line.label);
        let datum = Datum::new(&series, Quantity::of(METRIC, point.error)).at(at);
        canvas.mark(datum, |canvas| key::marker(canvas, (x, y_of_point), index));
    }
}

/// Returns the title: the growth of the error from the fewest to the most devices, in the format with the largest error.
fn finding(lines: &[Line], formats: &[ReduceFormat]) -> Option<String> {
    let largest = |format: &ReduceFormat| {
        let errors = lines.iter().flat_map(|line| line.points(*format));
        errors.map(|point| point.error.value).fold(0.0, f64::max)
    };
    let format = *formats.iter().max_by(|a, b| largest(a).total_cmp(&largest(b)))?;
    let ends = |line: &Line| {
        let points = line.points(format);
        let (first, last) = (points.first()?, points.last()?);
        (first.error.value > 0.0 && first.devices < last.devices)
            .then(|| (first.devices, last.devices, last.error.value / first.error.value))
    };
    let fewest = lines.iter().filter_map(|line| Some(ends(line)?.0)).min()?;
    let most = lines.iter().filter_map(|line| Some(ends(line)?.1)).max()?;
    let factors = lines.iter().filter_map(|line| match ends(line)? {
        (from, to, factor) if (from, to) == (fewest, most) => Some((factor, line.label.as_str())),
        _ => None,
    });
    let mut factors: Vec<(f64, &str)> = factors.collect();
    factors.sort_by(|a, b| a.0.total_cmp(&b.0));
    let text = |(factor, label): &(f64, &str)| format!("{} ({label})", units::times(*factor));
    let range = match factors.as_slice() {
        [] => return None,
        [only] => text(only),
        [least, .., most] => format!("{} to {}", text(least), text(most)),
    };
    Some(format!(
        "From {fewest} to {most} devices, the gradient error in {format} changes to {range}"
    ))
}
