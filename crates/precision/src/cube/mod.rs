//! The controlled operations on GPUs.

mod attention;
mod candidates;
mod convolution;
mod gelu;
mod matmul;
mod rounding;
mod routine;
#[cfg(all(test, feature = "vulkan"))]
mod testing;

use burn::tensor::{
    backend::DeviceOps,
    ops::{BoolTensor, FloatTensor},
};
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};
use cubecl::server::ComputeServer;
use cubek::matmul::definition::MatmulElems;
use mantissa_core::Layout;

use crate::{
    AllocatorUsage, Convolution, MatmulMode,
    backend::PrecisionBackend,
    launched::{Launch, note},
};

/// Notes a launch with what the registers of the kernel hold.
fn note_launch(kernel: &str, held: &MatmulElems) {
    let arithmetic = format!(
        "{} × {} → {}",
        held.lhs_register, held.rhs_register, held.acc_register
    );
    note(Launch {
        kernel: kernel.to_owned().into(),
        arithmetic: arithmetic.into(),
        emulated: false,
    });
}

impl<R, F, I, BT> PrecisionBackend for CubeBackend<R, F, I, BT>
where
    R: CubeRuntime,
    R::Server: ComputeServer,
    R::Device: DeviceOps,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
    fn controlled_matmul(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        matmul::matmul(lhs, rhs, mode)
    }

    fn controlled_convolution(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        convolution: Convolution,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        convolution::convolution(lhs, rhs, convolution, mode)
    }

    fn fused_attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        padding: BoolTensor<Self>,
        _mode: MatmulMode,
    ) -> FloatTensor<Self> {
        attention::attention(query, key, value, padding)
    }

    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self> {
        rounding::round_to_layout(tensor, layout)
    }

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        gelu::tanh_packed(input)
    }

    fn allocator_usage(device: &Self::Device) -> Option<AllocatorUsage> {
        let usage = R::client(device).memory_usage().ok()?;
        Some(AllocatorUsage {
            reserved: usage.bytes_reserved,
            in_use: usage.bytes_in_use,
        })
    }

    fn submit(device: &Self::Device) -> Result<(), String> {
        R::client(device).flush().map_err(|error| error.to_string())
    }
}
