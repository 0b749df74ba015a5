//! Probe: infers the executed arithmetic of a matmul from its results.
//!
//! A configuration defines the requested arithmetic. Libraries, autotuners and compilers may do something else: multiply
//! f32 operands as TF32, sum in f16, flush subnormals. The probe multiplies chosen numbers on the device, with the code
//! that models use, forward and backward, and infers the arithmetic from the results, as in Fasi, Higham, Mikaitis and
//! Pranesh, *Numerical behavior of NVIDIA tensor cores*, PeerJ Computer Science 7:e330 (2021).

mod attention;
mod external;
mod matmuls;
mod observe;

use std::collections::BTreeSet;

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::{Attention, Executed, ExecutedVerdict, Requested};

pub use external::{ExternalMatmul, probe_external};
pub use observe::{Observation, Rounding, Subnormals};

use self::attention::Head;
use crate::{
    AttentionMask, Compute, dtype,
    launched_kernels::{self, Launch},
};

/// Observed arithmetic, and the kernels that ran.
#[derive(Debug, Clone)]
pub struct Probed {
    executed: Executed,
    launches: BTreeSet<Launch>,
}

impl Probed {
    /// Merges this observation with that of layers that compute in another precision. There is one verdict for both. If only
    /// the other differs from the request, the numbers are those of the other.
    pub fn beside(mut self, what: &str, other: Self) -> Self {
        use ExecutedVerdict::{AsRequested, Differs, Unverified};
        let (first, second) = (&self.executed, &other.executed);
        let verdict = match (first.verdict, second.verdict) {
            (AsRequested, verdict) | (verdict, AsRequested) => verdict,
            (Differs, _) | (_, Differs) => Differs,
            (Unverified, Unverified) => Unverified,
        };
        let reported = if (first.verdict, second.verdict) == (AsRequested, Differs) {
            second
        } else {
            first
        };
        let text = |of: &Executed| of.rounding.clone().unwrap_or_default();
        self.launches.extend(other.launches);
        self.executed = Executed {
            verdict,
            rounding: Some(format!("{}; {what}: {}", text(first), text(second))),
            emulated: first.emulated || second.emulated,
            kernel: launched_kernels::names(&self.launches),
            ..reported.clone()
        };
        self
    }

    /// Returns the verdict, extended to all launches since the probe. Other kernels may have run for other shapes. If
    /// the arithmetic of one of them was not observed, the verdict becomes unverified.
    pub fn confirm(self) -> Executed {
        let mut executed = self.executed;
        let ran = launched_kernels::take();
        let observed = |launch: &Launch| {
            let same =
                |seen: &Launch| (&seen.arithmetic, seen.emulated) == (&launch.arithmetic, launch.emulated);
            self.launches.iter().any(same)
        };
        if !ran.iter().all(observed) {
            executed.verdict = ExecutedVerdict::Unverified;
        }
        executed.emulated |= ran.iter().any(|launch| launch.emulated);
        executed.kernel = launched_kernels::names(&ran).or(executed.kernel);
        executed
    }
}

/// Operation that contains sums of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Matmul and linear layer, forward and backward.
    Matmul,
    /// Convolution: its output and both its gradients.
    Convolution,
    /// Matmul of few rows with many weights, forward, as in generation token by token.
    FewRows,
    /// Attention in one kernel, forward. Its backward pass consists of matmuls.
    FusedAttention,
}

/// Multiplies on a device and compares the executed arithmetic with `requested`.
///
/// Operands have the format of parameters (f32 under a mixed setting), so the cast to 16 bits is part of the
/// observation. All `operations` are observed separately, forward and backward, and each must match the request. The
/// result reports a difference if there is one. Without operations nothing is verified.
///
/// # Errors
/// Any error that the device reports.
pub fn probe(
    operations: &[Operation],
    compute: Compute,
    requested: &Requested,
    device: &Device,
) -> Result<Probed, String> {
    launched_kernels::take();
    let mut seen: Vec<(&str, Observation)> = vec![];
    for operation in operations {
        seen.extend(match operation {
            Operation::Matmul => matmuls::matmul(compute, device)?,
            Operation::Convolution => matmuls::convolution(compute, device)?,
            Operation::FewRows => matmuls::few_rows(compute, device)?,
            Operation::FusedAttention => vec![("attention", attend(compute, device)?)],
        });
    }
    let launches = launched_kernels::take();
    let executed = Executed {
        kernel: launched_kernels::names(&launches),
        emulated: launches.iter().any(|launch| launch.emulated),
        ..executed(&seen, requested)
    };
    Ok(Probed { executed, launches })
}

/// Returns the result of the observations, without kernels.
fn executed(seen: &[(&str, Observation)], requested: &Requested) -> Executed {
    let Some((observation, verdict)) = reported(seen, requested) else {
        return Executed {
            rounding: Some("not observed: the operation has no sums of products".to_owned()),
            ..Executed::unverified()
        };
    };
    Executed {
        operand_bits: Some(observation.operand_bits),
        exponent_bits: Some(observation.exponent_bits),
        accumulator: Some(observation.accumulator()),
        rounding: Some(rounding(seen)),
        kernel: None,
        emulated: false,
        verdict,
    }
}

/// Selects the reported observation: the narrowest of the passes that differ from the request, or else of all. Wider than
/// requested counts as different, too.
fn reported(seen: &[(&str, Observation)], requested: &Requested) -> Option<(Observation, ExecutedVerdict)> {
    let same = |seen: &Observation| {
        seen.operand_bits == requested.operand_bits
            && seen.exponent_bits == requested.exponent_bits
            && seen.accumulator() == requested.accumulator
    };
    let narrowest = |all: Vec<&Observation>| all.into_iter().cloned().reduce(|a, b| a.worst(&b));
    let all = || seen.iter().map(|(_, seen)| seen);
    match narrowest(all().filter(|seen| !same(seen)).collect()) {
        Some(other) => Some((other, ExecutedVerdict::Differs)),
        None => Some((narrowest(all().collect())?, ExecutedVerdict::AsRequested)),
    }
}

/// Describes the rounding: once if it is the same in all passes, otherwise for each of them.
fn rounding(seen: &[(&str, Observation)]) -> String {
    let first = seen[0].1.rounding();
    if seen.iter().all(|(_, seen)| seen.rounding() == first) {
        return first;
    }
    let each = seen
        .iter()
        .map(|(what, seen)| format!("{what}: {}", seen.rounding()));
    each.collect::<Vec<_>>().join("; ")
}

fn attend(compute: Compute, device: &Device) -> Result<Observation, String> {
    const SHAPE: [usize; 2] = [attention::SEQUENCE, attention::WIDTH];
    let format = compute.precision().parameters();
    let compute = compute.with_attention(Attention::Fused);
    let mut attend = |heads: &[Head]| {
        let upload = |part: fn(&Head) -> Vec<f64>| {
            let values: Vec<f64> = heads.iter().flat_map(part).collect();
            let data = TensorData::new(values, [heads.len(), 1, SHAPE[0], SHAPE[1]]);
            Tensor::<4>::from_data(data, (device, dtype(format)))
        };
        let queries = upload(|head| head.query.repeat(SHAPE[0]));
        let parts = [
            queries,
            upload(|head| head.keys.clone()),
            upload(|head| head.values.clone()),
        ];
        let mixed = download(compute.attention(parts, &AttentionMask::everything(), 0.0))?;
        let firsts = mixed
            .chunks_exact(SHAPE[0] * SHAPE[1])
            .flat_map(|head| &head[..SHAPE[1]]);
        Ok(firsts.copied().collect())
    };
    attention::observe(format, &mut attend)
}

fn download<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f64>, String> {
    let data = tensor.try_into_data().map_err(|error| format!("{error:?}"))?;
    Ok(data.iter::<f64>().collect())
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Accumulator, MatmulPrecision, Precision};

    use super::*;

    #[test]
    fn layers_in_another_precision_are_part_of_the_verdict() {
        use ExecutedVerdict::{AsRequested, Differs, Unverified};
        let probed = |operand_bits, verdict| Probed {
            executed: Executed {
                operand_bits: Some(operand_bits),
                rounding: Some(format!("{operand_bits} bits")),
                verdict,
                ..Executed::unverified()
            },
            launches: BTreeSet::new(),
        };
        for (of_model, of_kept, verdict, operand_bits) in [
            (AsRequested, AsRequested, AsRequested, 8),
            (AsRequested, Differs, Differs, 11),
            (Differs, AsRequested, Differs, 8),
            (Differs, Differs, Differs, 8),
            (AsRequested, Unverified, Unverified, 8),
            (Unverified, Differs, Differs, 8),
        ] {
            let both = probed(8, of_model).beside("kept", probed(11, of_kept)).executed;
            assert_eq!((both.verdict, both.operand_bits), (verdict, Some(operand_bits)));
            assert_eq!(both.rounding.as_deref(), Some("8 bits; kept: 11 bits"));
        }
    }

    #[test]
    fn a_pass_with_wider_or_narrower_arithmetic_differs_from_the_request() {
        let of = |precision, matmul, sums| {
            let compute = Compute::new(precision, matmul, sums);
            let seen = matmuls::matmul(compute, &Device::flex()).unwrap();
            (seen, compute.requested())
        };
        let single = |matmul| of(Precision::True32, matmul, Accumulator::F32);
        let mixed16 = |sums| of(Precision::Mixed16, MatmulPrecision::Highest, sums);
        for (requested, other) in [
            (single(MatmulPrecision::High), single(MatmulPrecision::Highest)),
            (single(MatmulPrecision::High), single(MatmulPrecision::Medium)),
            (mixed16(Accumulator::F16), mixed16(Accumulator::F32)),
            (mixed16(Accumulator::F32), mixed16(Accumulator::F16)),
        ] {
            let (seen, requested) = requested;
            let passes: Vec<&str> = seen.iter().map(|(pass, _)| *pass).collect();
            assert_eq!(passes, ["forward", "backward", "linear", "weight's gradient"]);
            assert_eq!(
                reported(&seen, &requested).unwrap().1,
                ExecutedVerdict::AsRequested
            );
            for pass in 0..seen.len() {
                let mut mixed = seen.clone();
                mixed[pass] = other.0[pass].clone();
                let (observation, verdict) = reported(&mixed, &requested).unwrap();
                assert_eq!(verdict, ExecutedVerdict::Differs, "{mixed:?}");
                assert_eq!(
                    observation, mixed[pass].1,
                    "expected the observation of the pass that differs"
                );
            }
        }
    }
}
