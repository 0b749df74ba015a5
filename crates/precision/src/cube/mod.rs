//! The controlled operations on GPUs.

mod attention;
mod autotune;
mod candidates;
mod convolution;
mod dropout;
mod gelu;
pub(crate) mod kernel_allowlist;
mod launch;
mod matmul;
mod rounding;
mod routine;
#[cfg(all(test, feature = "vulkan"))]
mod testing;

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::ir::{ElemType, FloatKind};
use mantissa_core::Layout;
use mantissa_cpu_kernels::DropoutMask;

use crate::{Convolution, MatmulMode, backend::PrecisionBackend};

pub(crate) use attention::candidate_names as attention_candidates;
pub(crate) use candidates::candidate_names as candidates;
pub(crate) use convolution::candidate_names as convolution_candidates;

/// Returns the name of the runtime and of the compiler behind a device.
#[cfg(feature = "vulkan")]
pub(crate) fn name(device: &CubeDevice) -> String {
    device.client().name().to_owned()
}

/// Returns true if the matrix units of a device multiply TF32.
pub(crate) fn multiplies_tf32(device: &CubeDevice) -> bool {
    let tf32 = ElemType::Float(FloatKind::TF32);
    let client = device.client();
    let units = &client.properties().features.matmul;
    units
        .cmma
        .iter()
        .chain(&units.mma)
        .any(|unit| unit.a_type == tf32)
}

impl PrecisionBackend for CubeBackend {
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
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        attention::attention(query, key, value, padding, mode)
    }

    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self> {
        rounding::round_to_layout(tensor, layout)
    }

    fn zero_dropped(tensor: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        dropout::zero_dropped(tensor, mask)
    }

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        gelu::tanh_packed(input)
    }

    fn sum_over_processes(vector: FloatTensor<Self>) -> FloatTensor<Self> {
        #[cfg(feature = "cuda")]
        return crate::nccl::all_reduce(vector);
        #[cfg(not(feature = "cuda"))]
        unreachable!("NCCL sums vectors on CUDA devices only: {vector:?}")
    }
}
