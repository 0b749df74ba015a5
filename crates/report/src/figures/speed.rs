//! Speed of each setting relative to its baseline, with the statistical verdict.

use mantissa_analysis::{Doubt, Verdict};
use mantissa_core::{Axis, MetricName, TaskKind};

use super::{
    finding,
    palette::{self, Colour, INK},
    panels::{self, Kind, Mark, Panel},
    selection::Selection,
    settings_of,
};
use crate::{
    Group, Row, Suite,
    setting::{SettingResult, Spot},
    units,
};

const FASTER: Colour = palette::SERIES[0];
const SLOWER: Colour = palette::SERIES[1];
/// Colour of settings that do not differ significantly from the baseline.
const UNDECIDED: Colour = palette::GREY;

/// Draws one bar per setting, for kernels only at the largest size. `None` if no setting is compared with another.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(super::Canvas, String)> {
    let measured = |row: &Row<'_>| row.speed_up.as_ref().is_some_and(|ratio| ratio.value.is_finite());
    let largest = group.rows.iter().filter(|row| measured(row));
    let largest = largest.map(|row| row.cell.setting.size()).max()?;
    let of_kernel = group.kind == TaskKind::Kernel;
    let shown = |row: &Row<'_>| measured(row) && (!of_kernel || row.cell.setting.size() == largest);
    let mut all = SettingResult::all(group, shown);
    // Settings with the same baseline do the same work; group them.
    all.sort_by_key(SettingResult::work);
    let title = match of_kernel && group.varies(Axis::Size) {
        true => finding::speed_at_largest(group),
        false => finding::speed(&all),
    };
    let selection = Selection::fastest(group, all);
    let settings = &selection.settings[..];
    if !settings.iter().any(|setting| setting.speed_verdict().is_some()) {
        return None;
    }
    let mut bars = Panel {
        kind: Kind::Bars,
        title: "Speed relative to the baseline".to_owned(),
        unit: "1",
        factor: 1.0,
        note: "(higher is better)",
        marks: settings.iter().map(bar).collect(),
        guides: vec![(1.0, 0, settings.len())],
    };
    let verdicts = Panel {
        kind: Kind::Text,
        title: "Verdict".to_owned(),
        unit: "",
        factor: 1.0,
        note: "",
        marks: settings.iter().map(verdict).collect(),
        guides: vec![],
    };
    for mark in &mut bars.marks {
        mark.text = mark.spot.map(|spot| units::times(spot.value)).unwrap_or_default();
    }
    let title = title.unwrap_or_else(|| suite.info.title.clone());
    let size = of_kernel && group.varies(Axis::Size);
    let at = size.then(|| format!(" · size {} (largest)", units::count(largest.into())));
    let subtitle = format!(
        "{} · by {}; line: baseline{}{}",
        group.workload,
        speed_name(group),
        at.unwrap_or_default(),
        selection.subtitle_suffix()
    );
    let labels: Vec<String> = settings.iter().map(|setting| setting.label.clone()).collect();
    let caption = format!(
        "Speed of {} of {} relative to their baselines. Blue: significantly faster; orange: significantly slower \
         (corrected for all comparisons of the table); grey: not shown to be faster or slower. Ratios are between the processes of all \
         seeds. Whiskers are 95 % intervals; bars without whiskers have too few processes.",
        settings_of(settings.len(), selection.all),
        group.workload
    );
    Some((
        panels::draw(&title, &subtitle, &labels, &[bars, verdicts]),
        caption,
    ))
}

fn speed_name(group: &Group<'_>) -> String {
    match group.speed {
        MetricName::TrainSeconds => "training time".to_owned(),
        metric => metric.name().replace('_', " "),
    }
}

fn bar(setting: &SettingResult<'_, '_>) -> Mark {
    let colour = match setting.speed_verdict() {
        _ if setting.failure().is_some() => UNDECIDED,
        Some(Verdict::Improved) => FASTER,
        Some(Verdict::Regressed) => SLOWER,
        None if setting.is_baseline() => INK,
        _ => UNDECIDED,
    };
    Mark {
        spot: setting.speed_up().and_then(Spot::of),
        published: None,
        text: String::new(),
        colour,
    }
}

fn verdict(setting: &SettingResult<'_, '_>) -> Mark {
    let text = match (setting.failure(), setting.speed_verdict()) {
        (Some(status), _) => return Mark::missing(status),
        (_, Some(Verdict::Improved)) => "faster",
        (_, Some(Verdict::Regressed)) => "slower",
        (_, Some(Verdict::Unchanged)) => "equally fast",
        (_, Some(Verdict::Inconclusive(Doubt::TooFewRepeats))) => "too few processes",
        (_, Some(Verdict::Inconclusive(Doubt::NoRatio))) => "no ratio",
        (_, Some(Verdict::Inconclusive(Doubt::TooNoisy | Doubt::Shared))) => "undecided",
        (_, None) if setting.is_baseline() => "baseline",
        (_, None) => "not compared",
    };
    Mark {
        text: text.to_owned(),
        colour: INK,
        ..Mark::missing("")
    }
}
