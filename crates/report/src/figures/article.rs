//! Chart as in the articles on mixed precision: horizontal bars labelled with the time, and accuracy and memory as aligned columns.

use mantissa_core::{Axis as SettingAxis, MatmulPrecision, MetricName, Status, TaskKind};

use super::{
    accumulation,
    axis::{Axis, tick_decimals, ticks},
    canvas::{Anchor, Canvas, MARGIN, TextStyle, WIDTH},
    datum::{Datum, Quantity},
    describe_oversubscription, describe_whiskers, finding,
    fonts::wrap,
    palette::{self, ALARM, FAINT, GREY, INK, MUTED},
    selection::Selection,
    settings_of,
};
use crate::{
    Group, Reference, Row, Suite,
    setting::{OVERSUBSCRIBED, SettingResult, Spot},
    table::{peak_memory_title, published_baseline, published_row, published_speed},
    units::{self, Scale},
};

const BAR_HEIGHT: f64 = 26.0;
/// Height of a published bar and the space around it.
const PUBLISHED_HEIGHT: f64 = 10.0;
const GAP: f64 = 6.0;
const MAX_LABEL: f64 = 210.0;
const MAX_LABEL_LINES: usize = 8;
const GROUP_GAP: f64 = 14.0;
const PRECISION_WIDTH: f64 = 104.0;
const ACCURACY_RIGHT: f64 = 786.0;
const MEMORY_RIGHT: f64 = WIDTH - MARGIN;

/// Draws the chart of a training workload. `None` for other tasks and if no cell ran. Also `None` if neither precision nor matmul varies
/// and the accumulation figure shows the same values.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let ran = SettingResult::all(group, |row| {
        row.status.is_some_and(|status| status != Status::Skipped)
    });
    let of_precision = group.varies(SettingAxis::Precision) || group.varies(SettingAxis::Matmul);
    let in_accumulation_figure = accumulation::applies(group) && !of_precision;
    if group.kind != TaskKind::Train || ran.is_empty() || in_accumulation_figure {
        return None;
    }
    let selection = Selection::fastest(group, ran);
    let settings = by_precision(&selection.settings);
    let finished = SettingResult::all(group, Row::is_ok);
    let published: Vec<Option<PublishedBar<'_>>> = settings
        .iter()
        .map(|setting| PublishedBar::of(suite, &finished, setting))
        .collect();
    let spots = settings.iter().filter_map(|setting| seconds(setting));
    let ends = spots.map(|spot| spot.ends().1);
    let longest = ends
        .chain(published.iter().flatten().map(|one| one.seconds))
        .fold(0.0, f64::max);
    let scale = Scale::of(MetricName::TrainSeconds, longest);

    let breaks = settings
        .windows(2)
        .filter(|pair| precision(pair[0].row()) != precision(pair[1].row()))
        .count();
    let top = Canvas::CONTENT_TOP + 52.0;
    let labels = settings.iter().map(|setting| label(group, setting));
    let labels: Vec<String> = labels.collect();
    let widths = labels.iter().map(|label| LABEL.width(label));
    let label_width = widths.fold(30.0, f64::max).min(MAX_LABEL);
    let wrapped = labels
        .iter()
        .map(|label| wrap(label, LABEL.size, LABEL.weight, label_width, MAX_LABEL_LINES));
    let wrapped: Vec<Vec<String>> = wrapped.collect();
    let most = wrapped.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let below = if published.iter().flatten().count() > 0 {
        PUBLISHED_HEIGHT
    } else {
        0.0
    };
    let row_height = BAR_HEIGHT.max(most * Canvas::LINE_HEIGHT + 4.0) + below + GAP;
    let bottom = top + settings.len() as f64 * row_height + breaks as f64 * GROUP_GAP;
    let epochs = match &settings[0].row().cell.workload.task {
        mantissa_core::Task::Train(task) => task.epochs,
        _ => 0,
    };
    let plural = if epochs == 1 { "epoch" } else { "epochs" };
    let subtitle = format!(
        "{} · training time, {epochs} {plural}, validation included (lower is better){}",
        group.workload,
        selection.subtitle_suffix()
    );
    let title = finding::speed(&finished).unwrap_or_else(|| suite.info.title.clone());
    let mut canvas = Canvas::titled(bottom + 52.0, &title, &subtitle);
    legend(&mut canvas, &settings);

    let left = MARGIN + PRECISION_WIDTH + label_width + 12.0;
    // Room for a status next to the longest bar.
    let status = TextStyle::new(12.5).bold();
    let statuses = settings.iter().filter_map(|setting| setting.failure_text());
    let status = statuses
        .map(|text| status.width(&text) + 16.0)
        .fold(0.0, f64::max);
    let right = ACCURACY_RIGHT - 132.0 - status;
    let axis = Axis::linear((0.0, longest * scale.factor), (left, right));
    draw_axis(
        &mut canvas,
        axis,
        longest * scale.factor,
        scale.unit,
        (top, bottom),
    );
    let seeds = settings.iter().any(|setting| setting.seeds.len() > 1);
    columns(&mut canvas, group, seeds, top);

    let mut y = top;
    for (index, setting) in settings.iter().enumerate() {
        let row = setting.row();
        let starts = index == 0 || precision(settings[index - 1].row()) != precision(row);
        if starts && index > 0 {
            y += GROUP_GAP;
        }
        if starts {
            let style = TextStyle::new(13.0).bold();
            canvas.text_centred((MARGIN, y + BAR_HEIGHT / 2.0), precision(row), style);
        }
        let at = (left - 12.0, y + BAR_HEIGHT / 2.0);
        canvas.lines_centred(at, &wrapped[index], LABEL.anchor(Anchor::End));
        draw_row(&mut canvas, group, setting, seeds, (axis, left, y, scale));
        if let Some(published) = &published[index] {
            published.draw(&mut canvas, &setting.label, (axis, left, y + BAR_HEIGHT, scale));
        }
        y += row_height;
    }
    let source = published.iter().flatten().next().map(PublishedBar::caption);
    let caption = format!(
        "Training time of {} of {}, grouped by precision and coloured by matmul precision, with test accuracy and peak memory.{} {}",
        settings_of(settings.len(), selection.all),
        group.workload,
        source.unwrap_or_default(),
        describe_whiskers(&selection.settings) + describe_oversubscription(&selection.settings)
    );
    Some((canvas, caption))
}

/// Published speed of a setting relative to the published baseline.
struct PublishedBar<'s> {
    reference: &'s Reference,
    speed: f64,
    /// Time of the setting if it had the published speed relative to the measured baseline.
    seconds: f64,
}

impl<'s> PublishedBar<'s> {
    /// Returns the published speed of a setting. `None` unless the published baseline is the measured one.
    fn of(
        suite: &'s Suite<'_>,
        finished: &[SettingResult<'_, '_>],
        setting: &SettingResult<'_, '_>,
    ) -> Option<Self> {
        let base = finished
            .iter()
            .find(|one| one.is_baseline() && one.work() == setting.work())?;
        suite.references.iter().find_map(|reference| {
            let published_base = published_baseline(reference)?;
            published_row(reference, base.row()).filter(|row| *row == published_base)?;
            let row = published_row(reference, setting.row())?;
            let speed = published_speed(row, published_base, MetricName::TrainSeconds)?;
            let seconds = seconds(base)?.value / speed;
            seconds.is_finite().then_some(Self {
                reference,
                speed,
                seconds,
            })
        })
    }

    fn draw(&self, canvas: &mut Canvas, label: &str, (axis, left, y, scale): (Axis, f64, f64, Scale)) {
        let end = axis.at(self.seconds * scale.factor).max(left + 2.0);
        let text = units::times(self.speed);
        let quantity = Quantity::new("published_speed", self.speed, "1", text.clone());
        let datum = Datum::new(&format!("{label}, published"), quantity);
        canvas.mark(datum, |canvas| {
            canvas.rectangle((left, y + 2.0), (end, y + PUBLISHED_HEIGHT - 2.0), GREY);
        });
        let style = TextStyle::new(9.5).colour(MUTED);
        let text = format!("published {text}");
        let x = (end + 6.0).min(ACCURACY_RIGHT - 40.0 - style.width(&text));
        canvas.text_centred((x, y + PUBLISHED_HEIGHT / 2.0), &text, style);
    }

    fn caption(&self) -> String {
        format!(
            " Thin grey bars: published speeds relative to 32-true/highest ({}, {}), drawn relative to the measured baseline.",
            self.reference.title, self.reference.hardware
        )
    }
}

const LABEL: TextStyle = TextStyle::new(12.5).colour(MUTED);

fn precision(row: &Row<'_>) -> &'static str {
    row.cell.setting.precision().name()
}

/// Groups settings by precision, in the order in which the precisions first appear.
fn by_precision<'s, 'g, 'r>(settings: &'s [SettingResult<'g, 'r>]) -> Vec<&'s SettingResult<'g, 'r>> {
    let name = |setting: &SettingResult<'_, '_>| precision(setting.row());
    let mut sorted: Vec<_> = settings.iter().collect();
    sorted.sort_by_key(|setting| settings.iter().position(|other| name(other) == name(setting)));
    sorted
}

fn label(group: &Group<'_>, setting: &SettingResult<'_, '_>) -> String {
    let label = group.label(setting.row(), &[SettingAxis::Precision, SettingAxis::Seed]);
    let mark = setting.is_oversubscribed().then(|| OVERSUBSCRIBED.to_owned());
    let parts: Vec<String> = [label]
        .into_iter()
        .filter(|label| !label.is_empty())
        .chain(mark)
        .collect();
    parts.join(" · ")
}

fn seconds(setting: &SettingResult<'_, '_>) -> Option<Spot> {
    setting.spot(MetricName::TrainSeconds)
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

fn columns(canvas: &mut Canvas, group: &Group<'_>, seeds: bool, top: f64) {
    let style = TextStyle::new(11.5).colour(MUTED).anchor(Anchor::End);
    canvas.text((ACCURACY_RIGHT, top - 30.0), "Test accuracy", style);
    let below = if seeds {
        "(± half the range over seeds)"
    } else {
        "(95 % interval)"
    };
    canvas.text((ACCURACY_RIGHT, top - 16.0), below, style);
    if let Some(memory) = group.memory {
        canvas.text((MEMORY_RIGHT, top - 30.0), peak_memory_title(group), style);
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
    setting: &SettingResult<'_, '_>,
    seeds: bool,
    (axis, left, y, scale): (Axis, f64, f64, Scale),
) {
    let middle = y + BAR_HEIGHT / 2.0;
    let inside = TextStyle::new(12.5).bold();
    let mut status_at = left + 8.0;
    let datum = |metric: MetricName, spot: Spot| Datum::new(&setting.label, Quantity::of(metric, spot));
    if let Some(spot) = seconds(setting) {
        let colour = palette::matmul(setting.row().cell.setting.matmul());
        let end = axis.at(spot.value * scale.factor).max(left + 2.0);
        canvas.mark(datum(MetricName::TrainSeconds, spot), |canvas| {
            canvas.rectangle((left, y), (end, y + BAR_HEIGHT), colour);
        });
        let text = scale.text(spot.value);
        let width = inside.width(&text);
        if width + 16.0 <= end - left {
            canvas.text_centred(
                (left + 8.0, middle),
                &text,
                inside.colour(palette::text_on(colour)),
            );
            status_at = end + 8.0;
        } else {
            canvas.text_centred((end + 6.0, middle), &text, inside);
            status_at = end + width + 16.0;
        }
        if let Some(whiskers) = spot.whiskers {
            let (low, high) = (
                axis.at(whiskers.0 * scale.factor),
                axis.at(whiskers.1 * scale.factor),
            );
            if high - low > 2.0 && low > left + width + 20.0 {
                canvas.line(vec![(low, middle), (high, middle)], 1.5, INK);
                status_at = status_at.max(high + 8.0);
            }
        }
    }
    if let Some(name) = setting.failure_text() {
        let style = TextStyle::new(12.5).bold().colour(ALARM);
        let limit = ACCURACY_RIGHT - 128.0;
        let x = status_at.min(limit - style.width(&name));
        if x < status_at - 1.0 {
            // There is no room next to the bar: draw the status over its end, on a background in the colour of the sheet.
            canvas.rectangle((x - 6.0, y + 4.0), (limit, y + BAR_HEIGHT - 4.0), palette::CARD);
        }
        canvas.text_centred((x, middle), &name, style);
    }
    let figure = TextStyle::new(12.5).anchor(Anchor::End);
    let accuracy = setting.spot(MetricName::TestAccuracy);
    // All whiskers of the column must be of one kind: intervals over test examples or, with several seeds, ranges over seeds.
    let whiskers = accuracy.and_then(|spot| spot.whiskers);
    let whiskers = whiskers.filter(|_| seeds == (setting.effective_seeds().count() > 1));
    let half = whiskers.map(|(low, high)| format!(" ± {:.1}", (high - low) * 50.0));
    let half = half.unwrap_or_default();
    let text = |metric: MetricName, spot: Option<Spot>| {
        let shown = spot.map(|spot| group.scale(metric, spot.value).text(spot.value));
        shown.unwrap_or_else(|| units::ABSENT.to_owned())
    };
    let small = TextStyle::new(11.0).colour(MUTED);
    let mut write = |x: f64, metric: MetricName, spot: Option<Spot>, text: &str| match spot {
        Some(spot) => canvas.mark(datum(metric, spot), |canvas| {
            canvas.text_centred((x, middle), text, figure);
        }),
        None => canvas.text_centred((x, middle), text, figure),
    };
    let shown = match setting.seeds.as_slice() {
        [row] => units::value(MetricName::TestAccuracy, row.metric(MetricName::TestAccuracy)),
        _ => text(MetricName::TestAccuracy, accuracy),
    };
    write(ACCURACY_RIGHT - 38.0, MetricName::TestAccuracy, accuracy, &shown);
    if let Some(memory) = group.memory {
        let spot = setting.spot(memory);
        write(MEMORY_RIGHT, memory, spot, &text(memory, spot));
    }
    canvas.text_centred((ACCURACY_RIGHT, middle), &half, small.anchor(Anchor::End));
}

fn legend(canvas: &mut Canvas, settings: &[&SettingResult<'_, '_>]) {
    let style = TextStyle::new(11.5).colour(MUTED);
    let y = Canvas::CONTENT_TOP + 6.0;
    let mut x = MARGIN;
    canvas.text_centred((x, y), "matmul precision", style);
    x += style.width("matmul precision") + 28.0;
    for &matmul in MatmulPrecision::ALL {
        let is = |setting: &&SettingResult<'_, '_>| setting.row().cell.setting.matmul() == matmul;
        if settings.iter().any(is) {
            canvas.rectangle((x, y - 6.0), (x + 12.0, y + 6.0), palette::matmul(matmul));
            canvas.text_centred((x + 18.0, y), matmul.name(), style);
            x += 18.0 + style.width(matmul.name()) + 18.0;
        }
    }
}
