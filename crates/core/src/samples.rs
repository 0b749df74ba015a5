//! Raw samples of a cell: what every summary can be computed from again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{range::TensorRange, trial::FormatTrial};

/// Everything that was sampled while a cell ran. Lies compressed beside its record.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// Sampled quantities: `train_loss`, `step_seconds`, `launch_seconds`, `loss_scale`, `host_bytes`, …
    pub series: Vec<Series>,
    /// One character a test example, in the order of the split: `1` predicted right, `0` wrong.
    pub test_correct: Option<String>,
    /// What the setting's formats did to the values of some optimizer steps, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<TensorRange>,
    /// The trained model, tested again with fewer bits, where that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<FormatTrial>,
}

impl Samples {
    /// The series of this name.
    pub fn get(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}

/// One sampled quantity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// What was sampled.
    pub name: String,
    /// Unit of `y`.
    pub unit: String,
    /// What `x` counts: `optimizer step`, `epoch`, `launch`, `seconds`.
    pub x_name: String,
    /// Where each sample was taken.
    pub x: Vec<f64>,
    /// The samples; a reading that was not finite or not to be had is `null`.
    pub y: Vec<Option<f64>>,
}

impl Series {
    /// An empty series.
    pub fn new(name: &str, unit: &str, x_name: &str) -> Self {
        Self {
            name: name.into(),
            unit: unit.into(),
            x_name: x_name.into(),
            x: vec![],
            y: vec![],
        }
    }

    /// Appends one sample; what is not finite is kept as absent.
    pub fn push(&mut self, x: f64, y: f64) {
        self.x.push(x);
        self.y.push(y.is_finite().then_some(y));
    }

    /// The samples that are there.
    pub fn values(&self) -> impl Iterator<Item = f64> + '_ {
        self.y.iter().flatten().copied()
    }
}
