//! Autotuning among the kernels of one arithmetic, with cubecl's autotuner.
//!
//! A launch that returns an error leaves its output unwritten, so the next kernel of the same arithmetic is launched.
//! If none of them supports a matmul, the code panics instead of returning undefined values. The worker process reports
//! the panic as a status.

use std::sync::Arc;

use burn::{backend::cubecl::dtype_to_elem_type, tensor::DType};
use burn_cubecl::{
    CubeTuneId,
    kernel::{cast, matmul::init_matmul_output},
    tensor::CubeTensor,
};
use cubecl::{
    client::Client,
    prelude::TensorBinding,
    tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner},
};
use cubek::{
    matmul::{
        definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError},
        multi_level::{
            BatchMatmulRoutine,
            components::tile::TileMatmulKind,
            definition::BatchMatmulBlueprint,
            routines::{
                TileSizeSelection,
                batch::{
                    double_buffering::{CyclicDoubleBufferingAlgorithm, DoubleBufferingArgs},
                    double_unit::{DoubleUnitAlgorithm, DoubleUnitSelectionArgs},
                    launch,
                    ordered_double_buffering::{OrderedDoubleBufferingAlgorithm, OrderedSelectionArgs},
                    simple::{SimpleAlgorithm, SimpleArgs, SimpleTmaAlgorithm},
                    simple_unit::{SimpleUnitAlgorithm, SimpleUnitSelectionArgs},
                    specialized::{SpecializedAlgorithm, SpecializedStrategy},
                },
                naive,
            },
        },
        routine::BlueprintStrategy,
        tune_key::MatmulAutotuneKey,
    },
    std::InputBinding,
};
use mantissa_core::Accumulator;

use super::{
    kernel_allowlist,
    matmul::round_as_matrix_units_do,
    note_launch, registers,
    routine::{Controlled, Controls, expanded},
};
use crate::{
    check::CheckedOperation::Matmul,
    launched_kernels::{Launch, note},
};

/// Both operands, the output, and a flag for trials of the tuner, whose output is not read.
type Operands = (CubeTensor, CubeTensor, CubeTensor, bool);
type Set = TunableSet<MatmulAutotuneKey, Operands, ()>;
type Tuner = LocalTuner<MatmulAutotuneKey, CubeTuneId>;

/// Kernel, and a function that launches it.
struct Candidate {
    name: String,
    launch: Box<dyn Fn(Operands) -> Result<(), String> + Send + Sync>,
}

/// Computes a matmul on the ordinary multipliers, whose registers have the type of the operands. Sums of f64 are f64.
pub(super) fn on_ordinary_units(
    lhs: CubeTensor,
    rhs: CubeTensor,
    out: DType,
    sums: Accumulator,
) -> CubeTensor {
    static WIDE: Tuner = local_tuner!("ordinary");
    static NARROW: Tuner = local_tuner!("ordinary-f16-sums");
    match sums {
        Accumulator::F32 => fastest(
            &WIDE,
            || ordinary(Accumulator::F32),
            set_on_ordinary_units,
            lhs,
            rhs,
            out,
        ),
        Accumulator::F16 => fastest(
            &NARROW,
            || ordinary(Accumulator::F16),
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
        Accumulator::F32 => fastest(
            &WIDE,
            || on_units(Accumulator::F32),
            set_on_matrix_units,
            lhs,
            rhs,
            out,
        ),
        Accumulator::F16 => fastest(
            &NARROW,
            || on_units(Accumulator::F16),
            set_on_matrix_units,
            lhs,
            rhs,
            out,
        ),
    }
}

fn fastest(
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
        && let Some(candidate) = candidates().iter().find(|candidate| trial.is_of(&candidate.name))
    {
        trial.launch((Matmul, dtype), || (candidate.launch)(operands));
        return output;
    }
    let set = move || set(candidates());
    tuner.execute(&id, &client, tuner.init(&id, set), operands);
    output
}

/// Returns the names of the candidates for operands that matrix units multiply, or for the ordinary multipliers.
pub(crate) fn names(on_matrix_units: bool, sums: Accumulator) -> Vec<String> {
    let candidates = match on_matrix_units {
        true => on_units(sums),
        false => ordinary(sums),
    };
    candidates.into_iter().map(|candidate| candidate.name).collect()
}

fn set_on_ordinary_units(candidates: Vec<Candidate>) -> Set {
    tunables(candidates).fold(empty_set(), Set::with)
}

/// Returns the kernels on the matrix units, after the one that supports all shapes.
fn on_units(sums: Accumulator) -> Vec<Candidate> {
    [on_rounded_operands(sums)]
        .into_iter()
        .chain(tiled(sums))
        .collect()
}

fn set_on_matrix_units(candidates: Vec<Candidate>) -> Set {
    // A later group is tried only if no kernel of an earlier one launches.
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

/// Wraps the candidates for the tuner. It chooses one for all similar shapes, and the fastest one for the tuned shape
/// may not support another. In that case the others are tried.
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

/// Launches the last candidate that supports the operands. Candidates with large tiles, which are mostly faster, are at
/// the end.
fn first_to_launch(candidates: &[Candidate], operands: &Operands) -> Result<(), String> {
    let mut errors = vec![];
    for candidate in candidates.iter().rev() {
        match (candidate.launch)(operands.clone()) {
            Ok(()) => return Ok(()),
            Err(error) => errors.push(error),
        }
    }
    Err(errors.join("; "))
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

/// Returns the kernels on the ordinary multipliers, the simplest first, because it supports every shape.
fn ordinary(sums: Accumulator) -> Vec<Candidate> {
    let mut candidates = vec![];
    if sums == Accumulator::F32 {
        candidates.push(candidate(
            "naive".to_owned(),
            |client, lhs, rhs, out, elements| naive::launch::launch_ref(client, lhs, rhs, out, elements),
        ));
    }
    for tile_size in [TileSizeSelection::MinTileSize, TileSizeSelection::MaxTileSize] {
        let simple = SimpleUnitSelectionArgs { tile_size };
        let double = DoubleUnitSelectionArgs { tile_size };
        candidates.push(strided::<SimpleUnitAlgorithm>("simple_unit", simple, sums));
        candidates.push(strided::<DoubleUnitAlgorithm>("double_unit", double, sums));
    }
    wanted(candidates)
}

/// Filters out the candidates that the user excluded. Keeps the first one, because it supports everything.
fn wanted(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut first = true;
    candidates.retain(|candidate| std::mem::take(&mut first) || kernel_allowlist::is_wanted(&candidate.name));
    candidates
}

/// Returns the kernels on the matrix units.
fn tiled(sums: Accumulator) -> Vec<Candidate> {
    let mut candidates = vec![];
    for (unit, tile_matmul) in [("cmma", TileMatmulKind::Cmma), ("mma", TileMatmulKind::Mma)] {
        let named = |kind: &str| format!("{kind}_{unit}");
        for multi_rows in [false, true] {
            let args = SimpleArgs {
                multi_rows,
                tile_matmul,
            };
            candidates.push(strided::<SimpleAlgorithm>(
                &named("simple_cyclic"),
                args.clone(),
                sums,
            ));
            candidates.push(by_tma::<SimpleTmaAlgorithm>(&named("simple_tma"), args, sums));
        }
        for specialized in [false, true] {
            let args = DoubleBufferingArgs {
                specialized,
                tile_matmul,
            };
            candidates.push(strided::<CyclicDoubleBufferingAlgorithm>(
                &named("double_cyclic"),
                args,
                sums,
            ));
        }
        for rows in [4, 8] {
            let args = OrderedSelectionArgs {
                partition_k: Some(2),
                row_count: Some(rows),
                rows_per_plane: Some(2),
                tile_matmul,
            };
            candidates.push(strided::<OrderedDoubleBufferingAlgorithm>(
                &named("ordered_double"),
                args,
                sums,
            ));
        }
        candidates.push(by_tma::<SpecializedAlgorithm>(
            &named("specialized_tma"),
            SpecializedStrategy { tile_matmul },
            sums,
        ));
    }
    candidates.retain(|candidate| kernel_allowlist::is_wanted(&candidate.name));
    candidates
}

/// Name of the candidate that rounds operands.
const ROUNDED: &str = "rounded";

/// Returns a candidate that rounds the operands as the matrix units do, and multiplies in f32.
fn on_rounded_operands(sums: Accumulator) -> Candidate {
    let candidates = ordinary(sums);
    let launch = move |(lhs, rhs, out, trial): Operands| {
        kernel_allowlist::check(Matmul, lhs.dtype, ROUNDED)?;
        let wide = |tensor: CubeTensor| {
            if tensor.dtype != DType::F32 && !trial {
                note(Launch {
                    kernel: "cast".into(),
                    arithmetic: "16 bits widened to f32".into(),
                    instructions: None,
                    emulated: true,
                });
            }
            cast(round_as_matrix_units_do(tensor), DType::F32)
        };
        let (lhs, rhs) = match sums {
            Accumulator::F32 => (wide(lhs), wide(rhs)),
            Accumulator::F16 => (lhs, rhs),
        };
        first_to_launch(&candidates, &(lhs, rhs, out, trial))
    };
    Candidate {
        name: ROUNDED.to_owned(),
        launch: Box::new(launch),
    }
}

/// Returns a candidate that reads its operands through strides.
fn strided<A>(name: &str, args: A::Strategy, sums: Accumulator) -> Candidate
where
    A: BatchMatmulRoutine<(), Blueprint = BatchMatmulBlueprint> + 'static,
    A::Strategy: Send + Sync + 'static,
{
    let controls = Controls { routine: args, sums };
    candidate(
        format!("{name}{controls}"),
        move |client, lhs, rhs, out, elements| {
            let strategy = BlueprintStrategy::<(), Controlled<A>>::Inferred(controls.clone());
            launch::launch_ref(client, lhs, rhs, out, &strategy, elements)
        },
    )
}

/// Returns a candidate that reads its operands with the tensor memory accelerator.
fn by_tma<A>(name: &str, args: A::Strategy, sums: Accumulator) -> Candidate
where
    A: BatchMatmulRoutine<(), Blueprint = BatchMatmulBlueprint> + 'static,
    A::Strategy: Send + Sync + 'static,
{
    let controls = Controls { routine: args, sums };
    candidate(
        format!("{name}{controls}"),
        move |client, lhs, rhs, out, elements| {
            let strategy = BlueprintStrategy::<(), Controlled<A>>::Inferred(controls.clone());
            launch::launch_ref_tma(client, lhs, rhs, out, &strategy, elements)
        },
    )
}

/// Returns a candidate that records the formats of its registers when it is launched.
fn candidate(
    name: String,
    launch: impl Fn(
        &Client,
        InputBinding,
        InputBinding,
        TensorBinding,
        &mut MatmulElems,
    ) -> Result<(), MatmulSetupError>
    + Send
    + Sync
    + 'static,
) -> Candidate {
    let kernel = name.clone();
    let launch = move |(lhs, rhs, out, trial): Operands| {
        kernel_allowlist::check(Matmul, lhs.dtype, &kernel)?;
        let (lhs_dtype, rhs_dtype) = (dtype_to_elem_type(lhs.dtype), dtype_to_elem_type(rhs.dtype));
        let mut elements = MatmulElems::from_globals(&MatmulGlobalElems {
            lhs: lhs_dtype,
            rhs: rhs_dtype,
            out: dtype_to_elem_type(out.dtype),
        });
        let client = out.client.clone();
        expanded();
        launch(
            &client,
            InputBinding::new(lhs.binding(), lhs_dtype),
            InputBinding::new(rhs.binding(), rhs_dtype),
            out.binding(),
            &mut elements,
        )
        .map_err(|error| format!("{kernel}: {error:?}"))?;
        if !trial {
            note_launch(
                &client,
                &kernel,
                expanded().unwrap_or_else(|| registers(&elements)),
            );
        }
        Ok(())
    };
    Candidate {
        name,
        launch: Box::new(launch),
    }
}

#[cfg(all(test, feature = "vulkan"))]
mod lavapipe_full {
    use burn_cubecl::{CubeDevice, kernel::into_contiguous, ops::permute};

    use super::*;
    use crate::cube::testing::{download, upload, vulkan};

    /// Returns `[n, heads, rows, columns]` contiguous, transposed, as a view that splits a projection into heads, and
    /// as that view transposed.
    fn layouts(shape: [usize; 4], seed: u64, device: &CubeDevice) -> (Vec<f32>, [CubeTensor; 4]) {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 60) as f32 - 8.0
        };
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
        let whole = upload(&values, shape, device);
        let stored_as = |axes: [usize; 4], back: [usize; 4]| {
            permute(into_contiguous(permute(whole.clone(), &axes)), &back)
        };
        let views = [
            whole.clone(),
            stored_as([0, 1, 3, 2], [0, 1, 3, 2]),
            stored_as([0, 2, 1, 3], [0, 2, 1, 3]),
            stored_as([0, 3, 1, 2], [0, 2, 3, 1]),
        ];
        (values, views)
    }

    #[test]
    fn every_kernel_is_correct_for_every_sum_length_and_layout() {
        let Some(device) = vulkan() else { return };
        let mut wrong = vec![];
        // An odd number of stages, an even one, a fractional one, and less than one.
        for [m, k, n] in [[24, 24, 16], [24, 32, 16], [24, 20, 16], [7, 5, 3]] {
            let (a, lefts) = layouts([2, 2, m, k], 1, &device);
            let (b, rights) = layouts([2, 2, k, n], 2, &device);
            let mut wanted = vec![];
            for z in 0..4 {
                for i in 0..m {
                    for j in 0..n {
                        let terms = (0..k).map(|l| a[(z * m + i) * k + l] * b[(z * k + l) * n + j]);
                        wanted.push(terms.sum::<f32>());
                    }
                }
            }
            // Each layout of one operand with the contiguous one of the other, and both as in attention.
            for candidate in ordinary(Accumulator::F32) {
                for (i, j) in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 3), (2, 3)] {
                    let (lhs, rhs) = (&lefts[i], &rights[j]);
                    let out = init_matmul_output(lhs, rhs, DType::F32);
                    (candidate.launch)((lhs.clone(), rhs.clone(), out.clone(), true)).unwrap();
                    if download::<f32>(out) != wanted {
                        wrong.push(format!("{} {m} × {k} × {n}, layouts {i} and {j}", candidate.name));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    fn failing(name: &str) -> Candidate {
        Candidate {
            name: name.into(),
            launch: Box::new(|_| Err("the kernel does not launch".into())),
        }
    }

    /// Returns operands of 6 × 5 and 5 × 7, and their product.
    fn product(device: &CubeDevice) -> (CubeTensor, CubeTensor, Vec<f32>) {
        let (a, [lhs, ..]) = layouts([1, 1, 6, 5], 1, device);
        let (b, [rhs, ..]) = layouts([1, 1, 5, 7], 2, device);
        let wanted = (0..6 * 7)
            .map(|at| (0..5).map(|l| a[at / 7 * 5 + l] * b[l * 7 + at % 7]).sum())
            .collect();
        (lhs, rhs, wanted)
    }

    #[test]
    fn the_next_candidate_runs_if_a_kernel_does_not_launch() {
        let Some(device) = vulkan() else { return };
        static SOME: Tuner = local_tuner!("some-launch");
        static NONE: Tuner = local_tuner!("none-launches");
        let (lhs, rhs, wanted) = product(&device);

        // Like the set for matrix units: one group is tried first, and another as fallback.
        fn some(_: Vec<Candidate>) -> Set {
            let first = TuneGroup::new("first", |_: &MatmulAutotuneKey| 1);
            let last = TuneGroup::new("last", |_: &MatmulAutotuneKey| 0);
            let naive = ordinary(Accumulator::F32).remove(0);
            tunables(vec![naive, failing("one"), failing("another")])
                .zip([&last, &first, &first])
                .fold(empty_set(), |set, (tunable, group)| {
                    set.with(tunable.group(group, |_| 0))
                })
        }
        let out = fastest(&SOME, Vec::new, some, lhs.clone(), rhs.clone(), DType::F32);
        assert_eq!(download::<f32>(out), wanted);

        let none = |_| tunables(vec![failing("one"), failing("another")]).fold(empty_set(), Set::with);
        let product = std::panic::AssertUnwindSafe(|| fastest(&NONE, Vec::new, none, lhs, rhs, DType::F32));
        assert!(
            std::panic::catch_unwind(product).is_err(),
            "expected a panic, because no kernel wrote the output"
        );
    }

    #[test]
    fn another_candidate_runs_if_the_tuned_one_does_not_launch_for_a_shape() {
        let Some(device) = vulkan() else { return };
        static ALIKE: Tuner = local_tuner!("alike");
        let (lhs, rhs, wanted) = product(&device);
        // A tuner with a single candidate chooses it without a trial. This one launches only in trials.
        let set = |_| {
            let naive = ordinary(Accumulator::F32).remove(0);
            let mut tunables = tunables(vec![naive, failing("chosen")]);
            empty_set().with(tunables.nth(1).expect("there are two candidates"))
        };
        let out = fastest(&ALIKE, Vec::new, set, lhs, rhs, DType::F32);
        assert_eq!(download::<f32>(out), wanted);
    }
}
