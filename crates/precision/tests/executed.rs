//! Tests of the probe on real backends: it must confirm the requested arithmetic and detect any other arithmetic.
//!
//! Launched kernels are recorded per process, so tests in one process would record each other's kernels. Each of these tests therefore
//! runs in its own process.

use burn::tensor::{Device, Tensor};
use mantissa_core::{Accumulator, Executed, ExecutedVerdict, MatmulPrecision, Precision};
use mantissa_precision::{Compute, Operation, probe};
use mantissa_testing::alone;

/// Returns every precision with every matmul precision that it allows, and f32 accumulators.
fn all_settings() -> Vec<Compute> {
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

fn probe_matmul(device: &Device, compute: Compute, requested: Compute) -> Executed {
    probe_operation(device, Operation::Matmul, compute, requested)
}

fn probe_operation(device: &Device, operation: Operation, compute: Compute, requested: Compute) -> Executed {
    probe(&[operation], compute, &requested.requested(), device)
        .unwrap()
        .with_later_launches()
}

fn assert_as_requested(device: &Device, compute: Compute) -> Executed {
    let executed = probe_matmul(device, compute, compute);
    assert_eq!(
        executed.verdict,
        ExecutedVerdict::AsRequested,
        "{compute:?}: {executed:?}"
    );
    executed
}

/// Checks that the probe detects TF32 instead of f32, bf16 instead of TF32, and f32 instead of bf16.
fn assert_differences_are_detected(device: &Device) {
    use MatmulPrecision::{High, Highest, Medium};
    for (actual, requested) in [(High, Highest), (Medium, High), (Highest, Medium)] {
        let single = |matmul| Compute::new(Precision::True32, matmul, Accumulator::F32);
        let executed = probe_matmul(device, single(actual), single(requested));
        assert_eq!(
            executed.verdict,
            ExecutedVerdict::Differs,
            "{actual} instead of {requested}: {executed:?}"
        );
    }
}

#[test]
fn the_cpu_executes_the_requested_arithmetic() {
    alone(|| {
        let device = Device::flex();
        for compute in all_settings() {
            assert_as_requested(&device, compute);
        }
        let kind =
            |precision, matmul, sums| assert_as_requested(&device, Compute::new(precision, matmul, sums));
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
                probe_matmul(&device, narrow, wide).verdict,
                ExecutedVerdict::Differs,
                "{precision}"
            );
        }
        assert_differences_are_detected(&device);

        for compute in all_settings() {
            let executed = probe_operation(&device, Operation::Convolution, compute, compute);
            assert_eq!(
                executed.verdict,
                ExecutedVerdict::AsRequested,
                "{compute:?}: {executed:?}"
            );
        }
        let single = |matmul| Compute::new(Precision::True32, matmul, Accumulator::F32);
        let (full, tf32) = (single(MatmulPrecision::Highest), single(MatmulPrecision::High));
        let differing = probe_operation(&device, Operation::Convolution, tf32, full);
        assert_eq!(
            (differing.verdict, differing.operand_bits),
            (ExecutedVerdict::Differs, Some(11))
        );

        // Launching a kernel that the probe did not observe makes the verdict unverified.
        let full = Compute::new(Precision::True32, MatmulPrecision::Highest, Accumulator::F32);
        let probed = probe(&[Operation::Matmul], full, &full.requested(), &device).unwrap();
        let one = Tensor::<2>::ones([4, 4], &device);
        Compute::new(Precision::True32, MatmulPrecision::High, Accumulator::F32).matmul(one.clone(), one);
        let executed = probed.with_later_launches();
        assert_eq!(executed.verdict, ExecutedVerdict::Unverified);
        assert!(executed.kernel.unwrap().contains("tf32"));
    });
}

#[test]
fn matmuls_with_few_rows_are_observed() {
    alone(|| {
        for precision in [Precision::True32, Precision::TrueBf16, Precision::Mixed16] {
            let compute = Compute::from(precision);
            let executed = probe_operation(&Device::flex(), Operation::FewRows, compute, compute);
            assert_eq!(
                executed.verdict,
                ExecutedVerdict::AsRequested,
                "{precision}: {executed:?}"
            );
        }
    });
}

/// Probes attention in one kernel.
fn probe_attention(device: &Device, precision: Precision) -> Executed {
    let compute = Compute::from(precision);
    probe_operation(device, Operation::FusedAttention, compute, compute)
}

#[test]
fn attention_on_the_cpu_executes_the_requested_arithmetic() {
    alone(|| {
        for &precision in Precision::ALL {
            let executed = probe_attention(&Device::flex(), precision);
            assert_eq!(
                executed.verdict,
                ExecutedVerdict::AsRequested,
                "{precision}: {executed:?}"
            );
        }
    });
}

/// Returns the settings of [`all_settings`] that a device supports.
#[cfg(feature = "vulkan")]
fn supported(device: &Device) -> Vec<Compute> {
    use mantissa_precision::device::supports;

    let is_supported = |compute: &Compute| {
        [compute.precision().parameters(), compute.precision().compute()]
            .iter()
            .all(|format| supports(*format, device))
    };
    all_settings().into_iter().filter(is_supported).collect()
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
                assert_as_requested(&device, compute);
            }
            assert_differences_are_detected(&device);
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
                assert_as_requested(&device, compute);
            }
            assert_differences_are_detected(&device);

            for matmul in [MatmulPrecision::Highest, MatmulPrecision::High] {
                let compute = Compute::new(Precision::True32, matmul, Accumulator::F32);
                let executed = probe_operation(&device, Operation::Convolution, compute, compute);
                assert_eq!(executed.verdict, ExecutedVerdict::AsRequested, "{executed:?}");
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
            assert_eq!(
                assert_as_requested(&device, narrow).accumulator.as_deref(),
                Some("f16")
            );
            let differing = probe_matmul(&device, narrow, wide);
            assert_eq!(differing.verdict, ExecutedVerdict::Differs, "{differing:?}");
        });
    }

    #[test]
    fn attention_without_matrix_units_uses_the_input_format() {
        alone(|| {
            let Some(device) = crate::vulkan(false) else {
                return;
            };
            let executed = probe_attention(&device, Precision::True32);
            assert_eq!(
                (executed.operand_bits, executed.exponent_bits),
                (Some(24), Some(8)),
                "{executed:?}"
            );
            assert_eq!(executed.verdict, ExecutedVerdict::AsRequested);
        });
    }

    #[test]
    fn attention_with_fusion_executes_the_requested_arithmetic() {
        alone(|| {
            let Some(device) = crate::vulkan(true) else {
                return;
            };
            let executed = probe_attention(&device, Precision::Mixed16);
            assert_eq!(executed.verdict, ExecutedVerdict::AsRequested, "{executed:?}");
        });
    }
}
