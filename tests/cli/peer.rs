//! Cells computed by another framework.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Output,
};

use mantissa_testing::is_available;
use serde_json::Value;

use crate::support::{Place, ended, fixture, root, stderr};

/// Returns a Python with PyTorch: `MANTISSA_TORCH`, or the one that `peers/README.md` installs.
pub fn python() -> Option<PathBuf> {
    let given = std::env::var_os("MANTISSA_TORCH").map(PathBuf::from);
    let python = given.unwrap_or_else(|| root().join("peers/.venv/bin/python"));
    let found = match python.is_file() {
        true => Ok(()),
        false => Err(format!(
            "PyTorch not found: `{}` does not exist",
            python.display()
        )),
    };
    is_available("pytorch", found).then_some(python)
}

/// Runs a fixture with burn into `burn`, and with PyTorch into `torch`. `also`: additional arguments of both.
fn both(place: &Place, suite: &str, python: &Path, also: &[&str]) {
    let suite = fixture(suite);
    let run = |out: &str, peer: &[&str]| {
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
        let mut command = place.command(&[&arguments[..], also, peer].concat());
        command.env("PYTHONPATH", root().join("peers/pytorch"));
        let output = ended(command);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success(),
            "{}: {}{text}",
            output.status,
            stderr(&output)
        );
    };
    run("burn", &[]);
    let peer = format!("{} -m mantissa_torch", python.display());
    run("torch", &["--peer", &peer]);
}

/// Returns the key of a cell: its workload and its precision.
fn named(record: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let cell = &record["cell"];
    (
        text(&cell["workload"]["name"]),
        text(&cell["setting"]["precision"]),
    )
}

/// Returns the values of a series by cell.
fn series(place: &Place, run: &str, name: &str) -> BTreeMap<(String, String), Vec<f64>> {
    let of = |record: &Value| -> Option<Vec<f64>> {
        let samples: Value =
            serde_json::from_str(&place.samples_of(run, record)).expect("invalid JSON in the samples");
        let all = samples["series"].as_array()?;
        let found = all.iter().find(|series| series["name"] == name)?;
        found["y"].as_array()?.iter().map(Value::as_f64).collect()
    };
    let records = place.records(run);
    records
        .iter()
        .filter_map(|record| Some((named(record), of(record)?)))
        .collect()
}

/// Returns the largest relative difference of two lists.
fn apart(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    let pairs = one.iter().zip(other);
    pairs.map(|(a, b)| ((b - a) / a).abs()).fold(0.0, f64::max)
}

/// Returns true if PyTorch uses oneDNN for bf16 convolutions, which sums them in f32. It requires a processor with AVX-512.
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
    Place::new().run(&arguments)
}

#[test]
fn a_peer_that_is_not_there_or_does_not_answer_is_named() {
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

    #[test]
    fn the_first_twenty_losses_are_pytorchs() {
        let Some(python) = python() else { return };
        let place = Place::new();
        both(&place, "both", &python, &[]);
        let (burn, torch) = (
            series(&place, "burn", "train_loss"),
            series(&place, "torch", "train_loss"),
        );
        // Twice the spacing of numbers in the format of the sums, after twenty steps. A loss that is stored in bf16 has 8 bits.
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
            let apart = apart(&burn[&cell], &torch[&cell]);
            println!("{precision}: {apart:.2e} apart, {bound:.2e} allowed");
            assert!(apart <= bound, "{precision}: {apart:e}");
        }
        let first = &place.records("torch")[0];
        let peer = first["fingerprint"]["peer"].as_str().unwrap_or_default();
        assert!(peer.starts_with("PyTorch 2."), "{peer}");
        assert!(
            first["command"]
                .as_str()
                .is_some_and(|command| command.contains("--peer")),
            "{}",
            first["command"]
        );
        // Its matmuls have the requested bits, forward and backward.
        for (record, here) in place.records("torch").iter().zip(&place.records("burn")) {
            let bits = |record: &Value| record["executed"]["operand_bits"].as_u64();
            assert_eq!(
                record["executed"]["verdict"], "as-requested",
                "{}",
                record["executed"]
            );
            assert_eq!(bits(record), bits(here));
        }
        // The parent measured more than Python alone needs.
        assert!(first["metrics"]["host_peak_bytes"]["value"].as_f64() > Some(1e8));

        let output = place.run(&["report", "burn", "torch", "--side-by-side", "--out", "page"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let page =
            std::fs::read_to_string(place.path("page/side-by-side.html")).expect("cannot read the page");
        assert!(page.contains("PyTorch 2.") && page.contains("burn 0.22"));
        assert!(
            page.contains("Losses of B and A differ by at most ") && page.contains(" in the first 20 steps")
        );
        let output = place.run(&["compare", "burn", "torch"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains("framework: burn against PyTorch 2."),
            "{}",
            stderr(&output)
        );
    }

    #[test]
    fn every_model_is_pytorchs() {
        let Some(python) = python() else { return };
        let place = Place::new();
        both(
            &place,
            "both-models",
            &python,
            &["--init", "random", "-a", "size=64"],
        );
        let (burn, torch) = (
            series(&place, "burn", "train_loss"),
            series(&place, "torch", "train_loss"),
        );
        assert_eq!(burn.len(), 6, "{:?}", burn.keys());
        for (cell, losses) in &burn {
            let apart = apart(losses, &torch[cell]);
            println!("{cell:?}: {apart:.2e} apart");
            assert!(apart <= 1e-5, "{cell:?}: {apart:e}");
        }
        // Both frameworks generate the same text, and the kernel of PyTorch is as accurate.
        let texts = |run: &str| -> BTreeMap<(String, String), Value> {
            let records = place.records(run);
            let text = |record: &Value| {
                let events = record["events"].as_array()?;
                let event = events.iter().find(|event| event["kind"] == "text")?;
                Some((named(record), event["detail"].clone()))
            };
            records.iter().filter_map(text).collect()
        };
        assert_eq!((texts("burn"), texts("burn").len()), (texts("torch"), 2));
        for record in place.records("torch") {
            assert_eq!(record["status"], "ok", "{record}");
            let metrics = &record["metrics"];
            match named(&record).0.as_str() {
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
    fn every_kernel_is_pytorchs() {
        let Some(python) = python() else { return };
        let place = Place::new();
        both(&place, "both-kernels", &python, &[]);
        let named = |run: &str| -> BTreeMap<String, Value> {
            let name = |record: &Value| {
                let cell = &record["cell"];
                let (workload, precision) = named(record);
                format!(
                    "{workload} {precision} {} {}",
                    cell["setting"]["gelu"], cell["setting"]["attention"]
                )
            };
            let records = place.records(run).into_iter();
            records.map(|record| (name(&record), record)).collect()
        };
        let (burn, torch) = (named("burn"), named("torch"));
        assert_eq!(burn.len(), torch.len());
        let value = |record: &Value, metric: &str| record["metrics"][metric]["value"].as_f64();
        let onednn = onednn_computes_bf16(&python);
        let mut compared = 0;
        for (cell, here) in &burn {
            let there = &torch[cell];
            if here["status"] != "ok" {
                continue;
            }
            if cell.starts_with("adamw bf16") {
                assert_eq!(there["status"], "skipped", "{cell}: {there}");
                continue;
            }
            assert_eq!(there["status"], "ok", "{cell}: {there}");
            // The operands and the formula are the same, so the errors differ only by the order of summation.
            let (error, other) = (value(here, "relative_error"), value(there, "relative_error"));
            println!("{cell}: {error:?} {other:?}");
            let allowed = error.map_or(f64::NAN, |error| 2.0 * error + 1e-7);
            assert!(
                other.is_some_and(|other| other <= allowed),
                "{cell}: {other:?} against {error:?}"
            );
            assert_eq!(
                value(here, "copy_bytes_per_second").is_some(),
                value(there, "copy_bytes_per_second").is_some(),
                "{cell}"
            );
            if cell.ends_with("\"fused\"") {
                assert_eq!(there["executed"]["verdict"], "unverified", "{cell}: {there}");
            } else {
                let (ours, theirs) = (&here["executed"], &there["executed"]);
                assert_eq!(ours["operand_bits"], theirs["operand_bits"], "{cell}: {there}");
                if cell.starts_with("convolution bf16") && !onednn {
                    // PyTorch's own convolution sums in bf16, and the probe detects it.
                    assert_eq!(ours["verdict"], "as-requested", "{cell}: {here}");
                    assert_eq!(
                        [&theirs["verdict"], &theirs["accumulator"]],
                        ["differs", "bf16"],
                        "{cell}: {there}"
                    );
                } else {
                    assert_eq!(ours["verdict"], theirs["verdict"], "{cell}: {there}");
                }
            }
            compared += 1;
        }
        assert!(compared >= 20, "{compared}");
    }

    #[test]
    fn the_frameworks_of_a_race_take_turns() {
        let Some(python) = python() else { return };
        let place = Place::new();
        let race = |repeats: &str| {
            std::process::Command::new(root().join("peers/side-by-side"))
                .arg(root().join("tests/fixtures/kernels.toml"))
                .args(["--backend", "flex", "-a", "size=16", "--repeats", repeats])
                .env("MANTISSA", env!("CARGO_BIN_EXE_mantissa"))
                .env("MANTISSA_TORCH", &python)
                .env("OUT", place.path("race"))
                .output()
                .expect("cannot start `peers/side-by-side`")
        };
        assert_eq!(race("few").status.code(), Some(2));
        let output = race("2");
        assert!(output.status.success(), "{}", stderr(&output));
        let measured = |framework: &str, repeat: usize| {
            let records = place.records(&format!("race/{framework}"));
            assert_eq!(records.len(), 2);
            let samples = records[repeat]["samples"]
                .as_str()
                .expect("the record has no samples");
            let file = place.path(&format!("race/{framework}")).join(samples);
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
        assert!(place.path("race/side-by-side/side-by-side.html").exists());
    }
}
