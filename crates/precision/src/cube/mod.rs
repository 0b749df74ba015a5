//! The controlled operations on GPUs.

mod attention;
mod autotune;
mod candidates;
mod convolution;
mod gelu;
pub(crate) mod kernel_allowlist;
mod matmul;
mod rounding;
mod routine;
#[cfg(all(test, feature = "vulkan"))]
mod testing;

use burn::backend::tensor::{BoolTensor, FloatTensor};
use burn_cubecl::{CubeBackend, CubeDevice};
use cubecl::{
    client::Client,
    ir::{ElemType, FloatKind},
};
use cubek::matmul::definition::MatmulElems;
use mantissa_core::Layout;

use crate::{
    Convolution, MatmulMode,
    backend::PrecisionBackend,
    launched_kernels::{Launch, record_kernel},
};

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

/// Records a launch with the element types of the kernel's registers.
fn record_launch(client: &Client, kernel: &str, [lhs, rhs, sums]: [ElemType; 3]) {
    record_kernel(Launch {
        kernel: kernel.to_owned().into(),
        arithmetic: format!("{lhs} × {rhs} → {sums}").into(),
        instructions: client
            .name()
            .contains("cuda")
            .then(|| instructions(kernel, lhs, sums))
            .flatten(),
        emulated: false,
    });
}

/// Returns the class of the instructions with which a kernel multiplies on CUDA devices. `docs/decisions/0005-executed-precision.md` lists
/// the corresponding machine code.
fn instructions(kernel: &str, operands: ElemType, sums: ElemType) -> Option<&'static str> {
    let on_matrix_units = kernel.contains("mma") || kernel.ends_with("_planes");
    let float = |kind| ElemType::Float(kind);
    Some(match (on_matrix_units, operands) {
        (true, operands) if operands == float(FloatKind::TF32) => "HMMA.TF32",
        (true, operands) if operands == float(FloatKind::BF16) => "HMMA.BF16",
        (true, operands) if operands == float(FloatKind::F16) && sums == float(FloatKind::F16) => "HMMA.F16",
        (true, operands) if operands == float(FloatKind::F16) => "HMMA.F32",
        (false, operands) if operands == float(FloatKind::F64) => "DFMA",
        (false, operands) if operands == float(FloatKind::F32) => "FFMA",
        _ => return None,
    })
}

/// Returns the formats of a matmul's registers: both operands and the sums.
fn registers(elements: &MatmulElems) -> [ElemType; 3] {
    [
        elements.lhs_register,
        elements.rhs_register,
        elements.acc_register,
    ]
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
