//! Raw samples of a cell, from which every summary can be recomputed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Series, SeriesName, format_trial::FormatTrial, range::TensorRange};

/// All samples of a cell, stored as `samples.json.gz` in the folder that its record names.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// Sampled quantities.
    pub series: Vec<Series>,
    /// One character per test example, in the order of the split: `1` for a correct prediction, `0` for a wrong one.
    pub test_correct: Option<String>,
    /// Value ranges of tensors in the observed optimizer steps, if the suite requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<TensorRange>,
    /// Tests of the trained model in narrower formats, if the suite requests them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trials: Vec<FormatTrial>,
    /// Number of gradients that an asynchronous parameter server applied, by their staleness in optimizer steps: 0, 1, 2, ….
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staleness: Vec<u64>,
}

impl Samples {
    /// Returns the series with this name.
    pub fn get(&self, name: SeriesName) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}
