//! Built-in published numbers that are shown next to measured ones.

use std::collections::BTreeMap;

use mantissa_core::{Axis, AxisValue, MetricName, nearest};
use serde::Deserialize;

use crate::ReportError;

/// All published tables, by the name that suites use.
const BUILT_IN: &[(&str, &str)] = &[
    (
        "distilbert-imdb",
        include_str!("../../../references/distilbert-imdb.toml"),
    ),
    (
        "accumulation-bloom",
        include_str!("../../../references/accumulation-bloom.toml"),
    ),
    (
        "llama-generate",
        include_str!("../../../references/llama-generate.toml"),
    ),
    (
        "matmul-accuracy-pytorch",
        include_str!("../../../references/matmul-accuracy-pytorch.toml"),
    ),
    (
        "resnet-cifar10",
        include_str!("../../../references/resnet-cifar10.toml"),
    ),
    ("resnet50", include_str!("../../../references/resnet50.toml")),
    (
        "vit-cifar10",
        include_str!("../../../references/vit-cifar10.toml"),
    ),
];

/// A published table.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Name that suites use.
    pub name: &'static str,
    /// Headline.
    pub title: String,
    /// Author, work, year.
    pub source: String,
    /// Where it was published.
    pub url: String,
    /// Hardware of the measurements.
    pub hardware: String,
    /// Part of a GPU's name that identifies the device, e.g. `A100`; `None` if the source names no device.
    pub device: Option<String>,
    /// Caveats.
    pub notes: Vec<String>,
    /// The rows, in their order.
    pub rows: Vec<Published>,
}

/// A published row.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Hardware of the measurement.
    pub hardware: String,
    /// Label that distinguishes rows with the same setting.
    pub label: Option<String>,
    /// The part of the setting that the source states.
    pub setting: BTreeMap<Axis, AxisValue>,
    /// Published values, in the units of the metrics.
    pub metrics: BTreeMap<MetricName, f64>,
    /// Quantities without a metric in Mantissa, as printed.
    pub other: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    source: String,
    url: String,
    hardware: String,
    device: Option<String>,
    notes: Vec<String>,
    row: Vec<FileRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRow {
    hardware: Option<String>,
    label: Option<String>,
    #[serde(default)]
    setting: BTreeMap<Axis, AxisValue>,
    #[serde(default)]
    metrics: BTreeMap<MetricName, f64>,
    #[serde(default)]
    other: BTreeMap<String, String>,
}

/// Returns the published table of this name.
pub fn reference(name: &str) -> Result<Reference, ReportError> {
    let valid = || BUILT_IN.iter().map(|(name, _)| *name);
    match BUILT_IN.iter().find(|(known, _)| *known == name) {
        Some((known, text)) => parse(known, text),
        None => Err(ReportError::UnknownReference {
            given: name.to_owned(),
            nearest: nearest(name, valid()),
            valid: valid().collect(),
        }),
    }
}

fn parse(name: &'static str, text: &str) -> Result<Reference, ReportError> {
    let bad = |reason: String| ReportError::BadReference {
        name: name.to_owned(),
        reason,
    };
    let file: File = toml::from_str(text).map_err(|error| bad(error.to_string()))?;
    let mut rows = Vec::with_capacity(file.row.len());
    for row in file.row {
        let mut setting = BTreeMap::new();
        for (axis, value) in row.setting {
            setting.insert(axis, axis.value(value).map_err(|error| bad(error.to_string()))?);
        }
        let hardware = row.hardware.unwrap_or_else(|| file.hardware.clone());
        rows.push(Published {
            hardware,
            label: row.label,
            setting,
            metrics: row.metrics,
            other: row.other,
        });
    }
    let File {
        title,
        source,
        url,
        hardware,
        device,
        notes,
        ..
    } = file;
    Ok(Reference {
        name,
        title,
        source,
        url,
        hardware,
        device,
        notes,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use mantissa_core::{MatmulPrecision, Precision};

    use super::*;

    #[test]
    fn every_published_table_is_built_in_and_can_be_read() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references");
        let files = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut names: Vec<String> = files
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let mut built_in: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).collect();
        built_in.sort_unstable();
        assert_eq!(names, built_in);
        for name in built_in {
            assert!(!reference(name).unwrap().rows.is_empty(), "{name}");
        }
    }

    #[test]
    fn every_built_in_reference_has_rows_notes_and_a_source() {
        for (name, _) in BUILT_IN {
            let reference = reference(name).unwrap();
            assert!(
                !reference.rows.is_empty() && !reference.notes.is_empty(),
                "{name}"
            );
            assert!(reference.url.starts_with("https://"), "{name}");
            let named = |device: &String| reference.hardware.contains(device);
            assert!(reference.device.as_ref().is_none_or(named), "{name}");
            assert!(reference.rows.iter().all(|row| !row.metrics.is_empty()), "{name}");
        }
    }

    #[test]
    fn the_articles_table_has_the_twelve_defined_settings_once_each() {
        let rows = reference("distilbert-imdb").unwrap().rows;
        let mut pairs: Vec<_> = rows.iter().map(|row| format!("{:?}", row.setting)).collect();
        pairs.sort();
        pairs.dedup();
        let defined = Precision::ALL
            .iter()
            .flat_map(|p| MatmulPrecision::ALL.iter().map(move |m| p.allows(*m)))
            .filter(|allowed| *allowed)
            .count();
        assert_eq!((rows.len(), pairs.len()), (defined, defined));
    }

    #[test]
    fn the_articles_headline_speed_up_follows_from_its_rows() {
        let rows = reference("distilbert-imdb").unwrap().rows;
        let seconds = |precision: &str, matmul: &str| {
            let is = |row: &&Published, axis, name: &str| {
                row.setting.get(&axis) == Some(&AxisValue::Text(name.to_owned()))
            };
            let row = rows
                .iter()
                .find(|r| is(r, Axis::Precision, precision) && is(r, Axis::Matmul, matmul));
            row.unwrap().metrics[&MetricName::TrainSeconds]
        };
        let speed_up = seconds("32-true", "highest") / seconds("16-mixed", "highest");
        assert!((speed_up - 3.0).abs() < 0.005, "{speed_up}");
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest_one() {
        let error = reference("distilbert-imbd").unwrap_err().to_string();
        assert!(error.contains("the closest is `distilbert-imdb`"), "{error}");
    }

    #[test]
    fn an_unknown_key_or_value_in_a_reference_is_an_error() {
        let head = "title='t'\nsource='s'\nurl='u'\nhardware='h'\ndevice='h'\nnotes=[]\n";
        assert!(parse("x", &format!("{head}[[row]]\nmetrics={{train_minutes=1.0}}")).is_err());
        assert!(parse("x", &format!("{head}[[row]]\nsetting={{precision='17-true'}}")).is_err());
        assert!(parse("x", &format!("{head}[[row]]\nspeed=1")).is_err());
        assert!(parse("x", &format!("{head}[[row]]\nsetting={{precision='16-true'}}")).is_ok());
    }
}
