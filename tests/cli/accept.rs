//! `just gpu-accept` on a machine without a GPU: it reports the missing component, and writes a complete archive.
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
    support::{TestDir, root},
};

/// Returns the exit code, `accept.json` and the output of the first check.
fn accept(configure: impl FnOnce(&mut Command)) -> (Option<i32>, Value, String) {
    let dir = TestDir::new();
    let out = dir.path("out");
    let mut command = Command::new(root().join(".ci/gpu/accept"));
    command
        .arg(&out)
        .env("MANTISSA", env!("CARGO_BIN_EXE_mantissa"))
        .env("DISTURBANCE", "/nowhere")
        .env_remove("LD_LIBRARY_PATH")
        .env_remove("CUDA_PATH")
        .env_remove("KERNELS");
    configure(&mut command);
    let code = command.output().unwrap().status.code();
    let json = fs::read_to_string(out.join("accept.json")).unwrap();
    let log = fs::read_to_string(out.join("logs/devices.txt")).unwrap();
    assert_eq!(
        read_from_archive(&dir.path("out.tar.gz"), "out/accept.json"),
        json
    );
    (code, serde_json::from_str(&json).unwrap(), log)
}

/// Creates a script that replaces a program.
fn write_script(dir: &TestDir, name: &str, text: &str) -> PathBuf {
    let program = dir.path(name);
    fs::write(&program, text).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    program
}

/// Returns a file of an archive.
fn read_from_archive(archive: &Path, name: &str) -> String {
    let mut tar = Command::new("tar");
    let output = tar.arg("-xOzf").arg(archive).arg(name).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Checks that the script runs only its first check, which fails and names the missing component.
fn assert_missing(word: &str, configure: impl FnOnce(&mut Command)) {
    let (code, json, log) = accept(configure);
    assert_eq!(code, Some(4), "{word}: {log}");
    assert_eq!(json["passed"], false, "{json}");
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 1, "{json}");
    assert_eq!(
        (&checks[0]["check"], &checks[0]["passed"]),
        (&"devices".into(), &false.into())
    );
    assert!(log.contains(word), "{word}: {log}");
    let reports_nvml = log.contains("NVML    not available: ") && log.contains("driver capability `utility`");
    assert!(reports_nvml || log.contains("NVML    1 devices"), "{log}");
}

#[test]
fn missing_cuda_components_fail_the_first_check() {
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
fn checks_with(json: &Value, passed: bool) -> Vec<&str> {
    let checks = json["checks"].as_array().unwrap().iter();
    let chosen = checks.filter(|check| check["passed"] == passed);
    chosen.map(|check| check["check"].as_str().unwrap()).collect()
}

#[test]
fn a_failed_check_does_not_stop_the_others() {
    let dir = TestDir::new();
    let program = write_script(&dir, "mantissa", PROGRAM);
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
    // The fake program does not write records, so all verdicts fail.
    let verdicts = [
        "verdict-kernels",
        "verdict-executed",
        "verdict-losses",
        "verdict-clock",
        "verdict-nvml",
    ];
    let json = accept("nothing", "1 devices");
    let runs = ["matmul", "shapes", "fusion", "cpu", "distilbert"];
    assert_eq!(checks_with(&json, false), verdicts);
    assert_eq!(
        checks_with(&json, true),
        [&["devices", "nvml", "precompile"][..], &runs].concat()
    );

    let json = accept("out/shapes", "1 devices");
    assert_eq!(checks_with(&json, false), [&["shapes"][..], &verdicts].concat());
    assert_eq!(json["checks"][4]["exit"], 3);

    let json = accept("run", "1 devices");
    assert_eq!(checks_with(&json, true), ["devices", "nvml"]);

    let json = accept("nothing", "not available: no library");
    assert_eq!(checks_with(&json, false), [&["nvml"][..], &verdicts].concat());
}

#[test]
fn after_a_timeout_only_the_verdicts_run() {
    let dir = TestDir::new();
    let program = write_script(&dir, "mantissa", PROGRAM);
    let (code, json, _) = accept(|command| {
        command
            .env("MANTISSA", &program)
            .env("HANGING", "out/matmul")
            .env("NVML", "1 devices")
            .env("GUARD", "20");
    });
    assert_eq!(code, Some(1));
    assert_eq!(checks_with(&json, true), ["devices", "nvml", "precompile"]);
    let all = json["checks"].as_array().unwrap();
    assert_eq!(
        (&all[3]["check"], &all[3]["exit"]),
        (&"matmul".into(), &124.into())
    );
    // The script reserves time for the verdicts, so they still run.
    for check in &all[4..] {
        let is_verdict = check["check"].as_str().unwrap().starts_with("verdict");
        assert_eq!(check["exit"].is_null(), !is_verdict, "{json}");
    }
}

#[test]
fn disturbance_runs_if_the_example_exists_and_time_is_left() {
    let dir = TestDir::new();
    let program = write_script(&dir, "mantissa", PROGRAM);
    let example = write_script(&dir, "disturbance", "#!/bin/sh\ntest \"$*\" = '300 GPU-aa11'\n");
    let passes = |example: &Path, guard: &str| {
        let (_, json, _) = accept(|command| {
            command
                .env("MANTISSA", &program)
                .env("NVML", "1 devices")
                .env("DISTURBANCE", example)
                .env("GUARD", guard);
        });
        checks_with(&json, true).contains(&"disturbance")
    };
    assert!(passes(&example, "600"));
    assert!(!passes(&example, "300"));
    assert!(!passes(Path::new("/nowhere"), "600"));
}

#[test]
fn invalid_arguments_are_rejected_before_anything_runs() {
    let dir = TestDir::new();
    let program = write_script(&dir, "mantissa", PROGRAM);
    let exit = |out: &str, guard: &str, kernels: &str| {
        let mut command = Command::new(root().join(".ci/gpu/accept"));
        command
            .arg(dir.path(out))
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

/// Appends a record to a run, and writes its series.
fn write_record(dir: &TestDir, run: &str, setting: &Value, series: &[(&str, &[f64])]) {
    let samples = format!("cells/{}", setting["fusion"].as_str().unwrap_or("off"));
    let folder = dir.path(run).join(&samples);
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
    let path = dir.path(run).join("records.jsonl");
    let before = fs::read_to_string(&path).unwrap_or_default();
    fs::write(path, format!("{before}{record}\n")).unwrap();
}

/// Checks the verdicts of `.ci/gpu/verdicts` on three records.
#[test]
fn verdicts_detect_wrong_records() {
    // `loss` and `device`: the last loss and the device time of a launch in the unfused run. A launch takes 0.01 s of wall clock.
    let count_wrong = |property: &str, loss: f64, device: f64, setting: &Value| {
        let dir = TestDir::new();
        let losses = [0.7, 0.6, loss];
        let times: [(&str, &[f64]); 3] = [
            ("train_loss", &losses),
            ("launch_seconds", &[device]),
            ("launch_wall_seconds", &[0.01]),
        ];
        let setting_with = |changes: Value| {
            let mut setting = setting.clone();
            let fields = changes.as_object().unwrap().clone();
            setting.as_object_mut().unwrap().extend(fields);
            setting
        };
        write_record(
            &dir,
            "fusion",
            &setting_with(serde_json::json!({ "fusion": "on" })),
            &[("train_loss", &[0.7, 0.6, 0.5])],
        );
        write_record(
            &dir,
            "fusion",
            &setting_with(serde_json::json!({ "fusion": "off" })),
            &times,
        );
        write_record(
            &dir,
            "cpu",
            &setting_with(serde_json::json!({ "backend": "flex" })),
            &[("train_loss", &[0.7, 0.6, 0.5])],
        );
        let check = serde_json::json!([{
            "operation": "matmul", "setting": "32-true high f32", "candidate": "tma", "verdict": setting["check"], "shapes": 9, "detail": null,
        }]);
        fs::write(dir.path("checks.json"), check.to_string()).unwrap();
        let mut command = Command::new(root().join(".ci/gpu/verdicts"));
        let output = command.arg(dir.path("")).arg(property).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let wrong = text.lines().filter(|line| line.starts_with("WRONG")).count();
        assert_eq!(output.status.code(), Some(i32::from(wrong > 0)), "{text}");
        wrong
    };
    let right = serde_json::json!({
        "backend": "cuda", "precision": "32-true", "matmul": "highest", "verdict": "as-requested", "clock": 1_980_000_000, "counter": "too short", "check": "passed",
    });
    let right_except = |field: &str, value: Value| {
        let mut setting = right.clone();
        setting[field] = value;
        setting
    };
    for property in ["kernels", "executed", "losses", "clock", "nvml"] {
        assert_eq!(count_wrong(property, 0.500_001, 0.009, &right), 0, "{property}");
    }
    assert_eq!(
        count_wrong("kernels", 0.5, 0.009, &right_except("check", "wrong".into())),
        2
    );
    // The losses of the unfused run differ from those of the fused run and of the CPU.
    assert_eq!(count_wrong("losses", 0.51, 0.009, &right), 2);
    assert_eq!(count_wrong("losses", f64::NAN, 0.009, &right), 2);
    assert_eq!(
        count_wrong(
            "executed",
            0.5,
            0.009,
            &right_except("verdict", "unverified".into())
        ),
        2
    );
    assert_eq!(
        count_wrong("kernels", 0.5, 0.009, &right_except("check", "refused".into())),
        1
    );
    assert_eq!(count_wrong("clock", 0.5, 0.007, &right), 1);
    assert_eq!(count_wrong("clock", 0.5, 0.0101, &right), 1);
    assert_eq!(
        count_wrong("executed", 0.5, 0.009, &right_except("verdict", "differs".into())),
        2
    );
    assert_eq!(
        count_wrong("nvml", 0.5, 0.009, &right_except("clock", Value::Null)),
        1
    );
    assert_eq!(
        count_wrong("nvml", 0.5, 0.009, &right_except("counter", Value::Null)),
        1
    );
}

/// Checks without a GPU that the program accepts every option that the script uses. The program exits with 2 for an unknown option, and
/// with 4 because there is no device.
#[test]
fn the_program_accepts_every_option_of_the_script() {
    let dir = TestDir::new();
    let text = format!(
        "#!/bin/sh\ntest \"$1\" = devices && echo 'cuda    a card that is not there' && exit\n\
         case \"$*\" in *flex*) exit ;; esac\nexec {} \"$@\"\n",
        env!("CARGO_BIN_EXE_mantissa")
    );
    let program = write_script(&dir, "mantissa", &text);
    let (code, json, _) = accept(|command| {
        command.env("MANTISSA", &program).env("CUDA_VISIBLE_DEVICES", "");
    });
    assert_eq!(code, Some(1), "{json}");
    let checks = json["checks"].as_array().unwrap().iter();
    let exit_codes: Vec<(&str, i64)> = checks
        .map(|check| (check["check"].as_str().unwrap(), check["exit"].as_i64().unwrap()))
        .filter(|(name, _)| !["devices", "nvml", "cpu"].contains(name) && !name.starts_with("verdict"))
        .collect();
    assert!(exit_codes.len() >= 5, "{json}");
    assert!(exit_codes.iter().all(|(_, exit)| *exit == 4), "{exit_codes:?}");
}
