//! Probe: infers the executed arithmetic of a matmul from its results.
//!
//! A configuration defines the requested arithmetic. Libraries, autotuners and compilers may deviate: multiply f32 operands as TF32, sum in
//! f16, flush subnormals to zero. The probe multiplies chosen numbers on the device, forward and backward, with the code that models use.
//! It infers the arithmetic from the results, as in Fasi, Higham, Mikaitis and Pranesh, *Numerical behavior of NVIDIA tensor cores*, PeerJ
//! Computer Science 7:e330 (2021).

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
    /// Merges `self` with `other`, the result of the `layers` that compute in another precision. The reported numbers are those of `other` if
    /// only `other` differs from the request, otherwise those of `self`.
    pub fn merged_with(mut self, layers: &str, other: Self) -> Self {
        use ExecutedVerdict::{AsRequested, Differs, Unverified};
        let (first, second) = (&self.executed, &other.executed);
        let verdict = match (first.verdict, second.verdict) {
            (AsRequested, verdict) | (verdict, AsRequested) => verdict,
            (Differs, _) | (_, Differs) => Differs,
            (Unverified, Unverified) => Unverified,
        };
        let numbers = if (first.verdict, second.verdict) == (AsRequested, Differs) {
            second
        } else {
            first
        };
        let rounding = |executed: &Executed| executed.rounding.clone().unwrap_or_default();
        self.launches.extend(other.launches);
        self.executed = Executed {
            verdict,
            rounding: Some(format!("{}; {layers}: {}", rounding(first), rounding(second))),
            emulated: first.emulated || second.emulated,
            kernel: launched_kernels::format_names(&self.launches),
            ..numbers.clone()
        };
        self
    }

    /// Returns the result with the kernels that were launched since the probe. These may differ from the probed kernels, because the shapes may
    /// differ. If the probe did not observe the arithmetic of a launched kernel, the verdict becomes unverified.
    pub fn with_later_launches(self) -> Executed {
        let mut executed = self.executed;
        let launched = launched_kernels::take();
        let was_observed = |launch: &Launch| {
            let has_same_arithmetic = |probed: &Launch| {
                (&probed.arithmetic, probed.emulated) == (&launch.arithmetic, launch.emulated)
            };
            self.launches.iter().any(has_same_arithmetic)
        };
        if !launched.iter().all(was_observed) {
            executed.verdict = ExecutedVerdict::Unverified;
        }
        executed.emulated |= launched.iter().any(|launch| launch.emulated);
        executed.kernel = launched_kernels::format_names(&launched).or(executed.kernel);
        executed
    }
}

/// Operation that consists of sums of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Matmul and linear layer, forward and backward.
    Matmul,
    /// Convolution: output and both gradients.
    Convolution,
    /// Matmul of few rows with many weights, forward, as in generation token by token.
    FewRows,
    /// Attention in one kernel, forward. Its backward pass consists of matmuls.
    FusedAttention,
}

/// Observes the executed arithmetic of `operations` on a device, and compares it with `requested`.
///
/// Operands have the format of parameters (f32 under a mixed setting), so the cast to 16 bits is part of the observation. All passes of the
/// operations are observed separately, and each must match the request. If passes differ, the result contains the narrowest arithmetic of
/// these passes. Without operations the verdict is unverified.
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
    let mut observations: Vec<(&str, Observation)> = vec![];
    for operation in operations {
        observations.extend(match operation {
            Operation::Matmul => matmuls::matmul(compute, device)?,
            Operation::Convolution => matmuls::convolution(compute, device)?,
            Operation::FewRows => matmuls::few_rows(compute, device)?,
            Operation::FusedAttention => vec![("attention", observe_attention(compute, device)?)],
        });
    }
    let launches = launched_kernels::take();
    let executed = Executed {
        kernel: launched_kernels::format_names(&launches),
        emulated: launches.iter().any(|launch| launch.emulated),
        ..summarize(&observations, requested)
    };
    Ok(Probed { executed, launches })
}

/// Compares observations with the request. The result does not contain kernels.
fn summarize(observations: &[(&str, Observation)], requested: &Requested) -> Executed {
    let Some((observation, verdict)) = select_reported(observations, requested) else {
        return Executed {
            rounding: Some("not observed: the operation has no sums of products".to_owned()),
            ..Executed::unverified()
        };
    };
    Executed {
        operand_bits: Some(observation.operand_bits),
        exponent_bits: Some(observation.exponent_bits),
        accumulator: Some(observation.accumulator()),
        rounding: Some(rounding(observations)),
        kernel: None,
        emulated: false,
        verdict,
    }
}

/// Selects the reported observation: the narrowest of the passes that differ from the request. If none differs, the narrowest of all
/// passes. A pass that is wider than requested differs as well.
fn select_reported(
    observations: &[(&str, Observation)],
    requested: &Requested,
) -> Option<(Observation, ExecutedVerdict)> {
    let is_as_requested = |observation: &Observation| {
        observation.operand_bits == requested.operand_bits
            && observation.exponent_bits == requested.exponent_bits
            && observation.accumulator() == requested.accumulator
    };
    let narrowest = |all: Vec<&Observation>| all.into_iter().cloned().reduce(|a, b| a.narrowest(&b));
    let all = || observations.iter().map(|(_, observation)| observation);
    match narrowest(
        all()
            .filter(|observation| !is_as_requested(observation))
            .collect(),
    ) {
        Some(differing) => Some((differing, ExecutedVerdict::Differs)),
        None => Some((narrowest(all().collect())?, ExecutedVerdict::AsRequested)),
    }
}

/// Describes the rounding: once if it is the same in all passes, otherwise for each pass.
fn rounding(observations: &[(&str, Observation)]) -> String {
    let first = observations[0].1.rounding();
    if observations
        .iter()
        .all(|(_, observation)| observation.rounding() == first)
    {
        return first;
    }
    let each = observations
        .iter()
        .map(|(pass, observation)| format!("{pass}: {}", observation.rounding()));
    each.collect::<Vec<_>>().join("; ")
}

fn observe_attention(compute: Compute, device: &Device) -> Result<Observation, String> {
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
        let output = download(compute.attention(parts, &AttentionMask::unmasked(), None))?;
        let first_rows = output
            .chunks_exact(SHAPE[0] * SHAPE[1])
            .flat_map(|head| &head[..SHAPE[1]]);
        Ok(first_rows.copied().collect())
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
        for (model_verdict, kept_verdict, verdict, operand_bits) in [
            (AsRequested, AsRequested, AsRequested, 8),
            (AsRequested, Differs, Differs, 11),
            (Differs, AsRequested, Differs, 8),
            (Differs, Differs, Differs, 8),
            (AsRequested, Unverified, Unverified, 8),
            (Unverified, Differs, Differs, 8),
        ] {
            let merged = probed(8, model_verdict)
                .merged_with("kept", probed(11, kept_verdict))
                .executed;
            assert_eq!(
                (merged.verdict, merged.operand_bits),
                (verdict, Some(operand_bits))
            );
            assert_eq!(merged.rounding.as_deref(), Some("8 bits; kept: 11 bits"));
        }
    }

    #[test]
    fn a_pass_with_other_arithmetic_differs_from_the_request() {
        let observe_with = |precision, matmul, sums| {
            let compute = Compute::new(precision, matmul, sums);
            let seen = matmuls::matmul(compute, &Device::flex()).unwrap();
            (seen, compute.requested())
        };
        let single = |matmul| observe_with(Precision::True32, matmul, Accumulator::F32);
        let mixed16 = |sums| observe_with(Precision::Mixed16, MatmulPrecision::Highest, sums);
        for (requested, replacement) in [
            (single(MatmulPrecision::High), single(MatmulPrecision::Highest)),
            (single(MatmulPrecision::High), single(MatmulPrecision::Medium)),
            (mixed16(Accumulator::F16), mixed16(Accumulator::F32)),
            (mixed16(Accumulator::F32), mixed16(Accumulator::F16)),
        ] {
            let (seen, requested) = requested;
            let passes: Vec<&str> = seen.iter().map(|(pass, _)| *pass).collect();
            assert_eq!(passes, ["forward", "backward", "linear", "weight's gradient"]);
            assert_eq!(
                select_reported(&seen, &requested).unwrap().1,
                ExecutedVerdict::AsRequested
            );
            for pass in 0..seen.len() {
                let mut observations = seen.clone();
                observations[pass] = replacement.0[pass].clone();
                let (observation, verdict) = select_reported(&observations, &requested).unwrap();
                assert_eq!(verdict, ExecutedVerdict::Differs, "{observations:?}");
                assert_eq!(
                    observation, observations[pass].1,
                    "expected the observation of the pass that differs"
                );
            }
        }
    }
}
