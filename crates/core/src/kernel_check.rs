//! Checks of candidate kernels against float64. The autotuner may only choose kernels that pass.

use serde::{Deserialize, Serialize};

use crate::name::named;

named! {
    /// Operation for which the autotuner chooses among several kernels with the same arithmetic.
    pub enum CheckedOperation ("operation") {
        /// Matrix multiplication.
        Matmul = "matmul",
        /// Convolution: the output and both gradients.
        Convolution = "convolution",
        /// Fused attention.
        FusedAttention = "fused-attention",
    }
}

/// A candidate kernel for operands of one dtype.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CandidateKernel {
    /// Operation of the kernel.
    pub operation: CheckedOperation,
    /// Dtype of the operands in memory: `f64`, `f32`, `bf16` or `f16`.
    pub operands: String,
    /// Name of the candidate. It contains the accumulator width unless that is f32.
    pub candidate: String,
}

named! {
    /// Verdict of a check.
    pub enum CheckVerdict ("verdict") {
        /// Every result agrees with float64.
        Passed = "passed",
        /// The kernel cannot be launched for any of the shapes.
        Refused = "refused",
        /// A result differs from float64.
        Wrong = "wrong",
        /// The device reported an error, or the process crashed.
        Crashed = "crashed",
        /// The check exceeded its time limit.
        Timeout = "timeout",
    }
}

/// Observations of a process that checked a candidate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedCandidate {
    /// Number of shapes that were launched and compared.
    pub shapes: u32,
    /// The launched kernels: one entry for each dtype of the operands.
    pub launched: Vec<CandidateKernel>,
    /// The first result that differs from float64.
    pub wrong: Option<String>,
    /// Reason why a shape could not be launched; the last one if there are several such shapes.
    pub refused: Option<String>,
}

/// Result of the check of a candidate under one setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelCheck {
    /// Operation of the kernel.
    pub operation: CheckedOperation,
    /// Precision, matmul precision and accumulator, e.g. `32-true high f32`.
    pub setting: String,
    /// Name of the candidate.
    pub candidate: String,
    /// Verdict of the check.
    pub verdict: CheckVerdict,
    /// Number of shapes that were launched and compared.
    pub shapes: u32,
    /// Reason why the candidate did not pass.
    pub detail: Option<String>,
    /// The kernels that passed: one entry for each dtype of the operands.
    pub passed: Vec<CandidateKernel>,
    /// Version of the NVIDIA driver (`580.95.05`); `None` if NVML does not report it.
    #[serde(default)]
    pub driver: Option<String>,
}

impl KernelCheck {
    /// Name of the file with all checks, in the folder of the kernel cache.
    pub const FILE: &str = "checks.json";

    /// Returns the result of a check whose process exited normally.
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
            driver: None,
        }
    }

    /// Returns the result of a check whose process crashed or was killed, or whose device failed.
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
            driver: None,
        }
    }
}

/// Name of the environment variable that lets a run use kernels without a check.
pub const UNCHECKED_KERNELS: &str = "MANTISSA_UNCHECKED_KERNELS";
