//! The engine against what is not ours: PyTorch's numbers, exact arithmetic, and its own results read back.

mod attention;
mod convolutions;
mod elementwise;
mod golden;
mod layouts;
mod products;

/// Whether a Vulkan device answers.
#[cfg(feature = "vulkan")]
fn vulkan_is_there() -> bool {
    mantissa_testing::is_there(
        "vulkan",
        mantissa_precision::device::available(mantissa_core::Backend::Vulkan),
    )
}
