//! Tests of suite files: the shipped ones, wrong ones and hostile ones.

use mantissa_testing::CountingAllocator;

/// The tests of hostile input limit the memory that a reader allocates.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

mod errors;
mod hostile;
mod shipped;
