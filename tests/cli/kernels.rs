//! The kernel cache on a driver without a GPU.
#![cfg(target_os = "linux")]

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{
    cuda::toolkit,
    support::{Place, ended, stderr, stdout},
};

/// Returns `mantissa run` of one matmul cell with f32 operands.
fn matmul(place: &Place, more: &[&str]) -> Command {
    let mut arguments = vec![
        "run",
        "suites/kernels/matmul.toml",
        "--backend",
        "cuda",
        "--profile",
        "smoke",
    ];
    for axis in [
        "size=64",
        "accumulator=f32",
        "precision=32-true",
        "matmul=highest",
    ] {
        arguments.extend(["-a", axis]);
    }
    arguments.extend(more);
    let mut command = place.command(&arguments);
    command
        .env("LD_LIBRARY_PATH", toolkit())
        .env("CUDA_PATH", toolkit())
        .env("MANTISSA_UNCHECKED_KERNELS", "1");
    command
}

/// Runs the cell into a run folder, with a failing compiler, and returns its record.
fn without_compiler(place: &Place, out: &str) -> Value {
    ended({
        let mut command = matmul(place, &["--repeats", "1", "--out", out]);
        command.env("STANDIN_NVRTC", "6");
        command
    });
    place.records(out).remove(0)
}

fn warnings(record: &Value) -> Vec<&str> {
    let events = record["events"].as_array().unwrap().iter();
    let of_cache = events.filter(|event| event["kind"] == "kernel-cache");
    of_cache.map(|event| event["detail"].as_str().unwrap()).collect()
}

/// Returns the files of the kernel cache.
fn files(place: &Place) -> Vec<PathBuf> {
    let folders = fs::read_dir(place.path(".mantissa/cache/kernels")).unwrap();
    let folders: Vec<PathBuf> = folders.map(|folder| folder.unwrap().path()).collect();
    let [folder] = &folders[..] else {
        panic!("one card, driver and program: {folders:?}")
    };
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn kernels_that_were_compiled_ahead_are_not_compiled_again() {
    let place = Place::new();
    let output = ended(matmul(&place, &["--precompile=only"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output).trim(),
        "kernels compiled: 6 tasks, 0 skipped, 0 failed"
    );
    assert!(
        !place.path("reports").exists(),
        "`--precompile=only` must not measure"
    );
    // Autotuner results measured while other processes compile are not kept.
    let extensions: Vec<_> = files(&place)
        .into_iter()
        .map(|file| file.extension().unwrap().to_owned())
        .collect();
    assert!(
        extensions.iter().all(|extension| extension == "kernels"),
        "{extensions:?}"
    );

    let record = without_compiler(&place, "run");
    assert_eq!(record["status"], "ok", "{record}");
    assert_eq!(warnings(&record), [""; 0]);
}

#[test]
fn kernels_that_cannot_be_compiled_ahead_are_an_error() {
    let place = Place::new();
    let mut command = matmul(&place, &["--precompile=only"]);
    command.env("STANDIN_NVRTC", "6");
    let output = ended(command);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let errors = stderr(&output);
    assert!(errors.contains("cannot compile the kernels of "), "{errors}");
    assert!(errors.contains("the stand-in was configured to fail"), "{errors}");
}

#[test]
fn a_kernel_that_the_compiler_rejects_is_an_error_though_nothing_launches_it() {
    // Candidates that the autotuner skips (of the cell and of four checks), and a kernel without other candidates.
    for (text, counts) in [
        ("__shared__", "kernels compiled: 1 tasks, 0 skipped, 5 failed"),
        ("copy_kernel", "kernels compiled: 4 tasks, 0 skipped, 2 failed"),
    ] {
        let place = Place::new();
        let mut command = matmul(&place, &["--precompile=only"]);
        command.env("STANDIN_NVRTC", "6").env("STANDIN_NVRTC_TEXT", text);
        let output = ended(command);
        assert_eq!(output.status.code(), Some(3), "{text}: {}", stderr(&output));
        assert_eq!(stdout(&output).trim(), counts, "{text}");
        let error = "the compiler rejected a kernel: the stand-in was configured to fail";
        assert!(stderr(&output).contains(error), "{text}: {}", stderr(&output));
    }
}

#[test]
fn a_kernel_cache_that_is_damaged_or_not_writable_is_reported_and_costs_time_only() {
    let place = Place::new();
    assert!(ended(matmul(&place, &["--precompile=only"])).status.success());
    let damaged = files(&place);
    for file in &damaged {
        let whole = fs::read(file).unwrap();
        fs::write(file, &whole[..whole.len() / 2]).unwrap();
    }
    assert!(
        ended(matmul(&place, &["--repeats", "1", "--out", "truncated"]))
            .status
            .code()
            .is_some()
    );
    let record = place.records("truncated").remove(0);
    assert_eq!(record["status"], "ok", "{record}");
    let details = warnings(&record);
    assert_eq!(details.len(), damaged.len(), "{record}");
    assert!(
        details
            .iter()
            .all(|warning| warning.contains("ignoring the damaged kernel cache")),
        "{details:?}"
    );

    let place = Place::new();
    fs::create_dir_all(place.path(".mantissa/cache")).unwrap();
    fs::write(place.path(".mantissa/cache/kernels"), "not a folder").unwrap();
    ended(matmul(&place, &["--repeats", "1", "--out", "run"]));
    let record = place.records("run").remove(0);
    assert_eq!(record["status"], "ok", "{record}");
    let [warning, ..] = warnings(&record)[..] else {
        panic!("{record}")
    };
    assert!(
        warning.starts_with("cannot write to the kernel cache `"),
        "{warning}"
    );
}

/// Runs the cell with checks of its candidates under a fault of the stand-in, and returns the record and the checks.
fn checked(fault: Option<(&str, &str)>, limit_minutes: f64) -> (Value, Vec<Value>) {
    let place = Place::new();
    let suite = fs::read_to_string(place.path("suites/kernels/matmul.toml")).unwrap();
    // Limit a cell and a check to six seconds each.
    let limits = suite
        .lines()
        .filter(|line| line.starts_with("timeout_minutes = "));
    let suite = limits.fold(suite.clone(), |suite, line| {
        suite.replace(line, &format!("timeout_minutes = {limit_minutes}"))
    });
    fs::write(place.path("suites/kernels/matmul.toml"), suite).unwrap();
    let mut command = matmul(&place, &["--repeats", "1", "--out", "run"]);
    command.env_remove("MANTISSA_UNCHECKED_KERNELS").envs(fault);
    ended(command);
    let folder = files(&place)[0].parent().unwrap().to_owned();
    let checks = fs::read_to_string(folder.join("checks.json")).unwrap();
    (
        place.records("run").remove(0),
        serde_json::from_str(&checks).unwrap(),
    )
}

#[test]
fn a_kernel_that_writes_zeros_is_not_used() {
    let (record, checks) = checked(None, 5.0);
    // The checks of the ordinary multipliers. The stand-in executes none of them.
    assert_eq!(checks.len(), 5);
    for check in &checks {
        assert_eq!(check["verdict"], "wrong", "{check}");
        let detail = check["detail"].as_str().unwrap();
        assert!(
            detail.starts_with("1 × 64 × 64 × 64, rows and rows: value "),
            "{detail}"
        );
        assert!(detail.contains(" is 0, expected "), "{detail}");
        assert_eq!(check["passed"], Value::Array(vec![]));
    }
    assert_eq!(record["status"], "failed", "{record}");
    let reason = record["reason"].as_str().unwrap();
    assert!(
        reason.contains("has not passed `mantissa check-kernels`"),
        "{reason}"
    );
}

#[test]
fn a_kernel_that_never_returns_is_a_timeout() {
    let (record, checks) = checked(Some(("STANDIN_HANG", "60")), 0.1);
    for check in &checks {
        assert_eq!(check["verdict"], "timeout", "{check}");
    }
    assert_eq!(checks.len(), 5);
    assert_ne!(record["status"], "ok", "{record}");
}

#[test]
fn a_kernel_with_an_illegal_access_is_a_crash() {
    // CUDA_ERROR_ILLEGAL_ADDRESS
    let (_, checks) = checked(Some(("STANDIN_LAUNCH", "700")), 5.0);
    for check in &checks {
        assert_eq!(check["verdict"], "crashed", "{check}");
    }
    assert_eq!(checks.len(), 5);
}

#[test]
fn unwanted_kernels_are_left_out() {
    let place = Place::new();
    let mut command = matmul(&place, &["--repeats", "1", "--out", "run"]);
    command.env("MANTISSA_WITHOUT", "double, simple");
    ended(command);
    let record = place.records("run").remove(0);
    let kernel = record["executed"]["kernel"].as_str().unwrap();
    assert_eq!(kernel, "naive (f32 × f32 → f32, FFMA)");
}
