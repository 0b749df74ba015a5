#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| drop(mantissa_fuzz::runs::file(2, bytes)));
