//! Tests with tampered run folders. Resuming, the report and the gate must not crash, and nothing must be written outside of the folder.

mod readers;

use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_testing::{alone, hostile::assert_robust};
use serde_json::Value;

/// Number of mutated files of each kind.
const MUTATED_FILES: u64 = 300;
/// Number of mutated folders per folder that is also rendered and saved as a baseline. Rendering and saving take a hundred times as long as the
/// other tests of a folder.
const RENDER_INTERVAL: u64 = 50;

#[test]
fn a_run_folder_that_is_resumed() {
    alone(|| {
        for (number, valid) in readers::valid().into_iter().enumerate() {
            let count = AtomicU64::new(0);
            assert_robust(readers::FILES[number], &[valid], MUTATED_FILES, |bytes| {
                let is_rendered = count
                    .fetch_add(1, Ordering::Relaxed)
                    .is_multiple_of(RENDER_INTERVAL);
                readers::run(number, bytes, is_rendered)
            });
        }
    });
}

/// Paths outside of a run folder.
const PATHS: [&str; 3] = ["../../../outside", readers::ABSOLUTE, ".."];

/// Traverses a JSON value, skips the first `left` strings and field names, and replaces the next one by a path. Returns false if the value
/// contains at most `left` of them.
fn replace(value: &mut Value, left: &mut usize, path: &str) -> bool {
    match value {
        Value::String(text) => {
            let is_target = is_next(left);
            if is_target {
                *text = path.to_owned();
            }
            is_target
        }
        Value::Array(values) => values.iter_mut().any(|value| replace(value, left, path)),
        Value::Object(fields) => {
            let names: Vec<String> = fields.keys().cloned().collect();
            names.iter().any(|name| match is_next(left) {
                true => {
                    let value = fields.remove(name).unwrap_or_default();
                    fields.insert(path.to_owned(), value);
                    true
                }
                false => replace(&mut fields[name], left, path),
            })
        }
        _ => false,
    }
}

/// Decrements `left`, down to 0. Returns true if it was 0.
fn is_next(left: &mut usize) -> bool {
    let is_target = *left == 0;
    *left = left.saturating_sub(1);
    is_target
}

#[test]
fn a_run_folder_whose_names_are_paths() {
    for (file, valid) in readers::valid().into_iter().enumerate() {
        let text = String::from_utf8(valid).unwrap();
        let (first, rest) = match readers::FILES[file].ends_with("jsonl") {
            true => text.split_once('\n').unwrap(),
            false => (text.as_str(), ""),
        };
        let whole: Value = serde_json::from_str(first).unwrap();
        let run = |value: &Value, is_rendered| {
            readers::run(file, format!("{value}\n{rest}").as_bytes(), is_rendered)
        };
        assert_eq!(run(&whole, true), Ok(()));
        let mut accepted = 0;
        for path in PATHS {
            for number in 0.. {
                let mut changed = whole.clone();
                if !replace(&mut changed, &mut number.clone(), path) {
                    break;
                }
                accepted += u32::from(run(&changed, number % 8 == 0).is_ok());
            }
        }
        assert!(accepted > 0, "{}", readers::FILES[file]);
    }
}
