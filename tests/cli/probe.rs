//! `mantissa probe`.

use serde_json::Value;

use crate::support::{TestDir, stdout};

#[test]
fn a_probe_that_verifies_nothing_fails() {
    // f16 sums are not defined for f32 operands, so every row is skipped.
    let axes = [
        "-a",
        "precision=32-true",
        "-a",
        "matmul=highest",
        "-a",
        "accumulator=f16",
    ];
    let output = TestDir::new().run(&[&["probe", "--backend", "flex"], &axes[..]].concat());
    let table = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{table}");
    assert_eq!(table.matches("skipped").count(), 2, "{table}");
}

#[test]
fn attention_is_probed_on_request() {
    let output = TestDir::new().run(&["probe", "--backend", "flex", "-a", "attention=fused"]);
    let table = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{table}");
    assert_eq!(table.matches("as requested").count(), 5, "{table}");
}

#[test]
fn probe_records_contain_the_executed_precision() {
    let output = TestDir::new().run(&[
        "probe",
        "--backend",
        "flex",
        "--json",
        "-a",
        "precision=bf16-true",
    ]);
    let text = stdout(&output);
    let records: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(!records.is_empty());
    for record in &records {
        assert_eq!(record["status"], "ok", "{record}");
        assert_eq!(record["executed"]["operand_bits"], 8);
        assert_eq!(
            record["executed"]["accumulator"],
            record["cell"]["setting"]["accumulator"]
        );
        assert_eq!(record["executed"]["verdict"], "as-requested");
        let command = record["command"].as_str().unwrap();
        assert!(command.starts_with("mantissa probe --backend flex"), "{command}");
    }
}

#[test]
fn an_unavailable_backend_exits_with_4_and_one_line() {
    let dir = TestDir::new();
    let output = dir
        .command(&["probe", "--backend", "cuda"])
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(crate::support::stderr(&output).lines().count(), 1);
}

mod long {
    use super::*;

    #[test]
    fn the_cpu_executes_every_setting_as_requested() {
        let output = TestDir::new().run(&["probe", "--backend", "flex"]);
        let table = stdout(&output);
        assert_eq!(output.status.code(), Some(0), "{table}");
        // Matmuls and convolutions.
        assert_eq!(table.matches("as requested").count(), 40, "{table}");
        assert!(table.contains("tf32 → f32"), "{table}");
    }
}
