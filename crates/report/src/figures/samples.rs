//! Times of one process, one point each, with outliers and throttled samples marked.

use mantissa_core::{MetricName, Record, Series, SeriesName};
use mantissa_run_folder::SampleSelection;

use super::{
    axis::{Axis, rounded, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    downsample::downsample,
    palette::{self, ALARM, FAINT, INK, MUTED},
};
use crate::{
    Digest, Group, Row, Run, Suite,
    digest::{outliers, times_of},
    units::{self, Scale},
};

const PLOT_HEIGHT: f64 = 240.0;
const LABEL_WIDTH: f64 = 46.0;
/// Minimum number of times for a figure.
const MIN_SAMPLES: u64 = 20;
/// Maximum number of drawn marks of one kind.
const MAX_MARKS: usize = 800;

/// Returns the record of a group with the most conspicuous times, and its score. Throttled times weigh most, then drift and serial
/// dependence, then outliers.
pub fn choose<'r>(run: &Run, group: &'r Group<'_>) -> Option<(f64, &'r Row<'r>, &'r Record)> {
    let of_row = |row: &'r Row<'r>| {
        let of_record = |record: &&'r Record| {
            let times = run.digest(record)?.times.as_ref()?;
            let share = |count: u64| count as f64 / times.n() as f64;
            let serial = times.serial.map_or(0, |serial| {
                u8::from(serial.drifts()) + u8::from(serial.is_autocorrelated())
            });
            let score = 10.0 * share(times.throttled) + f64::from(serial) + share(times.outliers);
            (times.n() >= MIN_SAMPLES).then_some((score, row, *record))
        };
        row.records.iter().find_map(of_record)
    };
    group.ok().filter_map(of_row).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Kind of a sample.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Typical,
    Outlier,
    Throttled,
}

impl Mark {
    const fn name(self) -> &'static str {
        match self {
            Self::Typical => "typical",
            Self::Outlier => "outlier",
            Self::Throttled => "throttled",
        }
    }
}

/// Draws the times of one record; `None` if it has no times.
pub fn draw(
    run: &Run,
    suite: &Suite<'_>,
    group: &Group<'_>,
    row: &Row<'_>,
    record: &Record,
) -> Option<(Canvas, String)> {
    let samples = run
        .samples
        .read(record, SampleSelection::series(&Digest::FULL_SERIES))
        .ok()??;
    let series = times_of(&samples)?;
    let marked = marks(series, samples.get(SeriesName::Throttled))?;
    let median = run.digest(record)?.times.as_ref()?.process.median();
    let scale = Scale::of(MetricName::StepSeconds, median);
    let points_of = |mark: Mark| -> Vec<(f64, f64)> {
        let these = marked.iter().filter(|(.., this)| *this == mark);
        these.map(|(x, y, _)| (*x, *y)).collect()
    };
    let (typical, outlying, throttled) = (
        points_of(Mark::Typical),
        points_of(Mark::Outlier),
        points_of(Mark::Throttled),
    );
    let ends = |points: &[(f64, f64)]| {
        points
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (_, y)| {
                (low.min(*y), high.max(*y))
            })
    };
    // Extend the axis beyond the typical times by at most three times their range. Other times are drawn at the edge.
    let (low, high) = ends(if typical.is_empty() { &throttled } else { &typical });
    let room = 3.0 * (high - low).max(0.002 * median);
    let (least, most) = ends(&marked.iter().map(|(x, y, _)| (*x, *y)).collect::<Vec<_>>());
    let shown = (least.max(low - room), most.min(high + room));
    let beyond = least < shown.0 || most > shown.1;

    let (singular, plural) = if series.name == SeriesName::LaunchSeconds {
        ("launch", "launches")
    } else {
        ("optimizer step", "optimizer steps")
    };
    let subtitle = format!(
        "{} · {} · process {} · line: median{}",
        group.workload,
        group.label(row, &[]),
        record.repeat + 1,
        if beyond {
            "; values beyond the axis are drawn at its edge"
        } else {
            ""
        }
    );
    let top = Canvas::CONTENT_TOP + 40.0;
    let bottom = top + PLOT_HEIGHT;
    let unusual = [
        (outlying.len(), outliers_of(outlying.len())),
        (throttled.len(), "throttled"),
    ];
    let unusual = unusual
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} {kind}", units::count(*count as u64)));
    let (count, unusual) = (units::count(marked.len() as u64), unusual.collect::<Vec<_>>());
    let found = if unusual.is_empty() {
        format!("{count} {plural}, none an outlier or throttled")
    } else {
        format!("{count} {plural}, {}", unusual.join(", "))
    };
    let title = format!("{}: {found}", suite.info.title);
    let mut canvas = Canvas::titled(bottom + 52.0, &title, &subtitle);
    draw_key(&mut canvas, [typical.len(), outlying.len(), throttled.len()]);

    let range = rounded((shown.0 * scale.factor, shown.1 * scale.factor), 5);
    let y = Axis::linear(range, (bottom, top));
    let (left, right) = (MARGIN + LABEL_WIDTH, WIDTH - MARGIN);
    let style = TextStyle::new(11.0).colour(MUTED);
    let levels = ticks(range, 5);
    let decimals = tick_decimals(&levels);
    for level in levels {
        canvas.line(vec![(left, y.at(level)), (right, y.at(level))], 1.0, FAINT);
        let text = format!("{level:.decimals$}");
        canvas.text_centred((left - 8.0, y.at(level)), &text, style.anchor(Anchor::End));
    }
    canvas.text((MARGIN, top - 12.0), scale.unit, style);
    let last = series.x.last().copied().unwrap_or(1.0);
    let x = Axis::linear((0.0, last), (left, right));
    for mark in ticks((0.0, last), 6) {
        let text = units::count(mark.round() as u64);
        canvas.text((x.at(mark), bottom + 18.0), &text, style.anchor(Anchor::Middle));
    }
    canvas.text(
        ((left + right) / 2.0, bottom + 38.0),
        singular,
        style.anchor(Anchor::Middle),
    );
    let middle = y.at(median * scale.factor);
    for (points, mark) in [
        (typical, Mark::Typical),
        (outlying, Mark::Outlier),
        (throttled, Mark::Throttled),
    ] {
        for (at, seconds) in downsample(&points, MAX_MARKS) {
            let time = Quantity::new("time", seconds, "s", scale.text(seconds));
            let index = Quantity::new(singular, at, "1", units::count(at as u64));
            canvas.mark(Datum::new(mark.name(), time).at(index), |canvas| {
                draw_mark(canvas, (x.at(at), y.at(seconds * scale.factor)), mark);
            });
        }
    }
    canvas.line(vec![(left, middle), (right, middle)], 1.5, INK);
    let caption = format!(
        "Time of every {singular} of one process of {} under {}. The median of all of them is {}.",
        group.workload,
        group.label(row, &[]),
        scale.text(median)
    );
    Some((canvas, caption))
}

/// Returns the position and kind of each time.
fn marks(series: &Series, throttled: Option<&Series>) -> Option<Vec<(f64, f64, Mark)>> {
    let times: Vec<(usize, f64)> = series
        .y
        .iter()
        .enumerate()
        .filter_map(|(index, time)| Some((index, (*time)?)))
        .collect();
    let is_outlier = outliers(&times.iter().map(|(_, time)| *time).collect::<Vec<_>>())?;
    let is_throttled = |index: usize| {
        let mark = throttled.and_then(|marks| *marks.y.get(index)?);
        mark.is_some_and(|mark| mark > 0.0)
    };
    let mark = |((index, time), is_outlier): ((usize, f64), bool)| {
        let mark = match (is_throttled(index), is_outlier) {
            (true, _) => Mark::Throttled,
            (false, true) => Mark::Outlier,
            (false, false) => Mark::Typical,
        };
        (series.x[index], time, mark)
    };
    Some(times.into_iter().zip(is_outlier).map(mark).collect())
}

/// Returns the noun for a number of outliers.
fn outliers_of(count: usize) -> &'static str {
    match count {
        1 => "outlier",
        _ => "outliers",
    }
}

fn draw_mark(canvas: &mut Canvas, (x, y): (f64, f64), mark: Mark) {
    match mark {
        Mark::Typical => canvas.disc((x, y), 2.0, palette::SERIES[0]),
        Mark::Outlier => canvas.polygon(
            vec![(x, y - 5.0), (x + 4.5, y + 3.0), (x - 4.5, y + 3.0)],
            palette::SERIES[4],
        ),
        Mark::Throttled => canvas.cross((x, y), 3.5, ALARM),
    }
}

fn draw_key(canvas: &mut Canvas, counts: [usize; 3]) {
    let style = TextStyle::new(11.5).colour(MUTED);
    let y = Canvas::CONTENT_TOP + 6.0;
    let mut x = MARGIN;
    let kinds = [
        (Mark::Typical, Mark::Typical.name()),
        (Mark::Outlier, outliers_of(counts[1])),
        (Mark::Throttled, Mark::Throttled.name()),
    ];
    for ((mark, name), count) in kinds.into_iter().zip(counts) {
        if count > 0 {
            let text = format!("{} {name}", units::count(count as u64));
            draw_mark(canvas, (x + 6.0, y), mark);
            canvas.text_centred((x + 16.0, y), &text, style);
            x += 16.0 + style.width(&text) + 22.0;
        }
    }
}
