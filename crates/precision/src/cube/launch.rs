//! Records launched kernels with the formats of their registers.

use cubecl::{
    client::Client,
    ir::{ElemType, FloatKind},
};
use cubek::matmul::definition::MatmulElems;

use crate::launched_kernels::{Launch, record_kernel};

/// Records a launch with the element types of the kernel's registers.
pub(super) fn record_launch(client: &Client, kernel: &str, [lhs, rhs, sums]: [ElemType; 3]) {
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
pub(super) fn registers(elements: &MatmulElems) -> [ElemType; 3] {
    [
        elements.lhs_register,
        elements.rhs_register,
        elements.acc_register,
    ]
}
