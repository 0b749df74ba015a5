//! Time, communication and error of the gradients by number of devices and by reduction, in panels side by side.

use mantissa_core::{Axis, MetricName, Reduce, TaskKind};

use super::{
    Canvas, describe_oversubscription, describe_whiskers, metric_panel,
    palette::{self, INK},
    panels::{self, Kind, Mark, Panel},
    selection::Selection,
    settings_of,
};
use crate::{
    Group, Row, Suite,
    scaling::{Efficiency, efficiency},
    setting::SettingResult,
    units,
};

/// Draws the panels of a training with several devices. `None` for other groups.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let several = |row: &Row<'_>| row.ran() && row.cell.setting.devices() > 1;
    if group.kind != TaskKind::Train || !group.rows.iter().any(several) {
        return None;
    }
    let selection = Selection::fastest(group, SettingResult::all(group, Row::ran));
    let settings = &selection.settings[..];
    let panels = [
        (MetricName::StepSeconds, "Time per step", Kind::Bars),
        (MetricName::CommunicationShare, "Communication", Kind::Bars),
        (MetricName::BytesSent, "Sent per step", Kind::Bars),
        (MetricName::GradientError, "Gradient error", Kind::LogPoints),
    ];
    let panels = panels.into_iter().filter(|(metric, ..)| group.has(*metric));
    let panels: Vec<Panel> = panels
        .map(|shown| metric_panel::panel(settings, shown, |_| palette::SERIES[0], missing))
        .collect();
    let labels: Vec<String> = settings.iter().map(SettingResult::label_of_times).collect();
    let subtitle = format!(
        "{} · several devices, each with a part of every batch{}",
        group.workload,
        selection.subtitle_suffix()
    );
    let title = finding(group, settings).unwrap_or_else(|| suite.info.title.clone());
    let caption = format!(
        "Time per optimizer step, share of the communication, bytes that a device sends, and error of the summed gradients of {} ({}). {}",
        group.workload,
        settings_of(settings.len(), selection.all),
        describe_whiskers(settings) + describe_oversubscription(settings)
    );
    Some((panels::draw(&title, &subtitle, &labels, &panels), caption))
}

/// Returns the mark of a setting without a value. One device does not communicate.
fn missing(setting: &SettingResult<'_, '_>) -> Mark {
    let is_alone = setting.row().cell.setting.devices() == 1;
    let none = if is_alone { "one device" } else { units::ABSENT };
    Mark {
        colour: INK,
        ..Mark::missing(setting.failure().unwrap_or(none))
    }
}

/// Returns the highest efficiency with the largest number of devices that is not oversubscribed.
fn finding(group: &Group<'_>, settings: &[SettingResult<'_, '_>]) -> Option<String> {
    let shares = settings
        .iter()
        .filter_map(|setting| match efficiency(group, setting)? {
            Efficiency::Share(share) => Some((setting.row().cell.setting.devices(), share, setting)),
            Efficiency::Oversubscribed => None,
        });
    let (devices, share, setting) = shares.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    let row = setting.row();
    // A parameter server has no algorithm.
    let reduction = match row.cell.setting.reduce() {
        Reduce::AllReduce => row.axis(Axis::ReduceAlgorithm),
        Reduce::ParameterServer | Reduce::ParameterServerAsync => row.axis(Axis::Reduce),
    };
    Some(format!(
        "{devices} devices train {} as fast as one ({reduction}): {:.0} % efficiency",
        units::times(share * f64::from(devices)),
        100.0 * share
    ))
}
