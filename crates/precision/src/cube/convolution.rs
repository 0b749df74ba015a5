//! Convolutions on GPUs. On the matrix units (tensor cores), kernels read the windows of an image as the rows of a matrix. Such kernels do
//! not exist for the ordinary floating-point units. There, the windows are unfolded and multiplied by the controlled matmul.

use burn::{backend::cubecl::dtype_to_elem_type, tensor::DType};
use burn_cubecl::{
    CubeBackend, CubeTuneId,
    kernel::cast,
    ops::{
        numeric::{empty_device_dtype, zeros_client},
        permute_nchw_to_nhwc, permute_nchw_to_nhwc_shape, permute_nhwc_to_nchw,
    },
    tensor::CubeTensor,
};
use cubecl::{
    AutotuneKey,
    tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner},
};
use cubek::{
    convolution::{
        AcceleratedTileKind, ConvAlgorithm, ConvolutionArgs, ConvolutionInputs, Strategy, launch_ref,
    },
    matmul::{
        definition::{MatmulElems, MatmulGlobalElems},
        multi_level::definition::adjust_dtypes,
    },
    std::InputBinding,
};
use mantissa_core::{Accumulator, CheckedOperation};
use serde::{Deserialize, Serialize};

use super::{
    kernel_allowlist,
    launch::{record_launch, registers},
    matmul::{cast_for_matrix_units, matrix_unit_format},
};
use crate::{Convolution, MatmulMode, Pass, convolution::convolve_by_unfolding};

/// Key for the tuner's choice of a kernel.
#[derive(Hash, Eq, PartialEq, Debug, Clone, Serialize, Deserialize, AutotuneKey)]
struct ConvolutionKey {
    product: String,
    lhs: Vec<usize>,
    rhs: Vec<usize>,
    operands: DType,
    out: DType,
}

/// Convolution with operands in the format of the matrix units.
#[derive(Clone)]
struct Task {
    lhs: CubeTensor,
    rhs: CubeTensor,
    out: DType,
    convolution: Convolution,
    mode: MatmulMode,
    /// True for trials of the tuner, whose output is not read.
    trial: bool,
}

pub(super) fn convolution(
    lhs: CubeTensor,
    rhs: CubeTensor,
    convolution: Convolution,
    mode: MatmulMode,
) -> CubeTensor {
    if lhs.meta.num_elements() == 0 || rhs.meta.num_elements() == 0 {
        // A sum without terms is 0, and no kernel can be launched on empty tensors.
        let shape = convolution.shape(lhs.meta.shape(), rhs.meta.shape());
        return zeros_client(lhs.client, lhs.device, shape, lhs.dtype);
    }
    static TUNER: LocalTuner<ConvolutionKey, CubeTuneId> = local_tuner!("convolution");
    // The kernels sum in f32, and those for the gradient of the images do not support strides. All other cases are unfolded.
    let strided_gradient = matches!(convolution.pass, Pass::Images(_)) && convolution.stride != 1;
    let format =
        matrix_unit_format(&lhs, mode).filter(|_| mode.accumulator == Accumulator::F32 && !strided_gradient);
    let Some(format) = format else {
        return convolve_by_unfolding::<CubeBackend>(lhs, rhs, convolution, mode);
    };
    let (client, id) = (lhs.client.clone(), CubeTuneId::new(&lhs.client, &lhs.device));
    let task = Task {
        out: lhs.dtype,
        lhs: cast_for_matrix_units(lhs, format),
        rhs: cast_for_matrix_units(rhs, format),
        convolution,
        mode,
        trial: false,
    };
    if let Some(trial) = kernel_allowlist::trial()
        && let Some((name, strategy)) = strategies().into_iter().find(|(name, _)| trial.is_for(name))
    {
        let operation = (CheckedOperation::Convolution, task.lhs.dtype);
        let launched = trial.launch(operation, || launch(&name, &strategy, task.clone()));
        // A rejected kernel does not have a result. Return zeros, which the check does not compare.
        return launched.unwrap_or_else(|| {
            let shape = convolution.shape(task.lhs.meta.shape(), task.rhs.meta.shape());
            zeros_client(client, task.lhs.device, shape, task.out)
        });
    }
    TUNER.execute(&id, &client, TUNER.init(&id, candidates), task)
}

/// Returns the names of the candidates on the matrix units.
pub(crate) fn candidate_names() -> Vec<String> {
    strategies().into_iter().map(|(name, _)| name).collect()
}

/// Returns the kernels on the matrix units by name.
fn strategies() -> Vec<(String, Strategy)> {
    use AcceleratedTileKind::{Cmma, Mma};
    use ConvAlgorithm::{
        SimpleAsyncCyclic, SimpleAsyncStrided, SimpleAsyncTma, SimpleSyncCyclic, SimpleSyncStrided,
    };

    let all = [
        (SimpleSyncCyclic, Cmma),
        (SimpleSyncStrided, Mma),
        (SimpleAsyncCyclic, Cmma),
        (SimpleAsyncStrided, Mma),
        (SimpleAsyncTma, Cmma),
        (SimpleAsyncTma, Mma),
    ];
    let named = all.into_iter().map(|(algorithm, tile_kind)| {
        let strategy = Strategy::Inferred { algorithm, tile_kind };
        (format!("convolution_{strategy}"), strategy)
    });
    named
        .filter(|(name, _)| kernel_allowlist::is_enabled(name))
        .collect()
}

fn candidates() -> TunableSet<ConvolutionKey, Task, CubeTensor> {
    // The tuner tries a group with lower priority only if no kernel with higher priority launches. The first entry must support all shapes.
    let units = TuneGroup::new("matrix units", |_: &ConvolutionKey| 1);
    let unfolded = TuneGroup::new("unfolded", |_: &ConvolutionKey| 0);
    let trial = |_: &ConvolutionKey, task: &Task| Task {
        trial: true,
        ..task.clone()
    };
    let set = TunableSet::new(key, trial);
    let set =
        set.with(Tunable::new("unfolded", |task| Ok::<_, String>(unfold(task))).group(&unfolded, |_| 0));
    strategies().into_iter().fold(set, |set, (name, strategy)| {
        let kernel = name.clone();
        // The chosen kernel may not support the memory layout of these operands, even if a trial with the same shape succeeded.
        let run = move |task: Task| match launch(&kernel, &strategy, task.clone()) {
            Err(_) if !task.trial => Ok(unfold(task)),
            launched => launched,
        };
        set.with(Tunable::new(&name, run).group(&units, |_| 0))
    })
}

fn key(task: &Task) -> ConvolutionKey {
    ConvolutionKey {
        product: format!("{:?}", task.convolution),
        lhs: task.lhs.meta.shape().to_vec(),
        rhs: task.rhs.meta.shape().to_vec(),
        operands: task.lhs.dtype,
        out: task.out,
    }
}

/// Computes the convolution by unfolding. Operands that are already rounded are cast to the output format, which is exact.
fn unfold(task: Task) -> CubeTensor {
    let operand = |tensor: CubeTensor| cast(tensor, task.out);
    convolve_by_unfolding::<CubeBackend>(operand(task.lhs), operand(task.rhs), task.convolution, task.mode)
}

fn launch(kernel: &str, strategy: &Strategy, task: Task) -> Result<CubeTensor, String> {
    let Task {
        lhs,
        rhs,
        convolution,
        ..
    } = task;
    kernel_allowlist::check(CheckedOperation::Convolution, lhs.dtype, kernel)?;
    let client = lhs.client.clone();
    let shape = permute_nchw_to_nhwc_shape(convolution.shape(lhs.meta.shape(), rhs.meta.shape()));
    let out = empty_device_dtype(client.clone(), lhs.device.clone(), shape, task.out);
    let mut elements = MatmulElems::from_globals(&MatmulGlobalElems {
        lhs: dtype_to_elem_type(lhs.dtype),
        rhs: dtype_to_elem_type(rhs.dtype),
        out: dtype_to_elem_type(task.out),
    });
    let operand = |tensor: CubeTensor| {
        let dtype = dtype_to_elem_type(tensor.dtype);
        InputBinding::new(permute_nchw_to_nhwc(tensor).binding(), dtype)
    };
    let (lhs, rhs, out_binding) = (operand(lhs), operand(rhs), out.clone().binding());
    let inputs = match convolution.pass {
        Pass::Forward => ConvolutionInputs::Forward {
            input: lhs,
            weight: rhs,
            bias: None,
            out: out_binding,
        },
        Pass::Images(_) => ConvolutionInputs::BackwardData {
            out_grad: lhs,
            weights: rhs,
            in_grad: out_binding,
        },
        Pass::Filters(_) => ConvolutionInputs::BackwardWeight {
            input: lhs,
            out_grad: rhs,
            weight_grad: out_binding,
        },
    };
    let arguments = ConvolutionArgs {
        stride: [convolution.stride; 2],
        padding: [convolution.padding; 2],
        dilation: [1; 2],
    };
    launch_ref::<2>(strategy, &client, inputs, arguments, elements.clone())
        .map_err(|error| format!("{kernel}: {error:?}"))?;
    if !task.trial {
        // The kernel uses the same function on the same types to determine the formats of its registers.
        adjust_dtypes(&client, &mut elements, true);
        record_launch(&client, kernel, registers(&elements));
    }
    Ok(permute_nhwc_to_nchw(out))
}
