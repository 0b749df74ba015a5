//! Autotuning among kernels that implement the same arithmetic, with cubecl's autotuner.
//!
//! A launch that returns an error leaves its output unwritten, so the next kernel of the same arithmetic is launched.
//! If none of these kernels supports a matmul, the code panics instead of returning undefined values. The
//! benchmark reports the panic as the status of the measurement.

use std::sync::Arc;

use burn::{backend::cubecl::dtype_to_elem_type, tensor::DType};
use burn_cubecl::{CubeTuneId, kernel::matmul::init_matmul_output, tensor::CubeTensor};
use cubecl::tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner};
use cubek::matmul::tune_key::MatmulAutotuneKey;
use mantissa_core::{Accumulator, CheckedOperation::Matmul};

use super::{
    candidates::{Candidate, Operands, first_to_launch, matrix_unit_candidates, ordinary_candidates},
    kernel_allowlist,
};

type Set = TunableSet<MatmulAutotuneKey, Operands, ()>;
type Tuner = LocalTuner<MatmulAutotuneKey, CubeTuneId>;

/// Computes a matmul on the ordinary floating-point units, whose registers have the type of the operands. f64 operands are summed in f64.
pub(super) fn on_ordinary_units(
    lhs: CubeTensor,
    rhs: CubeTensor,
    out: DType,
    sums: Accumulator,
) -> CubeTensor {
    static WIDE: Tuner = local_tuner!("ordinary");
    static NARROW: Tuner = local_tuner!("ordinary-f16-sums");
    match sums {
        Accumulator::F32 => launch_fastest(
            &WIDE,
            || ordinary_candidates(Accumulator::F32),
            set_on_ordinary_units,
            lhs,
            rhs,
            out,
        ),
        Accumulator::F16 => launch_fastest(
            &NARROW,
            || ordinary_candidates(Accumulator::F16),
            set_on_ordinary_units,
            lhs,
            rhs,
            out,
        ),
    }
}

/// Computes a matmul on the matrix units, which round f32 operands to TF32. If no such kernel supports the shape, the
/// operands are rounded in the same way and multiplied in f32.
pub(super) fn on_matrix_units(lhs: CubeTensor, rhs: CubeTensor, out: DType, sums: Accumulator) -> CubeTensor {
    static WIDE: Tuner = local_tuner!("matrix-units");
    static NARROW: Tuner = local_tuner!("matrix-units-f16-sums");
    match sums {
        Accumulator::F32 => launch_fastest(
            &WIDE,
            || matrix_unit_candidates(Accumulator::F32),
            set_on_matrix_units,
            lhs,
            rhs,
            out,
        ),
        Accumulator::F16 => launch_fastest(
            &NARROW,
            || matrix_unit_candidates(Accumulator::F16),
            set_on_matrix_units,
            lhs,
            rhs,
            out,
        ),
    }
}

fn launch_fastest(
    tuner: &'static Tuner,
    candidates: fn() -> Vec<Candidate>,
    set: fn(Vec<Candidate>) -> Set,
    lhs: CubeTensor,
    rhs: CubeTensor,
    out: DType,
) -> CubeTensor {
    let output = init_matmul_output(&lhs, &rhs, out);
    let (client, id) = (lhs.client.clone(), CubeTuneId::new(&lhs.client, &lhs.device));
    let dtype = lhs.dtype;
    let operands = (lhs, rhs, output.clone(), false);
    if let Some(trial) = kernel_allowlist::trial()
        && let Some(candidate) = candidates()
            .iter()
            .find(|candidate| trial.is_for(&candidate.name))
    {
        trial.launch((Matmul, dtype), || (candidate.launch)(operands));
        return output;
    }
    let set = move || set(candidates());
    tuner.execute(&id, &client, tuner.init(&id, set), operands);
    output
}

fn set_on_ordinary_units(candidates: Vec<Candidate>) -> Set {
    tunables(candidates).fold(empty_set(), Set::with)
}

fn set_on_matrix_units(candidates: Vec<Candidate>) -> Set {
    // The tuner tries a group with lower priority only if no kernel with higher priority launches.
    let units = TuneGroup::new("matrix units", |_: &MatmulAutotuneKey| 1);
    let rounded = TuneGroup::new("rounded operands", |_: &MatmulAutotuneKey| 0);
    // The first entry must support all shapes.
    let groups = std::iter::once(&rounded).chain(std::iter::repeat(&units));
    tunables(candidates)
        .zip(groups)
        .fold(empty_set(), |set, (tunable, group)| {
            set.with(tunable.group(group, |_| 0))
        })
}

/// Wraps the candidates for the tuner. The tuner chooses one candidate for all similar shapes. If that candidate does not support a shape,
/// the other ones are tried.
fn tunables(candidates: Vec<Candidate>) -> impl Iterator<Item = Tunable<MatmulAutotuneKey, Operands, ()>> {
    let candidates: Arc<[Candidate]> = candidates.into();
    (0..candidates.len()).map(move |chosen| {
        let all = candidates.clone();
        let launch = move |operands: Operands| {
            let (.., trial) = operands;
            match (all[chosen].launch)(operands.clone()) {
                Err(_) if !trial => first_to_launch(&all, &operands),
                launched => launched,
            }
        };
        Tunable::new(&candidates[chosen].name, launch)
    })
}

fn empty_set() -> Set {
    TunableSet::new(key, |_: &MatmulAutotuneKey, (lhs, rhs, out, _): &Operands| {
        (lhs.clone(), rhs.clone(), out.copy(), true)
    })
}

fn key((lhs, rhs, out, _): &Operands) -> MatmulAutotuneKey {
    MatmulAutotuneKey::generate(
        &lhs.client,
        lhs.meta.shape(),
        rhs.meta.shape(),
        lhs.meta.strides(),
        rhs.meta.strides(),
        lhs.meta.tiling,
        rhs.meta.tiling,
        dtype_to_elem_type(lhs.dtype),
        dtype_to_elem_type(rhs.dtype),
        dtype_to_elem_type(out.dtype),
        None,
        None,
    )
}

#[cfg(all(test, feature = "vulkan"))]
mod lavapipe_full {
    use burn_cubecl::CubeDevice;

    use super::*;
    use crate::cube::testing::{download, layouts, vulkan};

    fn failing(name: &str) -> Candidate {
        Candidate {
            name: name.into(),
            launch: Box::new(|_| Err("the kernel does not launch".into())),
        }
    }

    /// Returns operands of 6 × 5 and 5 × 7, and their product.
    fn operands_and_product(device: &CubeDevice) -> (CubeTensor, CubeTensor, Vec<f32>) {
        let (a, [lhs, ..]) = layouts([1, 1, 6, 5], 1, device);
        let (b, [rhs, ..]) = layouts([1, 1, 5, 7], 2, device);
        let expected = (0..6 * 7)
            .map(|at| (0..5).map(|l| a[at / 7 * 5 + l] * b[l * 7 + at % 7]).sum())
            .collect();
        (lhs, rhs, expected)
    }

    #[test]
    fn the_next_candidate_runs_if_a_kernel_does_not_launch() {
        let Some(device) = vulkan() else { return };
        static SOME: Tuner = local_tuner!("some-launch");
        static NONE: Tuner = local_tuner!("none-launches");
        let (lhs, rhs, expected) = operands_and_product(&device);

        // Two groups, like the set for matrix units: the second one is the fallback of the first.
        fn two_groups(_: Vec<Candidate>) -> Set {
            let first = TuneGroup::new("first", |_: &MatmulAutotuneKey| 1);
            let last = TuneGroup::new("last", |_: &MatmulAutotuneKey| 0);
            let naive = ordinary_candidates(Accumulator::F32).remove(0);
            tunables(vec![naive, failing("one"), failing("another")])
                .zip([&last, &first, &first])
                .fold(empty_set(), |set, (tunable, group)| {
                    set.with(tunable.group(group, |_| 0))
                })
        }
        let out = launch_fastest(&SOME, Vec::new, two_groups, lhs.clone(), rhs.clone(), DType::F32);
        assert_eq!(download::<f32>(out), expected);

        let all_failing = |_| tunables(vec![failing("one"), failing("another")]).fold(empty_set(), Set::with);
        let product = std::panic::AssertUnwindSafe(|| {
            launch_fastest(&NONE, Vec::new, all_failing, lhs, rhs, DType::F32)
        });
        assert!(
            std::panic::catch_unwind(product).is_err(),
            "expected a panic, because no kernel wrote the output"
        );
    }

    #[test]
    fn another_candidate_runs_if_the_tuned_one_does_not_launch() {
        let Some(device) = vulkan() else { return };
        static ALIKE: Tuner = local_tuner!("alike");
        let (lhs, rhs, expected) = operands_and_product(&device);
        // The set contains only the failing candidate. The tuner chooses a single candidate without a trial, and the launch falls back to
        // `naive`.
        let set = |_| {
            let naive = ordinary_candidates(Accumulator::F32).remove(0);
            let mut tunables = tunables(vec![naive, failing("chosen")]);
            empty_set().with(tunables.nth(1).expect("there are two candidates"))
        };
        let out = launch_fastest(&ALIKE, Vec::new, set, lhs, rhs, DType::F32);
        assert_eq!(download::<f32>(out), expected);
    }
}
