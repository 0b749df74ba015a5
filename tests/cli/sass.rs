//! Machine code of the kernels of each precision class: generated on the stand-in, compiled and disassembled with NVIDIA's tools.
//!
//! The tests need NVRTC, ptxas and nvdisasm: `MANTISSA_CUDA_TOOLKIT` is the folder with `bin`, `include` and `lib`.
#![cfg(target_os = "linux")]

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    thread,
};

use crate::{
    cuda::{run_on_standin, toolkit},
    support::{TestDir, stderr},
};

/// Architecture for which the stand-in's kernels are compiled.
const ARCHITECTURE: &str = "sm_90a";

/// Returns the folder of NVIDIA's compilers. Prints a note and returns `None` if they are missing.
fn compilers() -> Option<PathBuf> {
    let folder = env::var_os("MANTISSA_CUDA_TOOLKIT").map(PathBuf::from);
    let complete = |folder: &PathBuf| {
        ["bin/ptxas", "bin/nvdisasm", "lib/libnvrtc.so.13"]
            .iter()
            .all(|file| folder.join(file).exists())
    };
    let found = folder.filter(complete);
    let missing =
        "`MANTISSA_CUDA_TOOLKIT` is not a folder with bin/ptxas, bin/nvdisasm and lib/libnvrtc.so.13";
    mantissa_testing::is_available("cuda-toolkit", found.as_ref().map(drop).ok_or(missing.to_owned()))
        .then_some(found?)
}

/// Opcodes of a kernel that multiply floats.
type Opcodes = BTreeSet<String>;

/// Runs a suite on the stand-in. Returns the names and opcodes of the kernels that multiply matrices, once per distinct source.
fn kernels(compilers: &Path, suite: &str, axes: &[&str]) -> Vec<(String, Opcodes)> {
    let dir = TestDir::new();
    let sources = dir.path("sources");
    fs::create_dir(&sources).unwrap();
    let libraries = env::join_paths([toolkit().to_owned(), compilers.join("lib")]).unwrap();
    let output = run_on_standin(&dir, suite, axes)
        .env("LD_LIBRARY_PATH", libraries)
        .env("CUDA_PATH", compilers)
        .env("STANDIN_REAL_NVRTC", compilers.join("lib/libnvrtc.so.13"))
        // The driver reports CUDA 13.99, so it is at least as new as every release of NVRTC 13.
        .env("STANDIN_CUDA", "13990")
        .env("STANDIN_SOURCES", &sources)
        .output()
        .unwrap();
    let mut seen = HashSet::new();
    let mut matmul_kernels = vec![];
    for entry in fs::read_dir(&sources).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "ptx") {
            continue;
        }
        let ptx = fs::read_to_string(&path).unwrap();
        let name = entry_point(&ptx);
        let multiplies_matrices = ["matmul", "conv", "attention"]
            .iter()
            .any(|part| name.contains(part));
        let on_matrix_units = ptx.contains("mma.sync") || ptx.contains("wgmma");
        assert!(
            multiplies_matrices || !on_matrix_units,
            "{axes:?}: `{name}` multiplies on matrix units"
        );
        if multiplies_matrices && seen.insert(fs::read(path.with_extension("cu")).unwrap()) {
            matmul_kernels.push((name, path));
        }
    }
    assert!(!matmul_kernels.is_empty(), "{axes:?}: {}", stderr(&output));
    let (next, done) = (Mutex::new(matmul_kernels.into_iter()), Mutex::new(vec![]));
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some((name, ptx)) = next.lock().unwrap().next() else {
                        return;
                    };
                    let opcodes = opcodes(&disassemble(compilers, &ptx));
                    done.lock().unwrap().push((name, opcodes));
                }
            });
        }
    });
    done.into_inner().unwrap()
}

fn entry_point(ptx: &str) -> String {
    let name = ptx
        .split(".entry ")
        .nth(1)
        .expect("the kernel has no entry point");
    name.split('(').next().unwrap().trim().to_owned()
}

fn disassemble(compilers: &Path, ptx: &Path) -> String {
    let code = ptx.with_extension("cubin");
    let tool = |name: &str, arguments: &[&str]| {
        let output = Command::new(compilers.join("bin").join(name))
            .args(arguments)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{name} {}: {}",
            ptx.display(),
            stderr(&output)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let (ptx, code) = (ptx.to_str().unwrap(), code.to_str().unwrap());
    tool("ptxas", &["-arch", ARCHITECTURE, ptx, "-o", code]);
    tool("nvdisasm", &["-c", code])
}

/// Returns the opcodes that multiply: `/*0a30*/ @!P0 HMMA.16816.F32.BF16 R4, …`. `HFMA2.MMA` only loads constants.
fn opcodes(code: &str) -> Opcodes {
    let instructions = code.lines().filter_map(|line| {
        let (_, rest) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
        rest.split_whitespace()
            .find(|word| !word.starts_with('@'))
            .map(str::to_owned)
    });
    let multiplies = |opcode: &String| {
        let base = opcode.split('.').next().unwrap_or_default();
        base.ends_with("MMA") || ["FFMA", "DFMA"].contains(&base)
    };
    instructions
        .map(|opcode| opcode.trim_end_matches(';').to_owned())
        .filter(multiplies)
        .collect()
}

/// Returns the instructions on matrix units.
fn on_matrix_units(opcodes: &Opcodes) -> Vec<&String> {
    let is_mma = |opcode: &str| opcode.split('.').next().unwrap_or_default().ends_with("MMA");
    opcodes.iter().filter(|opcode| is_mma(opcode)).collect()
}

/// Precision class: its axes, its instructions on matrix units, and the multiply instruction of kernels without matrix units.
struct Class {
    axes: &'static [&'static str],
    units: Option<fn(&str) -> bool>,
    ordinary: &'static str,
}

const CLASSES: [(&str, Class); 6] = [
    (
        "64-true",
        Class {
            axes: &["precision=64-true"],
            units: None,
            ordinary: "DFMA",
        },
    ),
    (
        "32-true, highest",
        Class {
            axes: &["precision=32-true", "matmul=highest"],
            units: None,
            ordinary: "FFMA",
        },
    ),
    (
        "32-true, high",
        Class {
            axes: &["precision=32-true", "matmul=high"],
            units: Some(|opcode| opcode.ends_with(".F32.TF32")),
            ordinary: "FFMA",
        },
    ),
    (
        "32-true, medium",
        Class {
            axes: &["precision=32-true", "matmul=medium"],
            units: Some(|opcode| opcode.ends_with(".F32.BF16")),
            ordinary: "FFMA",
        },
    ),
    (
        "bf16-mixed",
        Class {
            axes: &["precision=bf16-mixed", "matmul=highest"],
            units: Some(|opcode| opcode.ends_with(".F32.BF16")),
            ordinary: "FFMA",
        },
    ),
    (
        "16-mixed",
        Class {
            axes: &["precision=16-mixed", "matmul=highest"],
            units: Some(|opcode| opcode.ends_with(".F32")),
            ordinary: "FFMA",
        },
    ),
];

/// Returns the reason why a kernel violates its class: a forbidden instruction, or a missing one.
fn violation(class: &Class, opcodes: &Opcodes) -> Option<String> {
    let units = on_matrix_units(opcodes);
    let allowed =
        |opcode: &str| opcode.starts_with("HMMA.") && class.units.is_some_and(|allows| allows(opcode));
    if let Some(other) = units.iter().find(|opcode| !allowed(opcode)) {
        return Some(format!("it contains {other}"));
    }
    let is_ordinary = |opcode: &String| opcode.split('.').next() == Some(class.ordinary);
    (units.is_empty() && !opcodes.iter().any(is_ordinary))
        .then(|| format!("it uses neither matrix units nor {}", class.ordinary))
}

fn check_classes(suite: &str, more: &[&str], classes: &[&str]) {
    let Some(compilers) = compilers() else { return };
    println!("| class | instructions | kernels |\n|---|---|--:|");
    for (name, class) in CLASSES.iter().filter(|(name, _)| classes.contains(name)) {
        let axes: Vec<&str> = class.axes.iter().chain(more).copied().collect();
        let all = kernels(&compilers, suite, &axes);
        let mut table: BTreeMap<String, usize> = BTreeMap::new();
        for (kernel, opcodes) in &all {
            assert_eq!(violation(class, opcodes), None, "{name}: `{kernel}` {opcodes:?}");
            let units = on_matrix_units(opcodes);
            let instructions = match units.is_empty() {
                true => class.ordinary.to_owned(),
                false => units
                    .iter()
                    .map(|opcode| format!("`{opcode}`"))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            *table.entry(instructions).or_default() += 1;
        }
        for (instructions, kernels) in &table {
            println!("| {name} | {instructions} | {kernels} |");
        }
        let used = all
            .iter()
            .any(|(_, opcodes)| !on_matrix_units(opcodes).is_empty());
        assert_eq!(used, class.units.is_some(), "{name}: matrix units");
    }
}

#[test]
fn matmuls_have_the_instructions_of_their_class() {
    let all: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
    check_classes(
        "suites/kernels/matmul.toml",
        &["size=256", "accumulator=f32", "distribution=normal"],
        &all,
    );
}

#[test]
fn convolutions_have_the_instructions_of_their_class() {
    check_classes(
        "suites/kernels/convolution.toml",
        &["size=32"],
        &["32-true, high", "bf16-mixed", "16-mixed"],
    );
}

#[test]
fn fused_attention_has_the_instructions_of_its_class() {
    check_classes(
        "fixtures/operations.toml",
        &["attention=fused", "fusion=off"],
        &["16-mixed"],
    );
}

#[test]
fn f16_sums_are_on_matrix_units_only_if_they_are_requested() {
    let Some(compilers) = compilers() else { return };
    let f16 = |opcode: &&String| opcode.starts_with("HMMA.") && opcode.ends_with(".F16");
    let axes = [
        "precision=16-mixed",
        "matmul=highest",
        "size=256",
        "distribution=normal",
    ];
    for (accumulator, expected) in [("accumulator=f16", true), ("accumulator=f32", false)] {
        let axes: Vec<&str> = axes.iter().copied().chain([accumulator]).collect();
        let all = kernels(&compilers, "suites/kernels/matmul.toml", &axes);
        let count = all
            .iter()
            .filter(|(_, opcodes)| on_matrix_units(opcodes).iter().any(f16))
            .count();
        println!(
            "{accumulator}: {count} of {} kernels sum in f16 on matrix units",
            all.len()
        );
        assert_eq!(count > 0, expected, "{accumulator}");
    }
}

/// Compiles a source, and returns its opcodes.
fn compile(compilers: &Path, source: &str) -> Opcodes {
    let dir = TestDir::new();
    fs::write(dir.path("kernel.cu"), source).unwrap();
    let output = Command::new(compilers.join("bin/nvcc"))
        .args(["-ptx", "-arch", ARCHITECTURE, "kernel.cu", "-o", "kernel.ptx"])
        .current_dir(dir.path(""))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    opcodes(&disassemble(compilers, &dir.path("kernel.ptx")))
}

/// Checks that a TF32 kernel in a class with f32 operands is detected.
#[test]
fn a_tf32_kernel_under_highest_is_a_violation() {
    let Some(compilers) = compilers() else { return };
    let tf32 = compile(&compilers, include_str!("../cuda/tf32.cu"));
    let class = |wanted| &CLASSES.iter().find(|(name, _)| *name == wanted).unwrap().1;
    assert_eq!(violation(class("32-true, high"), &tf32), None, "{tf32:?}");
    for other in ["32-true, highest", "bf16-mixed", "16-mixed", "64-true"] {
        let violation = violation(class(other), &tf32).unwrap();
        assert!(violation.contains("TF32"), "{other}: {violation}");
    }
}
