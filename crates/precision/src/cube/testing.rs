//! What the tests of kernels share.

use mantissa_core::Backend;

use crate::device::available;

/// Whether a Vulkan device answers. Where one is required, its absence is a failure.
pub(super) fn vulkan_is_there() -> bool {
    mantissa_testing::is_there("vulkan", available(Backend::Vulkan))
}
