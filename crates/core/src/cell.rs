//! Cells: one workload with one setting and one seed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{Axis, Setting, Workload, name::truncate};

/// Id of a cell: 16 lowercase hex digits that do not depend on order, suite or machine.
///
/// Ids are used in paths of a run folder. Deserialization therefore rejects any other text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct CellId(String);

impl<'de> Deserialize<'de> for CellId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.len() == 16 && text.bytes().all(is_digit) {
            true => Ok(Self(text)),
            false => Err(D::Error::custom(format!(
                "{:?} is not a cell id, which has 16 lowercase hex digits",
                truncate(&text)
            ))),
        }
    }
}

impl CellId {
    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One workload with one setting and one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Id of the cell, see [`CellId`].
    pub id: CellId,
    /// Name of the suite.
    pub suite: String,
    /// Task, model and sizes.
    pub workload: Workload,
    /// Value of every axis that applies to the workload and has an effect.
    pub setting: Setting,
    /// Seed of initialisation, shuffling and dropout.
    pub seed: u64,
}

impl Cell {
    /// Creates a cell. The id is the first 16 hex digits of the BLAKE3 hash of the canonical JSON (keys sorted, no white space) of
    /// workload, resolved setting and seed. It does not depend on the name of the suite.
    pub fn new(suite: impl Into<String>, workload: Workload, setting: Setting, seed: u64) -> Self {
        CellMaker::new(suite, workload).cell(setting, seed)
    }
}

/// Builder of the cells of one workload, which serializes the workload once.
#[derive(Debug, Clone)]
pub struct CellMaker {
    suite: String,
    workload: Workload,
    workload_json: String,
    /// Axes in the order of the canonical JSON.
    axes: Vec<Axis>,
    /// Buffer for the canonical JSON of a cell.
    json: Vec<u8>,
}

impl CellMaker {
    /// Creates a builder for the cells of `workload` in `suite`.
    pub fn new(suite: impl Into<String>, workload: Workload) -> Self {
        let mut workload_json = String::new();
        write_canonical(&serde_json::json!(workload), &mut workload_json);
        let mut axes = Axis::ALL.to_vec();
        axes.sort_by_key(|axis| axis.name());
        Self {
            suite: suite.into(),
            workload,
            workload_json,
            axes,
            json: vec![],
        }
    }

    /// Creates the cell of a setting and a seed, like [`Cell::new`]. Removes axes that have no effect in the setting.
    pub fn cell(&mut self, setting: Setting, seed: u64) -> Cell {
        let setting = setting.without_ineffective_axes();
        let id = self.id(&setting, seed);
        Cell {
            id,
            suite: self.suite.clone(),
            workload: self.workload.clone(),
            setting,
            seed,
        }
    }

    /// Computes the id of a cell. Plans can have hundreds of thousands of cells, so this reuses one buffer and builds
    /// no JSON tree.
    fn id(&mut self, setting: &Setting, seed: u64) -> CellId {
        let json = &mut self.json;
        json.clear();
        json.extend_from_slice(br#"{"seed":"#);
        write_json(&seed, json);
        json.extend_from_slice(br#","setting":{"#);
        let values = self
            .axes
            .iter()
            .filter_map(|axis| Some((axis, setting.get(*axis)?)));
        for (index, (axis, value)) in values.enumerate() {
            if index > 0 {
                json.push(b',');
            }
            write_json(axis, json);
            json.push(b':');
            write_json(&value, json);
        }
        json.extend_from_slice(br#"},"workload":"#);
        json.extend_from_slice(self.workload_json.as_bytes());
        json.push(b'}');
        CellId(blake3::hash(json).to_hex()[..16].to_owned())
    }
}

fn write_json<T: Serialize>(value: &T, json: &mut Vec<u8>) {
    serde_json::to_writer(json, value).expect("these types serialize as JSON");
}

/// Writes JSON with sorted keys and without white space, independent of the map type of serde_json.
fn write_canonical(value: &serde_json::Value, out: &mut String) {
    use serde_json::Value;
    let separate = |index: usize, out: &mut String| {
        if index > 0 {
            out.push(',');
        }
    };
    match value {
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                separate(index, out);
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for (index, value) in values.iter().enumerate() {
                separate(index, out);
                write_canonical(value, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::*;

    fn cell(suite: &str, size: u64) -> Cell {
        let task = KernelTask {
            kernel: Kernel::Matmul(MatmulShape::SQUARE),
            min_samples: 3,
            max_samples: 9,
            max_seconds: 1.0,
            max_noise: 0.01,
            cache: CacheState::Cold,
        };
        let workload = Workload {
            name: "matmul".into(),
            task: Task::Kernel(task),
        };
        let mut setting = Setting::of(&workload, Backend::Flex);
        setting.set(Axis::Size, AxisValue::Integer(size)).unwrap();
        Cell::new(suite, workload, setting, 1)
    }

    #[test]
    fn id_does_not_depend_on_the_suite() {
        assert_eq!(cell("a", 64).id, cell("b", 64).id);
        assert_ne!(cell("a", 64).id, cell("a", 65).id);
        assert_eq!(cell("a", 64).id.as_str().len(), 16);
    }

    #[test]
    fn id_is_a_hash_of_canonical_json() {
        let mut cell = cell("a", 64);
        cell.setting = Setting::defaults(TaskKind::Train, Backend::Cuda).without_ineffective_axes();
        cell.setting
            .set(
                Axis::KeepF32,
                AxisValue::List(vec!["layer \"norm\"".into(), "é".into()]),
            )
            .unwrap();
        cell.setting.set(Axis::AdamEps, AxisValue::Number(1.0)).unwrap();
        let mut canonical = String::new();
        super::write_canonical(
            &serde_json::json!({ "seed": cell.seed, "setting": cell.setting, "workload": cell.workload }),
            &mut canonical,
        );
        let digits = &blake3::hash(canonical.as_bytes()).to_hex()[..16];
        assert_eq!(
            Cell::new("a", cell.workload, cell.setting, cell.seed).id.as_str(),
            digits
        );
    }

    #[test]
    fn id_of_a_cell_never_changes() {
        // A changed id breaks the link to every recorded baseline. Increase the schema version of the record in that case.
        assert_eq!(cell("a", 64).id.as_str(), "547d2bc4619f9cff");
    }
}
