//! Whatever is in a run folder, nothing is written outside of it.

mod readers;

use std::sync::atomic::{AtomicU64, Ordering};

use mantissa_testing::{alone, hostile::endures};

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
