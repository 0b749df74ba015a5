//! `mantissa devices`.

use anyhow::Result;
use mantissa_runner::{BackendState, backends};
use mantissa_telemetry::{Device, state, unavailable};
use serde_json::{Value, json};

use crate::printer::Printer;

pub(crate) fn devices(as_json: bool, printer: &Printer) -> Result<()> {
    let (backends, devices, missing) = (backends(), state(), unavailable());
    if as_json {
        let value = json!({
            "backends": backends.iter().map(backend_json).collect::<Vec<_>>(),
            "nvml": { "unavailable": missing, "devices": devices.iter().map(device_json).collect::<Vec<_>>() },
        });
        printer.data(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let mut lines: Vec<String> = backends.iter().map(backend_text).collect();
    lines.push(match missing {
        Some(reason) => format!("NVML    not available: {reason}"),
        None => format!("NVML    {} devices", devices.len()),
    });
    lines.extend(devices.iter().map(device_text));
    printer.data(&lines.join("\n"));
    Ok(())
}

fn backend_json(state: &BackendState) -> Value {
    let formats = state
        .formats
        .iter()
        .map(|(format, support)| (format.name().to_owned(), support.name().into()));
    json!({
        "backend": state.backend,
        "unavailable": state.unavailable,
        "device": state.device,
        "formats": Value::Object(formats.collect()),
    })
}

fn backend_text(state: &BackendState) -> String {
    let name = state.backend.name();
    if let Some(reason) = &state.unavailable {
        return format!("{name:<7} not available: {reason}");
    }
    let formats: Vec<String> = state
        .formats
        .iter()
        .map(|(format, support)| format!("{format} {}", support.name()))
        .collect();
    format!(
        "{name:<7} {}\n        {}",
        state.device.as_deref().unwrap_or("unnamed device"),
        formats.join(", ")
    )
}

fn device_json(device: &Device) -> Value {
    json!({
        "gpu": device.gpu,
        "used_bytes": device.used_bytes,
        "power_watts": device.power_watts,
        "power_limit_watts": device.power_limit_watts,
        "sm_clock_hz": device.sm_clock_hz,
        "temperature_celsius": device.temperature_celsius,
        "throttle": device.throttle,
        "processes": device.processes,
    })
}

fn device_text(device: &Device) -> String {
    let known = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    let number = |value: Option<f64>, scale: f64, unit: &str| {
        value.map_or_else(
            || format!("- {unit}"),
            |value| format!("{:.1} {unit}", value / scale),
        )
    };
    let bytes = |value: Option<u64>| number(value.map(|bytes| bytes as f64), 1e9, "GB");
    let gpu = &device.gpu;
    let throttle = if device.throttle.is_empty() {
        "none".to_owned()
    } else {
        device.throttle.join(", ")
    };
    [
        format!("        {}, {}", gpu.name, known(&gpu.uuid)),
        format!(
            "        memory {} of {}, driver {}, CUDA {}, compute capability {}",
            bytes(device.used_bytes),
            bytes(gpu.memory_bytes),
            known(&gpu.driver),
            known(&gpu.cuda),
            known(&gpu.compute_capability)
        ),
        format!(
            "        power {} of {}, clock {}, {}, throttled: {throttle}, processes: {}",
            number(device.power_watts, 1.0, "W"),
            number(device.power_limit_watts, 1.0, "W"),
            number(device.sm_clock_hz, 1e9, "GHz"),
            number(device.temperature_celsius, 1.0, "°C"),
            device
                .processes
                .map_or_else(|| "unknown".into(), |count| count.to_string())
        ),
    ]
    .join("\n")
}
