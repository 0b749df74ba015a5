//! Ladder of settings: each rung changes one technique of the previous rung. Shows memory, time and accuracy, next to published values.

use mantissa_core::{Axis, MetricName, TaskKind};

use super::{
    Canvas, describe_whiskers, palette,
    panels::{self, Kind, Mark, Panel},
    selection::MAX_ROWS,
    settings_of, shown_of,
};
use crate::{
    Group, Published, Row, Suite,
    group::MEMORY,
    setting::{SettingResult, Spot},
    units::{self, Scale},
};

/// Minimum number of rungs.
const MIN_RUNGS: usize = 3;

/// Maps an axis to its technique: the number format, the division of the batch, or the axis itself.
fn technique(axis: Axis) -> Axis {
    match axis {
        Axis::Matmul | Axis::Accumulator => Axis::Precision,
        Axis::Accumulate => Axis::Batch,
        Axis::Reduce | Axis::ReduceAlgorithm | Axis::ReduceFormat | Axis::Staleness | Axis::Threads => {
            Axis::Devices
        }
        other => other,
    }
}

/// Axes whose new value is an addition to the setting (`+`). A change of any other axis is a replacement (`→`).
const ADDITIVE: [Axis; 4] = [Axis::Accumulate, Axis::Checkpointing, Axis::Fusion, Axis::KeepF32];

/// Returns the rungs of a training; `None` unless every row changes exactly one technique of the row above, and no technique changes again
/// after a different one has changed.
pub fn rungs<'g, 'r>(group: &'g Group<'r>) -> Option<Vec<SettingResult<'g, 'r>>> {
    let rungs = SettingResult::all(group, Row::ran);
    let changed = |a: &Row<'_>, b: &Row<'_>| {
        let axes = group
            .varying
            .iter()
            .filter(|axis| **axis != Axis::Seed && a.axis(**axis) != b.axis(**axis));
        let mut techniques: Vec<Axis> = axes.map(|axis| technique(*axis)).collect();
        techniques.dedup();
        techniques
    };
    let mut order: Vec<Axis> = vec![];
    for pair in rungs.windows(2) {
        let [one] = changed(pair[0].row(), pair[1].row())[..] else {
            return None;
        };
        if order.last() != Some(&one) {
            order.push(one);
        }
    }
    // If a technique changes again after another one, the rows form a grid instead of a ladder.
    let is_ladder = order
        .iter()
        .enumerate()
        .all(|(index, axis)| !order[..index].contains(axis));
    (group.kind == TaskKind::Train && is_ladder && order.len() > 1 && rungs.len() >= MIN_RUNGS)
        .then_some(rungs)
}

/// Draws memory, time and accuracy of every rung. `None` if the rows do not form a ladder or have no values.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let all = rungs(group)?;
    let rungs = &all[..all.len().min(MAX_ROWS)];
    let published: Vec<Option<&Published>> = rungs.iter().map(|rung| published(suite, rung.row())).collect();
    let any_published = published.iter().any(Option::is_some);
    let published_memory = group
        .memory
        .and_then(|ours| published_memory_metric(ours, &published));
    let memory = group
        .memory
        .and_then(|metric| relative_panel("Peak memory", (metric, published_memory), rungs, &published));
    let seconds = MetricName::TrainSeconds;
    let time = relative_panel("Training time", (seconds, Some(seconds)), rungs, &published);
    let accuracy = accuracy_panel(rungs, &published);
    let panels: Vec<Panel> = [memory, time, accuracy].into_iter().flatten().collect();
    if panels.is_empty() {
        return None;
    }
    let labels = rungs.iter().enumerate().map(|(index, rung)| match index {
        0 => rung.label.clone(),
        _ => change_label(group, rungs[index - 1].row(), rung.row()),
    });
    let capped = shown_of(rungs.len(), all.len()).map(|text| format!(" · {text} rungs"));
    let published_note = match (any_published, group.memory.zip(published_memory)) {
        (false, _) => String::new(),
        (true, Some((ours, theirs))) if ours != theirs => format!(
            " · grey: published values, with another memory metric ({}; here: {})",
            units::memory_title(theirs),
            units::memory_title(ours)
        ),
        (true, _) => " · grey: published values".to_owned(),
    };
    let subtitle = format!(
        "{} · each row adds (+) or replaces (→) the named technique; bars: relative to the first row{published_note}{}",
        group.workload,
        capped.unwrap_or_default()
    );
    let title = finding(group, rungs).unwrap_or_else(|| suite.info.title.clone());
    let sources: Vec<String> = suite
        .references
        .iter()
        .map(|reference| format!("{}, on {}", reference.source, reference.hardware))
        .collect();
    let sources = match any_published {
        true => format!(
            " Grey: published ({}); the grey bars are relative to the published first row.",
            sources.join("; ")
        ),
        false => String::new(),
    };
    let caption = format!(
        "Peak memory, training time and test accuracy of {}, with one more technique in each row ({}). Ratios are between \
         processes, as in the tables. {}{sources}",
        group.workload,
        settings_of(rungs.len(), all.len()),
        describe_whiskers(rungs)
    );
    Some((
        panels::draw(&title, &subtitle, &labels.collect::<Vec<_>>(), &panels),
        caption,
    ))
}

/// Returns the published row of this setting.
fn published<'s>(suite: &'s Suite<'_>, row: &Row<'_>) -> Option<&'s Published> {
    let is = |published: &&Published| {
        let mut stated = published.setting.iter();
        !published.setting.is_empty() && stated.all(|(axis, value)| row.axis(*axis) == value.to_string())
    };
    suite
        .references
        .iter()
        .flat_map(|reference| &reference.rows)
        .find(is)
}

/// Returns the memory metric of the published values: `ours` if the published row of the first rung contains it, else the first metric of
/// [`MEMORY`] in that row.
fn published_memory_metric(ours: MetricName, published: &[Option<&Published>]) -> Option<MetricName> {
    let first = published.first().copied().flatten()?;
    let known = |kind: &MetricName| first.metrics.contains_key(kind);
    [ours].into_iter().chain(MEMORY).find(known)
}

/// Formats the change of a rung: `→ bf16-true` for a replacement, `+ checkpointing on` for an addition.
fn change_label(group: &Group<'_>, before: &Row<'_>, row: &Row<'_>) -> String {
    let alike = Axis::ALL
        .iter()
        .copied()
        .filter(|axis| before.axis(*axis) == row.axis(*axis));
    let alike: Vec<Axis> = alike.chain([Axis::Seed]).collect();
    let adds = ADDITIVE.iter().any(|axis| !alike.contains(axis));
    let sign = if adds { "+" } else { "→" };
    format!("{sign} {}", group.label(row, &alike))
}

/// Creates a panel of ratios to the first rung: measured values to the measured first rung, published values to the published first rung.
fn relative_panel(
    title: &str,
    (metric, published_metric): (MetricName, Option<MetricName>),
    rungs: &[SettingResult<'_, '_>],
    published: &[Option<&Published>],
) -> Option<Panel> {
    let ours: Vec<_> = rungs.iter().map(|rung| rung.spot(metric)).collect();
    let value = |published: &Option<&Published>| {
        let value = *(*published)?.metrics.get(&published_metric?)?;
        (value.is_finite() && value > 0.0).then_some((published_metric?, value))
    };
    let theirs: Vec<_> = published.iter().map(value).collect();
    let first = rungs.first()?;
    ours.first().copied().flatten().filter(|spot| spot.value > 0.0)?;
    let their_first = theirs.first().copied().flatten();
    let largest = ours.iter().flatten().map(|spot| spot.value).fold(0.0, f64::max);
    let scale = Scale::of(metric, largest);
    let marks = rungs.iter().enumerate().map(|(index, rung)| {
        let spot = match index {
            0 => Some(Spot {
                value: 1.0,
                whiskers: None,
            }),
            _ => rung.ratio_to(first, metric).as_ref().and_then(Spot::of),
        };
        let theirs = their_first.zip(theirs[index]);
        Mark {
            published: theirs
                .map(|((_, first), (metric, value))| (value / first, Scale::of(metric, value).text(value))),
            text: match (ours[index], rung.failure()) {
                (_, Some(status)) => status.to_owned(),
                (Some(spot), None) => scale.text(spot.value),
                (None, None) => units::ABSENT.to_owned(),
            },
            spot: spot.filter(|_| rung.failure().is_none()),
            colour: if rung.failure().is_some() {
                palette::ALARM
            } else {
                palette::SERIES[0]
            },
        }
    });
    Some(Panel {
        kind: Kind::Bars,
        title: format!("{title} (first row = 1)"),
        unit: "1",
        factor: 1.0,
        note: "(lower is better)",
        marks: marks.collect(),
        guides: vec![(1.0, 0, rungs.len())],
    })
}

fn accuracy_panel(rungs: &[SettingResult<'_, '_>], published: &[Option<&Published>]) -> Option<Panel> {
    let metric = MetricName::TestAccuracy;
    let marks = rungs.iter().zip(published).map(|(rung, published)| {
        let spot = rung.spot(metric).filter(|spot| (100.0 * spot.value).is_finite());
        let theirs = published.and_then(|published| published.metrics.get(&metric));
        Mark {
            published: theirs
                .filter(|share| share.is_finite())
                .map(|share| (*share, format!("{:.2} %", 100.0 * share))),
            text: spot.map_or_else(
                || units::ABSENT.to_owned(),
                |spot| format!("{:.2} %", 100.0 * spot.value),
            ),
            spot,
            colour: if rung.failure().is_some() {
                palette::ALARM
            } else {
                palette::INK
            },
        }
    });
    let marks: Vec<Mark> = marks.collect();
    marks.iter().any(|mark| mark.spot.is_some()).then(|| Panel {
        kind: Kind::Points,
        title: "Test accuracy, %".to_owned(),
        unit: metric.unit().name(),
        factor: 100.0,
        note: "(higher is better)",
        marks,
        guides: vec![],
    })
}

/// Formats the memory and time of the last rung relative to the first.
fn finding(group: &Group<'_>, rungs: &[SettingResult<'_, '_>]) -> Option<String> {
    let ok = || rungs.iter().filter(|rung| rung.failure().is_none());
    let ratio = |metric: MetricName| Some(ok().next_back()?.ratio_to(rungs.first()?, metric)?.value);
    let last = ok().next_back()?.row();
    if rungs[0].failure().is_some() || last.cell.id == rungs[0].row().cell.id {
        return None;
    }
    let (memory, time) = (ratio(group.memory?)?, ratio(MetricName::TrainSeconds)?);
    Some(format!(
        "All techniques together take {} the memory and {} the time (point estimates)",
        units::times(memory),
        units::times(time)
    ))
}
