//! The kernel cache on a driver without a GPU.
#![cfg(target_os = "linux")]

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use serde_json::Value;

use crate::{
    cuda::toolkit,
    standin::{matmul_arguments, nvml_command},
    support::{TestDir, run_to_exit, stderr, stdout},
};

/// Returns a `mantissa run` command for one matmul cell with f32 operands.
fn matmul_command(dir: &TestDir, more: &[&str]) -> Command {
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
    let mut command = dir.command(&arguments);
    command
        .env("LD_LIBRARY_PATH", toolkit())
        .env("CUDA_PATH", toolkit())
        .env("MANTISSA_UNCHECKED_KERNELS", "1");
    command
}

/// Runs the cell into a run folder, with a failing compiler, and returns its record.
fn without_compiler(dir: &TestDir, out: &str) -> Value {
    without_compiler_as(dir, out, |command| command)
}

/// Like [`without_compiler`], with a changed command.
fn without_compiler_as(dir: &TestDir, out: &str, change: impl FnOnce(Command) -> Command) -> Value {
    let mut command = change(matmul_command(dir, &["--repeats", "1", "--out", out]));
    command.env("STANDIN_NVRTC", "6");
    run_to_exit(command);
    dir.records(out).remove(0)
}

/// Returns the same command with another program.
fn with_program(command: &Command, program: &Path) -> Command {
    let mut other = Command::new(program);
    other
        .args(command.get_args())
        .current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}

fn cache_warnings(record: &Value) -> Vec<&str> {
    let events = record["events"].as_array().unwrap().iter();
    let cache_events = events.filter(|event| event["kind"] == "kernel-cache");
    cache_events
        .map(|event| event["detail"].as_str().unwrap())
        .collect()
}

/// Returns the folders of the kernel cache, one per card, driver and program.
fn cache_folders(dir: &TestDir) -> Vec<PathBuf> {
    let folders = fs::read_dir(dir.path(".mantissa/cache/kernels")).unwrap();
    folders.map(|folder| folder.unwrap().path()).collect()
}

/// Returns the files of the kernel cache.
fn cache_files(dir: &TestDir) -> Vec<PathBuf> {
    let folders = cache_folders(dir);
    let [folder] = &folders[..] else {
        panic!("one card, driver and program: {folders:?}")
    };
    let files = fs::read_dir(folder).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn precompiled_kernels_are_not_compiled_again() {
    let dir = TestDir::new();
    let output = run_to_exit(matmul_command(&dir, &["--precompile=only"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output).trim(),
        "kernels compiled: 6 tasks, 0 skipped, 0 failed"
    );
    assert!(
        !dir.path("reports").exists(),
        "`--precompile=only` must not measure"
    );
    // Autotuner results measured while other processes compile are not kept.
    let extensions: Vec<_> = cache_files(&dir)
        .into_iter()
        .map(|file| file.extension().unwrap().to_owned())
        .collect();
    assert!(
        extensions.iter().all(|extension| extension == "kernels"),
        "{extensions:?}"
    );

    let record = without_compiler(&dir, "run");
    assert_eq!(record["status"], "ok", "{record}");
    assert_eq!(cache_warnings(&record), [""; 0]);
}

#[test]
fn kernels_of_another_card_driver_or_program_are_not_used() {
    let dir = TestDir::new();
    assert!(
        run_to_exit(matmul_command(&dir, &["--precompile=only"]))
            .status
            .success()
    );
    let other_program = dir.path("other-program");
    let mut program = fs::read(env!("CARGO_BIN_EXE_mantissa")).unwrap();
    program.push(0);
    fs::write(&other_program, program).unwrap();
    fs::set_permissions(&other_program, fs::Permissions::from_mode(0o755)).unwrap();
    let standin = |name: &'static str, value: &'static str| {
        move |mut command: Command| {
            command.env(name, value);
            command
        }
    };

    let same = without_compiler(&dir, "same");
    assert_eq!(same["status"], "ok", "{same}");
    let others = [
        (
            "card",
            without_compiler_as(&dir, "card", standin("STANDIN_NAME", "another card")),
        ),
        (
            "driver",
            without_compiler_as(&dir, "driver", standin("STANDIN_CUDA", "13010")),
        ),
        (
            "program",
            without_compiler_as(&dir, "program", |command| with_program(&command, &other_program)),
        ),
    ];
    // The compiler fails, so a cell without cached kernels fails, too.
    let compiles = |record: &Value| {
        record["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains("the stand-in was configured to fail"))
    };
    let uses_the_cache: Vec<&str> = others
        .iter()
        .filter(|(_, record)| !compiles(record))
        .map(|(what, _)| *what)
        .collect();
    assert_eq!(uses_the_cache, [""; 0], "{others:#?}");
}

#[test]
fn kernels_are_checked_once_per_driver() {
    let dir = TestDir::new();
    // Returns the files with the results of checks, and their modification times.
    let check = |cuda: &str, driver: &str| {
        let mut command = nvml_command(
            &dir,
            &matmul_arguments(&["-a", "size=16"]),
            &format!("memory 100\n driver {driver}"),
        );
        command
            .env_remove("MANTISSA_UNCHECKED_KERNELS")
            .env("STANDIN_CUDA", cuda);
        run_to_exit(command);
        fs::remove_dir_all(dir.path("run")).unwrap();
        let folders = cache_folders(&dir).into_iter();
        let mut files: Vec<(PathBuf, SystemTime)> = folders
            .map(|folder| folder.join("checks.json"))
            .map(|file| (file.clone(), fs::metadata(file).unwrap().modified().unwrap()))
            .collect();
        files.sort();
        files
    };
    let first = check("13000", "580.1");
    assert_eq!(first.len(), 1);
    assert_eq!(
        check("13000", "580.1"),
        first,
        "checked again with the same driver"
    );
    let [(file, time)] = &check("13000", "580.2")[..] else {
        panic!("drivers of the same CUDA version share compiled kernels")
    };
    assert_eq!(file, &first[0].0);
    assert_ne!(time, &first[0].1, "not checked with another driver");
    assert_eq!(
        check("13010", "580.2").len(),
        2,
        "not checked with another CUDA version"
    );
}

#[test]
fn precompile_fails_if_kernels_cannot_be_compiled() {
    let dir = TestDir::new();
    let mut command = matmul_command(&dir, &["--precompile=only"]);
    command.env("STANDIN_NVRTC", "6");
    let output = run_to_exit(command);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let errors = stderr(&output);
    assert!(errors.contains("cannot compile the kernels of "), "{errors}");
    assert!(errors.contains("the stand-in was configured to fail"), "{errors}");
}

#[test]
fn precompile_fails_for_a_rejected_kernel_that_is_not_launched() {
    // The compiler rejects kernels whose source contains the text. `__shared__` is in candidate kernels of the cell and of four kernel checks,
    // which the autotuner could replace by other candidates. `copy_kernel` is a kernel without alternatives.
    for (text, counts) in [
        ("__shared__", "kernels compiled: 1 tasks, 0 skipped, 5 failed"),
        ("copy_kernel", "kernels compiled: 4 tasks, 0 skipped, 2 failed"),
    ] {
        let dir = TestDir::new();
        let mut command = matmul_command(&dir, &["--precompile=only"]);
        command.env("STANDIN_NVRTC", "6").env("STANDIN_NVRTC_TEXT", text);
        let output = run_to_exit(command);
        assert_eq!(output.status.code(), Some(3), "{text}: {}", stderr(&output));
        assert_eq!(stdout(&output).trim(), counts, "{text}");
        let error = "the compiler rejected a kernel: the stand-in was configured to fail";
        assert!(stderr(&output).contains(error), "{text}: {}", stderr(&output));
    }
}

#[test]
fn a_damaged_or_unwritable_kernel_cache_is_only_a_warning() {
    let dir = TestDir::new();
    assert!(
        run_to_exit(matmul_command(&dir, &["--precompile=only"]))
            .status
            .success()
    );
    let damaged = cache_files(&dir);
    for file in &damaged {
        let whole = fs::read(file).unwrap();
        fs::write(file, &whole[..whole.len() / 2]).unwrap();
    }
    assert!(
        run_to_exit(matmul_command(&dir, &["--repeats", "1", "--out", "truncated"]))
            .status
            .code()
            .is_some()
    );
    let record = dir.records("truncated").remove(0);
    assert_eq!(record["status"], "ok", "{record}");
    let details = cache_warnings(&record);
    assert_eq!(details.len(), damaged.len(), "{record}");
    assert!(
        details
            .iter()
            .all(|warning| warning.contains("ignoring the damaged kernel cache")),
        "{details:?}"
    );

    let dir = TestDir::new();
    fs::create_dir_all(dir.path(".mantissa/cache")).unwrap();
    fs::write(dir.path(".mantissa/cache/kernels"), "not a folder").unwrap();
    run_to_exit(matmul_command(&dir, &["--repeats", "1", "--out", "run"]));
    let record = dir.records("run").remove(0);
    assert_eq!(record["status"], "ok", "{record}");
    let [warning, ..] = cache_warnings(&record)[..] else {
        panic!("{record}")
    };
    assert!(
        warning.starts_with("cannot write to the kernel cache `"),
        "{warning}"
    );
}

/// Runs the cell and the checks of its candidate kernels, with an environment variable if given, such as a fault of the stand-in. Returns the record
/// and the results of the checks.
fn run_with_checks(variable: Option<(&str, &str)>, limit_minutes: f64) -> (Value, Vec<Value>) {
    let dir = TestDir::new();
    let suite = fs::read_to_string(dir.path("suites/kernels/matmul.toml")).unwrap();
    // Limit the time of a cell and of a check.
    let limits = suite
        .lines()
        .filter(|line| line.starts_with("timeout_minutes = "));
    let suite = limits.fold(suite.clone(), |suite, line| {
        suite.replace(line, &format!("timeout_minutes = {limit_minutes}"))
    });
    fs::write(dir.path("suites/kernels/matmul.toml"), suite).unwrap();
    let mut command = matmul_command(&dir, &["--repeats", "1", "--out", "run"]);
    command.env_remove("MANTISSA_UNCHECKED_KERNELS").envs(variable);
    run_to_exit(command);
    let folder = cache_files(&dir)[0].parent().unwrap().to_owned();
    let checks = fs::read_to_string(folder.join("checks.json")).unwrap();
    (
        dir.records("run").remove(0),
        serde_json::from_str(&checks).unwrap(),
    )
}

#[test]
fn a_kernel_that_writes_zeros_is_not_used() {
    let (record, checks) = run_with_checks(None, 5.0);
    // The stand-in does not execute the candidates, so their results stay zero.
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
    let (record, checks) = run_with_checks(Some(("STANDIN_HANG", "60")), 0.1);
    for check in &checks {
        assert_eq!(check["verdict"], "timeout", "{check}");
    }
    assert_eq!(checks.len(), 5);
    assert_ne!(record["status"], "ok", "{record}");
}

#[test]
fn a_kernel_with_an_illegal_access_is_a_crash() {
    // CUDA_ERROR_ILLEGAL_ADDRESS
    let (_, checks) = run_with_checks(Some(("STANDIN_LAUNCH", "700")), 5.0);
    for check in &checks {
        assert_eq!(check["verdict"], "crashed", "{check}");
    }
    assert_eq!(checks.len(), 5);
}

#[test]
fn mantissa_without_excludes_kernels() {
    let (_, checks) = run_with_checks(Some(("MANTISSA_WITHOUT", "double, simple")), 5.0);
    let candidates: Vec<&str> = checks
        .iter()
        .map(|check| check["candidate"].as_str().unwrap())
        .collect();
    assert_eq!(candidates, ["naive"]);
}
