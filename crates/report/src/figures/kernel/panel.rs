//! Panel of the figure: one metric over the size.

use mantissa_core::{Axis as SettingAxis, MetricName};

use super::{
    limits::{ceilings, draw_ceilings},
    lines::Line,
};
use crate::{
    Group, Row,
    figures::{
        axis::{Axis, rounded, tick_decimals, ticks},
        canvas::{Anchor, Canvas, TextStyle},
        datum::{Datum, Quantity},
        grid, key,
        palette::MUTED,
        power_law::{self, NamedLaw, PowerLaw},
    },
    setting::Spot,
    units,
};

const PLOT_HEIGHT: f64 = 300.0;
/// Height of a plot with its title and axis.
pub(super) const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 100.0;

/// Panel of a metric over the size, for the cells with one kind of input values.
pub(super) struct Panel {
    metric: MetricName,
    title: String,
    distribution: Option<String>,
    /// `true` if a power law is fitted to every line.
    fitted: bool,
}

pub(super) fn panels(group: &Group<'_>, fitted: bool) -> Vec<Panel> {
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
            "Memory bandwidth; bands: copies by the same processes",
        ),
        false => panel(group.speed, &throughput_title(group)),
    };
    let error = panel(MetricName::RelativeError, "Relative error (lower is better)");
    // The title is about the speed, so its panel is the first one.
    vec![speed, error]
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

impl Panel {
    /// Fits a power law to the errors of a line; `None` unless the panel is `fitted`.
    pub fn law(&self, line: &Line<'_, '_>) -> Option<PowerLaw> {
        let shown = line.rows.iter().filter(|row| self.fitted && self.shows(row));
        PowerLaw::fit(shown.filter_map(|row| {
            let error = row.metric(self.metric)?.value;
            (error > 0.0).then_some((f64::from(row.cell.setting.size()), error))
        }))
    }

    fn shows(&self, row: &Row<'_>) -> bool {
        self.distribution
            .as_ref()
            .is_none_or(|kind| row.axis(SettingAxis::Distribution) == *kind)
    }

    /// Draws the panel with the lines. `edge` is the title of the size axis.
    pub fn draw(
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
        let ceilings = match metric {
            MetricName::FlopsPerSecond => ceilings(lines),
            _ => vec![],
        };
        // Each row is compared only with values of its own processes.
        let reference = match metric {
            MetricName::FlopsPerSecond => Some(MetricName::CublasFlopsPerSecond),
            MetricName::BytesPerSecond => Some(MetricName::CopyBytesPerSecond),
            _ => None,
        };
        let reference = |row: &Row<'_>| Some((reference?, Spot::of(row.metric(reference?)?)?));
        let rows = || lines.iter().flat_map(|line| &line.rows);
        let all = || {
            let references = rows().filter_map(|row| Some(reference(row)?.1.value));
            let ceilings = ceilings.iter().map(|(peak, _)| *peak);
            values.iter().copied().chain(references).chain(ceilings)
        };
        let low = all().fold(f64::INFINITY, f64::min);
        let high = all().fold(0.0, f64::max);
        let bottom = top + PLOT_HEIGHT;
        let y = if log {
            grid::log_axis(canvas, (low, high), (left, width), (bottom, top))
        } else {
            let scale = units::Scale::of(metric, high);
            let range = rounded((0.0, high * scale.factor), 5);
            let axis = Axis::linear((0.0, range.1 / scale.factor), (bottom, top));
            let marks = ticks(range, 5);
            let decimals = tick_decimals(&marks);
            for mark in marks {
                grid::line(
                    canvas,
                    axis.at(mark / scale.factor),
                    (left, width),
                    &format!("{mark:.decimals$}"),
                );
            }
            canvas.text((left + width, top - 14.0), scale.unit, note.anchor(Anchor::End));
            axis
        };
        let mut sizes: Vec<u32> = rows().map(|row| row.cell.setting.size()).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let range = (f64::from(sizes[0]), f64::from(sizes[sizes.len() - 1]));
        let laws = lines
            .iter()
            .filter_map(|line| Some((self.law(line)?, line.label.as_str(), line.colour)));
        let laws: Vec<NamedLaw<'_>> = laws.collect();
        let room = power_law::width(&laws).max(16.0);
        let x = Axis::log(range, (left + 16.0, left + width - room));
        let mut next_free = f64::NEG_INFINITY;
        for size in &sizes {
            let (at, text) = (x.at(f64::from(*size)), units::count(u64::from(*size)));
            let half = note.width(&text) / 2.0;
            if at - half > next_free {
                canvas.text((at, bottom + 20.0), &text, note.anchor(Anchor::Middle));
                next_free = at + half + 8.0;
            }
        }
        canvas.text(
            (left + width / 2.0, bottom + 40.0),
            edge,
            note.anchor(Anchor::Middle),
        );
        draw_ceilings(canvas, &ceilings, y, (left, left + width));
        power_law::draw(canvas, &laws, (x, y), range);
        for line in lines {
            let mut band = vec![];
            for row in &line.rows {
                if let Some((metric, spot)) = reference(row) {
                    canvas.mark(self.datum(&line.label, row, Quantity::of(metric, spot)), |_| {});
                    band.push((x.at(f64::from(row.cell.setting.size())), y.at(spot.value)));
                }
            }
            canvas.faint_line(band, 8.0, line.colour, 0.25);
        }
        for (index, line) in lines.iter().enumerate() {
            let place = |row: &&Row<'_>| Some((x.at(f64::from(row.cell.setting.size())), y.at(value(row)?)));
            let points: Vec<(f64, f64)> = line.rows.iter().filter_map(place).collect();
            canvas.line(points, 2.0, line.colour);
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
            for row in &line.rows {
                let spot = row.metric(metric).and_then(Spot::of);
                if let (Some(spot), Some(point)) = (spot, place(row)) {
                    canvas.mark(
                        self.datum(&line.label, row, Quantity::of(metric, spot)),
                        |canvas| {
                            key::marker(canvas, point, index);
                        },
                    );
                }
            }
        }
    }

    /// Returns the datum of a row's value, at the size of the row.
    fn datum(&self, series: &str, row: &Row<'_>, value: Quantity) -> Datum {
        let kind = self.distribution.as_ref().map(|kind| format!(" · {kind}"));
        let size = row.cell.setting.size();
        let at = Quantity::new("size", f64::from(size), "1", units::count(size.into()));
        Datum::new(&format!("{series}{}", kind.unwrap_or_default()), value).at(at)
    }
}
