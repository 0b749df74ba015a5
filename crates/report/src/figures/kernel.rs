//! Error and throughput of a kernel by size.

use std::collections::BTreeMap;

use mantissa_core::{Axis as SettingAxis, MetricName};

use super::{
    axis::{Axis, decades, rounded, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    finding,
    fonts::{Weight, fit},
    palette::{self, Colour, FAINT, MUTED},
    power_law::{self, PowerLaw},
    shown_of,
};
use crate::{Group, Row, Suite, shape, units};

const MAX_LINES: usize = 16;
const KEY_ROW: f64 = 20.0;
const KEY_COLUMNS: usize = 4;
const PLOT_HEIGHT: f64 = 300.0;
/// Height of a plot with its title and axis.
const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 100.0;
const GAP: f64 = 76.0;

struct Line<'r, 'a> {
    label: String,
    colour: Colour,
    rows: Vec<&'r Row<'a>>,
}

/// Draws error and throughput or, if the distribution of the input values varies, the error per distribution. `None` for other tasks,
/// if all cells have the same size, and if no cell has an error or a throughput.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let kernel = shape::kernel(&group.rows.first()?.cell.workload)?;
    let edge = shape::free_edge(kernel)?;
    if !group.varies(SettingAxis::Size) || !(group.has(MetricName::RelativeError) || group.has(group.speed)) {
        return None;
    }
    let mut lines: Vec<Line<'_, '_>> = Vec::new();
    for row in group.ok() {
        let label = group.label(row, &[SettingAxis::Size, SettingAxis::Distribution]);
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
    let all = lines.len();
    lines.truncate(MAX_LINES);
    for line in &mut lines {
        line.rows.sort_by_key(|row| row.cell.setting.size());
    }
    let key = lines.len().div_ceil(KEY_COLUMNS) as f64 * KEY_ROW;
    let capped = shown_of(lines.len(), all)
        .map(|text| format!(" · {text} settings"))
        .unwrap_or_default();
    let exact = exact(&lines).map(|text| format!(" · {text}")).unwrap_or_default();
    let fitted = shape::sums_grow(kernel);
    let fit = match fitted {
        true => " · bands: power-law fits with their exponents",
        false => "",
    };
    let subtitle = format!(
        "{} · errors against float64 on the same quantised inputs{fit}{exact}{capped}",
        group.workload
    );
    let panels = panels(group, fitted);
    let shown = if group.varies(SettingAxis::Distribution) {
        "error by size and input values"
    } else {
        "error and throughput by size"
    };
    let title = finding(group, &panels, &lines).unwrap_or_else(|| format!("{}: {shown}", suite.info.title));
    let top = Canvas::CONTENT_TOP + key + 40.0;
    let height = panels.len().div_ceil(2) as f64 * PANEL_HEIGHT;
    let mut canvas = Canvas::titled(top + height - 44.0, &title, &subtitle);
    draw_key(&mut canvas, &lines);
    let width = (WIDTH - 2.0 * MARGIN - GAP - 46.0) / 2.0;
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + 46.0 + (index % 2) as f64 * (width + GAP);
        let top = top + (index / 2) as f64 * PANEL_HEIGHT;
        panel.draw(&mut canvas, &lines, &edge, (left, top, width));
    }
    Some((canvas, format!("{}, {shown}.", group.workload)))
}

/// Returns the title: the growth of the errors with the size if input values vary, else the fastest setting at the largest size.
fn finding(group: &Group<'_>, panels: &[Panel], lines: &[Line<'_, '_>]) -> Option<String> {
    if !group.varies(SettingAxis::Distribution) {
        return finding::speed_at_largest(group);
    }
    let laws = panels
        .iter()
        .flat_map(|panel| lines.iter().filter_map(|line| panel.law(line)));
    let mut exponents: Vec<f64> = laws.map(|law| law.exponent).collect();
    exponents.sort_by(f64::total_cmp);
    let (least, most) = (exponents.first()?, exponents.last()?);
    Some(format!(
        "The relative error scales as size^{least:.2} to size^{most:.2}"
    ))
}

/// Panel of a metric over the size, for the cells with one kind of input values.
struct Panel {
    metric: MetricName,
    title: String,
    distribution: Option<String>,
    /// `true` if a power law is fitted to every line.
    fitted: bool,
}

fn panels(group: &Group<'_>, fitted: bool) -> Vec<Panel> {
    if group.varies(SettingAxis::Distribution) {
        let mut kinds: Vec<String> = vec![];
        for kind in group.ok().map(|row| row.axis(SettingAxis::Distribution)) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let panel = |kind: String| Panel {
            metric: MetricName::RelativeError,
            title: format!("Relative error · {kind}"),
            distribution: Some(kind),
            fitted,
        };
        return kinds.into_iter().map(panel).collect();
    }
    let panel = |metric, title: &str| Panel {
        metric,
        title: title.to_owned(),
        distribution: None,
        fitted: fitted && metric == MetricName::RelativeError,
    };
    let speed = match group.has(MetricName::BytesPerSecond) {
        true => panel(
            MetricName::BytesPerSecond,
            "Memory bandwidth; grey: a copy (higher is better)",
        ),
        false => panel(group.speed, &throughput_title(group)),
    };
    let error = panel(MetricName::RelativeError, "Relative error (lower is better)");
    vec![error, speed]
}

/// Returns the title of the throughput panel with the reference lines that it contains.
fn throughput_title(group: &Group<'_>) -> String {
    let sheet = group.ok().any(|row| row.sheet_peak().is_some());
    let limits = [
        (sheet, "dashed: data-sheet peak"),
        (group.has(MetricName::CublasFlopsPerSecond), "bands: cuBLASLt"),
    ];
    let limits: Vec<&str> = limits
        .into_iter()
        .filter(|(shown, _)| *shown)
        .map(|(_, limit)| limit)
        .collect();
    match limits.is_empty() {
        true => "Throughput (higher is better)".to_owned(),
        false => format!("Throughput; {}", limits.join(", ")),
    }
}

/// Names the settings whose error is zero, which a logarithmic axis cannot show.
fn exact(lines: &[Line<'_, '_>]) -> Option<String> {
    let error = |row: &&Row<'_>| row.metric(MetricName::RelativeError).map(|e| e.value);
    let zero = |line: &&Line<'_, '_>| line.rows.iter().filter_map(error).any(|error| error == 0.0);
    let names: Vec<&str> = lines
        .iter()
        .filter(zero)
        .map(|line| line.label.as_str())
        .collect();
    (!names.is_empty()).then(|| format!("error 0, not drawn: {}", names.join(", ")))
}

fn draw_key(canvas: &mut Canvas, lines: &[Line<'_, '_>]) {
    let style = TextStyle::new(11.5).colour(MUTED);
    let column = (WIDTH - 2.0 * MARGIN) / KEY_COLUMNS as f64;
    for (index, line) in lines.iter().enumerate() {
        let x = MARGIN + (index % KEY_COLUMNS) as f64 * column;
        let y = Canvas::CONTENT_TOP + 6.0 + (index / KEY_COLUMNS) as f64 * KEY_ROW;
        canvas.line(vec![(x, y), (x + 18.0, y)], 2.0, line.colour);
        marker(canvas, (x + 9.0, y), index, line.colour);
        canvas.text_centred(
            (x + 26.0, y),
            &fit(&line.label, 11.5, Weight::Regular, column - 32.0),
            style,
        );
    }
}

/// Draws one of four shapes by index. The shapes distinguish lines without colour.
fn marker(canvas: &mut Canvas, (x, y): (f64, f64), index: usize, colour: Colour) {
    match index % 4 {
        0 => canvas.disc((x, y), 4.0, colour),
        1 => canvas.rectangle((x - 3.5, y - 3.5), (x + 3.5, y + 3.5), colour),
        2 => canvas.polygon(vec![(x, y - 5.0), (x + 5.0, y + 3.5), (x - 5.0, y + 3.5)], colour),
        _ => canvas.polygon(
            vec![(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)],
            colour,
        ),
    }
}

impl Panel {
    /// Fits a power law to the errors of a line, if sums grow with the size.
    fn law(&self, line: &Line<'_, '_>) -> Option<PowerLaw> {
        let shown = line.rows.iter().filter(|row| self.fitted && self.shows(row));
        PowerLaw::through(shown.filter_map(|row| {
            let error = row.metric(self.metric)?.value;
            (error > 0.0).then_some((f64::from(row.cell.setting.size()), error))
        }))
    }

    fn shows(&self, row: &Row<'_>) -> bool {
        self.distribution
            .as_ref()
            .is_none_or(|kind| row.axis(SettingAxis::Distribution) == *kind)
    }

    fn draw(
        &self,
        canvas: &mut Canvas,
        lines: &[Line<'_, '_>],
        edge: &str,
        (left, top, width): (f64, f64, f64),
    ) {
        let metric = self.metric;
        let log = metric == MetricName::RelativeError;
        let value = |row: &Row<'_>| {
            row.metric(metric)
                .map(|e| e.value)
                .filter(|value| self.shows(row) && (!log || *value > 0.0))
        };
        let values: Vec<f64> = lines
            .iter()
            .flat_map(|line| &line.rows)
            .filter_map(|row| value(row))
            .collect();
        canvas.text(
            (left - 46.0, top - 14.0),
            &self.title,
            TextStyle::new(12.5).bold(),
        );
        let note = TextStyle::new(11.0).colour(MUTED);
        if values.is_empty() {
            canvas.text((left, top + 24.0), "no values", note);
            return;
        }
        let copies = match metric {
            MetricName::BytesPerSecond => copies(lines),
            _ => vec![],
        };
        let ceilings = match metric {
            MetricName::FlopsPerSecond => ceilings(lines),
            _ => vec![],
        };
        let of_cublas = |row: &Row<'_>| {
            let throughput = row.metric(MetricName::CublasFlopsPerSecond)?;
            (metric == MetricName::FlopsPerSecond).then_some(throughput.value)
        };
        let libraries: Vec<f64> = lines
            .iter()
            .flat_map(|line| &line.rows)
            .filter_map(|row| of_cublas(row))
            .collect();
        let all = || {
            let copies = copies.iter().map(|(_, copied)| *copied);
            let ceilings = ceilings.iter().map(|(peak, _)| *peak);
            values
                .iter()
                .copied()
                .chain(copies)
                .chain(ceilings)
                .chain(libraries.iter().copied())
        };
        let low = all().fold(f64::INFINITY, f64::min);
        let high = all().fold(0.0, f64::max);
        let bottom = top + PLOT_HEIGHT;
        let y = if log {
            let (first, last) = decades((low, high));
            let axis = Axis::log((10f64.powi(first), 10f64.powi(last)), (bottom, top));
            let step = (last - first).div_euclid(8) + 1;
            for power in (first..=last).step_by(step as usize) {
                grid(
                    canvas,
                    axis.at(10f64.powi(power)),
                    (left, width),
                    &units::power_of_ten(power),
                );
            }
            axis
        } else {
            let scale = units::Scale::of(metric, high);
            let range = rounded((0.0, high * scale.factor), 5);
            let axis = Axis::linear((0.0, range.1 / scale.factor), (bottom, top));
            let marks = ticks(range, 5);
            let decimals = tick_decimals(&marks);
            for mark in marks {
                grid(
                    canvas,
                    axis.at(mark / scale.factor),
                    (left, width),
                    &format!("{mark:.decimals$}"),
                );
            }
            canvas.text((left + width, top - 14.0), scale.unit, note.anchor(Anchor::End));
            axis
        };
        let mut sizes: Vec<u32> = lines
            .iter()
            .flat_map(|line| &line.rows)
            .map(|row| row.cell.setting.size())
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        let range = (f64::from(sizes[0]), f64::from(sizes[sizes.len() - 1]));
        let x = Axis::log(range, (left + 16.0, left + width - 16.0));
        let mut free = f64::NEG_INFINITY;
        for size in &sizes {
            let (at, text) = (x.at(f64::from(*size)), units::count(u64::from(*size)));
            let half = note.width(&text) / 2.0;
            if at - half > free {
                canvas.text((at, bottom + 20.0), &text, note.anchor(Anchor::Middle));
                free = at + half + 8.0;
            }
        }
        canvas.text(
            (left + width / 2.0, bottom + 40.0),
            edge,
            note.anchor(Anchor::Middle),
        );
        let bound = copies
            .iter()
            .map(|(size, copied)| (x.at(f64::from(*size)), y.at(*copied)));
        canvas.line(bound.collect(), 6.0, FAINT);
        draw_ceilings(canvas, &ceilings, y, (left, left + width));
        let laws = lines
            .iter()
            .filter_map(|line| Some((self.law(line)?, line.colour)));
        power_law::draw(canvas, &laws.collect::<Vec<_>>(), (x, y), range);
        for line in lines {
            let place =
                |row: &&Row<'_>| Some((x.at(f64::from(row.cell.setting.size())), y.at(of_cublas(row)?)));
            canvas.faint_line(
                line.rows.iter().filter_map(place).collect(),
                8.0,
                line.colour,
                0.25,
            );
        }
        for (index, line) in lines.iter().enumerate() {
            let place = |row: &&Row<'_>| Some((x.at(f64::from(row.cell.setting.size())), y.at(value(row)?)));
            let points: Vec<(f64, f64)> = line.rows.iter().filter_map(place).collect();
            canvas.line(points.clone(), 2.0, line.colour);
            for row in line.rows.iter().filter(|row| self.shows(row)) {
                let interval = row
                    .metric(metric)
                    .and_then(|e| e.interval)
                    .filter(|i| !log || i.low > 0.0);
                if let (Some(interval), Some(point)) = (interval, place(row)) {
                    canvas.line(
                        vec![(point.0, y.at(interval.low)), (point.0, y.at(interval.high))],
                        1.5,
                        line.colour,
                    );
                }
            }
            for point in points {
                marker(canvas, point, index, line.colour);
            }
        }
    }
}

/// Returns the data-sheet peaks in ascending order with their formats.
fn ceilings(lines: &[Line<'_, '_>]) -> Vec<(f64, String)> {
    let mut all: Vec<(f64, Vec<&str>)> = vec![];
    for peak in lines
        .iter()
        .flat_map(|line| &line.rows)
        .filter_map(|row| row.sheet_peak())
    {
        match all.iter_mut().find(|(other, _)| *other == peak.flops_per_second) {
            Some((_, formats)) if formats.contains(&peak.format) => {}
            Some((_, formats)) => formats.push(peak.format),
            None => all.push((peak.flops_per_second, vec![peak.format])),
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter()
        .map(|(peak, formats)| (peak, formats.join(", ")))
        .collect()
}

/// Draws dashed lines with the formats below their left ends. A name moves to the right if it would overlap the previous one.
fn draw_ceilings(canvas: &mut Canvas, ceilings: &[(f64, String)], y: Axis, (left, right): (f64, f64)) {
    const DASH: f64 = 6.0;
    let style = TextStyle::new(11.0).colour(MUTED);
    let mut last: Option<(f64, f64)> = None;
    for (peak, formats) in ceilings {
        let at = y.at(*peak);
        let dashes = ((right - left) / (2.0 * DASH)).ceil() as usize;
        for start in (0..dashes).map(|dash| left + 2.0 * DASH * dash as f64) {
            canvas.line(vec![(start, at), ((start + DASH).min(right), at)], 1.5, MUTED);
        }
        let from = match last {
            Some((above, end)) if above - at < 14.0 => end + 8.0,
            _ => left + 28.0,
        };
        canvas.text((from, at + 13.0), formats, style);
        last = Some((at, from + style.width(formats)));
    }
}

/// Returns the bandwidth of a copy by size: the median of the copies measured with each line.
fn copies(lines: &[Line<'_, '_>]) -> Vec<(u32, f64)> {
    let mut all: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for row in lines.iter().flat_map(|line| &line.rows) {
        if let Some(copied) = row.metric(MetricName::CopyBytesPerSecond) {
            all.entry(row.cell.setting.size()).or_default().push(copied.value);
        }
    }
    let middle = |(size, mut copies): (u32, Vec<f64>)| {
        copies.sort_by(f64::total_cmp);
        (size, copies[copies.len() / 2])
    };
    all.into_iter().map(middle).collect()
}

fn grid(canvas: &mut Canvas, y: f64, (left, width): (f64, f64), label: &str) {
    canvas.line(vec![(left, y), (left + width, y)], 1.0, FAINT);
    canvas.text_centred(
        (left - 8.0, y),
        label,
        TextStyle::new(11.0).colour(MUTED).anchor(Anchor::End),
    );
}
