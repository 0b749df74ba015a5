//! A cell: one workload under one setting with one seed.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Setting, Workload};

/// Identity of a cell: 16 hex digits that do not depend on order, suite or machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CellId(String);

impl CellId {
    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// One workload under one setting with one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// See [`CellId`].
    pub id: CellId,
    /// The suite that asked for it.
    pub suite: String,
    /// What is run.
    pub workload: Workload,
    /// Under what.
    pub setting: Setting,
    /// Seed of initialisation, shuffling and dropout.
    pub seed: u64,
}

impl Cell {
    /// Builds a cell and its id: the first 16 hex digits of BLAKE3 over the canonical JSON (keys sorted, no white
    /// space) of workload, resolved setting and seed. The suite's name is not in it.
    pub fn new(suite: impl Into<String>, workload: Workload, setting: Setting, seed: u64) -> Self {
        let mut canonical = String::new();
        write_canonical(
            &serde_json::json!({ "seed": seed, "setting": setting, "workload": workload }),
            &mut canonical,
        );
        let id = CellId(blake3::hash(canonical.as_bytes()).to_hex()[..16].to_owned());
        Self { id, suite: suite.into(), workload, setting, seed }
    }
}

/// JSON with sorted keys and no white space, whatever map type serde_json was built with.
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

    fn cell(suite: &str, batch: u64) -> Cell {
        let task = KernelTask { kernel: KernelKind::Matmul, min_samples: 3, max_samples: 9, max_seconds: 1.0 };
        let workload = Workload { name: "matmul".into(), task: Task::Kernel(task) };
        let mut setting = Setting::defaults(TaskKind::Kernel, Backend::Flex);
        setting.set(Axis::Size, AxisValue::Integer(batch)).unwrap();
        Cell::new(suite, workload, setting, 1)
    }

    #[test]
    fn the_id_names_the_work_and_not_the_suite() {
        assert_eq!(cell("a", 64).id, cell("b", 64).id);
        assert_ne!(cell("a", 64).id, cell("a", 65).id);
        assert_eq!(cell("a", 64).id.as_str().len(), 16);
    }

    #[test]
    fn the_id_is_the_same_forever() {
        // A change here orphans every recorded baseline: bump the record's schema with it.
        assert_eq!(cell("a", 64).id.as_str(), "f73f8923e74ada4f");
    }
}
