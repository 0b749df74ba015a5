//! Peaks of host memory, device memory and the allocator.

use mantissa_core::{Backend, Metric, MetricName};

use super::{
    measurements::Measurements,
    metric_map::Metrics,
    missing_reason::{NVML_CUDA_ONLY, why_missing},
};

const NO_DEVICE_MEMORY: &str = "the CPU backend has no device memory";

/// Adds the memory peaks.
pub(super) fn memory_peaks(metrics: &mut Metrics, backend: Backend, measured: &Measurements<'_>) {
    let mut bytes = |name, bytes: Option<u64>, method: &str, otherwise: &str| {
        let metric = bytes.map_or_else(
            || Metric::absent(name, otherwise),
            |bytes| Metric::reading(name, bytes as f64, method),
        );
        metrics.insert(name, metric);
    };
    let trace = measured.trace;
    let missing = |what: &str| match backend {
        Backend::Flex => NO_DEVICE_MEMORY,
        Backend::Vulkan => NVML_CUDA_ONLY,
        Backend::Cuda => why_missing(trace, what).unwrap_or("not read"),
    };
    bytes(
        MetricName::HostPeakBytes,
        measured.peaks.host,
        trace.host_peak_method(),
        "the system does not report it",
    );
    bytes(
        MetricName::DevicePeakBytes,
        measured.peaks.device,
        "NVML, sampled",
        missing("device memory"),
    );
    bytes(
        MetricName::ProcessPeakBytes,
        measured.peaks.process,
        "NVML, sampled",
        missing("process memory"),
    );
    let (reserved, in_use) = (
        measured.allocator.map(|a| a.reserved),
        measured.allocator.map(|a| a.in_use),
    );
    let allocator_method = match measured.by_peer {
        true => "allocator, peak since the cell was read",
        false => "allocator, queried after every step and after parts of a step",
    };
    let not_queried = if backend == Backend::Flex {
        NO_DEVICE_MEMORY
    } else {
        "the allocator was not queried"
    };
    bytes(
        MetricName::AllocatorReservedPeakBytes,
        reserved,
        allocator_method,
        not_queried,
    );
    bytes(
        MetricName::AllocatorInUsePeakBytes,
        in_use,
        allocator_method,
        not_queried,
    );
}

#[cfg(test)]
mod tests {
    use mantissa_core::TaskKind;

    use super::*;
    use crate::metrics::testing::{metrics, training_outcome};

    #[test]
    fn device_metrics_are_absent_on_the_cpu() {
        let metrics = metrics(TaskKind::Train, &training_outcome(&[0.7]));
        assert_eq!(metrics[&MetricName::DevicePeakBytes].value, None);
        assert_eq!(metrics[&MetricName::DevicePeakBytes].method, NO_DEVICE_MEMORY);
        assert_eq!(metrics[&MetricName::EnergyCounterJoules].value, None);
    }
}
