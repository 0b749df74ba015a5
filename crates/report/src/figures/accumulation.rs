//! Time, accuracy and memory over micro-batch × accumulation steps, in panels side by side.

use mantissa_core::{Axis, MetricName, TaskKind};

use super::{
    Canvas, describe_oversubscription, describe_whiskers, ladder, metric_panel, palette,
    panels::{self, Kind, Mark, Panel},
    selection::Selection,
    settings_of,
};
use crate::{
    Group, Row, Suite,
    setting::{OVERSUBSCRIBED, SettingResult},
    table::peak_memory_title,
    units,
};

/// Returns `true` if a training sweeps the micro-batch or the accumulation steps and its rows do not form a ladder (see `ladder`).
pub fn applies(group: &Group<'_>) -> bool {
    let swept = group.varies(Axis::Batch) || group.varies(Axis::Accumulate);
    group.kind == TaskKind::Train && swept && ladder::rungs(group).is_none()
}

/// Draws the panels. `None` if the figure does not apply to the group or no cell has a record.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let all = SettingResult::all(group, |row| !row.records.is_empty());
    if !applies(group) || all.is_empty() {
        return None;
    }
    let selection = Selection::fastest(group, all);
    let settings = &selection.settings[..];
    let subtitle = format!(
        "{} · micro-batch × accumulation steps{} = effective batch{}",
        group.workload,
        match multiplies_devices(group) {
            true => " × devices",
            false => "",
        },
        selection.subtitle_suffix()
    );
    let title = finding(group, settings).unwrap_or_else(|| suite.info.title.clone());
    let labels: Vec<String> = settings.iter().map(|setting| label(group, setting)).collect();
    let panels: Vec<Panel> = [
        Some((MetricName::TrainSeconds, "Training time", Kind::Bars)),
        Some((MetricName::TestAccuracy, "Test accuracy", Kind::Points)),
        group
            .memory
            .map(|memory| (memory, peak_memory_title(group), Kind::Bars)),
    ]
    .into_iter()
    .flatten()
    .map(|shown| {
        let colour = |setting: &SettingResult<'_, '_>| palette::matmul(setting.row().cell.setting.matmul());
        let missing =
            |setting: &SettingResult<'_, '_>| Mark::missing(setting.failure().unwrap_or(units::ABSENT));
        metric_panel::panel(settings, shown, colour, missing)
    })
    .collect();
    let caption = format!(
        "Training time, test accuracy and peak memory of {} by micro-batch and number of accumulation steps ({}). {}",
        group.workload,
        settings_of(settings.len(), selection.all),
        describe_whiskers(settings) + describe_oversubscription(settings)
    );
    Some((panels::draw(&title, &subtitle, &labels, &panels), caption))
}

/// Returns `true` if the number of devices is a factor of an effective batch size. An asynchronous parameter server applies the gradient of
/// each device alone.
fn multiplies_devices(group: &Group<'_>) -> bool {
    let mut settings = group.rows.iter().map(|row| &row.cell.setting);
    settings.any(|setting| setting.devices() > 1 && !setting.is_asynchronous())
}

/// Formats micro-batch × accumulation steps: `4 × 4`, with a third factor if a row has several devices (see [`multiplies_devices`]).
fn product(group: &Group<'_>, row: &Row<'_>) -> String {
    let setting = &row.cell.setting;
    let product = format!("{} × {}", setting.batch(), setting.accumulate());
    match multiplies_devices(group) && !setting.is_asynchronous() {
        true => format!("{product} × {}", setting.devices()),
        false => product,
    }
}

fn effective(row: &Row<'_>) -> u64 {
    row.cell.setting.effective_batch()
}

/// Returns the label of a row without the seed and the axes in its [`product`].
fn other_axes(group: &Group<'_>, row: &Row<'_>) -> String {
    let left_out = [Axis::Batch, Axis::Accumulate, Axis::Seed, Axis::Devices];
    // The product of an asynchronous setting does not contain the devices.
    let left_out = match row.cell.setting.is_asynchronous() {
        true => &left_out[..3],
        false => &left_out[..],
    };
    group.label(row, left_out)
}

fn label(group: &Group<'_>, setting: &SettingResult<'_, '_>) -> String {
    let row = setting.row();
    let product = format!("{} = {}", product(group, row), effective(row));
    let mark = setting.is_oversubscribed().then(|| OVERSUBSCRIBED.to_owned());
    let others = [product, other_axes(group, row)].into_iter().chain(mark);
    let parts: Vec<String> = others.filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

/// Formats the time and memory of the smallest micro-batch relative to the largest one. Both have the same effective batch and
/// otherwise equal settings.
fn finding(group: &Group<'_>, settings: &[SettingResult<'_, '_>]) -> Option<String> {
    let memory = group.memory?;
    let ratio = |mine: &SettingResult<'_, '_>, other: &SettingResult<'_, '_>, metric| {
        let ratio = mine.ratio_to(other, metric)?;
        Some(units::times(ratio.value))
    };
    let ran = || {
        let comparable =
            |setting: &&SettingResult<'_, '_>| setting.failure().is_none() && !setting.is_oversubscribed();
        settings.iter().filter(comparable)
    };
    let large = ran().find(|large| {
        let alike = |other: &&SettingResult<'_, '_>| is_alike(group, large.row(), other.row());
        ran().filter(alike).count() > 1
    })?;
    let alike = || ran().filter(|other| is_alike(group, large.row(), other.row()));
    let large = alike().max_by_key(|setting| setting.row().cell.setting.batch())?;
    let small = alike().min_by_key(|setting| setting.row().cell.setting.batch())?;
    let others = match other_axes(group, small.row()) {
        others if others.is_empty() => others,
        others => format!("{others}: "),
    };
    Some(format!(
        "{others}{} takes {} the time and {} the memory of {}",
        product(group, small.row()),
        ratio(small, large, MetricName::TrainSeconds)?,
        ratio(small, large, memory)?,
        product(group, large.row())
    ))
}

fn is_alike(group: &Group<'_>, a: &Row<'_>, b: &Row<'_>) -> bool {
    effective(a) == effective(b)
        && a.axis(Axis::Devices) == b.axis(Axis::Devices)
        && other_axes(group, a) == other_axes(group, b)
}
