//! Operations of a cell that sum products. Their precision is probed, and their kernels are checked.

use mantissa_core::{Attention, Cell, KernelKind, Model, Task};
use mantissa_precision::Operation;

use crate::models::{BuiltInModel, F32Layers, Network, with_model};

/// Returns the operations of a cell that sum products: matmuls, convolutions and fused attention.
pub(crate) fn operations(cell: &Cell) -> Vec<Operation> {
    let fused = cell.setting.attention() == Attention::Fused;
    let model = cell.workload.model();
    match &cell.workload.task {
        Task::Kernel(task) => match task.kernel.kind() {
            KernelKind::Convolution => vec![Operation::Convolution],
            KernelKind::Attention if fused => vec![Operation::FusedAttention],
            KernelKind::Attention | KernelKind::Matmul => vec![Operation::Matmul],
            // The other kernels do not contain a matmul to probe.
            _ => vec![],
        },
        Task::Generate(_) => vec![Operation::Matmul, Operation::FewRows],
        _ if model.is_some_and(Model::convolves) => vec![Operation::Matmul, Operation::Convolution],
        _ if fused => vec![Operation::Matmul, Operation::FusedAttention],
        _ => vec![Operation::Matmul],
    }
}

/// Returns the operations of the layers that a cell keeps in f32.
pub(crate) fn f32_operations(cell: &Cell) -> Vec<Operation> {
    let f32_layers = F32Layers::Matching(cell.setting.keep_f32().to_vec());
    let attention = match cell.setting.attention() {
        Attention::Fused => Operation::FusedAttention,
        Attention::Math => Operation::Matmul,
    };
    // Use any vocabulary size and number of classes, because the names of layers do not depend on the data.
    let Some(model) = BuiltInModel::of(cell, (1, 1)) else {
        return vec![];
    };
    with_model!(model, model => model.with_f32_layers(f32_layers).f32_operations(attention))
}
