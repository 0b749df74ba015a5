//! Quality of a trained model under each setting: accuracy or perplexity, and agreement with the predictions in f32.

use mantissa_core::{Better, MetricName, TaskKind};

use super::{
    Canvas, describe_whiskers, palette,
    panels::{self, Kind, Mark, Panel},
    selection::Selection,
    settings_of,
};
use crate::{Group, Row, Suite, setting::SettingResult, units::Scale};

/// Quality metrics with their titles. Perplexity replaces accuracy for models that predict tokens.
const QUALITIES: [(MetricName, &str); 3] = [
    (MetricName::Perplexity, "Perplexity"),
    (MetricName::TestAccuracy, "Test accuracy"),
    (MetricName::Agreement, "Agreement with f32"),
];

/// Returns the quality metrics that at least two rows of a group have: perplexity instead of accuracy if the model predicts tokens.
pub fn quality_metrics(group: &Group<'_>) -> Vec<(MetricName, &'static str)> {
    let has_two = |metric: MetricName| {
        group
            .rows
            .iter()
            .filter(|row| row.metric(metric).is_some())
            .count()
            > 1
    };
    let has_perplexity = has_two(MetricName::Perplexity);
    let known = QUALITIES.into_iter().filter(|(metric, _)| has_two(*metric));
    known
        .filter(|(metric, _)| !(has_perplexity && *metric == MetricName::TestAccuracy))
        .collect()
}

/// Draws the points of an evaluation. `None` for other tasks and if fewer than two settings have a value.
pub fn draw(suite: &Suite<'_>, group: &Group<'_>) -> Option<(Canvas, String)> {
    let qualities = quality_metrics(group);
    if group.kind != TaskKind::Evaluate || qualities.is_empty() {
        return None;
    }
    let any = |row: &Row<'_>| qualities.iter().any(|(metric, _)| row.metric(*metric).is_some());
    let mut all = SettingResult::all(group, |row| any(row) || !(row.is_ok() || row.records.is_empty()));
    // Settings with the same baseline do the same work; group them.
    all.sort_by_key(SettingResult::work);
    let selection = Selection::fastest(group, all);
    let settings = &selection.settings[..];
    let panels = qualities.iter().map(|quality| panel(settings, *quality));
    let panels: Vec<Panel> = panels.collect();
    let examples = group
        .rows
        .iter()
        .filter_map(|row| Some(row.metric(qualities[0].0)?.n));
    let examples = crate::units::count(examples.min().unwrap_or(0));
    let what = if predicts_tokens(group) {
        "tokens"
    } else {
        "test examples"
    };
    let subtitle = format!(
        "{} · {examples} {what} · vertical lines: baselines{}",
        group.workload,
        selection.subtitle_suffix()
    );
    let title = finding(settings).unwrap_or_else(|| suite.info.title.clone());
    let labels: Vec<String> = settings.iter().map(|setting| setting.label.clone()).collect();
    let names: Vec<String> = qualities.iter().map(|(_, title)| title.to_lowercase()).collect();
    let drawn_from = if predicts_tokens(group) {
        "whole passages"
    } else {
        "the test examples"
    };
    let caption = format!(
        "{} of {} by setting ({}), over {examples} {what}. {} They are computed over {drawn_from}, which all settings share: \
         whether they overlap is not a test of a difference.",
        capitalised(&names.join(" and ")),
        group.workload,
        settings_of(settings.len(), selection.all),
        describe_whiskers(settings)
    );
    Some((panels::draw(&title, &subtitle, &labels, &panels), caption))
}

fn predicts_tokens(group: &Group<'_>) -> bool {
    group.rows.iter().any(|row| row.cell.workload.predicts_tokens())
}

fn capitalised(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_uppercase() + rest
}

fn panel(settings: &[SettingResult<'_, '_>], (metric, title): (MetricName, &str)) -> Panel {
    let spots: Vec<_> = settings.iter().map(|setting| setting.spot(metric)).collect();
    let largest = spots
        .iter()
        .flatten()
        .map(|spot| spot.value.abs())
        .fold(0.0, f64::max);
    let scale = Scale::of(metric, largest);
    let marks = settings.iter().zip(&spots).map(|(setting, spot)| {
        let Some(value) = spot else {
            let is_reference = metric == MetricName::Agreement && setting.is_baseline();
            return match setting.failure() {
                Some(status) => Mark::missing(status),
                None if is_reference => Mark {
                    colour: palette::MUTED,
                    ..Mark::missing("reference")
                },
                None => Mark {
                    colour: palette::MUTED,
                    ..Mark::missing(crate::units::ABSENT)
                },
            };
        };
        let colour = if setting.is_baseline() {
            palette::INK
        } else {
            palette::SERIES[0]
        };
        Mark {
            spot: *spot,
            published: None,
            text: scale.text(value.value),
            colour,
        }
    });
    Panel {
        kind: Kind::Points,
        title: match scale.unit {
            "" => title.to_owned(),
            unit => format!("{title}, {unit}"),
        },
        unit: metric.unit().name(),
        factor: scale.factor,
        note: match metric.better() {
            Better::Lower => "(lower is better)",
            Better::Higher => "(higher is better)",
        },
        marks: marks.collect(),
        guides: guides(settings, |setting| setting.value(metric)),
    }
}

/// Returns a vertical line at the value of each baseline, along the settings that are compared with it.
fn guides<'g, 'r>(
    settings: &[SettingResult<'g, 'r>],
    value: impl Fn(&SettingResult<'g, 'r>) -> Option<f64>,
) -> Vec<(f64, usize, usize)> {
    let along = |setting: &SettingResult<'g, 'r>| {
        let same = |other: &SettingResult<'_, '_>| other.work() == setting.work();
        let first = settings.iter().position(same)?;
        let last = settings.iter().rposition(same)?;
        Some((value(setting)?, first, last + 1)).filter(|guide| guide.0.is_finite())
    };
    settings
        .iter()
        .filter(|setting| setting.is_baseline())
        .filter_map(along)
        .collect()
}

/// Formats the largest share of changed predictions: `bf16-true changes the most predictions: 0.17 % differ from f32`. `None` if no setting
/// was compared with f32.
pub(crate) fn changed_predictions(settings: &[SettingResult<'_, '_>]) -> Option<String> {
    let agreements = finished_values(settings, MetricName::Agreement);
    let (label, least) = agreements.first()?;
    Some(match *least >= 1.0 {
        true => "No setting changes a prediction".to_owned(),
        false => format!(
            "{label} changes the most predictions: {} % differ from f32",
            match 100.0 * (1.0 - least) {
                few if few < 0.01 => "less than 0.01".to_owned(),
                percent => format!("{percent:.2}"),
            }
        ),
    })
}

/// Returns the labels and values of the settings that finished, in ascending order of the value.
fn finished_values<'s>(settings: &'s [SettingResult<'_, '_>], metric: MetricName) -> Vec<(&'s str, f64)> {
    let finished = settings.iter().filter(|setting| setting.failure().is_none());
    let known = finished.filter_map(|setting| Some((setting.label.as_str(), setting.spot(metric)?.value)));
    let mut known: Vec<(&str, f64)> = known.collect();
    known.sort_by(|a, b| a.1.total_cmp(&b.1));
    known
}

/// Formats the largest share of changed predictions, or the range of accuracies.
fn finding(settings: &[SettingResult<'_, '_>]) -> Option<String> {
    if let Some(changed) = changed_predictions(settings) {
        return Some(changed);
    }
    let accuracies = finished_values(settings, MetricName::TestAccuracy);
    let ((worst, low), (best, high)) = (*accuracies.first()?, *accuracies.last()?);
    (accuracies.len() > 1).then(|| {
        format!(
            "Test accuracy ranges from {:.2} % ({worst}) to {:.2} % ({best})",
            100.0 * low,
            100.0 * high
        )
    })
}
