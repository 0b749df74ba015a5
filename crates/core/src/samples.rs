//! Raw samples of a cell, from which every summary can be recomputed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{format_trial::FormatTrial, range::TensorRange};

/// All samples of a cell, stored as `samples.json.gz` in the folder that its record names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// Sampled quantities: `train_loss`, `step_seconds`, `launch_seconds`, `loss_scale`, `host_bytes`, …
    pub series: Vec<Series>,
    /// One character per test example, in the order of the split: `1` for a correct prediction, `0` for a wrong one.
    pub test_correct: Option<String>,
    /// Value ranges of tensors in the observed optimizer steps, if the suite requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<TensorRange>,
    /// Tests of the trained model in narrower formats, if the suite requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<FormatTrial>,
}

impl Samples {
    /// Returns the series with this name.
    pub fn get(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}

/// One sampled quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name of the quantity.
    pub name: String,
    /// Unit of `y`.
    pub unit: String,
    /// Quantity of the x axis: `optimizer step`, `epoch`, `launch`, `seconds`.
    pub x_name: String,
    /// Position of each sample on the x axis.
    pub x: Vec<f64>,
    /// Samples. A sample that is not finite or not available is `null`.
    pub y: Vec<Option<f64>>,
}

impl Series {
    /// Creates an empty series.
    pub fn new(name: &str, unit: &str, x_name: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            x_name: x_name.into(),
            x: vec![],
            y: vec![],
        }
    }

    /// Appends one sample; stores a value that is not finite as absent.
    pub fn push(&mut self, x: f64, y: f64) {
        self.x.push(x);
        self.y.push(y.is_finite().then_some(y));
    }

    /// Returns the samples that are not absent.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.y.iter().flatten().copied()
    }
}
