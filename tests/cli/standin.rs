//! Runs the binary on a scripted NVML (`tests/nvml`) and a CUDA driver without a GPU (`tests/cuda`).
#![cfg(target_os = "linux")]

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    cuda::toolkit,
    support::{TestDir, root},
};

/// UUID of the device of the CUDA driver without a GPU.
pub const UUID: &str = "GPU-00000000-0000-0000-0000-000000000000";

/// Returns a command on both stand-ins, with these script lines for its only device.
pub fn nvml_command(dir: &TestDir, arguments: &[&str], lines: &str) -> Command {
    let device = format!("device {UUID} 00000000:17:00.0 Stand-in A\n{lines}");
    nvml_command_with_devices(dir, arguments, &device)
}

/// Returns a command on both stand-ins, with the devices of this NVML script.
pub fn nvml_command_with_devices(dir: &TestDir, arguments: &[&str], devices: &str) -> Command {
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(dir.path("libnvidia-ml.so.1"))
        .arg(root().join("tests/nvml/nvml.c"))
        .arg("-ldl")
        .status();
    assert!(
        compiled.is_ok_and(|status| status.success()),
        "cannot compile nvml.c"
    );
    let script = format!("driver 550.54.15\n{devices}");
    fs::write(dir.path("nvml.script"), script).unwrap();
    let mut command = dir.command(arguments);
    command
        .env(
            "LD_LIBRARY_PATH",
            format!("{}:{}", dir.path("").display(), toolkit().display()),
        )
        .env("CUDA_PATH", toolkit())
        .env("MANTISSA_UNCHECKED_KERNELS", "1")
        .env_remove("CUDA_VISIBLE_DEVICES")
        .env("MANTISSA_NVML_SCRIPT", dir.path("nvml.script"));
    command
}

/// Returns a `mantissa run` command for two small matmuls.
pub fn matmul_run(dir: &TestDir, options: &[&str], lines: &str) -> Command {
    nvml_command(dir, &matmul_arguments(options), lines)
}

/// Returns the arguments of `mantissa run` for two small matmuls.
pub fn matmul_arguments<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let fixed = [
        "run",
        "fixtures/kernels.toml",
        "--backend",
        "cuda",
        "--profile",
        "smoke",
        "--out",
        "run",
        "-a",
        "precision=32-true",
    ];
    [&fixed[..], options].concat()
}

/// Returns the details of a record's events of one kind.
pub fn event_details<'a>(record: &'a Value, kind: &str) -> Vec<&'a str> {
    let events = record["events"].as_array().unwrap().iter();
    let of_kind = events.filter(|event| event["kind"] == kind);
    of_kind.map(|event| event["detail"].as_str().unwrap()).collect()
}
