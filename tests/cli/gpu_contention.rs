//! Other processes on the GPU, a GPU that has not cooled down, and their output in `mantissa devices`. Runs on a scripted NVML (`tests/nvml`)
//! and a CUDA driver without a GPU (`tests/cuda`).
#![cfg(target_os = "linux")]

use serde_json::Value;

use crate::{
    standin::{UUID, events, on_script, run},
    support::{Place, stderr, stdout},
};

#[test]
fn a_stranger_is_told_once_in_every_record() {
    let place = Place::new();
    run(&place, &[], "process 4711 2000").output().unwrap();
    let records = place.records("run");
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record["fingerprint"]["gpu"]["uuid"], UUID);
        let details = events(record, "foreign-process");
        assert_eq!(details.len(), 1, "{details:?}");
        assert!(
            details[0].starts_with("process 4711 computed on the device"),
            "{details:?}"
        );
    }
}

#[test]
fn launches_of_a_gpu_whose_clock_is_held_back_are_taken_again_and_then_counted() {
    /// NVML's bit for thermal slowdown by the hardware.
    const HOT: &str = "throttle 64";
    let place = Place::new();
    run(&place, &["--cool-down", "0"], HOT).output().unwrap();
    for record in &place.records("run") {
        let retaken = events(record, "retaken");
        assert!(
            retaken.len() == 1 && retaken[0].contains("the limit was reached"),
            "{retaken:?}"
        );
        let method = record["metrics"]["flops_per_second"]["method"].as_str().unwrap();
        assert!(method.contains("while the clock was throttled"), "{method}");
        let throttled = events(record, "throttled");
        assert!(
            throttled[0].contains("hardware thermal slowdown"),
            "{throttled:?}"
        );
    }
    let free = Place::new();
    run(&free, &["--cool-down", "0"], "throttle 0").output().unwrap();
    assert!(events(&free.records("run")[0], "retaken").is_empty());
}

#[test]
fn a_stranger_ends_the_run_where_that_is_asked_for() {
    let place = Place::new();
    let output = run(&place, &["--busy", "fail"], "process 4711 2000")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let errors = stderr(&output);
    assert!(
        errors.contains(&format!("error: GPU `{UUID}` is used by process 4711\n  hint: ")),
        "{errors}"
    );
    assert!(place.records("run").is_empty());
    let output = on_script(&place, &["run", "--resume", "run"], "")
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(4), "{}", stderr(&output));
    assert_eq!(place.records("run").len(), 2);
}

#[test]
fn a_stranger_who_goes_is_waited_for() {
    let place = Place::new();
    let output = run(&place, &["--busy", "wait"], "visitor 4711 2000 1 4")
        .output()
        .unwrap();
    assert_ne!(output.status.code(), Some(4), "{}", stderr(&output));
    let records = place.records("run");
    assert_eq!(records.len(), 2);
    for record in &records {
        assert!(events(record, "foreign-process").is_empty(), "{record:#}");
    }
}

#[test]
fn a_warm_gpu_rests_before_the_next_cell_and_the_record_says_how_long() {
    let place = Place::new();
    // The temperature is read for `environment.json` and before the first cell, then while the idle power is read, and in the check before the
    // next cell.
    run(&place, &["--cool-down", "0.5"], "temperature 40*2 70")
        .output()
        .unwrap();
    let records = place.records("run");
    assert!(events(&records[0], "cool-down").is_empty());
    assert_eq!(
        events(&records[1], "cool-down"),
        ["70 °C after 40 °C before the first cell: not back within the time limit"]
    );

    let place = Place::new();
    run(&place, &["--cool-down", "0"], "temperature 40*2 70")
        .output()
        .unwrap();
    assert!(
        place
            .records("run")
            .iter()
            .all(|record| events(record, "cool-down").is_empty())
    );
}

#[test]
fn devices_tells_what_nvml_knows_of_a_gpu() {
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
    let place = Place::new();
    let text = stdout(&on_script(&place, &["devices"], lines).output().unwrap());
    let after = text.split_once("NVML").unwrap().1;
    insta::assert_snapshot!(after);
    let json = stdout(&on_script(&place, &["devices", "--json"], lines).output().unwrap());
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
