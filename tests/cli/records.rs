//! Records, and the schema that `mantissa schema` prints for them.

use std::collections::BTreeSet;

use mantissa_core::{
    Accumulator, Axis, Backend, EventKind, ExecutedVerdict, MatmulPrecision, MetricName, Precision, Record,
    SeriesName, Status, TensorClass,
};
use serde_json::Value;

use crate::support::{TestDir, fixture, stdout};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn records_match_the_schema_and_round_trip() {
    let dir = TestDir::new();
    let schema: Value = serde_json::from_str(&stdout(&dir.run(&["schema"]))).unwrap();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let records = dir.records("run");
    assert_eq!(records.len(), 2);
    for record in records {
        assert_eq!(keys(&record), keys(&schema["properties"]));
        let required = schema["required"].as_array().unwrap();
        assert!(
            required
                .iter()
                .all(|key| keys(&record).contains(key.as_str().unwrap()))
        );
        let read: Record = serde_json::from_value(record.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), record);
    }
}

/// Records and samples of earlier versions contain these names, so a name may be added but not changed.
#[test]
fn names_in_files_match_the_snapshot() {
    macro_rules! names {
        ($($ty:ident),+) => {
            [$((stringify!($ty), <$ty>::ALL.iter().map(|value| value.name()).collect::<Vec<_>>())),+]
        };
    }
    let lists = names![
        Axis,
        Precision,
        MatmulPrecision,
        Accumulator,
        Backend,
        Status,
        ExecutedVerdict,
        MetricName,
        SeriesName,
        EventKind,
        TensorClass
    ];
    let lines = lists.map(|(list, names)| format!("{list}: {}", names.join(", ")));
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_record_contains_its_fingerprint() {
    let dir = TestDir::new();
    dir.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let record = &dir.records("run")[0];
    let fingerprint = &record["fingerprint"];
    assert_eq!(fingerprint["burn"], "0.22.1");
    assert_eq!(fingerprint["gpu"], Value::Null);
    assert_eq!(
        fingerprint["build"],
        if cfg!(debug_assertions) {
            "debug"
        } else {
            "release"
        }
    );
    assert_eq!(record["metrics"]["device_peak_bytes"]["value"], Value::Null);
}
