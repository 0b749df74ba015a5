//! The training step against what is not ours: PyTorch's autocast, PyTorch's and timm's optimizers, and
//! updates of whole batches.

mod accumulation;
mod autocast;
mod batch_norm;
mod harness;
mod optimizers;

/// Whether a Vulkan device answers.
#[cfg(feature = "vulkan")]
fn vulkan_is_there() -> bool {
    mantissa_testing::is_there(
        "vulkan",
        mantissa_precision::device::available(mantissa_core::Backend::Vulkan),
    )
}
