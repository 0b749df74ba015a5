//! The probe on real backends: it confirms what is right, and convicts what is not.
//!
//! What was launched is noted for the whole process, as a worker is one. So each of these tests is a process of its own.

use std::process::Command;

use mantissa_core::{Accumulator, Executed, ExecutedVerdict, MatmulPrecision, Precision};
use mantissa_precision::{Compute, Operation, PrecisionBackend, device::Flex, probe};

/// Runs the body of a test, a closure in it, in another process of this program, in which nothing else computes.
fn alone<F: Fn()>(body: F) {
    const ALONE: &str = "MANTISSA_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let closure = std::any::type_name::<F>();
    let (_program, test) = closure
        .trim_end_matches("::{{closure}}")
        .split_once("::")
        .unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (told, wrong) = (
        String::from_utf8_lossy(&child.stdout),
        String::from_utf8_lossy(&child.stderr),
    );
    print!("{told}");
    assert!(
        child.status.success() && told.contains("1 passed"),
        "{test}:\n{told}{wrong}"
    );
}

/// Every precision that the design defines, with every matmul precision and accumulator it allows.
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

fn executed<B: PrecisionBackend>(compute: Compute, asked: Compute) -> Executed {
    of::<B>(Operation::Matmul, compute, asked)
}

fn of<B: PrecisionBackend>(operation: Operation, compute: Compute, asked: Compute) -> Executed {
    probe::<B>(&[operation], compute, &asked.requested(), &Default::default())
        .unwrap()
        .confirm()
}

fn confirms<B: PrecisionBackend>(compute: Compute) -> Executed {
    let seen = executed::<B>(compute, compute);
    assert_eq!(
        seen.verdict,
        ExecutedVerdict::AsRequested,
        "{compute:?}: {seen:?}"
    );
    seen
}

/// TF32 where f32 was asked for, bf16 where TF32 was, f32 where bf16 was.
fn convicts<B: PrecisionBackend>() {
    use MatmulPrecision::{High, Highest, Medium};
    for (done, asked) in [(High, Highest), (Medium, High), (Highest, Medium)] {
        let single = |matmul| Compute::new(Precision::True32, matmul, Accumulator::F32);
        let seen = executed::<B>(single(done), single(asked));
        assert_eq!(
            seen.verdict,
            ExecutedVerdict::Differs,
            "{done} under {asked}: {seen:?}"
        );
    }
}

#[test]
fn the_cpu_executes_what_is_asked_for_and_says_how() {
    alone(|| {
        for compute in defined() {
            confirms::<Flex>(compute);
        }
        let kind =
            |precision, matmul, accumulator| confirms::<Flex>(Compute::new(precision, matmul, accumulator));
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
                executed::<Flex>(narrow, wide).verdict,
                ExecutedVerdict::Differs,
                "{precision}"
            );
        }
        convicts::<Flex>();

        for compute in defined() {
            let seen = of::<Flex>(Operation::Convolution, compute, compute);
            assert_eq!(
                seen.verdict,
                ExecutedVerdict::AsRequested,
                "{compute:?}: {seen:?}"
            );
        }
        let single = |matmul| Compute::new(Precision::True32, matmul, Accumulator::F32);
        let (full, tf32) = (single(MatmulPrecision::Highest), single(MatmulPrecision::High));
        let planted = of::<Flex>(Operation::Convolution, tf32, full);
        assert_eq!(
            (planted.verdict, planted.operand_bits),
            (ExecutedVerdict::Differs, Some(11))
        );

        // A kernel that was not observed takes the verdict back.
        let full = Compute::new(Precision::True32, MatmulPrecision::Highest, Accumulator::F32);
        let probed =
            probe::<Flex>(&[Operation::Matmul], full, &full.requested(), &Default::default()).unwrap();
        let one = burn::tensor::Tensor::<Flex, 2>::ones([4, 4], &Default::default());
        Compute::new(Precision::True32, MatmulPrecision::High, Accumulator::F32).matmul(one.clone(), one);
        let seen = probed.confirm();
        assert_eq!(seen.verdict, ExecutedVerdict::Unverified);
        assert!(seen.kernel.unwrap().contains("tf32"));
    });
}

#[test]
fn few_rows_are_observed_where_they_are_asked_for() {
    alone(|| {
        for precision in [Precision::True32, Precision::TrueBf16, Precision::Mixed16] {
            let compute = Compute::from(precision);
            let seen = of::<Flex>(Operation::FewRows, compute, compute);
            assert_eq!(
                seen.verdict,
                ExecutedVerdict::AsRequested,
                "{precision}: {seen:?}"
            );
        }
    });
}

/// Attention in one kernel.
fn attends<B: PrecisionBackend>(precision: Precision) -> Executed {
    let compute = Compute::from(precision);
    of::<B>(Operation::FusedAttention, compute, compute)
}

#[test]
fn attention_on_the_cpu_is_what_the_setting_says() {
    alone(|| {
        for &precision in Precision::ALL {
            let seen = attends::<Flex>(precision);
            assert_eq!(
                seen.verdict,
                ExecutedVerdict::AsRequested,
                "{precision}: {seen:?}"
            );
        }
    });
}

#[cfg(feature = "vulkan")]
#[test]
fn attention_on_a_gpu_multiplies_in_f16_and_the_probe_says_so() {
    use mantissa_precision::device::{VulkanFused, VulkanPlain};

    alone(|| {
        if !crate::vulkan_is_there() {
            return;
        }
        let seen = attends::<VulkanPlain>(Precision::True32);
        assert_eq!(
            (seen.operand_bits, seen.exponent_bits),
            (Some(11), Some(5)),
            "{seen:?}"
        );
        assert_eq!(seen.verdict, ExecutedVerdict::Differs);
        let seen = attends::<VulkanFused>(Precision::Mixed16);
        assert_eq!(seen.verdict, ExecutedVerdict::AsRequested, "{seen:?}");
    });
}

#[cfg(feature = "vulkan")]
#[test]
fn the_software_rasteriser_executes_what_is_asked_for() {
    use mantissa_core::Format;
    use mantissa_precision::device::{VulkanFused, VulkanPlain, supports};

    alone(|| {
        if !crate::vulkan_is_there() {
            return;
        }
        let device = Default::default();
        for compute in defined() {
            let (stored, computed) = (compute.precision().parameters(), compute.precision().compute());
            if [stored, computed]
                .iter()
                .all(|format: &Format| supports::<VulkanPlain>(*format, &device))
            {
                confirms::<VulkanPlain>(compute);
                // burn fuses no f64 kernels.
                if stored != Format::F64 {
                    confirms::<VulkanFused>(compute);
                }
            }
        }
        convicts::<VulkanPlain>();
        convicts::<VulkanFused>();

        let halves = |sums| Compute::new(Precision::Mixed16, MatmulPrecision::Highest, sums);
        let (wide, narrow) = (halves(Accumulator::F32), halves(Accumulator::F16));
        if crate::vulkan_halves_are_there() {
            assert_eq!(
                confirms::<VulkanPlain>(narrow).accumulator.as_deref(),
                Some("f16")
            );
            let planted = executed::<VulkanPlain>(narrow, wide);
            assert_eq!(planted.verdict, ExecutedVerdict::Differs, "{planted:?}");
        }
        for matmul in [MatmulPrecision::Highest, MatmulPrecision::High] {
            let compute = Compute::new(Precision::True32, matmul, Accumulator::F32);
            let seen = of::<VulkanFused>(Operation::Convolution, compute, compute);
            assert_eq!(seen.verdict, ExecutedVerdict::AsRequested, "{seen:?}");
        }
    });
}
