//! Rejection of operations without controlled precision.

/// Panics, because the precision of the operation would depend on the backend.
pub(super) fn reject(operation: &str) -> ! {
    panic!("{operation} is not supported: its precision cannot be controlled")
}
