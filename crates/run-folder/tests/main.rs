//! Tests of the reader of run folders.

use mantissa_testing::CountingAllocator;

/// The tests of hostile input limit the memory that a reader allocates.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

mod hostile;
mod reader;
