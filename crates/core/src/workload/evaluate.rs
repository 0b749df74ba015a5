//! Evaluation task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{DatasetKind, Model};

/// Test of a model with given weights. Its predictions are compared with those of the same model in f32.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluateTask {
    /// Model with its size.
    pub model: Model,
    /// Data set; only its test examples are used.
    pub dataset: DatasetKind,
    /// Maximum number of test examples; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<u32>,
}
