//! Readers that the fuzz targets call. They are shared with the tests named `hostile`, which mutate files without a fuzzer.

#[path = "../../crates/inputs/tests/hostile/readers.rs"]
pub mod inputs;
#[path = "../../crates/runner/tests/hostile/readers.rs"]
pub mod folders;
#[path = "../../crates/run-folder/tests/hostile/readers.rs"]
pub mod runs;
#[path = "../../crates/suite/tests/hostile/readers.rs"]
pub mod suites;

/// Defines a fuzz target that passes its input to a reader.
#[macro_export]
macro_rules! target {
    ($($reader:tt)+) => {
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop($($reader)+(bytes)));
    };
}
