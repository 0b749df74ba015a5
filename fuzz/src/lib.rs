//! Readers that the fuzz targets call. They are shared with the tests named `hostile`, which mutate files without a fuzzer.

#[path = "../../crates/inputs/tests/hostile/readers.rs"]
pub mod inputs;
#[path = "../../crates/runner/tests/hostile/readers.rs"]
pub mod folders;
#[path = "../../crates/report/tests/hostile/readers.rs"]
pub mod runs;
#[path = "../../crates/suite/tests/hostile/readers.rs"]
pub mod suites;
#[path = "../../crates/report/tests/support/mod.rs"]
#[expect(dead_code, reason = "only the tests of the report use the other items")]
mod support;

/// Defines a fuzz target that passes its input to a reader.
#[macro_export]
macro_rules! target {
    ($($reader:tt)+) => {
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drop($($reader)+(bytes)));
    };
}
