//! Other processes on the GPU, throttling, cooldown, and the output of `mantissa devices`. The tests run on a scripted NVML
//! (`tests/nvml`) and a CUDA driver without a GPU (`tests/cuda`).
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::{
    standin::{UUID, event_details, matmul_run, nvml_command},
    support::{TestDir, stderr, stdout},
};

#[test]
fn another_gpu_process_is_one_event_in_every_record() {
    let dir = TestDir::new();
    matmul_run(&dir, &[], "process 4711 2000").output().unwrap();
    let records = dir.records("run");
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record["fingerprint"]["gpu"]["uuid"], UUID);
        let details = event_details(record, "foreign-process");
        assert_eq!(details.len(), 1, "{details:?}");
        assert!(
            details[0].starts_with("process 4711 computed on the device"),
            "{details:?}"
        );
    }
}

#[test]
fn throttled_launches_are_repeated_and_then_counted() {
    /// NVML's bit for thermal slowdown by the hardware.
    const THERMAL_SLOWDOWN: &str = "throttle 64";
    let dir = TestDir::new();
    matmul_run(&dir, &["--cool-down", "0"], THERMAL_SLOWDOWN)
        .output()
        .unwrap();
    for record in &dir.records("run") {
        let retaken = event_details(record, "retaken");
        assert!(
            retaken.len() == 1 && retaken[0].contains("the limit was reached"),
            "{retaken:?}"
        );
        let method = record["metrics"]["flops_per_second"]["method"].as_str().unwrap();
        assert!(method.contains("while the clock was throttled"), "{method}");
        let throttled = event_details(record, "throttled");
        assert!(
            throttled[0].contains("hardware thermal slowdown"),
            "{throttled:?}"
        );
    }
    let unthrottled = TestDir::new();
    matmul_run(&unthrottled, &["--cool-down", "0"], "throttle 0")
        .output()
        .unwrap();
    assert!(event_details(&unthrottled.records("run")[0], "retaken").is_empty());
}

#[test]
fn busy_fail_stops_the_run_if_the_gpu_is_in_use() {
    let dir = TestDir::new();
    let output = matmul_run(&dir, &["--busy", "fail"], "process 4711 2000")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let errors = stderr(&output);
    assert!(
        errors.contains(&format!("error: GPU `{UUID}` is used by process 4711\n  hint: ")),
        "{errors}"
    );
    assert!(dir.records("run").is_empty());
    let output = nvml_command(&dir, &["run", "--resume", "run"], "")
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(dir.records("run").len(), 2);
}

#[test]
fn busy_wait_waits_for_the_other_process_to_finish() {
    let dir = TestDir::new();
    let output = matmul_run(&dir, &["--busy", "wait"], "visitor 4711 2000 1 4")
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(4), "{}", stderr(&output));
    let records = dir.records("run");
    assert_eq!(records.len(), 2);
    for record in &records {
        assert!(event_details(record, "foreign-process").is_empty(), "{record:#}");
    }
}

#[test]
fn a_warm_gpu_cools_down_before_the_next_cell() {
    let dir = TestDir::new();
    // The first two readings of the temperature (for `environment.json`, and before the first cell) return 40 °C. Later readings (during the
    // measurement of the idle power, and before the second cell) return 70 °C.
    matmul_run(&dir, &["--cool-down", "0.5"], "temperature 40*2 70")
        .output()
        .unwrap();
    let records = dir.records("run");
    assert!(event_details(&records[0], "cool-down").is_empty());
    assert_eq!(
        event_details(&records[1], "cool-down"),
        ["70 °C (40 °C before the first cell), not cooled down within the time limit"]
    );

    let dir = TestDir::new();
    matmul_run(&dir, &["--cool-down", "0"], "temperature 40*2 70")
        .output()
        .unwrap();
    assert!(
        dir.records("run")
            .iter()
            .all(|record| event_details(record, "cool-down").is_empty())
    );
}

#[test]
fn devices_prints_the_nvml_readings_of_a_gpu() {
    let lines = "
        total 80000000000
        memory 2000000000
        power 90000
        limit 500000
        clock 345
        max-clock 1980
        memory-clock 2619
        temperature 41
        throttle 4
        ecc-mode 1
        ecc 2
        persistence 1
        mig 0
        process 4711 2000
    ";
    let dir = TestDir::new();
    let text = stdout(&nvml_command(&dir, &["devices"], lines).output().unwrap());
    let after = text.split_once("NVML").unwrap().1;
    insta::assert_snapshot!(after);
    let json = stdout(
        &nvml_command(&dir, &["devices", "--json"], lines)
            .output()
            .unwrap(),
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    let device = &json["nvml"]["devices"][0];
    assert_eq!(device["memory_clock_hz"], 2619e6);
    assert_eq!(device["sm_clock_max_hz"], 1980e6);
    assert_eq!(device["ecc"], true);
    assert_eq!(device["ecc_uncorrected"], 2);
    assert_eq!(device["persistence"], true);
    assert_eq!(device["mig"], false);
    assert_eq!(device["pci_bus_id"], "00000000:17:00.0");
    assert_eq!(device["power_limit_default_watts"], 500.0);
}
