//! Energy and idle power of the device.

use mantissa_core::{Backend, Metric, MetricName};

use super::{
    measurements::Measurements,
    metric_map::Metrics,
    missing_reason::{NVML_CUDA_ONLY, why_missing},
};

/// Adds the energy, the energy above idle and the idle power.
pub(super) fn energy(metrics: &mut Metrics, backend: Backend, measured: &Measurements<'_>) {
    let mut reading = |name, value: Result<f64, String>, method: &str| {
        let metric = match value {
            Ok(value) => Metric::reading(name, value, method),
            Err(reason) => Metric::absent(name, &reason),
        };
        metrics.insert(name, metric);
    };
    if backend != Backend::Cuda {
        let reason = if backend == Backend::Flex {
            "no power sensor is read on the CPU"
        } else {
            NVML_CUDA_ONLY
        };
        reading(MetricName::EnergyCounterJoules, Err(reason.into()), "");
        reading(MetricName::EnergyIntegralJoules, Err(reason.into()), "");
        reading(MetricName::EnergyAboveIdleJoules, Err(reason.into()), "");
        reading(MetricName::IdleWatts, Err(reason.into()), "");
        return;
    }
    let energy = measured.trace.energy(measured.window.clone());
    let sampled = format!(
        "trapezoid over sampled power, {:.0} % covered",
        100.0 * energy.coverage
    );
    let or_nvml_reason = |joules: Result<f64, String>, what| {
        joules.map_err(|reason| why_missing(measured.trace, what).map_or(reason, str::to_owned))
    };
    let above = measured.idle_watts.clone().and_then(|watts| {
        let above = energy.clone().above_idle(watts);
        let (joules, source) = match energy.counter_joules {
            Ok(_) => (above.counter_joules?, "counter of the device"),
            Err(_) => (or_nvml_reason(above.integral_joules, "power")?, sampled.as_str()),
        };
        Ok((joules, format!("{source}, minus {watts:.1} W of the idle device")))
    });
    let method = above.as_ref().map_or(String::new(), |(_, method)| method.clone());
    reading(
        MetricName::EnergyAboveIdleJoules,
        above.map(|(joules, _)| joules),
        &method,
    );
    reading(
        MetricName::IdleWatts,
        measured.idle_watts.clone(),
        "mean of sampled power before the first cell",
    );
    reading(
        MetricName::EnergyCounterJoules,
        or_nvml_reason(energy.counter_joules, "energy counter"),
        "counter of the device",
    );
    reading(
        MetricName::EnergyIntegralJoules,
        or_nvml_reason(energy.integral_joules, "power"),
        &sampled,
    );
}
