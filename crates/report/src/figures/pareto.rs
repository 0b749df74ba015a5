//! Trade-off of quality against cost: accuracy over time, energy and memory, one panel each. Dominated settings are grey: another setting
//! is better in quality or in cost, and not worse in the other. Settings whose accuracy is not above chance are grey too.

use mantissa_analysis::pareto::{dominated, front};
use mantissa_core::{Better, MatmulPrecision, MetricName, Precision, TaskKind};

use super::{
    canvas::{Canvas, MARGIN, WIDTH},
    describe_whiskers, quality,
    scatter::{LABEL_WIDTH, PLOT_HEIGHT, Panel, Point},
    selection::Selection,
    settings_of,
};
use crate::{
    Group, Row,
    claims::is_above_chance,
    setting::{SettingResult, Spot, WORK_AXES},
    table::peak_memory_title,
    units::{self, Scale},
};

const PANEL_HEIGHT: f64 = PLOT_HEIGHT + 92.0;
const GAP: f64 = 84.0;

/// Maximum number of names in a title.
const MAX_NAMES: usize = 3;

/// Cost of a setting.
struct Cost {
    title: &'static str,
    metric: MetricName,
    /// `true` if the metric is a rate, whose inverse is the cost.
    rate: bool,
}

/// Draws every quality over every cost for the settings that do the same work as the first setting. `None` if fewer than two settings
/// have both values.
pub fn draw(group: &Group<'_>) -> Option<(Canvas, String)> {
    if !matches!(group.kind, TaskKind::Train | TaskKind::Evaluate) {
        return None;
    }
    let first = group.ok().find(|row| row.baseline.is_some())?;
    let same_work = |row: &Row<'_>| row.is_ok() && work(row) == work(first);
    let mut all = SettingResult::all(group, same_work);
    all.retain(|setting| setting.failure().is_none());
    let selection = Selection::fastest(group, all);
    let settings = &selection.settings[..];
    let qualities = quality::quality_metrics(group);
    let costs = costs(group);
    let panels = qualities
        .iter()
        .flat_map(|quality| costs.iter().map(move |cost| (quality, cost)));
    let panels = panels.filter_map(|(quality, cost)| panel(settings, quality, cost));
    let panels: Vec<Panel> = panels.collect();
    let title = finding(panels.first()?);
    let guesses = match panels.iter().any(|panel| panel.guesses > 0) {
        true => ", and those whose accuracy is not above chance",
        false => "",
    };
    let others = group
        .rows
        .iter()
        .any(|row| row.is_ok() && work(row) != work(first));
    let only = WORK_AXES.iter().filter(|axis| others && group.varies(**axis));
    let only: String = only
        .map(|axis| format!(" · {} {}", axis.name(), first.axis(*axis)))
        .collect();
    let subtitle = format!(
        "{}{only} · line: Pareto front; grey: dominated settings{guesses}{}",
        group.workload,
        selection.subtitle_suffix()
    );
    let columns = panels.len().min(costs.len()).clamp(1, 3);
    let rows = panels.len().div_ceil(columns);
    let top = Canvas::CONTENT_TOP + 40.0;
    let mut canvas = Canvas::titled(top + rows as f64 * PANEL_HEIGHT - 16.0, &title, &subtitle);
    let width = (WIDTH - 2.0 * MARGIN - LABEL_WIDTH - (columns - 1) as f64 * GAP) / columns as f64;
    let mut unlabelled = 0;
    for (index, panel) in panels.iter().enumerate() {
        let left = MARGIN + LABEL_WIDTH + (index % columns) as f64 * (width + GAP);
        let top = top + (index / columns) as f64 * PANEL_HEIGHT;
        unlabelled += panel.draw(&mut canvas, (left, top, width));
    }
    let unlabelled = match unlabelled {
        0 => String::new(),
        _ => format!(" {unlabelled} points have no label for lack of space; the table lists them."),
    };
    let caption = format!(
        "Quality against cost of {} of {}. The Pareto front is that of the point estimates: where whiskers overlap, \
         the order may be chance. {}{unlabelled}",
        settings_of(settings.len(), selection.all),
        group.workload,
        describe_whiskers(settings)
    );
    let reference = if qualities
        .iter()
        .any(|(metric, _)| *metric == MetricName::Agreement)
    {
        " The reference of the agreement is drawn at 100 %."
    } else {
        ""
    };
    Some((canvas, caption + reference))
}

/// Returns the values of the axes that define the work of a row.
fn work(row: &Row<'_>) -> [String; 3] {
    WORK_AXES.map(|axis| row.axis(axis))
}

/// Returns time, energy and memory, as far as rows have them.
fn costs(group: &Group<'_>) -> Vec<Cost> {
    let rate = group.speed.better() == Better::Higher;
    let time = Cost {
        title: if rate { "Time per sample" } else { "Training time" },
        metric: group.speed,
        rate,
    };
    let energy = units::ENERGY.into_iter().find(|metric| group.has(*metric));
    let other = |title, metric| Cost {
        title,
        metric,
        rate: false,
    };
    let others = [
        energy.map(|metric| other(units::energy_title(metric), metric)),
        group.memory.map(|metric| other(peak_memory_title(group), metric)),
    ];
    std::iter::once(time)
        .chain(others.into_iter().flatten())
        .collect()
}

impl Cost {
    /// Returns the cost of a setting; `None` without a value and if it cannot be compared with the baseline's.
    fn value(&self, setting: &SettingResult<'_, '_>) -> Option<Spot> {
        if !setting.is_comparable_with_baseline(self.metric) {
            return None;
        }
        let spot = setting.spot(self.metric)?;
        let spot = if self.rate {
            spot.map(|rate| 1.0 / rate)?
        } else {
            spot
        };
        (spot.value > 0.0).then_some(spot)
    }

    /// Returns a metric with the unit of the cost.
    fn unit_metric(&self) -> MetricName {
        if self.rate {
            MetricName::StepSeconds
        } else {
            self.metric
        }
    }
}

fn panel(
    settings: &[SettingResult<'_, '_>],
    (metric, title): &(MetricName, &str),
    cost: &Cost,
) -> Option<Panel> {
    let point = |setting: &SettingResult<'_, '_>| {
        Some(Point {
            cost: cost.value(setting)?,
            quality: setting
                .spot(*metric)
                .or_else(|| self_agreement(setting, *metric))?,
            label: setting.label.clone(),
        })
    };
    let points: Vec<Point> = settings.iter().filter_map(point).collect();
    if points.len() < 2 {
        return None;
    }
    let is_guess: Vec<bool> = settings
        .iter()
        .filter(|setting| point(setting).is_some())
        .map(|setting| *metric == MetricName::TestAccuracy && is_guess(setting))
        .collect();
    let sign = match metric.better() {
        Better::Lower => 1.0,
        Better::Higher => -1.0,
    };
    let pairs: Vec<_> = points
        .iter()
        .zip(&is_guess)
        .map(|(point, is_guess)| match is_guess {
            true => (point.cost.value, f64::NAN),
            false => (point.cost.value, sign * point.quality.value),
        })
        .collect();
    let largest =
        |value: &dyn Fn(&Point) -> f64| points.iter().map(|point| value(point).abs()).fold(0.0, f64::max);
    let x = Scale::of(cost.unit_metric(), largest(&|point| point.cost.value));
    let y = Scale::of(*metric, largest(&|point| point.quality.value));
    let unit = |title: &str, scale: Scale| match scale.unit {
        "" => title.to_owned(),
        unit => format!("{title}, {unit}"),
    };
    Some(Panel {
        guesses: is_guess.iter().filter(|is_guess| **is_guess).count(),
        dominated: dominated(&pairs)
            .into_iter()
            .zip(is_guess)
            .map(|(dominated, is_guess)| dominated || is_guess)
            .collect(),
        front: front(&pairs),
        x: (unit(cost.title, x), x),
        y: (unit(title, y), y),
        units: (cost.unit_metric().unit().name(), metric.unit().name()),
        points,
    })
}

/// Returns `true` if the accuracy of a setting is not above chance. Such an accuracy is not evidence about the format.
fn is_guess(setting: &SettingResult<'_, '_>) -> bool {
    let seeds: Vec<&Row<'_>> = setting.effective_seeds().collect();
    is_above_chance(&seeds) == Some(false)
}

/// Returns an agreement of 1 for the f32 setting, the reference of the agreement, because its record has no agreement.
fn self_agreement(setting: &SettingResult<'_, '_>, metric: MetricName) -> Option<Spot> {
    let values = &setting.row().cell.setting;
    let is_f32 = values.precision() == Precision::True32 && values.matmul() == MatmulPrecision::Highest;
    let is_reference = metric == MetricName::Agreement && is_f32 && setting.is_baseline();
    is_reference.then_some(Spot {
        value: 1.0,
        whiskers: None,
    })
}

/// Returns the title: the settings on the Pareto front.
fn finding(panel: &Panel) -> String {
    let what = |(title, _): &(String, Scale)| title.split(',').next().unwrap_or(title).to_lowercase();
    let both = format!("{} and {}", what(&panel.y), what(&panel.x)).replace("f32", "32-true");
    let names: Vec<&str> = panel
        .front
        .iter()
        .map(|index| panel.points[*index].label.as_str())
        .collect();
    let all = panel.points.len();
    if let Some(cheapest) = panel.front.first().filter(|_| panel.overlaps()) {
        let (quality, cost) = (what(&panel.y), what(&panel.x));
        let quality = quality.replace("f32", "32-true");
        return format!(
            "The intervals of {quality} all overlap; {} has the lowest {cost} (point estimate)",
            panel.points[*cheapest].label
        );
    }
    match names.as_slice() {
        [] => "No setting predicts better than chance".to_owned(),
        [only] if panel.guesses > 0 => {
            format!("{only} is best in both {both} of the settings above chance (point estimates)")
        }
        [only] => format!("{only} is best in both {both} (point estimates)"),
        names if names.len() == all => format!("None of the {all} settings beats another in both {both}"),
        names if names.len() <= MAX_NAMES => {
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            let others = others.join(", ");
            format!("Pareto front of {both}: {others} and {last} (point estimates)")
        }
        names => format!(
            "{} of {all} settings are on the Pareto front of {both} (point estimates)",
            names.len()
        ),
    }
}
