//! The controlled operations on GPUs: which kernels a precision allows, tried in order.
//!
//! burn's own matmul lets an autotuner choose between true f32 and TF32 kernels for one and the same f32 product, so
//! the choice is made here instead. A launch that returns an error leaves its output unwritten: the next candidate
//! gets a fresh output, and a product without any is a panic, never a number.

use std::{collections::BTreeSet, sync::Mutex};

use burn::tensor::{
    DType,
    backend::DeviceOps,
    ops::{FloatTensor, FloatTensorOps},
};
use burn_cubecl::{
    BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement, kernel::matmul::init_matmul_output,
    tensor::CubeTensor,
};
use cubecl::server::ComputeServer;
use cubek::{
    matmul::{
        definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError},
        launch::{Strategy, launch_ref},
    },
    std::InputBinding,
};
use mantissa_core::MatmulPrecision;

use crate::{AllocatorUsage, MatmulMode, backend::PrecisionBackend};

/// Names of the matmul kernels that this process launched, with the element types of their registers.
static LAUNCHED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Which matmul kernels this process launched, each as `name (lhs × rhs → accumulator)`.
pub fn launched_kernels() -> Vec<String> {
    LAUNCHED
        .lock()
        .expect("no panic while locked")
        .iter()
        .cloned()
        .collect()
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
        let out_dtype = lhs.dtype;
        match (out_dtype, mode.precision) {
            (DType::F32, MatmulPrecision::Medium) => {
                let half = |tensor| Self::float_cast(tensor, DType::BF16.into());
                launch_first(&tensor_core_then_units(), half(lhs), half(rhs), out_dtype)
            }
            // The tensor-core strategies turn f32 operands into TF32; the unit strategies leave them alone.
            (DType::F32, MatmulPrecision::High) => {
                launch_first(&tensor_core_then_units(), lhs, rhs, out_dtype)
            }
            (DType::F32, MatmulPrecision::Highest) | (DType::F64, _) => {
                launch_first(&units(), lhs, rhs, out_dtype)
            }
            _ => launch_first(&tensor_core_then_units(), lhs, rhs, out_dtype),
        }
    }

    fn allocator_usage(device: &Self::Device) -> Option<AllocatorUsage> {
        let usage = R::client(device).memory_usage().ok()?;
        Some(AllocatorUsage {
            reserved: usage.bytes_reserved,
            in_use: usage.bytes_in_use,
        })
    }
}

/// Kernels on the ordinary multipliers: registers keep the operands' own type.
fn units() -> Vec<Strategy> {
    vec![
        Strategy::DoubleUnit(Default::default()),
        Strategy::SimpleUnit(Default::default()),
        Strategy::Naive,
    ]
}

/// Kernels on the matrix units, then the ordinary ones for devices without.
fn tensor_core_then_units() -> Vec<Strategy> {
    let mut strategies = vec![Strategy::SimpleCyclicCmma(Default::default())];
    strategies.extend(units());
    strategies
}

fn launch_first<R: CubeRuntime>(
    strategies: &[Strategy],
    lhs: CubeTensor<R>,
    rhs: CubeTensor<R>,
    out_dtype: DType,
) -> CubeTensor<R> {
    let mut errors = vec![];
    for strategy in strategies {
        match launch(strategy, lhs.clone(), rhs.clone(), out_dtype) {
            Ok(out) => return out,
            Err(error) => errors.push(format!("{strategy}: {error:?}")),
        }
    }
    panic!(
        "no matmul kernel for {:?} × {:?} would launch: {}",
        lhs.dtype,
        rhs.dtype,
        errors.join("; ")
    );
}

fn launch<R: CubeRuntime>(
    strategy: &Strategy,
    lhs: CubeTensor<R>,
    rhs: CubeTensor<R>,
    out_dtype: DType,
) -> Result<CubeTensor<R>, MatmulSetupError> {
    let out = init_matmul_output(&lhs, &rhs, out_dtype);
    let (lhs_dtype, rhs_dtype) = (lhs.dtype.into(), rhs.dtype.into());
    let globals = MatmulGlobalElems {
        lhs: lhs_dtype,
        rhs: rhs_dtype,
        out: out_dtype.into(),
    };
    let mut elements = MatmulElems::from_globals(&globals);
    launch_ref(
        strategy,
        &out.client,
        InputBinding::new(lhs.binding(), lhs_dtype),
        InputBinding::new(rhs.binding(), rhs_dtype),
        out.clone().binding(),
        &mut elements,
    )?;
    let kernel = format!(
        "{strategy} ({} × {} → {})",
        elements.lhs_register, elements.rhs_register, elements.acc_register
    );
    LAUNCHED.lock().expect("no panic while locked").insert(kernel);
    Ok(out)
}
