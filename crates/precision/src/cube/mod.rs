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

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::ir::{ElemType, FloatKind};
use cubek::matmul::definition::MatmulElems;
use mantissa_core::Layout;

use crate::{
    Convolution, MatmulMode,
    backend::PrecisionBackend,
    launched::{Launch, note},
};

/// Returns the name of the runtime and of the compiler behind a device.
#[cfg(feature = "vulkan")]
pub(crate) fn name(device: &CubeDevice) -> String {
    device.client().name().to_owned()
}

/// Returns whether the matrix units of a device multiply TF32.
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

/// Notes a launch with the element types that the registers of the kernel hold.
fn note_launch(kernel: &str, [lhs, rhs, sums]: [ElemType; 3]) {
    note(Launch {
        kernel: kernel.to_owned().into(),
        arithmetic: format!("{lhs} × {rhs} → {sums}").into(),
        emulated: false,
    });
}

/// Returns what the registers of a matmul hold: both operands and the sums.
fn registers(held: &MatmulElems) -> [ElemType; 3] {
    [held.lhs_register, held.rhs_register, held.acc_register]
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

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        gelu::tanh_packed(input)
    }
}
