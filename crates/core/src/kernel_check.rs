//! Checks of candidate kernels against float64, which decide what the autotuner may choose.

use serde::{Deserialize, Serialize};

use crate::name::named;

named! {
    /// Operations whose kernels the autotuner chooses from candidates of one arithmetic.
    pub enum CheckedOperation ("operation") {
        /// Matrix product.
        Matmul = "matmul",
        /// Convolution: its output and both its gradients.
        Convolution = "convolution",
        /// Attention in one kernel.
        FusedAttention = "fused-attention",
    }
}

/// A candidate kernel for operands of one dtype.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CandidateKernel {
    /// The operation.
    pub operation: CheckedOperation,
    /// Dtype of the operands in memory: `f64`, `f32`, `bf16` or `f16`.
    pub operands: String,
    /// Name of the candidate, which says how wide its sums are where that is not f32.
    pub candidate: String,
}

named! {
    /// How the check of a candidate ended.
    pub enum CheckVerdict ("verdict") {
        /// Every result is that of float64.
        Passed = "passed",
        /// It cannot be launched for any of the shapes.
        Refused = "refused",
        /// A result differs from float64.
        Wrong = "wrong",
        /// The device reported an error, or the process died.
        Crashed = "crashed",
        /// It did not end in time.
        Timeout = "timeout",
    }
}

/// What a process observed of a candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedCandidate {
    /// Shapes that were launched and compared.
    pub shapes: u32,
    /// The kernels that were launched, by the dtype of their operands.
    pub launched: Vec<CandidateKernel>,
    /// The first result that differs from float64.
    pub wrong: Option<String>,
    /// Why a shape was not launched; the last one.
    pub refused: Option<String>,
}

/// Result of the check of a candidate under one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCheck {
    /// The operation.
    pub operation: CheckedOperation,
    /// The setting: `32-true high f32`, which are its precision, matmul precision and accumulator.
    pub setting: String,
    /// Name of the candidate.
    pub candidate: String,
    /// How it ended.
    pub verdict: CheckVerdict,
    /// Shapes that were launched and compared.
    pub shapes: u32,
    /// Why it did not pass.
    pub detail: Option<String>,
    /// The kernels that passed, by the dtype of their operands.
    pub passed: Vec<CandidateKernel>,
}

impl KernelCheck {
    /// Name of the file with all checks, in the folder of the kernel cache.
    pub const FILE: &str = "checks.json";

    /// Result of a process that ended by itself.
    pub fn of(
        operation: CheckedOperation,
        setting: String,
        candidate: String,
        seen: CheckedCandidate,
    ) -> Self {
        let CheckedCandidate {
            shapes,
            launched,
            wrong,
            refused,
        } = seen;
        let verdict = match (&wrong, shapes) {
            (Some(_), _) => CheckVerdict::Wrong,
            (None, 0) => CheckVerdict::Refused,
            (None, _) => CheckVerdict::Passed,
        };
        Self {
            passed: if verdict == CheckVerdict::Passed {
                launched
            } else {
                vec![]
            },
            detail: wrong.or(refused.filter(|_| verdict == CheckVerdict::Refused)),
            verdict,
            operation,
            setting,
            candidate,
            shapes,
        }
    }

    /// Result of a process that did not end by itself, or whose device failed.
    pub fn failed(
        operation: CheckedOperation,
        setting: String,
        candidate: String,
        (verdict, detail): (CheckVerdict, String),
    ) -> Self {
        Self {
            operation,
            setting,
            candidate,
            verdict,
            shapes: 0,
            detail: Some(detail),
            passed: vec![],
        }
    }
}

/// Name of the environment variable with which kernels are used that were not checked.
pub const UNCHECKED_KERNELS: &str = "MANTISSA_UNCHECKED_KERNELS";
