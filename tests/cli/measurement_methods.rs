//! Descriptions in a record of how its values were measured.

use serde_json::Value;

use crate::support::{TestDir, fixture, stderr};

fn run(suite: &str, axes: &[&str]) -> Vec<Value> {
    let dir = TestDir::new();
    let suite = fixture(suite);
    let mut arguments = vec!["run", &suite, "--backend=flex", "--out=run", "--profile=smoke"];
    for axis in axes {
        arguments.extend(["-a", axis]);
    }
    let output = dir.run(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    dir.records("run")
}

fn value(record: &Value, metric: &str) -> f64 {
    let found = record["metrics"][metric]["value"].as_f64();
    found.unwrap_or_else(|| panic!("{metric}: {}", record["metrics"][metric]))
}

#[test]
fn training_memory_is_broken_down_into_parts() {
    let records = run("parts", &["precision=32-true,16-mixed,16-true"]);
    let [single, mixed, half] = records.as_slice() else {
        panic!("three cells: {records:?}")
    };
    let bytes = |record: &Value, part: &str| value(record, &format!("{part}_bytes"));
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.05;
    let (weights, optimizer) = (bytes(single, "weights"), bytes(single, "optimizer"));
    // Adam stores two values per parameter.
    assert!(near(bytes(single, "gradients"), weights), "{}", single["metrics"]);
    assert!(near(optimizer, 2.0 * weights), "{}", single["metrics"]);
    assert_eq!(bytes(single, "weight_copies"), 0.0, "f32 weights are not copied");
    assert!(near(bytes(mixed, "weights"), weights) && near(bytes(mixed, "optimizer"), optimizer));
    let copies = bytes(mixed, "weight_copies");
    assert!(copies > 0.0 && copies < 0.5 * weights, "{copies} of {weights}");
    assert!(bytes(mixed, "activations") < 0.95 * bytes(single, "activations"));
    assert!(near(bytes(half, "weights"), 0.5 * weights));
    assert!(near(bytes(half, "optimizer"), 0.5 * optimizer));
    // The measured memory is at most 10 % above the estimate from shapes, which ignores tensor handles and the autodiff graph.
    for part in ["weights", "gradients", "optimizer", "activations"] {
        let ratio = bytes(single, part) / bytes(single, &format!("estimated_{part}"));
        assert!((0.99..1.1).contains(&ratio), "{part}: {ratio}");
    }
    let method = &single["metrics"]["weights_bytes"]["method"];
    assert_eq!(method, "allocations of the program, in use");
}

#[test]
fn checkpointing_keeps_fewer_activations() {
    let records = run("parts", &["checkpointing=off,on"]);
    let activations = |record: &Value| value(record, "activations_bytes");
    assert!(
        activations(&records[1]) < 0.2 * activations(&records[0]),
        "{} of {}",
        activations(&records[1]),
        activations(&records[0])
    );
    assert!(value(&records[1], "host_peak_bytes") < value(&records[0], "host_peak_bytes"));
}

fn event_detail(record: &Value, kind: &str) -> String {
    let mut events = record["events"].as_array().unwrap().iter();
    let event = events.find(|event| event["kind"] == kind);
    let event = event.unwrap_or_else(|| panic!("no `{kind}`: {record}"));
    event["detail"].as_str().unwrap().to_owned()
}

#[test]
fn kernel_records_name_the_clock_and_the_cache_state() {
    let records = run("kernels", &["size=32"]);
    let wall = "wall clock between two synchronisations";
    let clock = event_detail(&records[0], "clock");
    assert!(clock.starts_with(wall), "{clock}");
    let cache = event_detail(&records[0], "cache");
    assert!(cache.starts_with("cold: "), "{cache}");
    let method = records[0]["metrics"]["flops_per_second"]["method"]
        .as_str()
        .unwrap();
    assert!(method.ends_with(wall), "{method}");
}

#[test]
fn cold_cache_copies_do_not_count_as_kernel_memory() {
    let peak = |suite: &str| value(&run(suite, &["size=32"])[0], "host_peak_bytes");
    let (cold, warm) = (peak("kernels"), peak("warm"));
    assert!(
        (cold - warm).abs() < 8e6,
        "{cold} bytes cold, {warm} warm: the copies take 30 MB or more"
    );
}

#[test]
fn memory_bound_kernels_record_bandwidth_and_error() {
    let records = run("rows", &[]);
    let find = |workload: &str, precision: &str, gelu: Option<&str>| {
        let found = records.iter().find(|record| {
            let cell = &record["cell"];
            let setting = &cell["setting"];
            cell["workload"]["name"] == workload
                && setting["precision"] == precision
                && gelu.is_none_or(|form| setting["gelu"] == form)
        });
        found.unwrap_or_else(|| panic!("no {workload} in {precision}: {records:?}"))
    };
    for (workload, precision, max_error) in [
        ("softmax", "32-true", 1e-6),
        ("layer norm", "16-true", 1e-3),
        ("RMS norm", "bf16-true", 4e-3),
        ("cast", "bf16-mixed", 3.9e-3),
        ("AdamW", "32-true", 1e-6),
    ] {
        let record = find(workload, precision, None);
        assert_eq!(record["status"], "ok", "{workload}: {}", record["reason"]);
        let error = value(record, "relative_error");
        assert!(error > 0.0 && error < max_error, "{workload}: {error}");
        assert!(value(record, "copy_bytes_per_second") > 0.0);
        assert!(record["metrics"].get("flops_per_second").is_none(), "{workload}");
        assert_eq!(record["executed"]["verdict"], "unverified", "{workload}");
        assert!(record["cell"]["setting"].get("matmul").is_none(), "{workload}");
    }
    // Bytes per value: a softmax reads and writes each value once, in f32 or in 16 bits.
    let bytes = |record: &Value| value(record, "bytes_per_second") / value(record, "values_per_second");
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    assert!(near(bytes(find("softmax", "32-true", None)), 8.0));
    assert!(near(bytes(find("softmax", "bf16-true", None)), 4.0));
    assert!(near(bytes(find("cast", "bf16-mixed", None)), 6.0));
    assert!(near(bytes(find("AdamW", "32-true", None)), 28.0));

    let packed = find("gelu", "bf16-true", Some("tanh-packed"));
    assert_eq!(packed["executed"]["emulated"], true, "{}", packed["executed"]);
    let exact = find("gelu", "bf16-true", Some("exact"));
    let (packed, exact) = (value(packed, "relative_error"), value(exact, "relative_error"));
    assert!(
        packed > 1.2 * exact,
        "rounding at every step must increase the error: {packed}, {exact}"
    );
}

#[test]
fn unsupported_kernel_settings_are_skipped_with_a_reason() {
    let dir = TestDir::new();
    let suite = fixture("rows");
    let output = dir.run(&["plan", &suite, "--backend=flex", "--json"]);
    let plan: Value = serde_json::from_slice(&output.stdout).unwrap();
    let reasons: std::collections::BTreeSet<&str> = plan["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cell| cell["skip"].as_str())
        .collect();
    let has = |part: &str| reasons.iter().any(|reason| reason.contains(part));
    assert!(has("`gelu=tanh-packed` takes two 16-bit values"), "{reasons:?}");
    assert!(
        has("`bf16-mixed` is the same as `32-true` for `softmax`"),
        "{reasons:?}"
    );
    assert!(
        has("`16-true` has one format, so there is no cast"),
        "{reasons:?}"
    );
}
