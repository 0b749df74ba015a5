//! Class names of a checkpoint: `id2label`, `label2id` and `num_labels`.

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value};

use super::config_path;
use crate::contents;

/// Returns the class names of a checkpoint by class number, or an empty map without a configuration. `count` is the number of classes of
/// the output head, if there is one.
///
/// # Errors
/// The configuration is malformed, `id2label` and `label2id` differ, or `num_labels` differs from the number of names or from `count`.
pub fn class_names(path: &Path, count: Option<u32>) -> Result<BTreeMap<u32, String>, String> {
    let Some(config) = config_path(path) else {
        return Ok(BTreeMap::new());
    };
    let with_path = |error: String| format!("`{}`: {error}", config.display());
    let value: Value = contents::json(&config).map_err(with_path)?;
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let by_number = |table: &Map<String, Value>| {
        let name = |(key, name): (&String, &Value)| Some((number(key)?, name.as_str()?.to_owned()));
        table.iter().map(name).collect::<Option<BTreeMap<u32, String>>>()
    };
    let by_name = |table: &Map<String, Value>| {
        let name = |(name, value): (&String, &Value)| {
            let number = number(&value.to_string().replace('"', ""))?;
            Some((number, name.clone()))
        };
        table.iter().map(name).collect::<Option<BTreeMap<u32, String>>>()
    };
    let malformed = |name: &str| with_path(format!("`{name}` does not map class numbers to names"));
    let table = |name: &str| match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value.as_object().map(Some).ok_or_else(|| malformed(name)),
    };
    let names = table("id2label")?.map(|table| by_number(table).ok_or_else(|| malformed("id2label")));
    let numbers = table("label2id")?.map(|table| by_name(table).ok_or_else(|| malformed("label2id")));
    let (names, numbers) = (names.transpose()?, numbers.transpose()?);
    let table_has = match names {
        Some(_) => "`id2label` has",
        None => "`label2id` has",
    };
    let names = match (names, numbers) {
        (Some(names), Some(numbers)) if names != numbers => {
            return Err(with_path("`id2label` and `label2id` differ".to_owned()));
        }
        (names, numbers) => names.or(numbers).unwrap_or_default(),
    };
    let Some(number) = value.get("num_labels").filter(|number| !number.is_null()) else {
        return Ok(names);
    };
    let name_count = (!names.is_empty()).then_some(names.len() as u64);
    let other_counts = [
        (count.map(u64::from), "the output head has"),
        (name_count, table_has),
    ];
    for (other, source) in other_counts {
        if let Some(other) = other.filter(|other| number.as_u64() != Some(*other)) {
            return Err(with_path(format!(
                "`num_labels` is {number}, but {source} {other} classes"
            )));
        }
    }
    Ok(names)
}
