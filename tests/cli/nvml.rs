//! Unreliable GPUs: the record lists the values that were read and those that were not. Runs on a scripted NVML (`tests/nvml`) and a CUDA driver
//! without a GPU (`tests/cuda`).
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use serde_json::Value;

use crate::{
    standin::{UUID, arguments, events, on_devices, on_script, run},
    support::{Place, statuses, stderr},
};

/// Script of a regular device: 1000 bytes are in use before, and energy rises with every call.
const READS: &str = "
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
const ONE: [&str; 4] = ["--cool-down", "0", "-a", "size=16"];

/// Returns the record of a cell on a device with this script.
fn record(lines: &str) -> Value {
    let place = Place::new();
    let output = run(&place, &ONE, &format!("{READS}{lines}")).output().unwrap();
    only_record(&place, &output)
}

fn only_record(place: &Place, output: &Output) -> Value {
    let mut records = place.records("run");
    assert_eq!(records.len(), 1, "{}", stderr(output));
    records.remove(0)
}

fn value(record: &Value, metric: &str) -> Option<f64> {
    record["metrics"][metric]["value"].as_f64()
}

/// Returns the reason why a metric has no value.
fn absence<'a>(record: &'a Value, metric: &str) -> &'a str {
    let metric = &record["metrics"][metric];
    assert!(metric["value"].is_null(), "{metric}");
    metric["method"].as_str().unwrap_or_else(|| panic!("{record:#}"))
}

#[test]
fn an_obedient_device_is_in_the_record() {
    let place = Place::new();
    let output = run(&place, &ONE, READS).output().unwrap();
    let record = only_record(&place, &output);
    assert_eq!(value(&record, "device_peak_bytes"), Some(5000.0));
    assert_eq!(value(&record, "process_peak_bytes"), Some(4000.0));
    assert!(events(&record, "telemetry").is_empty() && events(&record, "device-lost").is_empty());
    let gpu = &record["fingerprint"]["gpu"];
    assert_eq!(
        (&gpu["ecc"], &gpu["persistence"]),
        (&false.into(), &true.into()),
        "{gpu}"
    );
}

/// Returns a run of one cell that launches a matmul for this many seconds.
fn for_seconds(place: &Place, seconds: u32, lines: &str) -> Command {
    let suite = format!("{LONG}max_seconds = {seconds}\n");
    std::fs::write(place.path("fixtures/long.toml"), suite).unwrap();
    let arguments = [
        "run",
        "fixtures/long.toml",
        "--backend=cuda",
        "--repeats=1",
        "--out=run",
        "-a",
        "precision=32-true",
    ];
    let mut command = on_script(place, &arguments, lines);
    // The events report an implausibly long time, so the wall clock is used instead.
    command.env("STANDIN_ELAPSED_NS", "1000000000000");
    command
}

const LONG: &str = r#"
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
fn the_rate_that_was_had_and_the_trace_are_in_the_record() {
    let place = Place::new();
    let output = for_seconds(&place, 1, READS)
        .arg("--cool-down=0")
        .output()
        .unwrap();
    let record = only_record(&place, &output);
    let detail = events(&record, "sampling").concat();
    assert!(
        detail.contains("100 Hz requested") && detail.contains("% covered") && detail.contains("late"),
        "{detail}"
    );
    let samples: Value = serde_json::from_str(&place.samples(&record)).unwrap();
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
fn energy_is_told_as_it_is_and_above_what_the_device_draws_when_nobody_computes() {
    let place = Place::new();
    let lines = format!("{READS}instant 300000\nidle 100000");
    let output = for_seconds(&place, 4, &lines).output().unwrap();
    let record = only_record(&place, &output);
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
fn a_device_that_still_cools_down_is_read_again_and_one_that_is_warm_after_a_resume_is_not() {
    let place = Place::new();
    // The power drops over 150 readings: the first two and a half seconds are not steady at any sampling rate of a busy machine.
    let lines = format!("{READS}instant 300000\nidle 400000-2000*150 100000");
    let idle_watts = |output: Output| value(&only_record(&place, &output), "idle_watts");
    let first = run(&place, &["-a", "size=16"], &lines).output().unwrap();
    let first = idle_watts(first).unwrap();
    assert!((95.0..110.0).contains(&first), "{first} W");
    // Remove the record. The idle power is kept with the run.
    std::fs::write(place.path("run/records.jsonl"), "").unwrap();
    let warm = format!("{READS}instant 300000\nidle 180000");
    let resumed = on_script(&place, &["run", "--resume", "run"], &warm)
        .output()
        .unwrap();
    assert_eq!(idle_watts(resumed), Some(first));
}

#[test]
fn a_cell_that_a_stranger_disturbed_has_failed_where_strangers_are_not_tolerated() {
    // No other process is listed before the cell. In the worker, one is listed from the third list to the sixth.
    let lines = format!("{READS}process 4711 2000 3 6");
    let mut results = vec![];
    for busy in ["warn", "fail", "wait"] {
        let place = Place::new();
        let mut command = for_seconds(&place, 1, &lines);
        let output = command.args(["--cool-down=0", "--busy", busy]).output().unwrap();
        let records = place.records("run");
        let all_detected = records
            .iter()
            .all(|record| events(record, "foreign-process").len() == 1);
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
fn memory_that_ran_out_beside_a_stranger_is_no_result_where_strangers_are_not_tolerated() {
    for (busy, status, code) in [("warn", "oom", 3), ("fail", "failed", 4)] {
        let place = Place::new();
        let lines = format!("{READS}rival 4711 2000");
        let output = run(&place, &[&ONE[..], &["--busy", busy]].concat(), &lines)
            .env("STANDIN_MIB", "1")
            .output()
            .unwrap();
        let record = only_record(&place, &output);
        assert_eq!(record["status"], status, "{busy}");
        assert_eq!(output.status.code(), Some(code), "{busy}: {}", stderr(&output));
        let reason = record["reason"].as_str().unwrap();
        assert_eq!(reason.contains("which ended `oom`: "), busy == "fail", "{reason}");
    }
}

#[test]
fn power_that_somebody_else_draws_is_not_that_of_an_idle_device() {
    // The process is listed from the first list on, or from the second.
    for from in ["1", "2"] {
        let place = Place::new();
        let lines = format!("{READS}process 4711 2000 {from}");
        let output = run(&place, &["-a", "size=16"], &lines).output().unwrap();
        let why = only_record(&place, &output);
        assert_eq!(
            absence(&why, "idle_watts"),
            "another process computed on the device before the first cell"
        );
    }
}

#[test]
fn a_device_that_is_busy_is_not_idle_though_nobody_is_listed() {
    let place = Place::new();
    let lines = format!("{READS}no-processes");
    let output = run(&place, &["-a", "size=16", "--cool-down", "1"], &lines)
        .output()
        .unwrap();
    let record = only_record(&place, &output);
    assert_eq!(
        absence(&record, "idle_watts"),
        "the device was 87 % busy before the first cell"
    );
}

#[test]
fn energy_of_a_moment_is_not_told() {
    let record = record("");
    for name in ["energy_counter_joules", "energy_integral_joules"] {
        let why = absence(&record, name);
        assert!(why.contains("too short"), "{name}: {why}");
    }
    let why = absence(&record, "energy_above_idle_joules");
    assert!(why.contains("because of `--cool-down 0`"), "{why}");
}

#[test]
fn steps_of_a_training_say_by_which_clock_and_whether_it_was_held_back() {
    let place = Place::new();
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
    let hot = READS.replace("throttle 0", "throttle 64");
    let output = on_script(&place, &arguments, &hot).output().unwrap();
    let record = only_record(&place, &output);
    let clock = events(&record, "clock").concat();
    assert!(
        clock.starts_with("wall clock between two synchronisations: an empty launch takes"),
        "{clock}"
    );
    let samples: Value = serde_json::from_str(&place.samples(&record)).unwrap();
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
fn a_device_that_falls_off_the_bus_leaves_no_number_that_it_did_not_tell() {
    let record = record("fail any 60 15");
    assert!(events(&record, "device-lost")[0].contains("fell off the bus"));
    assert!(absence(&record, "device_peak_bytes").starts_with("NVML: lost after "));
    absence(&record, "energy_counter_joules");
    absence(&record, "energy_integral_joules");
}

#[test]
fn a_device_that_falls_off_the_bus_under_a_cell_fails_it_with_both_reasons() {
    let place = Place::new();
    let output = run(&place, &ONE, &format!("{READS}fail any 20 15"))
        // Fail during the measurement: tuning takes about 400 launches, and the whole cell fewer than a thousand.
        .env("STANDIN_AFTER", "600")
        .env("STANDIN_LAUNCH", "719")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let record = only_record(&place, &output);
    assert_eq!(record["status"], "failed");
    let reason = record["reason"].as_str().unwrap();
    assert!(reason.contains("; hint: run `mantissa devices`"), "{reason}");
    let lost = events(&record, "device-lost").concat();
    assert!(lost.contains("fell off the bus"), "{record}");
    for name in ["flops_per_second", "energy_counter_joules", "device_peak_bytes"] {
        assert!(record["metrics"][name]["value"].is_null(), "{name}: {record:#}");
    }
}

#[test]
fn a_worker_that_is_ended_has_told_what_became_of_its_device() {
    let place = Place::new();
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
    let output = on_script(&place, &arguments, &format!("{READS}fail any 60 15"))
        .output()
        .unwrap();
    let records = place.records("run");
    assert_eq!(statuses(&records)[0], "endless timeout", "{}", stderr(&output));
    let lost = events(&records[0], "device-lost").concat();
    assert!(lost.contains("fell off the bus"), "{:#}", records[0]);
}

#[test]
fn the_cells_after_a_device_that_is_gone_fail_and_are_tried_again_when_it_is_back() {
    let place = Place::new();
    let gone = place.path("gone");
    let output = run(&place, &["--cool-down", "0"], READS)
        .env("STANDIN_AFTER", "600")
        .env("STANDIN_LAUNCH", "719")
        .env("STANDIN_GONE", &gone)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let records = place.records("run");
    assert_eq!(statuses(&records), ["matmul failed", "matmul failed"]);
    let reason = records[1]["reason"].as_str().unwrap();
    assert!(
        reason.contains("cannot initialize the NVIDIA driver") && reason.contains("; hint: "),
        "{reason}"
    );

    std::fs::remove_file(gone).unwrap();
    let resumed = on_script(&place, &["run", "--resume", "run"], READS)
        .output()
        .unwrap();
    assert!(!stderr(&resumed).contains("error:"), "{}", stderr(&resumed));
    let records = place.records("run");
    assert_eq!(statuses(&records[2..]), ["matmul ok", "matmul ok"]);
}

#[test]
fn a_call_that_starts_failing_costs_its_own_number_alone() {
    let record = record("fail memory 3 999");
    let details = events(&record, "telemetry");
    assert!(
        details[0].starts_with("device memory could not be read from "),
        "{details:?}"
    );
    assert!(absence(&record, "device_peak_bytes").starts_with("device memory: unavailable since "));
    assert_eq!(value(&record, "process_peak_bytes"), Some(4000.0));
}

#[test]
fn a_driver_that_hides_processes_is_not_taken_for_an_empty_device() {
    let record = record("no-processes");
    assert!(absence(&record, "process_peak_bytes").starts_with("process memory: "));
    assert_eq!(value(&record, "device_peak_bytes"), Some(5000.0));
}

#[test]
fn of_two_devices_the_one_that_cuda_computes_on_is_read() {
    let place = Place::new();
    let devices = format!(
        "device GPU-11111111-0000-0000-0000-000000000000 00000000:17:00.0 Stand-in slow\n memory 100*1 111\n
         device {UUID} 00000000:65:00.0 Stand-in fast\n memory 100*1 322\n"
    );
    let output = on_devices(&place, &arguments(&ONE), &devices).output().unwrap();
    let record = only_record(&place, &output);
    assert_eq!(record["fingerprint"]["gpu"]["name"], "Stand-in fast");
    assert_eq!(record["fingerprint"]["gpu"]["uuid"], UUID);
    assert_eq!(value(&record, "device_peak_bytes"), Some(222.0));
}

#[test]
fn a_slice_of_a_device_has_its_own_memory_and_no_power() {
    let place = Place::new();
    let devices = "device GPU-11111111-0000-0000-0000-000000000000 00000000:17:00.0 Stand-in A
        mig 1
        memory 111
        power 300000
        slice MIG-22222222-0000-0000-0000-000000000000 Stand-in A slice
        memory 100 322
        process self 33";
    let output = on_devices(&place, &arguments(&ONE), devices)
        .env("CUDA_VISIBLE_DEVICES", "MIG-22222222-0000-0000-0000-000000000000")
        .output()
        .unwrap();
    let record = only_record(&place, &output);
    let gpu = &record["fingerprint"]["gpu"];
    assert_eq!(gpu["uuid"], "MIG-22222222-0000-0000-0000-000000000000");
    assert_eq!(value(&record, "device_peak_bytes"), Some(222.0));
    assert_eq!(value(&record, "process_peak_bytes"), Some(33.0));
    let energy = absence(&record, "energy_integral_joules");
    assert!(energy.contains("MIG slice"), "{energy}");
}

#[test]
fn a_slice_of_a_device_rests_until_the_device_that_it_is_a_part_of_is_cool() {
    let place = Place::new();
    let devices = "device GPU-11111111-0000-0000-0000-000000000000 00000000:17:00.0 Stand-in A
        mig 1
        temperature 40*2 70
        slice MIG-22222222-0000-0000-0000-000000000000 Stand-in A slice
        memory 100
        temperature 10";
    on_devices(&place, &arguments(&["--cool-down", "0.5"]), devices)
        .env("CUDA_VISIBLE_DEVICES", "MIG-22222222-0000-0000-0000-000000000000")
        .output()
        .unwrap();
    let records = place.records("run");
    assert_eq!(
        events(&records[1], "cool-down"),
        ["70 °C after 40 °C before the first cell: not back within the time limit"]
    );
}

#[test]
fn device_memory_that_ran_out_is_recorded_with_the_most_that_was_seen() {
    let place = Place::new();
    let output = run(&place, &ONE, READS).env("STANDIN_MIB", "1").output().unwrap();
    let record = only_record(&place, &output);
    assert_eq!(record["status"], "oom");
    assert_eq!(value(&record, "device_peak_bytes"), Some(5000.0));
    assert_eq!(value(&record, "process_peak_bytes"), Some(4000.0));
}
