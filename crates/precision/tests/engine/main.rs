//! The engine against what is not ours: PyTorch's numbers, exact arithmetic, and its own results read back.

mod attention;
mod convolutions;
mod elementwise;
mod golden;
mod layouts;
mod probe;
mod products;

/// Whether a Vulkan device answers.
#[cfg(feature = "vulkan")]
fn vulkan_is_there() -> bool {
    mantissa_testing::is_there(
        "vulkan",
        mantissa_precision::device::available(mantissa_core::Backend::Vulkan),
    )
}

/// Whether a Vulkan device computes in halves, as the software rasteriser does.
#[cfg(feature = "vulkan")]
fn vulkan_halves_are_there() -> bool {
    use mantissa_precision::device::{VulkanPlain, supports};

    let halves = || supports::<VulkanPlain>(mantissa_core::Format::F16, &Default::default());
    let missing = || Err("Vulkan: the device does not compute in f16".into());
    vulkan_is_there() && mantissa_testing::is_there("vulkan", if halves() { Ok(()) } else { missing() })
}
