//! Unreliable GPUs: the record lists the values that were read and those that were not. Runs on a scripted NVML (`tests/nvml`) and a CUDA driver
//! without a GPU (`tests/cuda`).
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use serde_json::Value;

use crate::{
    standin::{UUID, event_details, matmul_arguments, matmul_run, nvml_command, nvml_command_with_devices},
    support::{TestDir, statuses, stderr},
};

/// NVML script of a device without errors. The first call returns 1000 bytes in use, later calls 6000. The energy rises with every call.
const REGULAR_DEVICE: &str = "
    total 80000000000
    memory 1000 6000
    power 300000
    energy 1000+3000
    clock 1410
    memory-clock 1593
    temperature 55
    throttle 0
    utilisation 87
    ecc 0
    ecc-mode 0
    persistence 1
    process self 4000
";

/// Arguments for one cell without cooldown.
const ONE_CELL: [&str; 4] = ["--cool-down", "0", "-a", "size=16"];

/// Returns the record of a cell on a device with this script.
fn record(lines: &str) -> Value {
    let dir = TestDir::new();
    let output = matmul_run(&dir, &ONE_CELL, &format!("{REGULAR_DEVICE}{lines}"))
        .output()
        .unwrap();
    only_record(&dir, &output)
}

fn only_record(dir: &TestDir, output: &Output) -> Value {
    let mut records = dir.records("run");
    assert_eq!(records.len(), 1, "{}", stderr(output));
    records.remove(0)
}

fn value(record: &Value, metric: &str) -> Option<f64> {
    record["metrics"][metric]["value"].as_f64()
}

/// Returns the reason why a metric has no value.
fn missing_reason<'a>(record: &'a Value, metric: &str) -> &'a str {
    let metric = &record["metrics"][metric];
    assert!(metric["value"].is_null(), "{metric}");
    metric["method"].as_str().unwrap_or_else(|| panic!("{record:#}"))
}

#[test]
fn readings_of_a_regular_device_are_recorded() {
    let dir = TestDir::new();
    let output = matmul_run(&dir, &ONE_CELL, REGULAR_DEVICE).output().unwrap();
    let record = only_record(&dir, &output);
    assert_eq!(value(&record, "device_peak_bytes"), Some(5000.0));
    assert_eq!(value(&record, "process_peak_bytes"), Some(4000.0));
    assert!(
        event_details(&record, "telemetry").is_empty() && event_details(&record, "device-lost").is_empty()
    );
    let gpu = &record["fingerprint"]["gpu"];
    assert_eq!(
        (&gpu["ecc"], &gpu["persistence"]),
        (&false.into(), &true.into()),
        "{gpu}"
    );
}

/// Returns a command that runs one cell, which launches a matmul for this many seconds.
fn run_for_seconds(dir: &TestDir, seconds: u32, lines: &str) -> Command {
    let suite = format!("{LONG_SUITE}max_seconds = {seconds}\n");
    std::fs::write(dir.path("fixtures/long.toml"), suite).unwrap();
    let arguments = [
        "run",
        "fixtures/long.toml",
        "--backend=cuda",
        "--repeats=1",
        "--out=run",
        "-a",
        "precision=32-true",
    ];
    let mut command = nvml_command(dir, &arguments, lines);
    // The CUDA events report an implausibly long time, so the wall clock is used instead.
    command.env("STANDIN_ELAPSED_NS", "1000000000000");
    command
}

const LONG_SUITE: &str = r#"
title = "A long matmul"
question = "How long does it take?"
axes = { size = [16] }
[[workload]]
name = "matmul"
task = "kernel"
kernel = "matmul"
min_samples = 20
max_samples = 1_000_000
max_noise = 1e-9
"#;

#[test]
fn the_sampling_rate_and_the_trace_are_recorded() {
    let dir = TestDir::new();
    let output = run_for_seconds(&dir, 1, REGULAR_DEVICE)
        .arg("--cool-down=0")
        .output()
        .unwrap();
    let record = only_record(&dir, &output);
    let detail = event_details(&record, "sampling").concat();
    assert!(
        detail.contains("100 Hz requested") && detail.contains("% covered") && detail.contains("late"),
        "{detail}"
    );
    let samples: Value = serde_json::from_str(&dir.samples(&record)).unwrap();
    let series = samples["series"].as_array().unwrap();
    for name in [
        "power_watts",
        "device_bytes",
        "sm_clock_hz",
        "temperature_celsius",
        "host_bytes",
    ] {
        let found = series.iter().find(|series| series["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no trace of `{name}`: {series:?}"));
        assert!(!found["x"].as_array().unwrap().is_empty(), "{name}");
    }
}

#[test]
fn energy_is_recorded_in_total_and_above_idle() {
    let dir = TestDir::new();
    let lines = format!("{REGULAR_DEVICE}instant 300000\nidle 100000");
    let output = run_for_seconds(&dir, 4, &lines).output().unwrap();
    let record = only_record(&dir, &output);
    let joules = |name: &str| value(&record, name).unwrap_or_else(|| panic!("no `{name}`: {record:#}"));
    assert!((joules("idle_watts") - 100.0).abs() < 1e-9, "{record:#}");
    // The power is 300 W throughout, and the counter rises by 3 J per reading.
    let (integral, counter) = (joules("energy_integral_joules"), joules("energy_counter_joules"));
    let seconds = integral / 300.0;
    assert!(seconds > 2.0, "{seconds} s");
    assert!(counter > 100.0 * seconds, "{counter} J");
    let above = joules("energy_above_idle_joules");
    assert!(
        (above - (counter - 100.0 * seconds)).abs() < 0.01 * counter,
        "{above} J of {counter} J in {seconds} s"
    );
    let method = record["metrics"]["energy_above_idle_joules"]["method"]
        .as_str()
        .unwrap();
    assert_eq!(method, "counter of the device, minus 100.0 W of the idle device");
}

#[test]
fn idle_power_is_read_until_steady_and_kept_on_resume() {
    let dir = TestDir::new();
    // The idle power falls from 400 W to 100 W over 150 readings, so it is not steady in the first two and a half seconds, even if a busy
    // machine samples slowly.
    let lines = format!("{REGULAR_DEVICE}instant 300000\nidle 400000-2000*150 100000");
    let idle_watts = |output: Output| value(&only_record(&dir, &output), "idle_watts");
    let first = matmul_run(&dir, &["-a", "size=16"], &lines).output().unwrap();
    let first = idle_watts(first).unwrap();
    assert!((95.0..110.0).contains(&first), "{first} W");
    // Without its record, the cell runs again. It must use the idle power that the run folder stores.
    std::fs::write(dir.path("run/records.jsonl"), "").unwrap();
    let warm = format!("{REGULAR_DEVICE}instant 300000\nidle 180000");
    let resumed = nvml_command(&dir, &["run", "--resume", "run"], &warm)
        .output()
        .unwrap();
    assert_eq!(idle_watts(resumed), Some(first));
}

#[test]
fn busy_determines_the_status_of_a_disturbed_cell() {
    // Of the calls that list processes, the third to the sixth in a process list another process. Only the worker makes so many calls.
    let lines = format!("{REGULAR_DEVICE}process 4711 2000 3 6");
    let mut results = vec![];
    for busy in ["warn", "fail", "wait"] {
        let dir = TestDir::new();
        let mut command = run_for_seconds(&dir, 1, &lines);
        let output = command.args(["--cool-down=0", "--busy", busy]).output().unwrap();
        let records = dir.records("run");
        let all_detected = records
            .iter()
            .all(|record| event_details(record, "foreign-process").len() == 1);
        assert!(all_detected, "{busy}: {records:#?}");
        results.push((statuses(&records).join(" "), output.status.code().unwrap()));
    }
    let wanted = [
        ("matmul ok", 0),
        ("matmul failed", 4),
        ("matmul failed matmul failed", 3),
    ];
    assert_eq!(
        results,
        wanted.map(|(statuses, code)| (statuses.to_owned(), code))
    );
}

#[test]
fn oom_next_to_another_process_fails_with_busy_fail() {
    for (busy, status, code) in [("warn", "oom", 3), ("fail", "failed", 4)] {
        let dir = TestDir::new();
        let lines = format!("{REGULAR_DEVICE}rival 4711 2000");
        let output = matmul_run(&dir, &[&ONE_CELL[..], &["--busy", busy]].concat(), &lines)
            .env("STANDIN_MIB", "1")
            .output()
            .unwrap();
        let record = only_record(&dir, &output);
        assert_eq!(record["status"], status, "{busy}");
        assert_eq!(output.status.code(), Some(code), "{busy}: {}", stderr(&output));
        let reason = record["reason"].as_str().unwrap();
        assert_eq!(reason.contains("which ended `oom`: "), busy == "fail", "{reason}");
    }
}

#[test]
fn idle_power_is_not_recorded_if_another_process_computes() {
    // The first or the second call that lists processes, and all later ones, list another process.
    for from in ["1", "2"] {
        let dir = TestDir::new();
        let lines = format!("{REGULAR_DEVICE}process 4711 2000 {from}");
        let output = matmul_run(&dir, &["-a", "size=16"], &lines).output().unwrap();
        let record = only_record(&dir, &output);
        assert_eq!(
            missing_reason(&record, "idle_watts"),
            "another process computed on the device before the first cell"
        );
    }
}

#[test]
fn idle_power_is_not_recorded_at_high_utilisation() {
    let dir = TestDir::new();
    let lines = format!("{REGULAR_DEVICE}no-processes");
    let output = matmul_run(&dir, &["-a", "size=16", "--cool-down", "1"], &lines)
        .output()
        .unwrap();
    let record = only_record(&dir, &output);
    assert_eq!(
        missing_reason(&record, "idle_watts"),
        "the device was 87 % busy before the first cell"
    );
}

#[test]
fn energy_of_a_short_cell_is_not_recorded() {
    let record = record("");
    for name in ["energy_counter_joules", "energy_integral_joules"] {
        let why = missing_reason(&record, name);
        assert!(why.contains("too short"), "{name}: {why}");
    }
    let why = missing_reason(&record, "energy_above_idle_joules");
    assert!(why.contains("because of `--cool-down 0`"), "{why}");
}

#[test]
fn training_steps_record_the_clock_and_throttling() {
    let dir = TestDir::new();
    let arguments = [
        "run",
        "fixtures/parts.toml",
        "--backend=cuda",
        "--repeats=1",
        "--out=run",
        "--cool-down=0",
        "-a",
        "fusion=off",
    ];
    // 64: thermal slowdown by the hardware, throughout.
    let hot = REGULAR_DEVICE.replace("throttle 0", "throttle 64");
    let output = nvml_command(&dir, &arguments, &hot).output().unwrap();
    let record = only_record(&dir, &output);
    let clock = event_details(&record, "clock").concat();
    assert!(
        clock.starts_with("wall clock between two synchronisations: an empty launch takes"),
        "{clock}"
    );
    let samples: Value = serde_json::from_str(&dir.samples(&record)).unwrap();
    let series = |name: &str| {
        let mut all = samples["series"].as_array().unwrap().iter();
        let found = all.find(|series| series["name"] == name);
        let found = found.unwrap_or_else(|| panic!("no `{name}`: {samples}"));
        let values = found["y"].as_array().unwrap().iter();
        values.map(|y| y.as_f64().unwrap()).collect::<Vec<_>>()
    };
    let marks = series("throttled");
    assert_eq!(marks.len(), series("step_seconds").len());
    assert!(marks.iter().all(|mark| *mark == 1.0), "{marks:?}");
}

#[test]
fn a_lost_device_leaves_its_metrics_empty() {
    let record = record("fail any 60 15");
    assert!(event_details(&record, "device-lost")[0].contains("fell off the bus"));
    assert!(missing_reason(&record, "device_peak_bytes").starts_with("NVML: lost after "));
    missing_reason(&record, "energy_counter_joules");
    missing_reason(&record, "energy_integral_joules");
}

#[test]
fn a_device_lost_during_a_cell_fails_it_with_both_reasons() {
    let dir = TestDir::new();
    let output = matmul_run(&dir, &ONE_CELL, &format!("{REGULAR_DEVICE}fail any 20 15"))
        // Fail during the measurement: tuning takes about 400 launches, and the whole cell fewer than a thousand.
        .env("STANDIN_AFTER", "600")
        .env("STANDIN_LAUNCH", "719")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let record = only_record(&dir, &output);
    assert_eq!(record["status"], "failed");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("; hint: run `mantissa devices`"), "{reason}");
    let lost = event_details(&record, "device-lost").concat();
    assert!(lost.contains("fell off the bus"), "{record}");
    for name in ["flops_per_second", "energy_counter_joules", "device_peak_bytes"] {
        assert!(record["metrics"][name]["value"].is_null(), "{name}: {record:#}");
    }
}

#[test]
fn a_lost_device_is_recorded_even_if_the_worker_times_out() {
    let dir = TestDir::new();
    let arguments = [
        "run",
        "fixtures/endless.toml",
        "--backend=cuda",
        "--profile=standard",
        "--repeats=1",
        "--out=run",
        "--cool-down=0",
        "-a",
        "precision=32-true",
    ];
    let output = nvml_command(&dir, &arguments, &format!("{REGULAR_DEVICE}fail any 60 15"))
        .output()
        .unwrap();
    let records = dir.records("run");
    assert_eq!(statuses(&records)[0], "endless timeout", "{}", stderr(&output));
    let lost = event_details(&records[0], "device-lost").concat();
    assert!(lost.contains("fell off the bus"), "{:#}", records[0]);
}

#[test]
fn cells_after_a_lost_device_fail_and_a_resume_runs_them_again() {
    let dir = TestDir::new();
    let gone = dir.path("gone");
    let output = matmul_run(&dir, &["--cool-down", "0"], REGULAR_DEVICE)
        .env("STANDIN_AFTER", "600")
        .env("STANDIN_LAUNCH", "719")
        .env("STANDIN_GONE", &gone)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(statuses(&records), ["matmul failed", "matmul failed"]);
    let reason = records[1]["reason"].as_str().unwrap();
    assert!(
        reason.contains("cannot initialize the NVIDIA driver") && reason.contains("; hint: "),
        "{reason}"
    );

    std::fs::remove_file(gone).unwrap();
    let resumed = nvml_command(&dir, &["run", "--resume", "run"], REGULAR_DEVICE)
        .output()
        .unwrap();
    assert!(!stderr(&resumed).contains("error:"), "{}", stderr(&resumed));
    let records = dir.records("run");
    assert_eq!(statuses(&records[2..]), ["matmul ok", "matmul ok"]);
}

#[test]
fn a_failing_nvml_call_affects_only_its_metric() {
    let record = record("fail memory 3 999");
    let details = event_details(&record, "telemetry");
    assert!(
        details[0].starts_with("device memory could not be read from "),
        "{details:?}"
    );
    assert!(missing_reason(&record, "device_peak_bytes").starts_with("device memory: unavailable since "));
    assert_eq!(value(&record, "process_peak_bytes"), Some(4000.0));
}

#[test]
fn hidden_processes_leave_the_process_memory_empty() {
    let record = record("no-processes");
    assert!(missing_reason(&record, "process_peak_bytes").starts_with("process memory: "));
    assert_eq!(value(&record, "device_peak_bytes"), Some(5000.0));
}

#[test]
fn nvml_reads_the_device_that_cuda_uses() {
    let dir = TestDir::new();
    let devices = format!(
        "device GPU-11111111-0000-0000-0000-000000000000 00000000:17:00.0 Stand-in slow\n memory 100*1 111\n
         device {UUID} 00000000:65:00.0 Stand-in fast\n memory 100*1 322\n"
    );
    let output = nvml_command_with_devices(&dir, &matmul_arguments(&ONE_CELL), &devices)
        .output()
        .unwrap();
    let record = only_record(&dir, &output);
    assert_eq!(record["fingerprint"]["gpu"]["name"], "Stand-in fast");
    assert_eq!(record["fingerprint"]["gpu"]["uuid"], UUID);
    assert_eq!(value(&record, "device_peak_bytes"), Some(222.0));
}

#[test]
fn a_mig_slice_has_memory_but_no_energy() {
    let dir = TestDir::new();
    let devices = "device GPU-11111111-0000-0000-0000-000000000000 00000000:17:00.0 Stand-in A
        mig 1
        memory 111
        power 300000
        slice MIG-22222222-0000-0000-0000-000000000000 Stand-in A slice
        memory 100 322
        process self 33";
    let output = nvml_command_with_devices(&dir, &matmul_arguments(&ONE_CELL), devices)
        .env("CUDA_VISIBLE_DEVICES", "MIG-22222222-0000-0000-0000-000000000000")
        .output()
        .unwrap();
    let record = only_record(&dir, &output);
    let gpu = &record["fingerprint"]["gpu"];
    assert_eq!(gpu["uuid"], "MIG-22222222-0000-0000-0000-000000000000");
    assert_eq!(value(&record, "device_peak_bytes"), Some(222.0));
    assert_eq!(value(&record, "process_peak_bytes"), Some(33.0));
    let energy = missing_reason(&record, "energy_integral_joules");
    assert!(energy.contains("MIG slice"), "{energy}");
}

#[test]
fn a_mig_slice_cools_down_with_its_device() {
    let dir = TestDir::new();
    let devices = "device GPU-11111111-0000-0000-0000-000000000000 00000000:17:00.0 Stand-in A
        mig 1
        temperature 40*2 70
        slice MIG-22222222-0000-0000-0000-000000000000 Stand-in A slice
        memory 100
        temperature 10";
    nvml_command_with_devices(&dir, &matmul_arguments(&["--cool-down", "0.5"]), devices)
        .env("CUDA_VISIBLE_DEVICES", "MIG-22222222-0000-0000-0000-000000000000")
        .output()
        .unwrap();
    let records = dir.records("run");
    assert_eq!(
        event_details(&records[1], "cool-down"),
        ["70 °C (40 °C before the first cell), not cooled down within the time limit"]
    );
}

#[test]
fn device_oom_is_recorded_with_the_peak_so_far() {
    let dir = TestDir::new();
    let output = matmul_run(&dir, &ONE_CELL, REGULAR_DEVICE)
        .env("STANDIN_MIB", "1")
        .output()
        .unwrap();
    let record = only_record(&dir, &output);
    assert_eq!(record["status"], "oom");
    assert_eq!(value(&record, "device_peak_bytes"), Some(5000.0));
    assert_eq!(value(&record, "process_peak_bytes"), Some(4000.0));
}
