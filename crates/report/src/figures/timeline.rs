//! Sensor readings while a cell ran: memory, power, clocks and temperature, one panel each with a common time axis.

use mantissa_core::{EventKind, Record, Samples, Series, SeriesName};
use mantissa_run_folder::SampleSelection;

use super::{
    axis::{Axis, rounded, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    downsample::downsample,
    palette::{self, ALARM_WASH, FAINT, MUTED},
};
use crate::{Group, Row, Run, Suite};

const PANEL_HEIGHT: f64 = 104.0;
const PANEL_GAP: f64 = 36.0;
const LABEL_WIDTH: f64 = 46.0;
/// Maximum number of points of a line.
const MAX_POINTS: usize = 500;
/// Minimum number of readings of a drawn series.
const MIN_READINGS: usize = 10;
/// Minimum duration of a drawn trace.
const MIN_SECONDS: f64 = 1.0;
/// Kinds of events that the caption quotes.
const CAPTION_EVENTS: [EventKind; 5] = [
    EventKind::Throttled,
    EventKind::ClocksHeld,
    EventKind::ForeignProcess,
    EventKind::Sampling,
    EventKind::Ecc,
];

/// Series of NVML's throttle reasons.
const THROTTLE: SeriesName = SeriesName::ThrottleReasons;

/// NVML's throttle reasons due to heat, power or hardware protection: software power cap, hardware slowdown, software and hardware
/// thermal slowdown, power brake (`nvmlClocksThrottleReason…` of nvml.h).
const THROTTLE_MASK: u64 = 0x04 | 0x08 | 0x20 | 0x40 | 0x80;

/// Panel with series of the same unit.
struct Panel {
    title: &'static str,
    /// Unit of the readings.
    unit: &'static str,
    /// Ratio of the shown value to the reading.
    factor: f64,
    /// Title and factor with a smaller unit, for panels whose values are all below 1 in the unit of `title`.
    small_unit: Option<(&'static str, f64)>,
    from_zero: bool,
    series: &'static [(SeriesName, &'static str)],
}

const PANELS: [Panel; 5] = [
    Panel {
        title: "Memory, GB",
        unit: "B",
        factor: 1e-9,
        small_unit: Some(("Memory, MB", 1e-6)),
        from_zero: true,
        series: &[
            (SeriesName::DeviceBytes, "device"),
            (SeriesName::ProcessBytes, "process on the device"),
            (SeriesName::AllocatorReservedBytes, "allocator, reserved"),
            (SeriesName::AllocatorInUseBytes, "allocator, in use"),
            (SeriesName::HostBytes, "host"),
        ],
    },
    Panel {
        title: "Power, W",
        unit: "W",
        factor: 1.0,
        small_unit: None,
        from_zero: true,
        series: &[(SeriesName::PowerWatts, "")],
    },
    Panel {
        title: "Clocks, GHz",
        unit: "Hz",
        factor: 1e-9,
        small_unit: None,
        from_zero: true,
        series: &[
            (SeriesName::SmClockHz, "multiprocessors"),
            (SeriesName::MemoryClockHz, "memory"),
        ],
    },
    Panel {
        title: "Temperature, °C",
        unit: "°C",
        factor: 1.0,
        small_unit: None,
        from_zero: false,
        series: &[(SeriesName::TemperatureCelsius, "")],
    },
    Panel {
        title: "Utilisation, %",
        unit: "1",
        factor: 100.0,
        small_unit: None,
        from_zero: true,
        series: &[(SeriesName::Utilisation, "")],
    },
];

/// Returns the record of a group with the highest score, and the score: the length of the trace in seconds, increased if the clock was
/// throttled.
pub fn choose<'r>(run: &Run, group: &'r Group<'_>) -> Option<(f64, &'r Row<'r>, &'r Record)> {
    /// Score added to records with a throttled clock: two weeks in seconds, longer than any cell.
    const THROTTLED_SCORE: f64 = 1.2e6;
    let score = |row: &'r Row<'r>| {
        let of_record = |record: &&'r Record| {
            let seconds = run.digest(record)?.traced_seconds?;
            let throttled = record
                .events
                .iter()
                .any(|event| event.kind == EventKind::Throttled);
            let score = if throttled {
                THROTTLED_SCORE + seconds
            } else {
                seconds
            };
            (seconds >= MIN_SECONDS).then_some((score, row, *record))
        };
        row.records.iter().find_map(of_record)
    };
    let scores = group.ok().filter_map(score);
    scores.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Draws the trace of one record; `None` if its samples cannot be read or every series has too few readings.
pub fn draw(
    run: &Run,
    suite: &Suite<'_>,
    group: &Group<'_>,
    row: &Row<'_>,
    record: &Record,
) -> Option<(Canvas, String)> {
    let names = PANELS.iter().flat_map(|panel| panel.series);
    let names: Vec<SeriesName> = names.map(|(name, _)| *name).chain([THROTTLE]).collect();
    let samples = run.samples.read(record, SampleSelection::series(&names)).ok()??;
    let panels: Vec<(&Panel, Vec<(&str, &Series)>)> = PANELS
        .iter()
        .map(|panel| (panel, drawn_series(panel, &samples)))
        .filter(|(_, series)| !series.is_empty())
        .collect();
    let all_series = || panels.iter().flat_map(|(_, series)| series);
    let end = all_series()
        .filter_map(|(_, series)| series.x.last())
        .copied()
        .reduce(f64::max)?;
    let throttled = samples.get(THROTTLE).map(throttled_spans).unwrap_or_default();
    let subtitle = format!(
        "{} · {} · process {} · by seconds since its start{}",
        group.workload,
        group.label(row, &[]),
        record.repeat + 1,
        if throttled.is_empty() {
            ""
        } else {
            "; shaded: throttled clock"
        }
    );
    let top = Canvas::CONTENT_TOP + 24.0;
    let height = top + panels.len() as f64 * (PANEL_HEIGHT + PANEL_GAP) + 6.0;
    let seconds_throttled: f64 = throttled.iter().map(|(from, to)| to - from).sum();
    let found = if throttled.is_empty() {
        "sensor readings".to_owned()
    } else {
        format!("clock throttled for {seconds_throttled:.1} of {end:.1} s")
    };
    let title = format!("{}: {found}", suite.info.title);
    let mut canvas = Canvas::titled(height, &title, &subtitle);
    let x = Axis::linear((0.0, end), (MARGIN + LABEL_WIDTH, WIDTH - MARGIN));
    for (index, (panel, series)) in panels.iter().enumerate() {
        let top = top + index as f64 * (PANEL_HEIGHT + PANEL_GAP);
        for (from, to) in &throttled {
            // Draw at least one pixel to keep short spans visible.
            let right = x.at(*to).max(x.at(*from) + 1.0);
            canvas.rectangle((x.at(*from), top), (right, top + PANEL_HEIGHT), ALARM_WASH);
        }
        draw_panel(&mut canvas, panel, series, x, top);
        draw_time_axis(&mut canvas, x, end, top + PANEL_HEIGHT, index + 1 == panels.len());
    }
    let titles: Vec<String> = panels
        .iter()
        .filter_map(|(panel, _)| Some(panel.title.split(',').next()?.to_lowercase()))
        .collect();
    let events = record
        .events
        .iter()
        .filter(|event| CAPTION_EVENTS.contains(&event.kind))
        .take(4);
    let events: Vec<String> = events
        .map(|event| format!(" {}: {}.", event.kind, event.detail))
        .collect();
    let caption = format!(
        "Sensor readings of {} under {}: {}.{}",
        group.workload,
        group.label(row, &[]),
        titles.join(", "),
        events.concat()
    );
    Some((canvas, caption))
}

/// Returns the series of a panel that have enough readings.
fn drawn_series<'s>(panel: &Panel, samples: &'s Samples) -> Vec<(&'static str, &'s Series)> {
    let known = panel
        .series
        .iter()
        .filter_map(|(name, label)| Some((*label, samples.get(*name)?)));
    known
        .filter(|(_, series)| series.values().count() >= MIN_READINGS)
        .collect()
}

fn draw_panel(canvas: &mut Canvas, panel: &Panel, series: &[(&str, &Series)], x: Axis, top: f64) {
    let bottom = top + PANEL_HEIGHT;
    let values = || series.iter().flat_map(|(_, series)| series.values());
    let largest = values().fold(0.0, f64::max);
    let (title, factor) = match panel.small_unit {
        Some(small) if largest * panel.factor < 1.0 => small,
        _ => (panel.title, panel.factor),
    };
    let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        let value = value * factor;
        (low.min(value), high.max(value))
    });
    let range = rounded((if panel.from_zero { 0.0 } else { low }, high), 3);
    let y = Axis::linear(range, (bottom, top));
    let style = TextStyle::new(11.0).colour(MUTED);
    let marks = ticks(range, 3);
    let decimals = tick_decimals(&marks);
    let (left, right) = (MARGIN + LABEL_WIDTH, WIDTH - MARGIN);
    for mark in marks {
        canvas.line(vec![(left, y.at(mark)), (right, y.at(mark))], 1.0, FAINT);
        let text = format!("{mark:.decimals$}");
        canvas.text_centred((left - 8.0, y.at(mark)), &text, style.anchor(Anchor::End));
    }
    canvas.text((MARGIN, top - 10.0), title, TextStyle::new(12.0).bold());
    let (name, shown_unit) = title.split_once(", ").unwrap_or((title, ""));
    let mut legend_x = right;
    for (index, (label, series)) in series.iter().enumerate().rev() {
        let colour = palette::SERIES[index % palette::SERIES.len()];
        if !label.is_empty() {
            canvas.text((legend_x, top - 10.0), label, style.anchor(Anchor::End));
            legend_x -= style.width(label) + 6.0;
            canvas.line(
                vec![(legend_x - 16.0, top - 14.0), (legend_x, top - 14.0)],
                3.0,
                colour,
            );
            legend_x -= 32.0;
        }
        for readings in split_at_gaps(series) {
            let points = downsample(&readings, MAX_POINTS);
            let point = |(seconds, value): (f64, f64)| {
                let text = format!("{:.2} {shown_unit}", value * factor);
                let series = if label.is_empty() { name } else { *label };
                let datum = Datum::new(series, Quantity::new(name, value, panel.unit, text));
                let time = Quantity::new("after", seconds, "s", format!("{seconds:.1} s"));
                ((x.at(seconds), y.at(value * factor)), datum.at(time))
            };
            canvas.curve(points.into_iter().map(point).collect(), 1.5, colour);
        }
    }
}

/// Draws the ticks of the time axis below a panel, with numbers if `numbered`.
fn draw_time_axis(canvas: &mut Canvas, x: Axis, end: f64, bottom: f64, numbered: bool) {
    let marks = ticks((0.0, end), 8);
    let decimals = tick_decimals(&marks);
    let style = TextStyle::new(11.0).colour(MUTED).anchor(Anchor::Middle);
    for (index, mark) in marks.iter().enumerate() {
        let text = format!("{mark:.decimals$}");
        let text = if index + 1 == marks.len() {
            format!("{text} s")
        } else {
            text
        };
        canvas.line(
            vec![(x.at(*mark), bottom), (x.at(*mark), bottom + 4.0)],
            1.0,
            MUTED,
        );
        if numbered {
            canvas.text((x.at(*mark), bottom + 17.0), &text, style);
        }
    }
}

/// Splits a series into consecutive readings. A missing reading breaks the line.
fn split_at_gaps(series: &Series) -> Vec<Vec<(f64, f64)>> {
    let readings: Vec<(f64, Option<f64>)> = series.x.iter().copied().zip(series.y.iter().copied()).collect();
    let parts = readings.split(|(_, value)| value.is_none());
    let known = |part: &[(f64, Option<f64>)]| part.iter().filter_map(|(x, y)| Some((*x, (*y)?))).collect();
    parts.filter(|part| part.len() > 1).map(known).collect()
}

/// Returns the spans with a throttled clock, each from the first throttled reading to the next one that is not throttled.
fn throttled_spans(reasons: &Series) -> Vec<(f64, f64)> {
    let mut spans: Vec<(f64, f64)> = Vec::new();
    let mut was_throttled = false;
    for (seconds, bits) in reasons.x.iter().zip(&reasons.y) {
        let throttled = bits.is_some_and(|bits| bits as u64 & THROTTLE_MASK != 0);
        if was_throttled && let Some(last) = spans.last_mut() {
            last.1 = *seconds;
        }
        if throttled && !was_throttled {
            spans.push((*seconds, *seconds));
        }
        was_throttled = throttled;
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(readings: &[(f64, f64)]) -> Series {
        let mut series = Series::new(SeriesName::ThrottleReasons);
        readings.iter().for_each(|(x, y)| series.push(*x, *y));
        series
    }

    #[test]
    fn throttled_spans_end_at_the_next_unthrottled_reading() {
        let reasons = series(&[
            (0.0, 1.0),
            (1.0, 4.0),
            (2.0, 36.0),
            (3.0, 0.0),
            (4.0, 2.0),
            (5.0, 64.0),
        ]);
        assert_eq!(throttled_spans(&reasons), [(1.0, 3.0), (5.0, 5.0)]);
    }

    #[test]
    fn a_missing_reading_breaks_the_line() {
        let broken = series(&[
            (0.0, 1.0),
            (1.0, 2.0),
            (2.0, f64::NAN),
            (3.0, 3.0),
            (4.0, 4.0),
            (5.0, f64::NAN),
        ]);
        assert_eq!(
            split_at_gaps(&broken),
            [vec![(0.0, 1.0), (1.0, 2.0)], vec![(3.0, 3.0), (4.0, 4.0)]]
        );
    }
}
