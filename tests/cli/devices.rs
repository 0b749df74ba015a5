//! `mantissa devices`.

use serde_json::Value;

use crate::support::{TestDir, stdout};

#[test]
fn the_cpu_backend_is_always_listed_with_every_format() {
    let output = TestDir::new().run(&["devices", "--json"]);
    let devices: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let backends = devices["backends"].as_array().unwrap();
    assert_eq!(backends.len(), 3);
    let flex = backends
        .iter()
        .find(|backend| backend["backend"] == "flex")
        .unwrap();
    assert_eq!(flex["unavailable"], Value::Null);
    for format in ["f64", "f32", "tf32", "bf16", "f16"] {
        let support = flex["formats"][format].as_str().unwrap();
        assert!(
            ["native", "emulated", "absent"].contains(&support),
            "{format}: {support}"
        );
    }
    assert_eq!(flex["formats"]["f32"], "native");
    assert_eq!(flex["formats"]["tf32"], "emulated", "CPUs emulate TF32");
}

#[test]
fn a_missing_backend_is_listed_with_the_reason() {
    let dir = TestDir::new();
    let output = dir
        .command(&["devices"])
        .env("CUDA_VISIBLE_DEVICES", "")
        .output()
        .unwrap();
    let text = stdout(&output);
    let cuda = text.lines().find(|line| line.starts_with("cuda")).unwrap();
    assert!(
        cuda.starts_with("cuda    not available: ") && cuda.len() > 30,
        "{text}"
    );
    assert_eq!(output.status.code(), Some(0));
}
