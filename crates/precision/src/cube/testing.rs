//! What the tests of kernels share.

use mantissa_core::Backend;

use crate::device::available;

/// Whether a Vulkan device answers. Where one is required, its absence is a failure.
pub(super) fn vulkan_is_there() -> bool {
    let Err(reason) = available(Backend::Vulkan) else {
        return true;
    };
    let required = std::env::var("MANTISSA_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name == "vulkan"),
        "required and not there: {reason}"
    );
    println!("skipped: {reason}");
    false
}
