//! What this crate does on real backends. One program, as each compiles every backend anew.

mod engine;
mod executed;
mod training;

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
