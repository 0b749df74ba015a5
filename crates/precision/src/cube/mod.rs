//! The controlled operations on GPUs.

mod attention;
mod candidates;
mod convolution;
mod matmul;
mod rounding;
mod routine;

use burn::tensor::{
    backend::DeviceOps,
    ops::{BoolTensor, FloatTensor},
};
use burn_cubecl::{BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement};
use cubecl::server::ComputeServer;

use crate::{AllocatorUsage, Convolution, MatmulMode, backend::PrecisionBackend};

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

    fn allocator_usage(device: &Self::Device) -> Option<AllocatorUsage> {
        let usage = R::client(device).memory_usage().ok()?;
        Some(AllocatorUsage {
            reserved: usage.bytes_reserved,
            in_use: usage.bytes_in_use,
        })
    }
}
