//! Rejection of operations without controlled precision.

/// Rejects an operation whose precision would depend on the backend.
pub(super) fn refused(what: &str) -> ! {
    panic!("{what} is not supported: its precision cannot be controlled")
}
