//! Panel of a metric, for figures with a row per setting.

use mantissa_core::{Better, MetricName};

use super::{
    palette::{Colour, GREY, INK},
    panels::{Kind, Mark, Panel},
};
use crate::{
    comparability::depends_on_speed,
    setting::{SettingResult, Spot},
    units::Scale,
};

/// Creates the panel of a metric with a mark per setting. `bar` returns the colour of a bar, unless it is a time of more threads than cores, and `missing` the mark of a setting without the metric.
pub fn panel(
    settings: &[SettingResult<'_, '_>],
    (metric, title, kind): (MetricName, &str, Kind),
    bar: impl Fn(&SettingResult<'_, '_>) -> Colour,
    missing: impl Fn(&SettingResult<'_, '_>) -> Mark,
) -> Panel {
    let spots: Vec<_> = settings.iter().map(|setting| setting.spot(metric)).collect();
    let largest = spots.iter().flatten().map(|spot| spot.value).fold(0.0, f64::max);
    let scale = Scale::of(metric, largest);
    let mark = |(setting, spot)| match spot {
        None => missing(setting),
        Some(Spot { value, .. }) => Mark {
            spot,
            published: None,
            text: scale.text(value),
            colour: match kind {
                Kind::Bars if depends_on_speed(metric) && setting.is_oversubscribed() => GREY,
                Kind::Bars => bar(setting),
                Kind::Points | Kind::LogPoints | Kind::Text => INK,
            },
        },
    };
    Panel {
        kind,
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
        marks: settings.iter().zip(spots).map(mark).collect(),
        guides: vec![],
    }
}
