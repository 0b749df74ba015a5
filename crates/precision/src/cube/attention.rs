//! Fused attention on GPUs.
//!
//! burn's autotuner also considers two matmuls and a softmax, whose precision is not controlled. Here only fused
//! kernels compete. Kernels on the matrix units (tensor cores) support only f16 inputs, because cubek uses f16 tiles
//! there. Kernels on the ordinary floating-point units use tiles in the format of the inputs. No kernel supports f64, so f64
//! attention runs in separate steps.

use std::sync::Arc;

use burn::{
    backend::{
        cubecl::dtype_to_elem_type,
        ops::{ActivationOps, FloatTensorOps},
    },
    tensor::DType,
};
use burn_cubecl::{
    CubeBackend, CubeTuneId, kernel::into_contiguous, ops::numeric::empty_device_dtype, tensor::CubeTensor,
};
use cubecl::{
    ir::{ElemType, FloatKind},
    tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner},
};
use cubek::attention::forward::{
    definition::{AccumulatorPrecision, AttentionGlobalTypes, AttentionOptions},
    launch::{AttentionAutotuneKey, BlueprintStrategy, launch_attention},
    routines::{
        Routine,
        blackbox_accelerated::{BlackboxAcceleratedRoutine, BlackboxAcceleratedStrategy},
        unit::UnitRoutine,
    },
};
use mantissa_core::CheckedOperation::FusedAttention;

use super::{
    kernel_allowlist,
    launch::record_launch,
    routine::{Controlled, take_registers},
};
use crate::{MatmulMode, attention::lowest, backend::PrecisionBackend, output_shapes::attention_shape};

/// Inputs of a launch: queries, keys and values, the padding, and a flag that is true for trials of the tuner. The
/// output of a trial is not read.
type Operands = ([CubeTensor; 3], CubeTensor, bool);
type Set = TunableSet<AttentionAutotuneKey, Operands, CubeTensor>;
type Launch = dyn Fn(Operands) -> Result<CubeTensor, String> + Send + Sync;

pub(super) fn attention(
    query: CubeTensor,
    key: CubeTensor,
    value: CubeTensor,
    padding: CubeTensor,
    mode: MatmulMode,
) -> CubeTensor {
    static TUNER: LocalTuner<AttentionAutotuneKey, CubeTuneId> = local_tuner!("attention");
    if query.dtype == DType::F64 {
        return attention_in_steps(query, key, value, padding, mode);
    }
    let (client, id) = (
        query.client.clone(),
        CubeTuneId::new(&query.client, &query.device),
    );
    // The kernels read vectors of values, as wide as the shape allows, and assume contiguous inputs.
    let inputs = [query, key, value].map(into_contiguous);
    let dtype = inputs[0].dtype;
    let operands = (inputs, into_contiguous(padding), false);
    if let Some(trial) = kernel_allowlist::trial()
        && let Some((_, launch)) = kernels().into_iter().find(|(name, _)| trial.is_for(name))
        && let Some(output) = trial.launch((FusedAttention, dtype), || launch(operands.clone()))
    {
        return output;
    }
    TUNER.execute(&id, &client, TUNER.init(&id, candidates), operands)
}

/// Computes attention in separate steps: two matmuls and a softmax.
fn attention_in_steps(
    query: CubeTensor,
    key: CubeTensor,
    value: CubeTensor,
    padding: CubeTensor,
    mode: MatmulMode,
) -> CubeTensor {
    let [.., width] = query.meta.shape().dims::<4>();
    let lowest = lowest(query.dtype);
    let scores = CubeBackend::controlled_matmul_by_columns(query, key, mode);
    let scores = CubeBackend::float_mul_scalar(scores, (1.0 / (width as f64).sqrt()).into());
    let scores = CubeBackend::float_mask_fill(scores, padding, lowest.into());
    CubeBackend::controlled_matmul(CubeBackend::softmax(scores, 3), value, mode)
}

/// Returns the names of the candidates.
pub(crate) fn candidate_names() -> Vec<String> {
    kernels().into_iter().map(|(name, _)| name).collect()
}

/// Returns the kernels by name. The first one supports all shapes.
fn kernels() -> Vec<(String, Box<Launch>)> {
    let unit = |operands| run::<UnitRoutine>("attention_unit", (), operands);
    let accelerated = |num_planes| {
        let name = format!("attention_{num_planes}_planes");
        let kernel = name.clone();
        let strategy = BlackboxAcceleratedStrategy {
            num_planes,
            seq_q: 1,
            seq_kv: 1,
        };
        let launch = move |operands| run::<BlackboxAcceleratedRoutine>(&kernel, strategy.clone(), operands);
        (name, Box::new(launch) as Box<Launch>)
    };
    let mut kernels = vec![("attention_unit".to_owned(), Box::new(unit) as Box<Launch>)];
    let accelerated = [2, 4, 8].map(accelerated).into_iter();
    kernels.extend(accelerated.filter(|(name, _)| kernel_allowlist::is_enabled(name)));
    kernels
}

fn candidates() -> Set {
    // The tuner tries a group with lower priority only if no kernel with higher priority launches. The first entry must
    // support all shapes.
    let units = TuneGroup::new("matrix units", |_: &AttentionAutotuneKey| 1);
    let ordinary = TuneGroup::new("ordinary", |_: &AttentionAutotuneKey| 0);
    let kernels: Arc<[_]> = kernels().into();
    let trial =
        |_: &AttentionAutotuneKey, (inputs, padding, _): &Operands| (inputs.clone(), padding.clone(), true);
    (0..kernels.len()).fold(TunableSet::new(key, trial), |set, chosen| {
        let all = kernels.clone();
        // The tuner chooses one kernel for all similar shapes. Kernels on the matrix units do not support every number
        // of queries, so the first kernel is the fallback.
        let launch = move |operands: Operands| {
            let (.., trial) = operands;
            match (all[chosen].1)(operands.clone()) {
                Err(_) if !trial => (all[0].1)(operands),
                launched => launched,
            }
        };
        let group = if chosen == 0 { &ordinary } else { &units };
        set.with(Tunable::new(&kernels[chosen].0, launch).group(group, |_| 0))
    })
}

fn run<A: Routine>(
    kernel: &str,
    strategy: A::Strategy,
    ([query, key, value], padding, trial): Operands,
) -> Result<CubeTensor, String> {
    kernel_allowlist::check(FusedAttention, query.dtype, kernel)?;
    let client = query.client.clone();
    let output = empty_device_dtype(
        client.clone(),
        query.device.clone(),
        attention_shape(query.meta.shape(), value.meta.shape()),
        query.dtype,
    );
    let types = AttentionGlobalTypes {
        query: dtype_to_elem_type(query.dtype),
        key: dtype_to_elem_type(key.dtype),
        value: dtype_to_elem_type(value.dtype),
        mask: dtype_to_elem_type(padding.dtype),
        out: dtype_to_elem_type(output.dtype),
    };
    let options = AttentionOptions {
        causal: false,
        accumulator_precision: AccumulatorPrecision::Strict(ElemType::Float(FloatKind::F32)),
    };
    take_registers();
    launch_attention::<Controlled<A>>(
        &client,
        query.binding(),
        key.binding(),
        value.binding(),
        Some(padding.binding()),
        output.clone().binding(),
        &types,
        BlueprintStrategy::Inferred(strategy),
        options,
    )
    .map_err(|error| format!("{kernel}: {error:?}"))?;
    if !trial {
        record_launch(
            &client,
            kernel,
            take_registers().expect("a kernel that was launched has a blueprint"),
        );
    }
    Ok(output)
}

fn key(([query, _, value], _, _): &Operands) -> AttentionAutotuneKey {
    let ([n, heads, sequence, width], [.., keys, value_width]) =
        (query.meta.shape().dims::<4>(), value.meta.shape().dims::<4>());
    let dtype = dtype_to_elem_type(query.dtype);
    AttentionAutotuneKey::generate(
        dtype,
        dtype,
        dtype,
        dtype,
        n * heads,
        sequence,
        width,
        keys,
        value_width,
        true,
    )
}

#[cfg(all(test, feature = "vulkan"))]
mod lavapipe {
    use burn::{
        backend::{DeviceOps, ops::BoolTensorOps},
        tensor::Shape,
    };
    use mantissa_core::{Accumulator, MatmulPrecision};

    use super::*;
    use crate::cube::testing::{computes_in_f64, download, upload, vulkan};

    #[test]
    fn attention_in_f64_is_exact() {
        let Some(device) = vulkan().filter(computes_in_f64) else {
            return;
        };
        let x = 1.0 + 2f64.powi(-40);
        let mode = MatmulMode {
            precision: MatmulPrecision::Highest,
            accumulator: Accumulator::F32,
            unrounded: false,
        };
        // Zero queries weight both positions equally, and their values are identical.
        let floats = |value: f64| upload(&[value; 16], [1, 1, 2, 8], &device);
        let padding =
            CubeBackend::bool_zeros(Shape::new([1, 1, 2, 2]), &device, device.defaults().bool_dtype);
        let output = attention(floats(0.0), floats(1.0), floats(x), padding, mode);
        assert_eq!(download::<f64>(output), [x; 16]);
    }
}
