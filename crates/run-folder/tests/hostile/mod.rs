//! Tests with corrupted run folders: the reader must return an error instead of crashing.

mod readers;

use mantissa_testing::{alone, hostile::assert_robust};

/// Number of mutated files of each kind.
const MUTATED_FILES: u64 = 2000;

#[test]
fn every_file_of_a_run_folder() {
    alone(|| {
        for (number, valid) in readers::valid().into_iter().enumerate() {
            let read = |bytes: &[u8]| readers::file(number, bytes);
            assert_robust(readers::FILES[number], &[valid], MUTATED_FILES, read);
        }
    });
}

#[test]
fn packed_samples() {
    alone(|| {
        let [.., samples] = readers::valid();
        let packed = readers::packed(&samples);
        assert_robust(
            "packed samples",
            &[packed],
            MUTATED_FILES,
            readers::packed_samples,
        );
    });
}

#[test]
fn lines_of_records() {
    alone(|| {
        let [_, _, records, _] = readers::valid();
        let cut = records[..records.len() - 1].to_vec();
        let blank = [b"\n \n", records.as_slice()].concat();
        assert_robust("records", &[records, cut, blank], MUTATED_FILES, readers::records);
    });
}
