//! Tests that corrupted run folders never crash the reader.

mod readers;

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use mantissa_testing::{alone, hostile::assert_robust};

/// Number of corrupted files of each kind.
const CHANGED: u64 = 500;

#[test]
fn every_file_of_a_run_folder() {
    alone(|| {
        for (number, valid) in readers::valid().into_iter().enumerate() {
            let name = readers::FILES[number];
            assert_robust(name, &[valid], CHANGED, |bytes| readers::file(number, bytes));
        }
    });
}

#[test]
fn packed_samples() {
    alone(|| {
        let [.., samples] = readers::valid();
        let mut packed = GzEncoder::new(vec![], Compression::fast());
        packed.write_all(&samples).unwrap();
        let packed = packed.finish().unwrap();
        assert_robust("packed samples", &[packed], CHANGED, readers::packed_samples);
    });
}
