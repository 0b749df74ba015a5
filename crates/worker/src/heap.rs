//! Global allocator that counts allocated bytes.

use std::alloc::System;

use cap::Cap;

// The allocator forwards requests for zeroed memory, so the operating system zeroes pages on first use.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Returns the number of bytes that the process has allocated on the heap.
pub(crate) fn allocated_bytes() -> u64 {
    ALLOCATOR.allocated() as u64
}
