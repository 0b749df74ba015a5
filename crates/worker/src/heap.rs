//! Global allocator that counts allocated bytes.

use std::alloc::System;

use cap::Cap;

// `Cap` forwards `alloc_zeroed` to the system allocator instead of writing zeros itself. The pages of a large buffer of zeros are therefore not
// resident before their first use, as without this allocator.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Returns the number of bytes that the process has allocated on the heap.
pub(crate) fn allocated_bytes() -> u64 {
    ALLOCATOR.allocated() as u64
}
