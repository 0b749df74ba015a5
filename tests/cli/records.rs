//! Records, and the schema that `mantissa schema` prints for them.

use std::collections::BTreeSet;

use mantissa_core::Record;
use serde_json::Value;

use crate::support::{Place, fixture, stdout};

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn a_record_has_the_keys_of_the_schema_and_reads_back_without_loss() {
    let place = Place::new();
    let schema: Value = serde_json::from_str(&stdout(&place.run(&["schema"]))).unwrap();
    place.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let records = place.records("run");
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

#[test]
fn a_record_says_what_it_was_measured_on() {
    let place = Place::new();
    place.run(&["run", &fixture("kernels"), "--backend=flex", "--out=run"]);
    let record = &place.records("run")[0];
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
