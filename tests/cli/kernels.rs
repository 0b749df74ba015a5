//! The kernel cache on a driver without a GPU.
#![cfg(target_os = "linux")]

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{
    cuda::toolkit,
    support::{Place, ended, stderr, stdout},
};

/// `mantissa run` of one matmul cell with f32 operands.
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

/// Runs the cell into a run folder, with a compiler that fails, and returns its record.
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

/// Files of the kernel cache.
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
    assert!(!place.path("reports").exists(), "nothing was measured");
    // What the tuner measured while other processes compiled is not kept.
    let extensions: Vec<_> = files(&place)
        .into_iter()
        .map(|file| file.extension().unwrap().to_owned())
        .collect();
    assert_eq!(extensions, ["kernels"]);

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
    let said = stderr(&output);
    assert!(
        said.contains(" tasks could not compile their kernels: "),
        "{said}"
    );
    assert!(said.contains("the stand-in was told to fail"), "{said}");
}

#[test]
fn a_kernel_cache_that_is_damaged_or_not_writable_is_reported_and_costs_time_only() {
    let place = Place::new();
    assert!(ended(matmul(&place, &["--precompile=only"])).status.success());
    let [file] = files(&place).try_into().unwrap();
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert!(
        ended(matmul(&place, &["--repeats", "1", "--out", "truncated"]))
            .status
            .code()
            .is_some()
    );
    let record = place.records("truncated").remove(0);
    assert_eq!(record["status"], "ok", "{record}");
    let [warning] = warnings(&record)[..] else {
        panic!("{record}")
    };
    assert!(warning.contains("is damaged and not used"), "{warning}");

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
