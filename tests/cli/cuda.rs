//! The CUDA backend with a stand-in driver and compiler (`tests/cuda`), without a GPU: the kernels for each precision, and the status of a cell
//! if the driver or the compiler fails. Nothing is computed, so the measured values of these runs are meaningless.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{TestDir, root, stderr, stdout};

/// Returns a toolkit folder with the stand-ins for libcuda and libnvrtc, and the header that cubecl looks for.
pub fn toolkit() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            for name in ["cuda", "nvrtc"] {
                let compiled = Command::new("cc")
                    .args(["-shared", "-fPIC", "-O1", "-o"])
                    .arg(folder.path().join(format!("lib{name}.so")))
                    .arg(root().join(format!("tests/cuda/{name}.c")))
                    .status();
                assert!(
                    compiled.is_ok_and(|status| status.success()),
                    "cannot compile {name}.c"
                );
            }
            fs::create_dir(folder.path().join("include")).unwrap();
            fs::write(folder.path().join("include/cuda_fp16.h"), "").unwrap();
            folder
        })
        .path()
}

/// Returns a `mantissa run` command for one small matmul on the stand-in.
fn matmul_on_standin(dir: &TestDir, axes: &[&str]) -> Command {
    let mut all = vec!["size=256", "accumulator=f32"];
    all.extend(axes);
    run_on_standin(dir, "suites/kernels/matmul.toml", &all)
}

/// Returns a `mantissa run` command for a suite on the stand-in.
pub fn run_on_standin(dir: &TestDir, suite: &str, axes: &[&str]) -> Command {
    let mut arguments = vec![
        "run",
        suite,
        "--backend",
        "cuda",
        "--profile",
        "smoke",
        "--repeats",
        "1",
        "--out",
        "run",
    ];
    for axis in axes {
        arguments.extend(["-a", axis]);
    }
    let mut command = dir.command(&arguments);
    command
        .env("LD_LIBRARY_PATH", toolkit())
        .env("CUDA_PATH", toolkit())
        .env("MANTISSA_UNCHECKED_KERNELS", "1");
    command
}

fn only_record(dir: &TestDir) -> Value {
    let mut records = dir.records("run");
    assert_eq!(records.len(), 1, "{records:?}");
    records.remove(0)
}

/// Returns the sources of the kernels that a run compiled.
fn sources(suite: &str, axes: &[&str]) -> Vec<String> {
    run_and_collect_sources(suite, axes).0
}

/// Runs a suite on the stand-in, and returns the sources of its kernels and its records.
fn run_and_collect_sources(suite: &str, axes: &[&str]) -> (Vec<String>, Vec<Value>) {
    let dir = TestDir::new();
    let sources: PathBuf = dir.path("sources");
    fs::create_dir(&sources).unwrap();
    let output = run_on_standin(&dir, suite, axes)
        .env("STANDIN_SOURCES", &sources)
        .output()
        .unwrap();
    let entries = fs::read_dir(&sources).unwrap();
    let texts: Vec<String> = entries
        .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap())
        .collect();
    assert!(!texts.is_empty(), "{axes:?}: {}", stderr(&output));
    (texts, dir.records("run"))
}

/// Returns the types of operands and of sums on the matrix units, in fragments and in instructions.
fn matrix_unit_types(sources: &[String]) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut operands, mut sums) = (BTreeSet::new(), BTreeSet::new());
    for declared in sources.iter().flat_map(|text| text.split("fragment<").skip(1)) {
        // `nvcuda::wmma::matrix_a, 16, 16, 16, __half, nvcuda::wmma::row_major>`
        let mut parts = declared.split(['>', ',']).map(str::trim);
        let role = parts.next().unwrap();
        let element = parts
            .nth(3)
            .unwrap()
            .trim_start_matches("nvcuda::wmma::")
            .to_owned();
        if role.ends_with("accumulator") {
            sums.insert(element);
        } else {
            operands.insert(element);
        }
    }
    // `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32`: the types of the result, both operands, and the accumulator.
    for instruction in sources
        .iter()
        .flat_map(|text| text.split("mma.sync.aligned.").skip(1))
    {
        let end = instruction.find(|c: char| c != '.' && !c.is_ascii_alphanumeric());
        let parts: Vec<&str> = instruction[..end.unwrap_or(instruction.len())]
            .split('.')
            .collect();
        let [.., to, left, right, from] = parts[..] else {
            panic!("{parts:?}")
        };
        operands.extend([left, right].map(|name| cuda_type(name).to_owned()));
        sums.extend([to, from].map(|name| cuda_type(name).to_owned()));
    }
    (operands, sums)
}

/// Returns the CUDA C++ type for a type of an instruction.
fn cuda_type(name: &str) -> &str {
    match name {
        "f32" => "float",
        "f16" => "__half",
        "bf16" => "__nv_bfloat16",
        "tf32" => "precision::tf32",
        other => panic!("unexpected operand type `{other}`"),
    }
}

/// Axes of a setting, and the operand and sum types of its matrix units.
type Class = (&'static [&'static str], &'static str, &'static str);

/// Settings, and the operand and sum types of their kernels on matrix units. The probe of each cell runs the forward and the backward pass.
const CLASSES: [Class; 8] = [
    (&["precision=32-true", "matmul=high"], "precision::tf32", "float"),
    (&["precision=32-true", "matmul=medium"], "__nv_bfloat16", "float"),
    (&["precision=16-mixed", "matmul=highest"], "__half", "float"),
    // `matmul` only affects f32 operands.
    (&["precision=16-mixed", "matmul=high"], "__half", "float"),
    (
        &["precision=bf16-mixed", "matmul=medium"],
        "__nv_bfloat16",
        "float",
    ),
    (&["precision=16-true", "matmul=highest"], "__half", "float"),
    (
        &["precision=bf16-mixed", "matmul=highest"],
        "__nv_bfloat16",
        "float",
    ),
    (
        &["precision=bf16-true", "matmul=highest"],
        "__nv_bfloat16",
        "float",
    ),
];

/// Suites with all operations that sum products, and their axes: a matmul; a convolution and unfused attention; a training with attention
/// and linear layers. Linear layers add the bias to the sums before rounding.
const OPERATIONS: [(&str, &[&str]); 3] = [
    ("suites/kernels/matmul.toml", &["size=256"]),
    ("fixtures/operations.toml", &["attention=math"]),
    ("fixtures/parts.toml", &[]),
];

/// Checks that the matrix units use the types of a class and no others.
fn assert_class(suite: &str, axes: &[&str], expected: (&str, &str)) {
    let (sources, records) = run_and_collect_sources(suite, axes);
    let (operands, sums) = matrix_unit_types(&sources);
    let only = |element: &str| BTreeSet::from([element.to_owned()]);
    assert_eq!(
        (operands, sums),
        (only(expected.0), only(expected.1)),
        "{suite} {axes:?}"
    );
    let tf32 = sources.iter().any(|text| text.contains("tf32"));
    assert_eq!(tf32, expected.0.contains("tf32"), "{suite} {axes:?}");
    for record in records {
        assert_eq!(
            record["executed"]["emulated"], false,
            "{suite} {axes:?}: {record}"
        );
    }
}

/// Checks every class without fusion, and the classes in `fused` also with fusion. A few classes are enough, because fusion uses the same kernels.
fn assert_classes((suite, more): (&str, &[&str]), fused: &[Class]) {
    let plain = CLASSES.iter().map(|class| (class, "fusion=off"));
    for ((class, operands, sums), fusion) in plain.chain(fused.iter().map(|class| (class, "fusion=on"))) {
        let axes = [class, &["accumulator=f32", fusion][..], more].concat();
        assert_class(suite, &axes, (operands, sums));
    }
}

/// Returns the sources of the attention kernels of a run.
fn attention_sources(axes: &[&str]) -> Vec<String> {
    let all = sources("fixtures/operations.toml", axes);
    let attention: Vec<String> = all
        .into_iter()
        .filter(|text| text.contains("attention"))
        .collect();
    assert!(!attention.is_empty(), "{axes:?}");
    attention
}

#[test]
fn the_packed_gelu_computes_in_16_bits_and_its_tanh_in_f32() {
    for (precision, format) in [("16-true", "__half"), ("bf16-true", "__nv_bfloat16")] {
        for fusion in ["fusion=on", "fusion=off"] {
            let precision = format!("precision={precision}");
            let axes = [precision.as_str(), "gelu=tanh-packed", fusion, "size=16"];
            let all = sources("fixtures/rows.toml", &axes);
            let mut packed = all.iter().filter(|text| text.contains("gelu_tanh_packed"));
            let source = packed.next().unwrap_or_else(|| panic!("{axes:?}: {all:?}"));
            assert!(packed.next().is_none(), "expected one kernel: {axes:?}");
            let is_product =
                |line: &&str| line.starts_with(&format!("{format} const ")) && line.contains(" * ");
            assert!(source.lines().filter(is_product).count() >= 3, "{source}");
            let tanhs: Vec<&str> = source.lines().filter(|line| line.contains("tanh(")).collect();
            assert!(
                !tanhs.is_empty() && !source.contains("htanh") && !source.contains("h2tanh"),
                "{source}"
            );
        }
    }
}

#[test]
fn kernels_are_fused_only_with_fusion_on() {
    let fused = |fusion| {
        let axes = ["precision=32-true", "gelu=exact", "size=16", fusion];
        let all = sources("fixtures/rows.toml", &axes);
        all.iter().filter(|text| text.contains("elemwise_fuse")).count()
    };
    assert!(fused("fusion=on") > 0);
    assert_eq!(fused("fusion=off"), 0);
}

/// Returns the status and reason of a cell for which a variable of the stand-in makes the driver or the compiler fail.
fn status_with(variable: &str, value: &str) -> (String, String) {
    let dir = TestDir::new();
    let output = matmul_on_standin(&dir, &["precision=32-true", "matmul=highest", "fusion=off"])
        .env(variable, value)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let record = only_record(&dir);
    let text = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

#[test]
fn driver_and_compiler_errors_become_a_status_reason_and_hint() {
    for (variable, expected, advice) in [
        ("STANDIN_MIB", "oom", "a smaller `batch`"),
        (
            "STANDIN_NVRTC",
            "failed",
            "the CUDA toolkit is newer than the driver",
        ),
        (
            "STANDIN_MODULE",
            "failed",
            "the CUDA toolkit is newer than the driver",
        ),
        ("STANDIN_LAUNCH", "failed", "whether the device still responds"),
    ] {
        let (status, reason) = status_with(variable, "1");
        assert_eq!(status, expected, "{variable}: {reason}");
        assert!(
            reason.contains("; hint: ") && reason.contains(advice),
            "{variable}: {reason}"
        );
        assert!(
            !reason.contains('\n') && reason.chars().count() < 2_500,
            "{variable}: {reason}"
        );
    }
}

/// Bytes of the f32 weights of the small training in `fixtures/parts.toml`, as rounded up by the device's allocator.
const WEIGHTS: f64 = 1_946_624.0;

/// Returns the record of the training in `fixtures/parts.toml` on the stand-in.
fn training(axes: &[&str], mebibytes: &str) -> Value {
    let dir = TestDir::new();
    let mut command = run_on_standin(&dir, "fixtures/parts.toml", axes);
    command.env("STANDIN_MIB", mebibytes).output().unwrap();
    only_record(&dir)
}

fn metric(record: &Value, name: &str) -> f64 {
    let metric = &record["metrics"][name];
    metric["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("{name}: {metric}"))
}

#[test]
fn device_oom_in_a_training_step_reports_the_peak_and_a_hint() {
    // With 16 MiB of device memory, only the weights and some scalars can be allocated; with 22 MiB, also the first tensors of a training step.
    for (mebibytes, peak) in [("16", WEIGHTS..=WEIGHTS + 256.0), ("22", 4.0 * WEIGHTS..=20e6)] {
        let record = training(&["fusion=off"], mebibytes);
        assert_eq!(record["status"], "oom", "{record}");
        let reason = record["reason"].as_str().unwrap();
        assert!(
            reason.contains("; hint: ") && reason.contains("`checkpointing=on`"),
            "{reason}"
        );
        let seen = metric(&record, "allocator_in_use_peak_bytes");
        assert!(peak.contains(&seen), "{mebibytes} MiB: {seen}");
    }
}

#[test]
fn a_probe_of_a_device_that_computes_nothing_fails() {
    // Buffers keep their previous contents, so no setting can be executed as requested.
    let dir = TestDir::new();
    let arguments = [
        "probe",
        "--backend",
        "cuda",
        "-a",
        "precision=32-true",
        "-a",
        "matmul=highest",
    ];
    let output = dir
        .command(&arguments)
        .env("LD_LIBRARY_PATH", toolkit())
        .env("CUDA_PATH", toolkit())
        .env("MANTISSA_UNCHECKED_KERNELS", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(!stdout(&output).contains("as requested"), "{}", stdout(&output));
}

#[test]
fn toolkit_errors_are_reported_before_anything_runs() {
    let dir = TestDir::new();
    let assert_missing = |command: &mut Command, word: &str| {
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
        assert!(stderr(&output).contains(word), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    };
    assert_missing(
        matmul_on_standin(&dir, &[]).env("CUDA_PATH", dir.path("nowhere")),
        "CUDA_PATH",
    );
    let header = dir.path("toolkit/include");
    fs::create_dir_all(&header).unwrap();
    fs::write(header.join("cuda_fp16.h"), "").unwrap();
    fs::write(header.join("cuda.h"), "#define CUDA_VERSION 11080\n").unwrap();
    assert_missing(
        matmul_on_standin(&dir, &[]).env("CUDA_PATH", dir.path("toolkit")),
        "are of version 11.8, but the run-time compiler is libnvrtc 12.0",
    );
    assert_missing(
        matmul_on_standin(&dir, &[])
            .env("STANDIN_CUDA", "12040")
            .env("STANDIN_NVRTC_VERSION", "12050"),
        "the NVIDIA driver supports CUDA 12.4",
    );
    assert_missing(matmul_on_standin(&dir, &[]).env("STANDIN_INIT", "100"), "driver");
    let driver_alone = tempfile::tempdir().unwrap();
    fs::copy(
        toolkit().join("libcuda.so"),
        driver_alone.path().join("libcuda.so"),
    )
    .unwrap();
    assert_missing(
        matmul_on_standin(&dir, &[]).env("LD_LIBRARY_PATH", driver_alone.path()),
        "libnvrtc",
    );
}

/// Returns a folder with a cuBLASLt that computes on the host.
fn cublas_folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER
        .get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let compiled = Command::new("cc")
                .args(["-shared", "-fPIC", "-O1", "-o"])
                .arg(folder.path().join("libcublasLt.so"))
                .arg(root().join("tests/cuda/cublasLt.c"))
                .status();
            assert!(
                compiled.is_ok_and(|status| status.success()),
                "cannot compile cublasLt.c"
            );
            folder
        })
        .path()
}

/// Returns the record of a matmul of two non-square matrices, compared with cuBLASLt.
fn cublas_record(setting: &str, configure: impl FnOnce(&mut Command)) -> Value {
    let dir = TestDir::new();
    let suite = format!(
        "title = \"t\"\nquestion = \"q\"\n[axes]\n\"precision+matmul+accumulator\" = [{setting}]\n[[workload]]\nname = \"product\"\ntask = \
         \"kernel\"\nkernel = \"matmul\"\nshape = {{ m = 33, n = 17, k = 65 }}\nmin_samples = 1\nmax_samples = 2\n"
    );
    fs::write(dir.path("suite.toml"), suite).unwrap();
    let mut command = run_on_standin(&dir, "suite.toml", &[]);
    command.env(
        "LD_LIBRARY_PATH",
        std::env::join_paths([toolkit(), cublas_folder()]).unwrap(),
    );
    // Exclude most candidates: the choice of the kernel is irrelevant here, and these candidates take long to generate.
    command.env("MANTISSA_WITHOUT", "mma, tma, unit");
    configure(&mut command);
    command.output().unwrap();
    only_record(&dir)
}

#[test]
fn cublaslt_matmul_is_timed_and_compared_with_float64() {
    // Rounding operands or the result to p bits causes errors of about 2^-p.
    for (setting, min_error, max_error) in [
        (r#"["64-true", "highest", "f32"]"#, 0.0, 1e-14),
        (r#"["32-true", "highest", "f32"]"#, 1e-9, 1e-6),
        (r#"["32-true", "high", "f32"]"#, 5e-5, 1e-3),
        (r#"["32-true", "medium", "f32"]"#, 4e-4, 8e-3),
        (r#"["16-true", "highest", "f32"]"#, 5e-5, 1e-3),
        (r#"["16-true", "highest", "f16"]"#, 3e-4, 1e-2),
        (r#"["bf16-true", "highest", "f32"]"#, 4e-4, 8e-3),
    ] {
        let record = cublas_record(setting, |_| {});
        // The 2mnk operations in the 1 µs that the stand-in reports.
        let rate = record["metrics"]["cublas_flops_per_second"]["value"]
            .as_f64()
            .unwrap();
        let expected = 2.0 * 33.0 * 17.0 * 65.0 / 1e-6;
        assert!((rate / expected - 1.0).abs() < 1e-6, "{record}");
        let events = record["events"].as_array().unwrap();
        let event = events.iter().find(|event| event["kind"] == "cublas").unwrap();
        let detail = event["detail"].as_str().unwrap();
        let error: f64 = detail
            .strip_prefix("cuBLASLt 13.1.0: relative error ")
            .unwrap()
            .parse()
            .unwrap();
        assert!((min_error..=max_error).contains(&error), "{setting}: {detail}");
    }
}

#[test]
fn without_cublaslt_only_its_metric_is_missing() {
    let setting = r#"["32-true", "highest", "f32"]"#;
    let refused = cublas_record(setting, |command| {
        command.env("STANDIN_CUBLAS_STATUS", "15");
    });
    let metric = &refused["metrics"]["cublas_flops_per_second"];
    assert_eq!(refused["status"], "ok");
    assert!(metric["value"].is_null(), "{metric}");
    assert!(
        metric["method"].as_str().unwrap().contains("NOT_SUPPORTED"),
        "{metric}"
    );
    let excluded = cublas_record(setting, |command| {
        command.env("MANTISSA_WITHOUT", "mma, tma, unit, cublas");
    });
    let without = cublas_record(setting, |command| {
        command.env("LD_LIBRARY_PATH", toolkit());
    });
    for record in [excluded, without] {
        assert!(record["metrics"]["cublas_flops_per_second"].is_null(), "{record}");
    }
}

/// Times a matmul on the stand-in. Returns its throughput, and the note on the clock in its record.
fn time_matmul(setting: (&str, &str)) -> (Value, String) {
    let dir = TestDir::new();
    let output = matmul_on_standin(&dir, &["precision=32-true", "matmul=highest"])
        .env(setting.0, setting.1)
        .output()
        .unwrap();
    let record = only_record(&dir);
    let mut events = record["events"].as_array().unwrap().iter();
    let event = events.find(|event| event["kind"] == "clock");
    let event = event.unwrap_or_else(|| panic!("{record} {}", stderr(&output)));
    let detail = event["detail"].as_str().unwrap().to_owned();
    (record["metrics"]["flops_per_second"].clone(), detail)
}

#[test]
fn launches_are_timed_with_cuda_events() {
    let (rate, clock) = time_matmul(("STANDIN_ELAPSED_NS", "2000"));
    assert!(
        rate["method"].as_str().unwrap().ends_with("; CUDA events"),
        "{rate}"
    );
    // 2 · 256³ operations in the 2 µs that the stand-in reports.
    let flops = rate["value"].as_f64().unwrap();
    assert!(
        (flops / (2.0 * 256f64.powi(3) / 2e-6) - 1.0).abs() < 1e-6,
        "{rate}"
    );
    assert!(
        clock.starts_with("CUDA events: an empty launch takes 2000 ns"),
        "{clock}"
    );
}

#[test]
fn peak_memory_of_a_matmul_includes_operands_and_result() {
    let dir = TestDir::new();
    let output = matmul_on_standin(&dir, &["precision=32-true", "matmul=highest"])
        .output()
        .unwrap();
    let record = only_record(&dir);
    let in_use = metric(&record, "allocator_in_use_peak_bytes");
    let (low, high) = (3.0 * 4.0 * 256f64.powi(2), 4.0 * 4.0 * 256f64.powi(2));
    assert!((low..high).contains(&in_use), "{in_use} B {}", stderr(&output));
}

#[test]
fn invalid_cuda_events_fall_back_to_the_wall_clock() {
    let wall = "; wall clock between two synchronisations";
    let (rate, long) = time_matmul(("STANDIN_ELAPSED_NS", "1000000000000"));
    assert!(rate["method"].as_str().unwrap().ends_with(wall), "{rate}");
    assert!(
        long.ends_with("; the device clock returned invalid times"),
        "{long}"
    );
    let (rate, refused) = time_matmul(("STANDIN_ELAPSED", "801"));
    assert!(rate["method"].as_str().unwrap().ends_with(wall), "{rate}");
    assert!(
        refused.ends_with("; the device clock returned invalid times"),
        "{refused}"
    );
}

/// Trains for this many epochs, and returns the record and the number of launches that reached the driver.
fn train_and_count_launches(dir: &TestDir, epochs: u32, fusion: &str) -> (Value, f64) {
    let suite = fs::read_to_string(dir.path("fixtures/parts.toml")).unwrap();
    let suite = suite.replace("epochs = 1", &format!("epochs = {epochs}"));
    fs::write(dir.path("parts.toml"), suite).unwrap();
    let _ = fs::remove_dir_all(dir.path("run"));
    let mut command = run_on_standin(dir, "parts.toml", &[fusion]);
    command.env("STANDIN_COUNT", dir.path("launches"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let count = fs::read_to_string(dir.path("launches")).unwrap();
    (only_record(dir), count.trim().parse().unwrap())
}

#[test]
fn launches_per_step_match_the_count_of_the_driver() {
    let dir = TestDir::new();
    for fusion in ["fusion=off", "fusion=on"] {
        // Compile and tune the kernels first.
        train_and_count_launches(&dir, 1, fusion);
        let (record, once) = train_and_count_launches(&dir, 1, fusion);
        let (_, twice) = train_and_count_launches(&dir, 2, fusion);
        let launches = metric(&record, "launches_per_step");
        // An epoch has two steps.
        assert_eq!((twice - once) / 2.0, launches, "{fusion}");
        assert!(launches > 100.0, "{launches}");
        // The stand-in reports 1 µs for each kernel.
        let idle = 1.0 - launches * 1e-6 / metric(&record, "step_seconds");
        let measured = metric(&record, "device_idle_share");
        assert!((measured - idle).abs() < 1e-9, "{measured}, expected {idle}");
        assert!(metric(&record, "host_seconds_per_launch") > 0.0);
    }
}

mod long {
    use super::*;

    #[test]
    fn highest_uses_no_matrix_units_in_any_operation() {
        for (suite, more) in OPERATIONS {
            for fusion in ["fusion=on", "fusion=off"] {
                let axes = ["precision=32-true", "matmul=highest", "accumulator=f32", fusion];
                let sources = sources(suite, &[&axes, more].concat());
                let any = |word: &str| sources.iter().any(|text| text.contains(word));
                assert!(
                    !any("tf32") && !any("wmma") && !any("mma.sync") && !any("bfloat16") && !any("__half"),
                    "{suite} {fusion}"
                );
            }
        }
    }

    #[test]
    fn matmuls_use_only_the_types_of_their_class() {
        assert_classes(OPERATIONS[0], &CLASSES);
    }

    #[test]
    fn convolutions_and_attention_use_only_the_types_of_their_class() {
        assert_classes(OPERATIONS[1], &[CLASSES[0], CLASSES[2]]);
    }

    #[test]
    fn training_layers_use_only_the_types_of_their_class() {
        // With fusion, a training has hundreds of kernels. Those that multiply matrices are covered by the other tests.
        assert_classes(OPERATIONS[2], &[]);
    }

    #[test]
    fn f16_accumulation_uses_matrix_units_in_every_operation() {
        for (suite, more) in OPERATIONS {
            for precision in ["precision=16-mixed", "precision=16-true"] {
                let axes = [precision, "matmul=highest", "accumulator=f16", "fusion=off"];
                assert_class(suite, &[&axes, more].concat(), ("__half", "__half"));
            }
        }
    }

    #[test]
    fn fused_attention_multiplies_in_the_format_of_its_inputs() {
        let sources_for =
            |precision, fusion| attention_sources(&[precision, "matmul=highest", "attention=fused", fusion]);
        // Only f16 queries use matrix units. Queries in other formats are multiplied in their own format, on ordinary units.
        for (precision, fusion, format, other) in [
            ("precision=32-true", "fusion=off", "float", "__nv_bfloat16"),
            ("precision=32-true", "fusion=on", "float", "__nv_bfloat16"),
            ("precision=bf16-mixed", "fusion=off", "__nv_bfloat16", "__half"),
        ] {
            let sources = sources_for(precision, fusion);
            let all = |word: &str| sources.iter().all(|text| text.contains(word));
            let any = |word: &str| sources.iter().any(|text| text.contains(word));
            assert!(all(&format!("array<{format}, ")), "{precision}");
            assert!(!any(other) && !any("__half") && !any("fragment<"), "{precision}");
        }
        let (operands, sums) = matrix_unit_types(&sources_for("precision=16-mixed", "fusion=off"));
        assert_eq!(operands, BTreeSet::from(["__half".to_owned()]));
        // The set may contain other types, because results are rounded in separate fragments before they are stored.
        assert!(sums.contains("float"), "{sums:?}");
    }

    #[test]
    fn training_memory_breakdown_comes_from_the_device_allocator() {
        let plain = training(&["fusion=off"], "4096");
        let fused = training(&["fusion=on"], "4096");
        let checkpointed = training(&["fusion=off", "checkpointing=on"], "4096");
        for record in [&plain, &fused, &checkpointed] {
            let bytes = |name| metric(record, name);
            let method = &record["metrics"]["weights_bytes"]["method"];
            assert_eq!(method, "device allocator, in use");
            assert_eq!(
                [
                    bytes("weights_bytes"),
                    bytes("gradients_bytes"),
                    bytes("optimizer_bytes"),
                    bytes("weight_copies_bytes")
                ],
                [WEIGHTS, WEIGHTS, 2.0 * WEIGHTS, 0.0],
            );
            assert!(bytes("allocator_in_use_peak_bytes") >= bytes("activations_bytes") + WEIGHTS);
        }
        // With checkpointing, each of the two blocks keeps only its inputs, a small part of its activations.
        let [all, some] = [&plain, &checkpointed].map(|record| metric(record, "activations_bytes"));
        assert!(some < all / 5.0 && some > 0.0, "{some} of {all}");
        // `bf16-mixed` has f32 weights and 16-bit copies for matmuls. `bf16-true` has only bf16 weights.
        let mixed = training(&["fusion=off", "precision=bf16-mixed"], "4096");
        let copies = metric(&mixed, "weight_copies_bytes");
        assert!(copies > 0.3 * WEIGHTS && copies < 0.5 * WEIGHTS, "{copies}");
        let bf16 = training(&["fusion=off", "precision=bf16-true"], "4096");
        let share = metric(&bf16, "weights_bytes") / WEIGHTS;
        assert!((0.5..0.51).contains(&share), "{share}");
    }
}
