mod data;
mod early_exit;
mod invalid_calls;
mod probe;
mod sums;
mod traffic;
