//! Tests of the probe on real backends: it must confirm the requested arithmetic and detect any other.
//!
//! Launches are recorded per process, because a worker is a process. Each of these tests therefore runs in its own
//! process.

use burn::tensor::{Device, Tensor};
use mantissa_core::{Accumulator, Executed, ExecutedVerdict, MatmulPrecision, Precision};
use mantissa_precision::{Compute, Operation, probe};
use mantissa_testing::alone;

/// Returns every precision with every matmul precision that it allows, and f32 accumulators.
fn defined() -> Vec<Compute> {
    let mut all = vec![];
    for &precision in Precision::ALL {
        for &matmul in MatmulPrecision::ALL
            .iter()
            .filter(|matmul| precision.allows(**matmul))
        {
            all.push(Compute::new(precision, matmul, Accumulator::F32));
        }
    }
    all
}

fn executed(device: &Device, compute: Compute, requested: Compute) -> Executed {
    of(device, Operation::Matmul, compute, requested)
}

fn of(device: &Device, operation: Operation, compute: Compute, requested: Compute) -> Executed {
    probe(&[operation], compute, &requested.requested(), device)
        .unwrap()
        .confirm()
}

fn confirms(device: &Device, compute: Compute) -> Executed {
    let seen = executed(device, compute, compute);
    assert_eq!(
        seen.verdict,
        ExecutedVerdict::AsRequested,
        "{compute:?}: {seen:?}"
    );
    seen
}

/// Checks that the probe detects TF32 instead of f32, bf16 instead of TF32, and f32 instead of bf16.
fn detects_differences(device: &Device) {
    use MatmulPrecision::{High, Highest, Medium};
    for (executed_in, requested) in [(High, Highest), (Medium, High), (Highest, Medium)] {
        let single = |matmul| Compute::new(Precision::True32, matmul, Accumulator::F32);
        let seen = executed(device, single(executed_in), single(requested));
        assert_eq!(
            seen.verdict,
            ExecutedVerdict::Differs,
            "{executed_in} instead of {requested}: {seen:?}"
        );
    }
}

#[test]
fn the_cpu_executes_the_requested_arithmetic() {
    alone(|| {
        let device = Device::flex();
        for compute in defined() {
            confirms(&device, compute);
        }
        let kind = |precision, matmul, sums| confirms(&device, Compute::new(precision, matmul, sums));
        let full = kind(Precision::True32, MatmulPrecision::Highest, Accumulator::F32);
        assert_eq!(
            (full.operand_bits, full.exponent_bits, full.emulated),
            (Some(24), Some(8), false)
        );
        assert_eq!(full.kernel.as_deref(), Some("gemm (f32 × f32 → f32)"));
        let tf32 = kind(Precision::True32, MatmulPrecision::High, Accumulator::F32);
        assert_eq!((tf32.operand_bits, tf32.emulated), (Some(11), true));
        assert!(tf32.rounding.unwrap().starts_with("operands to nearest even"));

        for precision in [
            Precision::Mixed16,
            Precision::MixedBf16,
            Precision::True16,
            Precision::TrueBf16,
        ] {
            let narrow = kind(precision, MatmulPrecision::Highest, Accumulator::F16);
            assert_eq!(
                (narrow.accumulator.as_deref(), narrow.emulated),
                (Some("f16"), true),
                "{precision}"
            );
            let wide = Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32);
            let narrow = Compute::new(precision, MatmulPrecision::Highest, Accumulator::F16);
            assert_eq!(
                executed(&device, narrow, wide).verdict,
                ExecutedVerdict::Differs,
                "{precision}"
            );
        }
        detects_differences(&device);

        for compute in defined() {
            let seen = of(&device, Operation::Convolution, compute, compute);
            assert_eq!(
                seen.verdict,
                ExecutedVerdict::AsRequested,
                "{compute:?}: {seen:?}"
            );
        }
        let single = |matmul| Compute::new(Precision::True32, matmul, Accumulator::F32);
        let (full, tf32) = (single(MatmulPrecision::Highest), single(MatmulPrecision::High));
        let differing = of(&device, Operation::Convolution, tf32, full);
        assert_eq!(
            (differing.verdict, differing.operand_bits),
            (ExecutedVerdict::Differs, Some(11))
        );

        // A kernel that was not observed invalidates the verdict.
        let full = Compute::new(Precision::True32, MatmulPrecision::Highest, Accumulator::F32);
        let probed = probe(&[Operation::Matmul], full, &full.requested(), &device).unwrap();
        let one = Tensor::<2>::ones([4, 4], &device);
        Compute::new(Precision::True32, MatmulPrecision::High, Accumulator::F32).matmul(one.clone(), one);
        let seen = probed.confirm();
        assert_eq!(seen.verdict, ExecutedVerdict::Unverified);
        assert!(seen.kernel.unwrap().contains("tf32"));
    });
}

#[test]
fn matmuls_with_few_rows_are_observed() {
    alone(|| {
        for precision in [Precision::True32, Precision::TrueBf16, Precision::Mixed16] {
            let compute = Compute::from(precision);
            let seen = of(&Device::flex(), Operation::FewRows, compute, compute);
            assert_eq!(
                seen.verdict,
                ExecutedVerdict::AsRequested,
                "{precision}: {seen:?}"
            );
        }
    });
}

/// Probes attention in one kernel.
fn attends(device: &Device, precision: Precision) -> Executed {
    let compute = Compute::from(precision);
    of(device, Operation::FusedAttention, compute, compute)
}

#[test]
fn attention_on_the_cpu_executes_the_requested_arithmetic() {
    alone(|| {
        for &precision in Precision::ALL {
            let seen = attends(&Device::flex(), precision);
            assert_eq!(
                seen.verdict,
                ExecutedVerdict::AsRequested,
                "{precision}: {seen:?}"
            );
        }
    });
}

/// Returns the settings of [`defined`] that a device supports.
#[cfg(feature = "vulkan")]
fn supported(device: &Device) -> Vec<Compute> {
    use mantissa_precision::device::supports;

    let is_supported = |compute: &Compute| {
        [compute.precision().parameters(), compute.precision().compute()]
            .iter()
            .all(|format| supports(*format, device))
    };
    defined().into_iter().filter(is_supported).collect()
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use super::*;

    #[test]
    fn plain_kernels_execute_the_requested_arithmetic() {
        alone(|| {
            let Some(device) = crate::vulkan(false) else {
                return;
            };
            for compute in supported(&device) {
                confirms(&device, compute);
            }
            detects_differences(&device);
        });
    }
}

#[cfg(feature = "vulkan")]
mod lavapipe_full {
    use super::*;

    #[test]
    fn fused_kernels_and_convolutions_execute_the_requested_arithmetic() {
        alone(|| {
            let Some(device) = crate::vulkan(true) else {
                return;
            };
            for compute in supported(&device) {
                confirms(&device, compute);
            }
            detects_differences(&device);

            for matmul in [MatmulPrecision::Highest, MatmulPrecision::High] {
                let compute = Compute::new(Precision::True32, matmul, Accumulator::F32);
                let seen = of(&device, Operation::Convolution, compute, compute);
                assert_eq!(seen.verdict, ExecutedVerdict::AsRequested, "{seen:?}");
            }
        });
    }

    #[test]
    fn f16_sums_execute_the_requested_arithmetic() {
        alone(|| {
            let Some(device) = crate::vulkan_with_f16(false) else {
                return;
            };
            let mixed16 = |sums| Compute::new(Precision::Mixed16, MatmulPrecision::Highest, sums);
            let (wide, narrow) = (mixed16(Accumulator::F32), mixed16(Accumulator::F16));
            assert_eq!(confirms(&device, narrow).accumulator.as_deref(), Some("f16"));
            let differing = executed(&device, narrow, wide);
            assert_eq!(differing.verdict, ExecutedVerdict::Differs, "{differing:?}");
        });
    }

    #[test]
    fn attention_without_matrix_units_multiplies_in_the_format_of_its_inputs() {
        alone(|| {
            let Some(device) = crate::vulkan(false) else {
                return;
            };
            let seen = attends(&device, Precision::True32);
            assert_eq!(
                (seen.operand_bits, seen.exponent_bits),
                (Some(24), Some(8)),
                "{seen:?}"
            );
            assert_eq!(seen.verdict, ExecutedVerdict::AsRequested);
        });
    }

    #[test]
    fn attention_with_fusion_executes_the_requested_arithmetic() {
        alone(|| {
            let Some(device) = crate::vulkan(true) else {
                return;
            };
            let seen = attends(&device, Precision::Mixed16);
            assert_eq!(seen.verdict, ExecutedVerdict::AsRequested, "{seen:?}");
        });
    }
}
