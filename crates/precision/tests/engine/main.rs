//! The engine against what is not ours: PyTorch's numbers, exact arithmetic, and its own results read back.

mod attention;
mod convolutions;
mod elementwise;
mod golden;
mod layouts;
mod probe;
mod products;

/// Whether a Vulkan device answers. Where one is required, its absence is a failure.
#[cfg(feature = "vulkan")]
fn vulkan_is_there() -> bool {
    let Err(reason) = mantissa_precision::device::available(mantissa_core::Backend::Vulkan) else {
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
