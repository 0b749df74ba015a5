//! Cells computed by another framework.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Output,
};

use mantissa_testing::is_available;
use serde_json::Value;

use crate::support::{TestDir, fixture, root, run_to_exit, stderr};

/// Returns a Python with PyTorch: `MANTISSA_TORCH`, or the one that `peers/README.md` installs.
pub fn python() -> Option<PathBuf> {
    let configured = std::env::var_os("MANTISSA_TORCH").map(PathBuf::from);
    let python = configured.unwrap_or_else(|| root().join("peers/.venv/bin/python"));
    let found = match python.is_file() {
        true => Ok(()),
        false => Err(format!(
            "PyTorch not found: `{}` does not exist",
            python.display()
        )),
    };
    is_available("pytorch", found).then_some(python)
}

/// Runs a fixture with burn into `burn`, and with PyTorch into `torch`. `more` contains further arguments of both runs.
fn run_burn_and_pytorch(dir: &TestDir, suite: &str, python: &Path, more: &[&str]) {
    run_fixture(dir, suite, "burn", more);
    run_pytorch(dir, suite, "torch", python, more);
}

fn run_pytorch(dir: &TestDir, suite: &str, out: &str, python: &Path, more: &[&str]) {
    let peer = format!("{} -m mantissa_torch", python.display());
    run_fixture(dir, suite, out, &[more, &["--peer", &peer]].concat());
}

fn run_fixture(dir: &TestDir, suite: &str, out: &str, more: &[&str]) {
    let suite = fixture(suite);
    let arguments = [
        "run",
        &suite,
        "--profile",
        "smoke",
        "--backend",
        "flex",
        "--out",
        out,
    ];
    let mut command = dir.command(&[&arguments[..], more].concat());
    command.env("PYTHONPATH", root().join("peers/pytorch"));
    let output = run_to_exit(command);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}: {}{text}",
        output.status,
        stderr(&output)
    );
}

/// Returns the key of a cell: its workload and its precision.
fn cell_key(record: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let cell = &record["cell"];
    (
        text(&cell["workload"]["name"]),
        text(&cell["setting"]["precision"]),
    )
}

/// Returns the values of a series by cell.
fn series(dir: &TestDir, run: &str, name: &str) -> BTreeMap<(String, String), Vec<f64>> {
    let values = |record: &Value| -> Option<Vec<f64>> {
        let samples: Value =
            serde_json::from_str(&dir.samples_of(run, record)).expect("invalid JSON in the samples");
        let all = samples["series"].as_array()?;
        let found = all.iter().find(|series| series["name"] == name)?;
        found["y"].as_array()?.iter().map(Value::as_f64).collect()
    };
    let records = dir.records(run);
    records
        .iter()
        .filter_map(|record| Some((cell_key(record), values(record)?)))
        .collect()
}

/// Returns the largest relative difference of two lists.
fn max_relative_difference(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other);
    pairs.map(|(a, b)| ((b - a) / a).abs()).fold(0.0, f64::max)
}

/// Returns true if PyTorch uses oneDNN for bf16 convolutions, which sums in f32 and needs a processor with AVX-512.
fn onednn_computes_bf16(python: &Path) -> bool {
    let output = std::process::Command::new(python)
        .args([
            "-c",
            "import torch; print(torch.ops.mkldnn._is_mkldnn_bf16_supported())",
        ])
        .output()
        .unwrap();
    match String::from_utf8_lossy(&output.stdout).trim() {
        "True" => true,
        "False" => false,
        _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
    }
}

fn with_peer(peer: &str) -> Output {
    let suite = fixture("tiny");
    let arguments = [
        "run",
        &suite,
        "--profile",
        "smoke",
        "--backend",
        "flex",
        "--peer",
        peer,
    ];
    TestDir::new().run(&arguments)
}

#[test]
fn a_missing_or_unresponsive_peer_is_an_error() {
    for (peer, message) in [
        ("no-such-program -m x", "cannot start `no-such-program`"),
        ("false", "the peer exited without a response"),
        ("cat", "invalid response of the peer"),
        (" ", "`--peer` is empty"),
    ] {
        let output = with_peer(peer);
        assert_eq!(output.status.code(), Some(2), "{peer}: {}", stderr(&output));
        assert!(stderr(&output).contains(message), "{peer}: {}", stderr(&output));
    }
}

mod pytorch {
    use super::*;

    /// Asserts that two frameworks have nearly the same losses in every precision of the fixture `both`.
    fn assert_first_20_losses_match(
        burn: &BTreeMap<(String, String), Vec<f64>>,
        torch: &BTreeMap<(String, String), Vec<f64>>,
    ) {
        // Largest allowed relative difference of a loss in the first twenty steps.
        let bounds = [
            ("64-true", 1e-13),
            ("32-true", 1e-6),
            ("bf16-mixed", f64::exp2(-8.0)),
            ("16-mixed", f64::exp2(-11.0)),
            ("bf16-true", f64::exp2(-6.0)),
        ];
        for (precision, bound) in bounds {
            let cell = ("distilbert".to_owned(), precision.to_owned());
            assert_eq!(burn[&cell].len(), 20);
            let difference = max_relative_difference(&burn[&cell], &torch[&cell]);
            println!("{precision}: {difference:.2e} apart, {bound:.2e} allowed");
            assert!(difference <= bound, "{precision}: {difference:e}");
        }
    }

    #[test]
    fn the_first_20_losses_match_pytorch() {
        let Some(python) = python() else { return };
        let dir = TestDir::new();
        run_burn_and_pytorch(&dir, "both", &python, &[]);
        let (burn, torch) = (
            series(&dir, "burn", "train_loss"),
            series(&dir, "torch", "train_loss"),
        );
        assert_first_20_losses_match(&burn, &torch);
        let first = &dir.records("torch")[0];
        let peer = first["fingerprint"]["peer"].as_str().unwrap_or_default();
        assert!(peer.starts_with("PyTorch 2."), "{peer}");
        assert!(
            first["command"]
                .as_str()
                .is_some_and(|command| command.contains("--peer")),
            "{}",
            first["command"]
        );
        // PyTorch's matmuls have the same operand bits as burn's.
        for (record, burn_record) in dir.records("torch").iter().zip(&dir.records("burn")) {
            let bits = |record: &Value| record["executed"]["operand_bits"].as_u64();
            assert_eq!(
                record["executed"]["verdict"], "as-requested",
                "{}",
                record["executed"]
            );
            assert_eq!(bits(record), bits(burn_record));
        }
        // The peak includes the memory of PyTorch.
        assert!(first["metrics"]["host_peak_bytes"]["value"].as_f64() > Some(1e8));

        let output = dir.run(&["report", "burn", "torch", "--side-by-side", "--out", "page"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let page = std::fs::read_to_string(dir.path("page/side-by-side.html")).expect("cannot read the page");
        assert!(page.contains("PyTorch 2.") && page.contains("burn 0.22"));
        assert!(
            page.contains("Losses of B and A differ by at most ") && page.contains(" in the first 20 steps")
        );
        let output = dir.run(&["compare", "burn", "torch"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains("framework: burn against PyTorch 2."),
            "{}",
            stderr(&output)
        );
    }

    #[test]
    fn several_devices_of_pytorch_match_accumulation() {
        let Some(python) = python() else { return };
        let dir = TestDir::new();
        // The tests of the lane `mpi` show that accumulation equals several devices of burn bit for bit.
        run_fixture(&dir, "both", "burn", &["-a", "threads=1"]);
        let axes = ["accumulate=1", "devices=2", "reduce_format=f64", "threads=1"];
        let axes = axes.map(|axis| ["-a", axis]).concat();
        run_pytorch(&dir, "both", "torch", &python, &axes);
        let (burn, torch) = (
            series(&dir, "burn", "train_loss"),
            series(&dir, "torch", "train_loss"),
        );
        assert_first_20_losses_match(&burn, &torch);
    }

    #[test]
    fn every_model_matches_pytorch() {
        let Some(python) = python() else { return };
        let dir = TestDir::new();
        run_burn_and_pytorch(
            &dir,
            "both-models",
            &python,
            &["--init", "random", "-a", "size=64"],
        );
        let (burn, torch) = (
            series(&dir, "burn", "train_loss"),
            series(&dir, "torch", "train_loss"),
        );
        assert_eq!(burn.len(), 6, "{:?}", burn.keys());
        for (cell, losses) in &burn {
            let difference = max_relative_difference(losses, &torch[cell]);
            println!("{cell:?}: {difference:.2e} apart");
            assert!(difference <= 1e-5, "{cell:?}: {difference:e}");
        }
        // Both frameworks generate the same text, and the kernel of PyTorch is as accurate.
        let texts = |run: &str| -> BTreeMap<(String, String), Value> {
            let records = dir.records(run);
            let text = |record: &Value| {
                let events = record["events"].as_array()?;
                let event = events.iter().find(|event| event["kind"] == "text")?;
                Some((cell_key(record), event["detail"].clone()))
            };
            records.iter().filter_map(text).collect()
        };
        assert_eq!((texts("burn"), texts("burn").len()), (texts("torch"), 2));
        for record in dir.records("torch") {
            assert_eq!(record["status"], "ok", "{record}");
            let metrics = &record["metrics"];
            match cell_key(&record).0.as_str() {
                "matmul" => assert!(
                    metrics["relative_error"]["value"].as_f64() < Some(1e-6),
                    "{metrics}"
                ),
                "resnet-tested" => assert!(
                    metrics["samples_per_second"]["value"].as_f64() > Some(0.0),
                    "{metrics}"
                ),
                "llama" | "gpt2" => assert!(
                    metrics["decode_tokens_per_second"]["value"].as_f64() > Some(0.0),
                    "{metrics}"
                ),
                _ => assert!(metrics["test_accuracy"]["value"].is_number(), "{metrics}"),
            }
        }
    }

    #[test]
    fn every_kernel_matches_pytorch() {
        let Some(python) = python() else { return };
        let dir = TestDir::new();
        run_burn_and_pytorch(&dir, "both-kernels", &python, &[]);
        let records_by_cell = |run: &str| -> BTreeMap<String, Value> {
            let name = |record: &Value| {
                let cell = &record["cell"];
                let (workload, precision) = cell_key(record);
                format!(
                    "{workload} {precision} {} {}",
                    cell["setting"]["gelu"], cell["setting"]["attention"]
                )
            };
            let records = dir.records(run).into_iter();
            records.map(|record| (name(&record), record)).collect()
        };
        let (burn, torch) = (records_by_cell("burn"), records_by_cell("torch"));
        assert_eq!(burn.len(), torch.len());
        let value = |record: &Value, metric: &str| record["metrics"][metric]["value"].as_f64();
        let onednn = onednn_computes_bf16(&python);
        let mut compared = 0;
        for (cell, burn_record) in &burn {
            let torch_record = &torch[cell];
            if burn_record["status"] != "ok" {
                continue;
            }
            if cell.starts_with("adamw bf16") {
                assert_eq!(torch_record["status"], "skipped", "{cell}: {torch_record}");
                continue;
            }
            assert_eq!(torch_record["status"], "ok", "{cell}: {torch_record}");
            // The operands and the formula are the same, so the errors differ only by the order of summation.
            let (error, other) = (
                value(burn_record, "relative_error"),
                value(torch_record, "relative_error"),
            );
            println!("{cell}: {error:?} {other:?}");
            let allowed = error.map_or(f64::NAN, |error| 2.0 * error + 1e-7);
            assert!(
                other.is_some_and(|other| other <= allowed),
                "{cell}: {other:?} against {error:?}"
            );
            assert_eq!(
                value(burn_record, "copy_bytes_per_second").is_some(),
                value(torch_record, "copy_bytes_per_second").is_some(),
                "{cell}"
            );
            if cell.ends_with("\"fused\"") {
                assert_eq!(
                    torch_record["executed"]["verdict"], "unverified",
                    "{cell}: {torch_record}"
                );
            } else {
                let (burn_executed, torch_executed) = (&burn_record["executed"], &torch_record["executed"]);
                assert_eq!(
                    burn_executed["operand_bits"], torch_executed["operand_bits"],
                    "{cell}: {torch_record}"
                );
                if cell.starts_with("convolution bf16") && !onednn {
                    // PyTorch's own convolution sums in bf16. The probe detects this.
                    assert_eq!(burn_executed["verdict"], "as-requested", "{cell}: {burn_record}");
                    assert_eq!(
                        [&torch_executed["verdict"], &torch_executed["accumulator"]],
                        ["differs", "bf16"],
                        "{cell}: {torch_record}"
                    );
                } else {
                    assert_eq!(
                        burn_executed["verdict"], torch_executed["verdict"],
                        "{cell}: {torch_record}"
                    );
                }
            }
            compared += 1;
        }
        assert!(compared >= 20, "{compared}");
    }

    #[test]
    fn side_by_side_alternates_between_the_frameworks() {
        let Some(python) = python() else { return };
        let dir = TestDir::new();
        let race = |repeats: &str| {
            std::process::Command::new(root().join("peers/side-by-side"))
                .arg(root().join("tests/fixtures/kernels.toml"))
                .args(["--backend", "flex", "-a", "size=16", "--repeats", repeats])
                .env("MANTISSA", env!("CARGO_BIN_EXE_mantissa"))
                .env("MANTISSA_TORCH", &python)
                .env("OUT", dir.path("race"))
                .output()
                .expect("cannot start `peers/side-by-side`")
        };
        assert_eq!(race("few").status.code(), Some(2));
        let output = race("2");
        assert!(output.status.success(), "{}", stderr(&output));
        let measured = |framework: &str, repeat: usize| {
            let records = dir.records(&format!("race/{framework}"));
            assert_eq!(records.len(), 2);
            let samples = records[repeat]["samples"]
                .as_str()
                .expect("the record has no samples");
            let file = dir.path(&format!("race/{framework}")).join(samples);
            std::fs::metadata(file)
                .and_then(|file| file.modified())
                .expect("the samples have no modification time")
        };
        let order = [("burn", 0), ("pytorch", 0), ("burn", 1), ("pytorch", 1)];
        assert!(
            order
                .map(|(framework, repeat)| measured(framework, repeat))
                .is_sorted()
        );
        assert!(dir.path("race/side-by-side/side-by-side.html").exists());
    }
}
