//! The CUDA backend on a driver and a compiler without a GPU (`tests/cuda`): which kernels are generated for which
//! precision, and what becomes of a cell when the driver or the compiler fails. Nothing is computed, so no number of
//! these runs means anything.
#![cfg(target_os = "linux")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{Place, root, stderr};

/// A toolkit folder with both libraries and the header that is looked for.
fn toolkit() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            for name in ["cuda", "nvrtc"] {
                let made = Command::new("cc")
                    .args(["-shared", "-fPIC", "-O1", "-o"])
                    .arg(folder.path().join(format!("lib{name}.so")))
                    .arg(root().join(format!("tests/cuda/{name}.c")))
                    .status();
                assert!(
                    made.is_ok_and(|status| status.success()),
                    "no C compiler made {name}.c"
                );
            }
            fs::create_dir(folder.path().join("include")).unwrap();
            fs::write(folder.path().join("include/cuda_fp16.h"), "").unwrap();
            folder
        })
        .path()
}

/// `mantissa run` of one small product on the stand-in.
fn product(place: &Place, axes: &[&str]) -> Command {
    let mut arguments = vec![
        "run",
        "suites/kernels/matmul.toml",
        "--backend",
        "cuda",
        "--profile",
        "smoke",
    ];
    arguments.extend(["--out", "run", "-a", "size=256"]);
    for axis in axes {
        arguments.extend(["-a", axis]);
    }
    let mut command = place.command(&arguments);
    command
        .env("LD_LIBRARY_PATH", toolkit())
        .env("CUDA_PATH", toolkit());
    command
}

fn only_record(place: &Place) -> Value {
    let mut records = place.records("run");
    assert_eq!(records.len(), 1, "{records:?}");
    records.remove(0)
}

/// Sources of the matrix-product kernels that a run compiled.
fn kernels(axes: &[&str]) -> Vec<String> {
    let place = Place::new();
    let sources: PathBuf = place.path("sources");
    fs::create_dir(&sources).unwrap();
    let output = product(&place, axes)
        .env("STANDIN_SOURCES", &sources)
        .output()
        .unwrap();
    let texts = fs::read_dir(&sources)
        .unwrap()
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap());
    let kernels: Vec<String> = texts.filter(|text| text.contains("matmul")).collect();
    assert!(!kernels.is_empty(), "{axes:?}: {}", stderr(&output));
    kernels
}

#[test]
fn f32_products_use_tf32_under_high_alone() {
    let with = |matmul| kernels(&["precision=32-true", matmul, "fusion=off"]);
    let any = |kernels: &[String], word: &str| kernels.iter().any(|text| text.contains(word));
    let highest = with("matmul=highest");
    assert!(!any(&highest, "tf32") && !any(&highest, "wmma") && !any(&highest, "bfloat16"));
    let high = with("matmul=high");
    assert!(any(&high, "tf32") && !any(&high, "bfloat16"));
    let medium = with("matmul=medium");
    assert!(any(&medium, "bfloat16") && !any(&medium, "tf32"));
}

/// What a failing driver or compiler makes of the one cell.
fn ends(variable: &str, value: &str) -> (String, String) {
    let place = Place::new();
    let output = product(&place, &["precision=32-true", "matmul=highest", "fusion=off"])
        .env(variable, value)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let record = only_record(&place);
    let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

#[test]
fn every_failure_below_is_a_status_with_a_reason() {
    let (status, reason) = ends("STANDIN_MIB", "1");
    assert_eq!(status, "oom", "{reason}");
    for variable in ["STANDIN_NVRTC", "STANDIN_MODULE", "STANDIN_LAUNCH"] {
        let (status, reason) = ends(variable, "1");
        assert_eq!(status, "failed", "{variable}: {reason}");
        assert!(!reason.is_empty(), "{variable}");
    }
}

#[test]
fn what_the_toolkit_lacks_is_said_before_anything_runs() {
    let place = Place::new();
    let lacking = |command: &mut Command, word: &str| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    };
    lacking(
        product(&place, &[]).env("CUDA_PATH", place.path("nowhere")),
        "CUDA_PATH",
    );
    lacking(product(&place, &[]).env("STANDIN_INIT", "100"), "driver");
    let driver_alone = tempfile::tempdir().unwrap();
    fs::copy(
        toolkit().join("libcuda.so"),
        driver_alone.path().join("libcuda.so"),
    )
    .unwrap();
    lacking(
        product(&place, &[]).env("LD_LIBRARY_PATH", driver_alone.path()),
        "libnvrtc",
    );
}
