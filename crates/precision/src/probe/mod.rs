//! What a matmul really did, read back from its results.
//!
//! A configuration says what was asked for. Libraries, autotuners and compilers may do something else: multiply f32
//! operands as TF32, sum in f16, flush subnormals. So the products of chosen numbers are computed on the device, through
//! the very code that models use, forward and backward, and the arithmetic is inferred from what comes out, as in
//! Fasi, Higham, Mikaitis and Pranesh, *Numerical behavior of NVIDIA tensor cores*, PeerJ Computer Science 7:e330 (2021).

mod observe;

use std::collections::BTreeSet;

use burn::{
    backend::Autodiff,
    tensor::{Tensor, TensorData},
};
use mantissa_core::{Executed, ExecutedVerdict, Requested};

pub use observe::{Observation, Rounding, Subnormals};

use crate::{
    Compute, PrecisionBackend,
    compute::round,
    dtype,
    launched::{self, Launch},
};

/// What was observed, and of which kernels.
#[derive(Debug, Clone)]
pub struct Probed {
    executed: Executed,
    launches: BTreeSet<Launch>,
}

impl Probed {
    /// What holds for all that was launched since. Other kernels may have served other shapes; if one of them had
    /// another arithmetic in its registers than those that were observed, nothing is claimed.
    pub fn confirm(self) -> Executed {
        let mut executed = self.executed;
        let ran = launched::take();
        let observed = |launch: &Launch| {
            let same =
                |seen: &Launch| (&seen.arithmetic, seen.emulated) == (&launch.arithmetic, launch.emulated);
            self.launches.iter().any(same)
        };
        if !ran.iter().all(observed) {
            executed.verdict = ExecutedVerdict::Unverified;
        }
        executed.kernel = launched::names(&ran).or(executed.kernel);
        executed
    }
}

/// Multiplies on a device and compares what was executed with what was `requested`.
///
/// Operands go in as parameters do (f32 under a mixed setting), so that the cast to 16 bits is part of what is observed.
/// Forward and backward passes are observed apart; the narrower of both counts.
///
/// # Errors
/// What the device reports.
pub fn probe<B: PrecisionBackend>(
    compute: Compute,
    requested: &Requested,
    device: &B::Device,
) -> Result<Probed, String> {
    launched::take();
    let (forward, backward) = observe_both::<B>(compute, device)?;
    let launches = launched::take();
    let worst = forward.worst(&backward);
    let accumulator = worst.accumulator();
    let same = worst.operand_bits == requested.operand_bits
        && worst.exponent_bits == requested.exponent_bits
        && accumulator == requested.accumulator;
    let executed = Executed {
        operand_bits: Some(worst.operand_bits),
        exponent_bits: Some(worst.exponent_bits),
        accumulator: Some(accumulator),
        rounding: Some(if forward.rounding() == backward.rounding() {
            forward.rounding()
        } else {
            format!(
                "forward: {}; backward: {}",
                forward.rounding(),
                backward.rounding()
            )
        }),
        kernel: launched::names(&launches),
        emulated: launches.iter().any(|launch| launch.emulated),
        verdict: if same {
            ExecutedVerdict::AsRequested
        } else {
            ExecutedVerdict::Differs
        },
    };
    Ok(Probed { executed, launches })
}

fn observe_both<B: PrecisionBackend>(
    compute: Compute,
    device: &B::Device,
) -> Result<(Observation, Observation), String> {
    let format = compute.precision().parameters();
    let upload = |values: Vec<f64>| {
        let data = TensorData::new(values, [observe::EDGE; 2]);
        Tensor::<B, 2>::from_data(data, (device, dtype(format)))
    };
    let download = |product: Tensor<B, 2>| {
        let data = product.try_into_data().map_err(|error| format!("{error:?}"))?;
        Ok(data.iter::<f64>().collect())
    };
    // Both operands reach the kernel as a linear layer's do: the right one is a transposed view.
    let mut forward = |lhs: Vec<f64>, rhs_transposed: Vec<f64>| {
        download(compute.matmul(upload(lhs), upload(rhs_transposed).transpose()))
    };
    // The gradient of `x · wᵀ` with respect to `x` is `grad · w`: a product of what is put into `grad` and `w`.
    let mut backward = |grad: Vec<f64>, rhs_transposed: Vec<f64>| {
        let zeros = vec![0.0; grad.len()];
        let x = Tensor::<Autodiff<B>, 2>::from_inner(upload(zeros)).require_grad();
        let w = Tensor::from_inner(upload(rhs_transposed).transpose());
        let product = compute.matmul(x.clone(), w.transpose());
        let grad = round(Tensor::from_inner(upload(grad)), product.dtype());
        let grads = (product * grad).sum().backward();
        download(x.grad(&grads).ok_or("no gradient came back")?)
    };
    Ok((
        observe::observe(format, &mut forward)?,
        observe::observe(format, &mut backward)?,
    ))
}
