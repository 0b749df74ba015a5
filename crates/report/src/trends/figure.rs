//! Figure of a metric over the runs of a history, with its levels, noise band and change points.

use super::view::{Direction, TrendChangePoint, TrendLine, TrendRun};
use crate::{
    Canvas,
    figures::{
        axis::{Axis, decades, rounded, tick_decimals, ticks},
        canvas::{Anchor, MARGIN, TextStyle, WIDTH},
        datum::{Datum, Quantity},
        downsample::downsample,
        fonts::{Weight, fit},
        palette::{ALARM, Colour, FAINT, INK, MUTED, SERIES},
    },
    setting::Spot,
    units,
};

const PLOT_HEIGHT: f64 = 190.0;
/// Width reserved for the numbers next to the axis.
const NUMBER_WIDTH: f64 = 70.0;
const LABEL_HEIGHT: f64 = 18.0;
/// Maximum number of change points with a label. The latest ones are labelled.
const MAX_LABELS: usize = 5;
/// Maximum number of points of a line.
const MAX_POINTS: usize = 400;
/// Maximum number of points that are also drawn as dots.
const MAX_DOTS: usize = 120;
/// Minimum ratio of the largest to the smallest value for a logarithmic axis.
const MIN_LOG_RATIO: f64 = 30.0;
const LABEL: TextStyle = TextStyle::new(11.0).colour(MUTED);

/// Level between two change points, for the runs `from..to`.
struct Level {
    from: usize,
    to: usize,
    value: f64,
    low: f64,
    high: f64,
}

/// Draws the figure and returns it with its caption.
pub(super) fn draw(line: &TrendLine, many_machines: bool) -> Option<(Canvas, String)> {
    let levels = levels(line);
    let finite = |value: &f64| value.is_finite();
    let values = || line.runs.iter().map(|run| run.value).filter(finite);
    let ends = levels
        .iter()
        .flat_map(|level| [level.low, level.high])
        .filter(finite);
    let (low, high) = values()
        .chain(ends)
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if low > high {
        // No value is finite.
        return None;
    }
    let first_named = line.turns.len().saturating_sub(MAX_LABELS);
    let rows = (line.turns.len() - first_named) as f64;
    let names = Canvas::CONTENT_TOP + 16.0;
    let top = names + rows * LABEL_HEIGHT + 16.0;
    let bottom = top + PLOT_HEIGHT;
    let (title, subtitle) = titles(line, many_machines);
    let mut canvas = Canvas::titled(bottom + 52.0, &title, &subtitle);
    let x = Axis::linear(
        (0.5, line.runs.len() as f64 + 0.5),
        (MARGIN + NUMBER_WIDTH, WIDTH - MARGIN),
    );
    let y = ValueAxis::new(line, (low, high), (bottom, top));
    y.grid(&mut canvas, line, top);
    runs(&mut canvas, line, x, bottom);
    for level in &levels {
        // A level extends half a run beyond its first and last run.
        let across = [level.from as f64 + 0.5, level.to as f64 + 0.5].map(|at| x.at(at));
        let at = |value: f64| across.map(|x| (x, y.at(value))).to_vec();
        canvas.band(at(level.low), at(level.high), SERIES[0], 0.14);
        canvas.line(at(level.value), 1.5, MUTED);
    }
    let runs = (1..).zip(&line.runs).filter(|(_, run)| run.value.is_finite());
    let runs: Vec<(u32, &TrendRun)> = runs.collect();
    let place = |(number, run): &(u32, &TrendRun)| (x.at(f64::from(*number)), y.at(run.value));
    let points: Vec<(f64, f64)> = runs.iter().map(place).collect();
    canvas.line(downsample(&points, MAX_POINTS), 1.2, SERIES[0]);
    for dot in runs.iter().filter(|_| points.len() <= MAX_DOTS) {
        let (number, run) = *dot;
        let spot = Spot {
            value: run.value,
            whiskers: None,
        };
        let at = Quantity::new("run", f64::from(number), "1", run.run.clone());
        let datum = Datum::new(&line.name(), Quantity::of(line.metric, spot)).at(at);
        canvas.mark(datum, |canvas| canvas.disc(place(dot), 2.6, SERIES[0]));
    }
    for (index, turn) in line.turns.iter().enumerate() {
        let row = index.checked_sub(first_named);
        mark(
            &mut canvas,
            line,
            turn,
            (x, y.at(turn.after)),
            (row.map(|row| names + row as f64 * LABEL_HEIGHT), top, bottom),
        );
    }
    Some((canvas, caption(line, first_named)))
}

/// Returns the levels between change points with their noise bands. A band extends from the level by the noise or by the smallest relevant
/// change, whichever is larger.
fn levels(line: &TrendLine) -> Vec<Level> {
    let size = line.floor.max(line.fence.unwrap_or(0.0));
    let starts = line.turns.iter().map(|turn| (turn.first, turn.after));
    let starts: Vec<(usize, f64)> = line
        .turns
        .first()
        .map(|turn| (0, turn.before))
        .into_iter()
        .chain(starts)
        .collect();
    let ends = starts
        .iter()
        .skip(1)
        .map(|(first, _)| *first)
        .chain([line.runs.len()]);
    let level = |((from, value), to): (&(usize, f64), usize)| {
        let (low, high) = match line.difference {
            true => (value - size, value + size),
            false => (value / (1.0 + size), value * (1.0 + size)),
        };
        Level {
            from: *from,
            to,
            value: *value,
            low: low.min(high),
            high: low.max(high),
        }
    };
    starts.iter().zip(ends).map(level).collect()
}

/// Value axis with its scale and ticks.
struct ValueAxis {
    axis: Axis,
    /// Factor from values to displayed values.
    factor: f64,
    unit: String,
    /// Positions and labels of the ticks.
    marks: Vec<(f64, String)>,
}

impl ValueAxis {
    fn new(line: &TrendLine, (low, high): (f64, f64), pixels: (f64, f64)) -> Self {
        let scale = line.scale();
        let largest = low.abs().max(high.abs()) * scale.factor;
        // Very large and very small values get a common power of ten, which is shown next to the axis.
        let power = match largest {
            shown if shown > 0.0 && !(0.01..1e6).contains(&shown) => shown.log10().floor() as i32,
            _ => 0,
        };
        if !line.difference && low > 0.0 && high / low >= MIN_LOG_RATIO {
            let (first, last) = decades((low * scale.factor, high * scale.factor));
            let number = |power: i32| match power {
                -3..=6 => 10f64.powi(power).to_string(),
                _ => units::power_of_ten(power),
            };
            // At most about eight marks, because more would overlap.
            let every = 1 + (last - first) / 8;
            let marks = (first..=last).step_by(every as usize);
            return Self {
                axis: Axis::log((10f64.powi(first), 10f64.powi(last)), pixels),
                factor: scale.factor,
                unit: scale.unit.to_owned(),
                marks: marks.map(|power| (10f64.powi(power), number(power))).collect(),
            };
        }
        let factor = scale.factor / 10f64.powi(power);
        let range = rounded((low * factor, high * factor), 4);
        let marks = ticks(range, 4);
        let decimals = tick_decimals(&marks);
        let unit = match power {
            0 => scale.unit.to_owned(),
            power => format!("×{} {}", units::power_of_ten(power), scale.unit)
                .trim_end()
                .to_owned(),
        };
        Self {
            axis: Axis::linear(range, pixels),
            factor,
            unit,
            marks: marks
                .into_iter()
                .map(|mark| (mark, format!("{mark:.decimals$}")))
                .collect(),
        }
    }

    fn at(&self, value: f64) -> f64 {
        self.axis.at(value * self.factor)
    }

    fn grid(&self, canvas: &mut Canvas, line: &TrendLine, top: f64) {
        let (left, right) = (MARGIN + NUMBER_WIDTH, WIDTH - MARGIN);
        for (mark, text) in &self.marks {
            let y = self.axis.at(*mark);
            canvas.line(vec![(left, y), (right, y)], 1.0, FAINT);
            canvas.text_centred((left - 8.0, y), text, LABEL.anchor(Anchor::End));
        }
        let title = match self.unit.as_str() {
            "" => line.metric.name().to_owned(),
            unit => format!("{}, {unit}", line.metric),
        };
        canvas.text((MARGIN, top - 10.0), &title, TextStyle::new(11.5).bold());
    }
}

/// Draws the numbers of the runs and the start dates of the first and the last run.
fn runs(canvas: &mut Canvas, line: &TrendLine, x: Axis, bottom: f64) {
    let count = line.runs.len();
    for mark in ticks((1.0, count as f64), 10) {
        if mark.fract() == 0.0 && mark >= 1.0 {
            canvas.line(vec![(x.at(mark), bottom), (x.at(mark), bottom + 4.0)], 1.0, MUTED);
            canvas.text(
                (x.at(mark), bottom + 17.0),
                &format!("{mark}"),
                LABEL.anchor(Anchor::Middle),
            );
        }
    }
    let day = |text: &str| text.chars().take(10).collect::<String>();
    let ends = line.runs.first().zip(line.runs.last());
    if let Some((first, last)) = ends {
        canvas.text(
            (MARGIN + NUMBER_WIDTH, bottom + 36.0),
            &day(&first.started),
            LABEL,
        );
        canvas.text(
            (WIDTH - MARGIN, bottom + 36.0),
            &day(&last.started),
            LABEL.anchor(Anchor::End),
        );
    }
    let middle = (MARGIN + NUMBER_WIDTH + WIDTH - MARGIN) / 2.0;
    canvas.text(
        (middle, bottom + 36.0),
        "runs, oldest first",
        LABEL.anchor(Anchor::Middle),
    );
}

fn mark(
    canvas: &mut Canvas,
    line: &TrendLine,
    turn: &TrendChangePoint,
    (x, level): (Axis, f64),
    (name, top, bottom): (Option<f64>, f64, f64),
) {
    let colour: Colour = match turn.towards {
        Direction::Worse => ALARM,
        Direction::Better => SERIES[2],
        Direction::Neither => MUTED,
    };
    let at = x.at(turn.first as f64 + 0.5);
    let from = name.map_or(top, |name| name + 4.0);
    canvas.line(vec![(at, from), (at, bottom)], 1.5, colour);
    canvas.disc((x.at(turn.first as f64 + 1.0), level), 4.0, colour);
    let (Some(name), Some(run)) = (name, line.run(turn)) else {
        return;
    };
    let text = format!("{}: {}", turn.towards.name(), super::sentences::run_name(run));
    let (left, right) = (at - MARGIN, WIDTH - MARGIN - at);
    let text = fit(&text, 12.0, Weight::SemiBold, left.max(right) - 12.0);
    let style = match turn.towards {
        Direction::Worse => TextStyle::new(12.0).bold().colour(ALARM),
        Direction::Better => TextStyle::new(12.0).bold().colour(INK),
        Direction::Neither => TextStyle::new(12.0).colour(MUTED),
    };
    match right >= left {
        true => canvas.text((at + 6.0, name + 4.0), &text, style),
        false => canvas.text((at - 6.0, name + 4.0), &text, style.anchor(Anchor::End)),
    }
}

fn titles(line: &TrendLine, many_machines: bool) -> (String, String) {
    let first_run = |turn: &TrendChangePoint| line.run(turn).map_or("", |run| &run.run);
    let title = match (line.worse(), line.turns.last()) {
        (Some((turn, now)), _) => format!(
            "{} is worse since {}: {}",
            line.metric,
            first_run(turn),
            line.format_change(turn.before, now)
        ),
        (None, Some(turn)) => {
            let moved = line.format_change(turn.before, turn.after);
            match turn.towards {
                Direction::Neither => format!(
                    "{} is {moved} since {}, which is too small to matter",
                    line.metric,
                    first_run(turn)
                ),
                towards => format!(
                    "{} is {} since {}: {moved}",
                    line.metric,
                    towards.name(),
                    first_run(turn)
                ),
            }
        }
        (None, None) => format!("{}: no change point", line.metric),
    };
    let machine = if many_machines {
        format!(" · {}", line.machine)
    } else {
        String::new()
    };
    let better = line.metric.better();
    (
        title,
        format!("{} · {}{machine} ({better} is better)", line.suite, line.name()),
    )
}

fn caption(line: &TrendLine, unnamed: usize) -> String {
    let turns = line.turns.iter().filter_map(|turn| {
        Some(format!(
            "Since run {}: {} ({}; p {})",
            super::sentences::run_name(line.run(turn)?),
            line.format_change(turn.before, turn.after),
            turn.towards.name(),
            p_value(turn.p)
        ))
    });
    let band = match line.fence {
        Some(fence) if fence > line.floor => format!("{}, the noise between runs", line.noise(fence)),
        Some(_) => format!(
            "{}, the smallest change that matters; the noise between runs is smaller",
            line.noise(line.floor)
        ),
        None => format!(
            "{}, the smallest change that matters; there are too few runs to estimate the noise",
            line.noise(line.floor)
        ),
    };
    let named = match unnamed {
        0 => String::new(),
        n => format!(" The {n} earliest change points are drawn without labels."),
    };
    format!(
        "{} of {} over {} runs. {}. The band is {band}.{named}",
        line.metric,
        line.name(),
        units::count(line.runs.len() as u64),
        turns.collect::<Vec<_>>().join(". "),
    )
}

fn p_value(p: f64) -> String {
    if p < 0.001 {
        "< 0.001".to_owned()
    } else {
        format!("{p:.3}")
    }
}
