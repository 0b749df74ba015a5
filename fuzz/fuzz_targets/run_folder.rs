#![no_main]

use libfuzzer_sys::fuzz_target;
use mantissa_fuzz::folders::{FILES, run};

// The first byte selects the file that receives the other bytes. If the highest bit of the first byte is set, the folder is also rendered and
// saved as a baseline.
fuzz_target!(|bytes: &[u8]| if let [which, rest @ ..] = bytes {
    let _ = run(usize::from(*which) % FILES.len(), rest, which & 0x80 != 0);
});
