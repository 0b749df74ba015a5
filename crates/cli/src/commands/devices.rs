//! `mantissa devices`.

use anyhow::Result;
use mantissa_collectives::{mpi_library, mpirun};
use mantissa_runner::{BackendState, Engine as _, backends};
use mantissa_telemetry::{Device, clock_settings, state, unavailable};
use mantissa_worker::Burn;
use serde_json::{Value, json};

use crate::printer::Printer;

const NVML_HINT: &str = "NVML is the library of the NVIDIA driver that reports memory and power, as used by `nvidia-smi`; in a \
                         container, enable the driver capability `utility`";

pub(crate) fn devices(as_json: bool, printer: &Printer) -> Result<()> {
    let (backends, devices, nvml_error) = (backends(&Burn), state(), unavailable());
    if as_json {
        let value = json!({
            "mpi": { "library": mpi_library(), "mpirun": mpirun() },
            "nccl": nccl_json(),
            "backends": backends.iter().map(backend_json).collect::<Vec<_>>(),
            "nvml": { "unavailable": nvml_error, "hint": nvml_error.map(|_| NVML_HINT), "devices": devices.iter().map(device_json).collect::<Vec<_>>() },
        });
        printer.data(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let mut lines: Vec<String> = backends.iter().map(backend_text).collect();
    lines.push(mpi_text());
    lines.push(nccl_text());
    lines.push(match nvml_error {
        Some(reason) => format!("NVML    not available: {reason}\n        hint: {NVML_HINT}"),
        None => format!("NVML    {} devices", devices.len()),
    });
    lines.extend(devices.iter().map(device_text));
    printer.data(&lines.join("\n"));
    Ok(())
}

/// Describes the MPI library, which connects the processes of cells with several devices, and its launcher.
fn mpi_text() -> String {
    let Some(library) = mpi_library() else {
        return "MPI     not available: this program was built without the feature `mpi`".to_owned();
    };
    // Open MPI adds its package, its revision and a date.
    let name = library.split(',').next().unwrap_or_default();
    match mpirun() {
        Some(path) => format!("MPI     {name}, started with `{}`", path.display()),
        None => format!("MPI     {name}, but `mpirun` is not in a folder of `PATH`"),
    }
}

/// Describes NCCL, which sums the gradients of several GPUs.
fn nccl_json() -> Value {
    let (version, unavailable) = match Burn.nccl_version() {
        Ok(version) => (Some(version), None),
        Err(reason) => (None, Some(reason)),
    };
    json!({ "version": version, "unavailable": unavailable })
}

fn nccl_text() -> String {
    match Burn.nccl_version() {
        Ok(version) => format!("NCCL    {version}"),
        Err(reason) => format!(
            "NCCL    not available: {}",
            reason.replace("; hint: ", "\n        hint: ")
        ),
    }
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
        "pci_bus_id": device.pci_bus_id,
        "used_bytes": device.used_bytes,
        "power_watts": device.power_watts,
        "power_limit_watts": device.gpu.power_limit_watts,
        "power_limit_default_watts": device.power_limit_default_watts,
        "sm_clock_hz": device.sm_clock_hz,
        "sm_clock_max_hz": device.gpu.sm_clock_max_hz,
        "memory_clock_hz": device.memory_clock_hz,
        "temperature_celsius": device.temperature_celsius,
        "throttle": device.throttle,
        "clock_settings": device.clock_bits.map(clock_settings),
        "processes": device.processes,
        "ecc": device.gpu.ecc,
        "ecc_uncorrected": device.ecc_uncorrected,
        "persistence": device.gpu.persistence,
        "mig": device.mig,
    })
}

fn device_text(device: &Device) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
    let number = |value: Option<f64>, scale: f64, unit: &str| {
        value.map_or_else(
            || format!("- {unit}"),
            |value| format!("{:.1} {unit}", value / scale),
        )
    };
    let bytes = |value: Option<u64>| number(value.map(|bytes| bytes as f64), 1e9, "GB");
    let watts = |value| number(value, 1.0, "W");
    let megahertz = |value: Option<f64>| {
        value.map_or_else(|| "- MHz".to_owned(), |value| format!("{:.0} MHz", value / 1e6))
    };
    let on_off = |value: Option<bool>| value.map_or("unknown", |on| if on { "on" } else { "off" });
    let count = |value: Option<u64>| value.map_or_else(|| "unknown".into(), |count| count.to_string());
    let gpu = &device.gpu;
    let clock_limits = device.clock_bits.map(clock_settings).unwrap_or_default();
    let limits: Vec<&str> = device.throttle.iter().copied().chain(clock_limits).collect();
    let limits = match (limits.is_empty(), device.clock_bits) {
        (false, _) => limits.join(", "),
        (true, Some(_)) => "none".to_owned(),
        (true, None) => "unknown".to_owned(),
    };
    [
        format!(
            "        {}, {}, PCI {}",
            gpu.name,
            text(&gpu.uuid),
            text(&device.pci_bus_id)
        ),
        format!(
            "        memory {} of {}, driver {}, CUDA {}, compute capability {}",
            bytes(device.used_bytes),
            bytes(gpu.memory_bytes),
            text(&gpu.driver),
            text(&gpu.cuda),
            text(&gpu.compute_capability)
        ),
        format!(
            "        power {} of {} (default {}), {}, clock {} of {}, memory clock {}, clock limits: {limits}",
            watts(device.power_watts),
            watts(device.gpu.power_limit_watts),
            watts(device.power_limit_default_watts),
            number(device.temperature_celsius, 1.0, "°C"),
            megahertz(device.sm_clock_hz),
            megahertz(device.gpu.sm_clock_max_hz),
            megahertz(device.memory_clock_hz),
        ),
        format!(
            "        processes {}, ECC {}, uncorrected errors {}, persistence {}, MIG {}",
            count(device.processes.map(|count| count as u64)),
            on_off(device.gpu.ecc),
            count(device.ecc_uncorrected),
            on_off(device.gpu.persistence),
            on_off(device.mig)
        ),
    ]
    .join("\n")
}
