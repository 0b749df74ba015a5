//! Whatever is in a run folder, nothing is written outside of it.

mod readers;

use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_testing::{alone, hostile::endures};
use serde_json::Value;

/// Changed files of each kind.
const CHANGED: u64 = 300;
/// One in so many is rendered and saved as a baseline too, which takes a hundred times as long.
const RENDERED: u64 = 50;

#[test]
fn a_run_folder_that_is_resumed() {
    alone(|| {
        for (number, valid) in readers::valid().into_iter().enumerate() {
            let count = AtomicU64::new(0);
            endures(readers::FILES[number], &[valid], CHANGED, |bytes| {
                let is_rendered = count.fetch_add(1, Ordering::Relaxed).is_multiple_of(RENDERED);
                readers::run(number, bytes, is_rendered)
            });
        }
    });
}

/// Paths out of a run folder.
const PATHS: [&str; 3] = ["../../../outside", "/tmp/mantissa-outside", ".."];

/// Replaces the text or name of this number, in the order of the file. Returns how many numbers are left.
fn replace(value: &mut Value, number: usize, with: &str) -> Result<(), usize> {
    match value {
        Value::String(text) => match number {
            0 => {
                *text = with.to_owned();
                Ok(())
            }
            _ => Err(number - 1),
        },
        Value::Array(values) => {
            let mut left = number;
            for value in values {
                match replace(value, left, with) {
                    Err(rest) => left = rest,
                    done => return done,
                }
            }
            Err(left)
        }
        Value::Object(fields) => {
            let mut left = number;
            for (name, mut value) in std::mem::take(fields) {
                let done = left == usize::MAX;
                if !done && left == 0 {
                    fields.insert(with.to_owned(), value);
                    left = usize::MAX;
                    continue;
                }
                if !done {
                    left = replace(&mut value, left - 1, with).err().unwrap_or(usize::MAX);
                }
                fields.insert(name, value);
            }
            match left {
                usize::MAX => Ok(()),
                left => Err(left),
            }
        }
        _ => Err(number),
    }
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
        for path in PATHS {
            for number in 0.. {
                let mut changed = whole.clone();
                if replace(&mut changed, number, path).is_err() {
                    break;
                }
                // What is said of it does not matter here.
                let _ = readers::run(file, format!("{changed}\n{rest}").as_bytes(), number % 8 == 0);
            }
        }
    }
}
