//! Candidate kernels for matmuls: the kernels of each arithmetic, among which the autotuner chooses.

use burn::{backend::cubecl::dtype_to_elem_type, tensor::DType};
use burn_cubecl::{kernel::cast, tensor::CubeTensor};
use cubecl::{client::Client, prelude::TensorBinding};
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
    },
    std::InputBinding,
};
use mantissa_core::{Accumulator, CheckedOperation::Matmul};

use super::{
    kernel_allowlist,
    launch::{record_launch, registers},
    rounding::round_as_matrix_units_do,
    routine::{Controlled, Controls, take_registers},
};
use crate::launched_kernels::{Launch, record_kernel};

/// Arguments of a launch: both operands, the output, and a flag that is true for trials of the tuner, whose output is not read.
pub(super) type Operands = (CubeTensor, CubeTensor, CubeTensor, bool);

/// Kernel, and a function that launches it.
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) launch: Box<dyn Fn(Operands) -> Result<(), String> + Send + Sync>,
}

/// Returns the names of the candidates on the matrix units, or on the ordinary floating-point units.
pub(crate) fn candidate_names(on_matrix_units: bool, sums: Accumulator) -> Vec<String> {
    let candidates = match on_matrix_units {
        true => matrix_unit_candidates(sums),
        false => ordinary_candidates(sums),
    };
    candidates.into_iter().map(|candidate| candidate.name).collect()
}

/// Returns the candidate that supports all shapes, and then the kernels on the matrix units.
pub(super) fn matrix_unit_candidates(sums: Accumulator) -> Vec<Candidate> {
    [rounding_candidate(sums)]
        .into_iter()
        .chain(tiled_candidates(sums))
        .collect()
}

/// Launches the last candidate that supports the operands. Candidates with large tiles, which are mostly faster, are at
/// the end.
pub(super) fn first_to_launch(candidates: &[Candidate], operands: &Operands) -> Result<(), String> {
    let mut errors = vec![];
    for candidate in candidates.iter().rev() {
        match (candidate.launch)(operands.clone()) {
            Ok(()) => return Ok(()),
            Err(error) => errors.push(error),
        }
    }
    Err(errors.join("; "))
}

/// Returns the kernels on the ordinary floating-point units, the simplest first, because it supports every shape.
pub(super) fn ordinary_candidates(sums: Accumulator) -> Vec<Candidate> {
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
    without_excluded(candidates)
}

/// Filters out the candidates that the user excluded. Keeps the first one, because it supports everything.
fn without_excluded(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let mut is_first = true;
    candidates
        .retain(|candidate| std::mem::take(&mut is_first) || kernel_allowlist::is_enabled(&candidate.name));
    candidates
}

/// Returns the kernels on the matrix units.
fn tiled_candidates(sums: Accumulator) -> Vec<Candidate> {
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
            candidates.push(tma::<SimpleTmaAlgorithm>(&named("simple_tma"), args, sums));
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
        candidates.push(tma::<SpecializedAlgorithm>(
            &named("specialized_tma"),
            SpecializedStrategy { tile_matmul },
            sums,
        ));
    }
    candidates.retain(|candidate| kernel_allowlist::is_enabled(&candidate.name));
    candidates
}

/// Name of the candidate that rounds operands.
const ROUNDED: &str = "rounded";

/// Returns a candidate that rounds the operands as the matrix units do, and multiplies in f32.
fn rounding_candidate(sums: Accumulator) -> Candidate {
    let candidates = ordinary_candidates(sums);
    let launch = move |(lhs, rhs, out, trial): Operands| {
        kernel_allowlist::check(Matmul, lhs.dtype, ROUNDED)?;
        let wide = |tensor: CubeTensor| {
            if tensor.dtype != DType::F32 && !trial {
                record_kernel(Launch {
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

/// Returns a candidate that reads its operands with the tensor memory accelerator (TMA).
fn tma<A>(name: &str, args: A::Strategy, sums: Accumulator) -> Candidate
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
        take_registers();
        launch(
            &client,
            InputBinding::new(lhs.binding(), lhs_dtype),
            InputBinding::new(rhs.binding(), rhs_dtype),
            out.binding(),
            &mut elements,
        )
        .map_err(|error| format!("{kernel}: {error:?}"))?;
        if !trial {
            record_launch(
                &client,
                &kernel,
                take_registers().unwrap_or_else(|| registers(&elements)),
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
    use burn_cubecl::kernel::matmul::init_matmul_output;

    use super::*;
    use crate::cube::testing::{download, layouts, vulkan};

    #[test]
    fn every_kernel_is_correct_for_every_sum_length_and_layout() {
        let Some(device) = vulkan() else { return };
        let mut wrong = vec![];
        // Numbers of stages along `k`: odd, even, fractional, and less than one.
        for [m, k, n] in [[24, 24, 16], [24, 32, 16], [24, 20, 16], [7, 5, 3]] {
            let (a, lefts) = layouts([2, 2, m, k], 1, &device);
            let (b, rights) = layouts([2, 2, k, n], 2, &device);
            let mut expected = vec![];
            for z in 0..4 {
                for i in 0..m {
                    for j in 0..n {
                        let terms = (0..k).map(|l| a[(z * m + i) * k + l] * b[(z * k + l) * n + j]);
                        expected.push(terms.sum::<f32>());
                    }
                }
            }
            // Pairs of layouts: each layout of one operand with a contiguous other operand, and the pair that attention uses.
            for candidate in ordinary_candidates(Accumulator::F32) {
                for (i, j) in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 3), (2, 3)] {
                    let (lhs, rhs) = (&lefts[i], &rights[j]);
                    let out = init_matmul_output(lhs, rhs, DType::F32);
                    (candidate.launch)((lhs.clone(), rhs.clone(), out.clone(), true)).unwrap();
                    if download::<f32>(out) != expected {
                        wrong.push(format!("{} {m} × {k} × {n}, layouts {i} and {j}", candidate.name));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
