//! `just gpu-accept` on a machine without a GPU: it reports what is missing, and its output is complete.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::{
    cuda::toolkit,
    support::{Place, root},
};

/// Returns the exit code, `accept.json` and the output of the first check.
fn accept(adapt: impl FnOnce(&mut Command)) -> (Option<i32>, Value, String) {
    let place = Place::new();
    let out = place.path("out");
    let mut command = Command::new(root().join(".ci/gpu/accept"));
    command
        .arg(&out)
        .env("MANTISSA", env!("CARGO_BIN_EXE_mantissa"))
        .env("DISTURBANCE", "/nowhere")
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("CUDA_PATH")
        .env_remove("KERNELS");
    adapt(&mut command);
    let code = command.output().unwrap().status.code();
    let json = fs::read_to_string(out.join("accept.json")).unwrap();
    let log = fs::read_to_string(out.join("logs/devices.txt")).unwrap();
    assert_eq!(packed(&place.path("out.tar.gz"), "out/accept.json"), json);
    (code, serde_json::from_str(&json).unwrap(), log)
}

/// Creates a script that replaces a program.
fn script(place: &Place, name: &str, text: &str) -> PathBuf {
    let program = place.path(name);
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Returns a file of an archive.
fn packed(archive: &Path, name: &str) -> String {
    let mut tar = Command::new("tar");
    let output = tar.arg("-xOzf").arg(archive).arg(name).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that only the first check runs, fails and reports what is missing.
fn assert_missing(word: &str, adapt: impl FnOnce(&mut Command)) {
    let (code, json, log) = accept(adapt);
    assert_eq!(code, Some(4), "{word}: {log}");
    assert_eq!(json["passed"], false, "{json}");
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 1, "{json}");
    assert_eq!(
        (&checks[0]["check"], &checks[0]["passed"]),
        (&"devices".into(), &false.into())
    );
    assert!(log.contains(word), "{word}: {log}");
    let of_nvml = log.contains("NVML    not available: ") && log.contains("driver capability `utility`");
    assert!(of_nvml || log.contains("NVML    1 devices"), "{log}");
}

#[test]
fn each_missing_part_of_a_cuda_machine_is_named_and_nothing_else_is_tried() {
    if Path::new("/proc/driver/nvidia").exists() {
        println!("skipped in part: this machine has a driver, which cannot be hidden");
    } else {
        let empty = tempfile::tempdir().unwrap();
        assert_missing("install the NVIDIA driver", |command| {
            command.env("LD_LIBRARY_PATH", empty.path());
        });
    }
    assert_missing("CUDA_PATH", |command| {
        command
            .env("LD_LIBRARY_PATH", toolkit())
            .env("CUDA_PATH", "/nowhere");
    });
    let without_compiler = tempfile::tempdir().unwrap();
    let driver = without_compiler.path().join("libcuda.so");
    fs::copy(toolkit().join("libcuda.so"), driver).unwrap();
    assert_missing("libnvrtc", |command| {
        command
            .env("LD_LIBRARY_PATH", without_compiler.path())
            .env("CUDA_PATH", toolkit())
            .env("MANTISSA_UNCHECKED_KERNELS", "1");
    });
    assert_missing("driver", |command| {
        command
            .env("LD_LIBRARY_PATH", toolkit())
            .env("CUDA_PATH", toolkit())
            .env("MANTISSA_UNCHECKED_KERNELS", "1")
            .env("STANDIN_INIT", "100");
    });
}

/// Fake program that lists a GPU and measures nothing. It exits with 3 if its arguments contain `FAILING`, and never exits if they contain
/// `HANGING`.
const PROGRAM: &str = r#"#!/bin/sh
case "$*" in *"${FAILING:-nothing}"*) exit 3 ;; *"${HANGING:-nothing}"*) sleep 1000 ;; esac
test "$1" = devices && printf 'cuda    a card that is not there\nNVML    %s\n        Stand-in A, GPU-aa11, PCI 00000000:17:00.0\n' "$NVML"
exit 0
"#;

/// Returns the names of the checks with this value of `passed`.
fn checks(json: &Value, passed: bool) -> Vec<&str> {
    let checks = json["checks"].as_array().unwrap().iter();
    let chosen = checks.filter(|check| check["passed"] == passed);
    chosen.map(|check| check["check"].as_str().unwrap()).collect()
}

#[test]
fn every_check_runs_whether_or_not_others_pass() {
    let place = Place::new();
    let program = script(&place, "mantissa", PROGRAM);
    let accept = |failing: &str, nvml: &str| {
        let (code, json, _) = accept(|command| {
            command
                .env("MANTISSA", &program)
                .env("FAILING", failing)
                .env("NVML", nvml);
        });
        assert_eq!((code, &json["passed"]), (Some(1), &false.into()), "{json}");
        json
    };
    // The program writes no records.
    let verdicts = [
        "verdict-kernels",
        "verdict-executed",
        "verdict-losses",
        "verdict-clock",
        "verdict-nvml",
    ];
    let json = accept("nothing", "1 devices");
    let runs = ["matmul", "shapes", "fusion", "cpu", "distilbert"];
    assert_eq!(checks(&json, false), verdicts);
    assert_eq!(
        checks(&json, true),
        [&["devices", "nvml", "precompile"][..], &runs].concat()
    );

    let json = accept("out/shapes", "1 devices");
    assert_eq!(checks(&json, false), [&["shapes"][..], &verdicts].concat());
    assert_eq!(json["checks"][4]["exit"], 3);

    let json = accept("run", "1 devices");
    assert_eq!(checks(&json, true), ["devices", "nvml"]);

    let json = accept("nothing", "not available: no library");
    assert_eq!(checks(&json, false), [&["nvml"][..], &verdicts].concat());
}

#[test]
fn a_check_that_never_ends_is_stopped_and_the_rest_is_left_out() {
    let place = Place::new();
    let program = script(&place, "mantissa", PROGRAM);
    let (code, json, _) = accept(|command| {
        command
            .env("MANTISSA", &program)
            .env("HANGING", "out/matmul")
            .env("NVML", "1 devices")
            .env("GUARD", "20");
    });
    assert_eq!(code, Some(1));
    assert_eq!(checks(&json, true), ["devices", "nvml", "precompile"]);
    let all = json["checks"].as_array().unwrap();
    assert_eq!(
        (&all[3]["check"], &all[3]["exit"]),
        (&"matmul".into(), &124.into())
    );
    // Some seconds are reserved for the verdicts.
    for check in &all[4..] {
        let is_verdict = check["check"].as_str().unwrap().starts_with("verdict");
        assert_eq!(check["exit"].is_null(), !is_verdict, "{json}");
    }
}

#[test]
fn the_cost_of_sampling_is_measured_where_the_example_is_built_and_time_is_left() {
    let place = Place::new();
    let program = script(&place, "mantissa", PROGRAM);
    let example = script(&place, "disturbance", "#!/bin/sh\ntest \"$*\" = '300 GPU-aa11'\n");
    let passes = |example: &Path, guard: &str| {
        let (_, json, _) = accept(|command| {
            command
                .env("MANTISSA", &program)
                .env("NVML", "1 devices")
                .env("DISTURBANCE", example)
                .env("GUARD", guard);
        });
        checks(&json, true).contains(&"disturbance")
    };
    assert!(passes(&example, "600"));
    assert!(!passes(&example, "300"));
    assert!(!passes(Path::new("/nowhere"), "600"));
}

#[test]
fn what_cannot_be_asked_for_is_refused_before_anything_runs() {
    let place = Place::new();
    let program = script(&place, "mantissa", PROGRAM);
    let exit = |out: &str, guard: &str, kernels: &str| {
        let mut command = Command::new(root().join(".ci/gpu/accept"));
        command
            .arg(place.path(out))
            .env("MANTISSA", &program)
            .env("GUARD", guard)
            .env("KERNELS", kernels);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (out, guard, kernels, why) in [
        ("suites", "300", "", "is not empty"),
        ("a", "5m", "", "not a number of seconds"),
        ("b", "300", "/nowhere.tar.xz", "cannot unpack"),
    ] {
        let (code, text) = exit(out, guard, kernels);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(why), "{text}");
    }
}

/// Writes a record of a run, and its series.
fn record(place: &Place, run: &str, setting: &Value, series: &[(&str, &[f64])]) {
    let samples = format!("cells/{}", setting["fusion"].as_str().unwrap_or("off"));
    let folder = place.path(run).join(&samples);
    fs::create_dir_all(&folder).unwrap();
    let series: Vec<Value> = series
        .iter()
        .map(|(name, values)| serde_json::json!({ "name": name, "y": values }))
        .collect();
    fs::write(
        folder.join("samples.json"),
        serde_json::json!({ "series": series }).to_string(),
    )
    .unwrap();
    let zipped = Command::new("gzip").arg(folder.join("samples.json")).status();
    assert!(zipped.unwrap().success());
    let value = |value: Value, method: Value| serde_json::json!({ "value": value, "method": method });
    let record = serde_json::json!({
        "status": "ok",
        "cell": { "setting": setting, "workload": { "name": "training" } },
        "samples": samples,
        "executed": { "verdict": setting["verdict"], "kernel": "HMMA.BF16" },
        "metrics": {
            "device_peak_bytes": value(1.into(), Value::Null),
            "energy_counter_joules": value(Value::Null, setting["counter"].clone()),
            "energy_integral_joules": value(2.into(), Value::Null),
        },
        "fingerprint": { "gpu": {
            "name": "Card", "uuid": "GPU-1", "memory_bytes": 1, "driver": "580", "sm_clock_max_hz": setting["clock"], "power_limit_watts": 700,
        } },
    });
    let path = place.path(run).join("records.jsonl");
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(path, format!("{before}{record}\n")).unwrap();
}

/// Checks verdicts of `.ci/gpu/verdicts` about three runs.
#[test]
fn verdicts_tell_right_records_from_wrong_ones() {
    // `loss` and `device`: the last loss and the device time of a launch in the unfused run. A launch takes 0.01 s of wall clock.
    let judge = |property: &str, loss: f64, device: f64, setting: &Value| {
        let place = Place::new();
        let losses = [0.7, 0.6, loss];
        let times: [(&str, &[f64]); 3] = [
            ("train_loss", &losses),
            ("launch_seconds", &[device]),
            ("launch_wall_seconds", &[0.01]),
        ];
        let of = |changes: Value| {
            let mut setting = setting.clone();
            let fields = changes.as_object().unwrap().clone();
            setting.as_object_mut().unwrap().extend(fields);
            setting
        };
        record(
            &place,
            "fusion",
            &of(serde_json::json!({ "fusion": "on" })),
            &[("train_loss", &[0.7, 0.6, 0.5])],
        );
        record(
            &place,
            "fusion",
            &of(serde_json::json!({ "fusion": "off" })),
            &times,
        );
        record(
            &place,
            "cpu",
            &of(serde_json::json!({ "backend": "flex" })),
            &[("train_loss", &[0.7, 0.6, 0.5])],
        );
        let check = serde_json::json!([{
            "operation": "matmul", "setting": "32-true high f32", "candidate": "tma", "verdict": setting["check"], "shapes": 9, "detail": null,
        }]);
        fs::write(place.path("checks.json"), check.to_string()).unwrap();
        let mut command = Command::new(root().join(".ci/gpu/verdicts"));
        let output = command.arg(place.path("")).arg(property).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let wrong = text.lines().filter(|line| line.starts_with("WRONG")).count();
        assert_eq!(output.status.code(), Some(i32::from(wrong > 0)), "{text}");
        wrong
    };
    let right = serde_json::json!({
        "backend": "cuda", "precision": "32-true", "matmul": "highest", "verdict": "as-requested", "clock": 1_980_000_000, "counter": "too short", "check": "passed",
    });
    let with = |field: &str, value: Value| {
        let mut setting = right.clone();
        setting[field] = value;
        setting
    };
    for property in ["kernels", "executed", "losses", "clock", "nvml"] {
        assert_eq!(judge(property, 0.500_001, 0.009, &right), 0, "{property}");
    }
    assert_eq!(judge("kernels", 0.5, 0.009, &with("check", "wrong".into())), 2);
    // The unfused losses differ from both others.
    assert_eq!(judge("losses", 0.51, 0.009, &right), 2);
    assert_eq!(judge("losses", f64::NAN, 0.009, &right), 2);
    assert_eq!(
        judge("executed", 0.5, 0.009, &with("verdict", "unverified".into())),
        2
    );
    assert_eq!(judge("kernels", 0.5, 0.009, &with("check", "refused".into())), 1);
    assert_eq!(judge("clock", 0.5, 0.007, &right), 1);
    assert_eq!(judge("clock", 0.5, 0.0101, &right), 1);
    assert_eq!(
        judge("executed", 0.5, 0.009, &with("verdict", "differs".into())),
        2
    );
    assert_eq!(judge("nvml", 0.5, 0.009, &with("clock", Value::Null)), 1);
    assert_eq!(judge("nvml", 0.5, 0.009, &with("counter", Value::Null)), 1);
}

/// Checks without a GPU that the program accepts every option that the script uses. It exits with 2 for an unknown option, and with 4 because
/// there is no device.
#[test]
fn the_program_understands_every_command_of_the_script() {
    let place = Place::new();
    let text = format!(
        "#!/bin/sh\ntest \"$1\" = devices && echo 'cuda    a card that is not there' && exit\n\
         case \"$*\" in *flex*) exit ;; esac\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_mantissa")
    );
    let program = script(&place, "mantissa", &text);
    let (code, json, _) = accept(|command| {
        command.env("MANTISSA", &program).env("CUDA_VISIBLE_DEVICES", "");
    });
    assert_eq!(code, Some(1), "{json}");
    let checks = json["checks"].as_array().unwrap().iter();
    let ends: Vec<(&str, i64)> = checks
        .map(|check| (check["check"].as_str().unwrap(), check["exit"].as_i64().unwrap()))
        .filter(|(name, _)| !["devices", "nvml", "cpu"].contains(name) && !name.starts_with("verdict"))
        .collect();
    assert!(ends.len() >= 5, "{json}");
    assert!(ends.iter().all(|(_, exit)| *exit == 4), "{ends:?}");
}
