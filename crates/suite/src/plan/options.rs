//! Options of a plan.

use std::collections::BTreeMap;

use mantissa_core::{Backend, DatasetKind, Model, Profile};

use crate::{SuiteInputs, axes::Sweep};

/// Options of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// Profile, which selects sizes and axes of the suites.
    pub profile: Profile,
    /// Backend of the suites that do not sweep `backend`; `auto` is already resolved.
    pub backend: Backend,
    /// Sweeps that replace those of the suites, parsed by [`crate::parse_override`].
    pub overrides: Vec<Sweep>,
    /// True if suites with `[inputs]` read their own files instead of `data` and `weights`.
    pub suite_inputs: bool,
    /// Kinds of data that the user provides. Any other kind is replaced by its synthetic generator.
    pub data: Vec<DatasetKind>,
    /// Workloads that start from given weights.
    pub weights: StartingWeights,
    /// User models by workload, whose sizes replace those of the suites. The empty name applies to all other workloads with a model.
    pub models: BTreeMap<String, Model>,
    /// Substring of the workload name or of the setting text (`precision=bf16-mixed matmul=high …`). Cells that do not match are dropped.
    pub filter: Option<String>,
}

/// Workloads that start from weights of the user.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum StartingWeights {
    /// No weights. Workloads that need weights are skipped.
    #[default]
    None,
    /// Random weights, by request. Only times and memory of such a run are meaningful.
    Random,
    /// All workloads.
    All,
    /// Workloads with these names.
    Of(Vec<String>),
}

impl PlanOptions {
    /// Returns the kinds of data and the weights that the workloads of a suite have.
    pub(super) fn provided(&self, files: &SuiteInputs) -> (Vec<DatasetKind>, StartingWeights) {
        if !self.suite_inputs || files.is_empty() {
            return (self.data.clone(), self.weights.clone());
        }
        let workloads = files.weights.keys().cloned().collect();
        (
            files.data.keys().copied().collect(),
            StartingWeights::Of(workloads),
        )
    }
}

impl StartingWeights {
    /// Returns true if a workload that needs weights can run.
    pub(super) fn available_for(&self, workload: &str) -> bool {
        match self {
            Self::None => false,
            Self::Random | Self::All => true,
            Self::Of(names) => names.iter().any(|name| name == workload),
        }
    }
}
