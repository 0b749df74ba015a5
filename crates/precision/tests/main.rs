//! Tests of this crate on real backends. They share one test binary, because each test binary compiles every backend anew.

mod engine;
mod executed;
mod training;

/// Returns a Vulkan device with or without kernel fusion, or `None` if Vulkan is not available.
///
/// Fusion cannot change within a process, and `cargo test` runs all tests of this binary in one process. A test with fusion therefore
/// runs in its own process, with [`alone`](mantissa_testing::alone).
#[cfg(feature = "vulkan")]
fn vulkan(fusion: bool) -> Option<burn::tensor::Device> {
    use mantissa_core::Backend::Vulkan;
    use mantissa_precision::device::{available, open};

    mantissa_testing::is_available("vulkan", available(Vulkan)).then(|| open(Vulkan, fusion))
}

/// Returns the same device if it supports f16, as lavapipe does.
#[cfg(feature = "vulkan")]
fn vulkan_with_f16(fusion: bool) -> Option<burn::tensor::Device> {
    use mantissa_precision::device::supports;

    let device = vulkan(fusion)?;
    let found = match supports(mantissa_core::Format::F16, &device) {
        true => Ok(()),
        false => Err("the Vulkan device does not support f16".into()),
    };
    mantissa_testing::is_available("vulkan", found).then_some(device)
}
