//! Reasons for metrics that NVML does not report.

use mantissa_telemetry::Trace;

pub(super) const NVML_CUDA_ONLY: &str = "NVML is queried for the cuda backend only";

/// Returns the reason why NVML does not report the quantity `what`, or stopped reporting it.
pub(super) fn why_missing<'a>(trace: &'a Trace, what: &str) -> Option<&'a str> {
    let mut reasons = trace.missing().iter();
    let reason = reasons.find(|reason| reason.starts_with(what) || reason.starts_with("NVML"));
    reason.map(String::as_str)
}
