//! The kernels of one arithmetic, and the fastest of them for a shape: cubecl's autotuner, given nothing else to choose
//! from.
//!
//! A launch that returns an error leaves its output unwritten. The tuner takes another candidate then, and a product
//! that none of them can launch is a panic, never a number: the worker makes a status of it.

use std::sync::Arc;

use burn::tensor::DType;
use burn_cubecl::{
    CubeRuntime, CubeTuneId,
    kernel::{cast, matmul::init_matmul_output},
    tensor::CubeTensor,
};
use cubecl::{
    client::ComputeClient,
    prelude::TensorBinding,
    tune::{LocalTuner, Tunable, TunableSet, TuneGroup, local_tuner},
};
use cubek::{
    matmul::{
        components::tile::TileMatmulKind,
        definition::{MatmulElems, MatmulGlobalElems, MatmulSetupError, TilingBlueprint},
        launch::{MatmulAutotuneKey, launch_naive, launch_tiling},
        routines::{
            BlueprintStrategy, Routine, TileSizeSelection,
            double_buffering::{CyclicDoubleBufferingAlgorithm, DoubleBufferingArgs},
            double_unit::{DoubleUnitAlgorithm, DoubleUnitSelectionArgs},
            ordered_double_buffering::{OrderedDoubleBufferingAlgorithm, OrderedSelectionArgs},
            simple::{SimpleAlgorithm, SimpleArgs, SimpleTmaAlgorithm},
            simple_unit::{SimpleUnitAlgorithm, SimpleUnitSelectionArgs},
            specialized::{SpecializedAlgorithm, SpecializedStrategy},
        },
    },
    std::InputBinding,
};
use mantissa_core::Accumulator;

use super::{
    matmul::round_as_matrix_units_do,
    note_launch,
    routine::{Controlled, Controls, expanded},
};
use crate::launched::{Launch, note};

/// Both operands, the output, and whether this is a trial of the tuner, whose output nobody reads.
type Operands<R> = (CubeTensor<R>, CubeTensor<R>, CubeTensor<R>, bool);
type Set<R> = TunableSet<MatmulAutotuneKey, Operands<R>, ()>;
type Tuner = LocalTuner<MatmulAutotuneKey, CubeTuneId>;

/// A kernel, and how it is launched.
struct Candidate<R: CubeRuntime> {
    name: String,
    launch: Arc<dyn Fn(Operands<R>) -> Result<(), String> + Send + Sync>,
}

/// The product on the ordinary multipliers: registers keep the operands' own type.
pub(super) fn on_ordinary_units<R: CubeRuntime>(
    lhs: CubeTensor<R>,
    rhs: CubeTensor<R>,
    out: DType,
    sums: Accumulator,
) -> CubeTensor<R> {
    static WIDE: Tuner = local_tuner!("ordinary");
    static NARROW: Tuner = local_tuner!("ordinary-f16-sums");
    match sums {
        Accumulator::F32 => fastest(&WIDE, || set_on_ordinary_units(Accumulator::F32), lhs, rhs, out),
        Accumulator::F16 => fastest(&NARROW, || set_on_ordinary_units(Accumulator::F16), lhs, rhs, out),
    }
}

/// The product on the matrix units, which see f32 operands as TF32. Where no such kernel takes the shape, the operands
/// are rounded as the units would and multiplied in f32.
pub(super) fn on_matrix_units<R: CubeRuntime>(
    lhs: CubeTensor<R>,
    rhs: CubeTensor<R>,
    out: DType,
    sums: Accumulator,
) -> CubeTensor<R> {
    static WIDE: Tuner = local_tuner!("matrix-units");
    static NARROW: Tuner = local_tuner!("matrix-units-f16-sums");
    match sums {
        Accumulator::F32 => fastest(&WIDE, || set_on_matrix_units(Accumulator::F32), lhs, rhs, out),
        Accumulator::F16 => fastest(&NARROW, || set_on_matrix_units(Accumulator::F16), lhs, rhs, out),
    }
}

fn fastest<R: CubeRuntime>(
    tuner: &'static Tuner,
    set: impl Fn() -> Set<R> + Send + Sync + 'static,
    lhs: CubeTensor<R>,
    rhs: CubeTensor<R>,
    out: DType,
) -> CubeTensor<R> {
    let output = init_matmul_output(&lhs, &rhs, out);
    let (client, id) = (lhs.client.clone(), CubeTuneId::new(&lhs.client, &lhs.device));
    tuner.execute(&id, &client, tuner.init(set), (lhs, rhs, output.clone(), false));
    output
}

fn set_on_ordinary_units<R: CubeRuntime>(sums: Accumulator) -> Set<R> {
    ordinary(sums)
        .into_iter()
        .fold(empty_set(), |set, candidate| set.with(tunable(candidate)))
}

fn set_on_matrix_units<R: CubeRuntime>(sums: Accumulator) -> Set<R> {
    // A later group is tried only if nothing in an earlier one launches.
    let units = TuneGroup::new("matrix units", |_: &MatmulAutotuneKey| 1);
    let rounded = TuneGroup::new("rounded operands", |_: &MatmulAutotuneKey| 0);
    let fallback = Tunable::new("rounded", move |operands| {
        on_rounded_operands::<R>(operands, sums)
    });
    // The first entry must be able to launch everything.
    let set = empty_set().with(fallback.group(&rounded, |_| 0));
    tiled(sums).into_iter().fold(set, |set, candidate| {
        set.with(tunable(candidate).group(&units, |_| 0))
    })
}

fn tunable<R: CubeRuntime>(candidate: Candidate<R>) -> Tunable<MatmulAutotuneKey, Operands<R>, ()> {
    Tunable::new(&candidate.name, move |operands| (candidate.launch)(operands))
}

fn empty_set<R: CubeRuntime>() -> Set<R> {
    TunableSet::new(
        key::<R>,
        |_: &MatmulAutotuneKey, (lhs, rhs, out, _): &Operands<R>| {
            (lhs.clone(), rhs.clone(), out.copy(), true)
        },
    )
}

fn key<R: CubeRuntime>((lhs, rhs, out, _): &Operands<R>) -> MatmulAutotuneKey {
    MatmulAutotuneKey::generate(
        &lhs.client,
        lhs.meta.shape(),
        rhs.meta.shape(),
        lhs.meta.strides(),
        rhs.meta.strides(),
        lhs.dtype.into(),
        rhs.dtype.into(),
        out.dtype.into(),
        None,
        None,
    )
}

/// Kernels on the ordinary multipliers, the simplest first: it takes every shape.
fn ordinary<R: CubeRuntime>(sums: Accumulator) -> Vec<Candidate<R>> {
    let mut candidates = vec![];
    if sums == Accumulator::F32 {
        candidates.push(candidate(
            "naive".to_owned(),
            |client, lhs, rhs, out, elements| launch_naive::launch_ref(client, lhs, rhs, out, elements),
        ));
    }
    for tile_size in [TileSizeSelection::MinTileSize, TileSizeSelection::MaxTileSize] {
        let simple = SimpleUnitSelectionArgs { tile_size };
        let double = DoubleUnitSelectionArgs { tile_size };
        candidates.push(strided::<R, SimpleUnitAlgorithm>("simple_unit", simple, sums));
        candidates.push(strided::<R, DoubleUnitAlgorithm>("double_unit", double, sums));
    }
    candidates
}

/// Kernels on the matrix units.
fn tiled<R: CubeRuntime>(sums: Accumulator) -> Vec<Candidate<R>> {
    let mut candidates = vec![];
    for (unit, tile_matmul) in [("cmma", TileMatmulKind::Cmma), ("mma", TileMatmulKind::Mma)] {
        let named = |kind: &str| format!("{kind}_{unit}");
        for multi_rows in [false, true] {
            let args = SimpleArgs {
                multi_rows,
                tile_matmul,
            };
            candidates.push(strided::<R, SimpleAlgorithm>(
                &named("simple_cyclic"),
                args.clone(),
                sums,
            ));
            candidates.push(by_tma::<R, SimpleTmaAlgorithm>(&named("simple_tma"), args, sums));
        }
        for specialized in [false, true] {
            let args = DoubleBufferingArgs {
                specialized,
                tile_matmul,
            };
            candidates.push(strided::<R, CyclicDoubleBufferingAlgorithm>(
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
            candidates.push(strided::<R, OrderedDoubleBufferingAlgorithm>(
                &named("ordered_double"),
                args,
                sums,
            ));
        }
        candidates.push(by_tma::<R, SpecializedAlgorithm>(
            &named("specialized_tma"),
            SpecializedStrategy { tile_matmul },
            sums,
        ));
    }
    candidates
}

/// The operands rounded as the matrix units see them, and multiplied in f32.
fn on_rounded_operands<R: CubeRuntime>(
    (lhs, rhs, out, trial): Operands<R>,
    sums: Accumulator,
) -> Result<(), String> {
    let wide = |tensor: CubeTensor<R>| {
        if tensor.dtype != DType::F32 && !trial {
            note(Launch {
                kernel: "cast".into(),
                arithmetic: "16 bits widened to f32".into(),
                emulated: true,
            });
        }
        cast(round_as_matrix_units_do(tensor), DType::F32)
    };
    let (lhs, rhs) = match sums {
        Accumulator::F32 => (wide(lhs), wide(rhs)),
        Accumulator::F16 => (lhs, rhs),
    };
    let mut errors = vec![];
    // The large tiles, which are mostly faster, stand at the end.
    for candidate in ordinary(sums).into_iter().rev() {
        match (candidate.launch)((lhs.clone(), rhs.clone(), out.clone(), trial)) {
            Ok(()) => return Ok(()),
            Err(error) => errors.push(error),
        }
    }
    Err(errors.join("; "))
}

/// A routine that reads its operands through strides.
fn strided<R: CubeRuntime, A>(name: &str, args: A::Strategy, sums: Accumulator) -> Candidate<R>
where
    A: Routine<(), Blueprint = TilingBlueprint> + 'static,
    A::Strategy: Send + Sync + 'static,
{
    let controls = Controls { routine: args, sums };
    candidate(
        format!("{name}{controls}"),
        move |client, lhs, rhs, out, elements| {
            let strategy = BlueprintStrategy::<(), Controlled<A>>::Inferred(controls.clone());
            launch_tiling::launch_ref(client, lhs, rhs, out, &strategy, elements)
        },
    )
}

/// A routine that reads its operands by the tensor memory accelerator.
fn by_tma<R: CubeRuntime, A>(name: &str, args: A::Strategy, sums: Accumulator) -> Candidate<R>
where
    A: Routine<(), Blueprint = TilingBlueprint> + 'static,
    A::Strategy: Send + Sync + 'static,
{
    let controls = Controls { routine: args, sums };
    candidate(
        format!("{name}{controls}"),
        move |client, lhs, rhs, out, elements| {
            let strategy = BlueprintStrategy::<(), Controlled<A>>::Inferred(controls.clone());
            launch_tiling::launch_ref_tma(client, lhs, rhs, out, &strategy, elements)
        },
    )
}

/// A kernel that notes what its registers held once it is launched.
fn candidate<R: CubeRuntime>(
    name: String,
    launch: impl Fn(
        &ComputeClient<R>,
        InputBinding<R>,
        InputBinding<R>,
        TensorBinding<R>,
        &mut MatmulElems,
    ) -> Result<(), MatmulSetupError>
    + Send
    + Sync
    + 'static,
) -> Candidate<R> {
    let kernel = name.clone();
    let launch = move |(lhs, rhs, out, trial): Operands<R>| {
        let (lhs_dtype, rhs_dtype) = (lhs.dtype.into(), rhs.dtype.into());
        let mut elements = MatmulElems::from_globals(&MatmulGlobalElems {
            lhs: lhs_dtype,
            rhs: rhs_dtype,
            out: out.dtype.into(),
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
        let held = expanded().unwrap_or(elements);
        if trial {
            return Ok(());
        }
        note_launch(&kernel, &held);
        Ok(())
    };
    Candidate {
        name,
        launch: Arc::new(launch),
    }
}

#[cfg(all(test, feature = "vulkan"))]
mod lavapipe_full {
    use burn::tensor::{Tensor, TensorData, TensorPrimitive};

    use super::*;
    use crate::{cube::testing::vulkan_is_there, device::VulkanPlain};

    type Runtime = cubecl::wgpu::WgpuRuntime;

    /// `[n, heads, rows, columns]` as it lies in memory, transposed, as a view that splits a projection into heads, and
    /// as that view transposed.
    fn layouts(shape: [usize; 4], seed: u64) -> (Vec<f32>, [CubeTensor<Runtime>; 4]) {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 60) as f32 - 8.0
        };
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| next()).collect();
        let device = Default::default();
        let whole = Tensor::<VulkanPlain, 4>::from_data(TensorData::new(values.clone(), shape), &device);
        let kept =
            |tensor: Tensor<VulkanPlain, 4>| Tensor::<VulkanPlain, 4>::from_data(tensor.into_data(), &device);
        let views = [
            whole.clone(),
            kept(whole.clone().swap_dims(2, 3)).swap_dims(2, 3),
            kept(whole.clone().swap_dims(1, 2)).swap_dims(1, 2),
            kept(whole.permute([0, 3, 1, 2])).permute([0, 2, 3, 1]),
        ];
        (values, views.map(|view| view.into_primitive().tensor()))
    }

    #[test]
    fn every_kernel_multiplies_alike_whatever_the_length_of_its_sums_and_the_layout_of_its_operands() {
        if !vulkan_is_there() {
            return;
        }
        let mut wrong = vec![];
        // An odd number of stages, an even one, none that is whole, and fewer than one.
        for [m, k, n] in [[24, 24, 16], [24, 32, 16], [24, 20, 16], [7, 5, 3]] {
            let (a, lefts) = layouts([2, 2, m, k], 1);
            let (b, rights) = layouts([2, 2, k, n], 2);
            let mut wanted = vec![];
            for z in 0..4 {
                for i in 0..m {
                    for j in 0..n {
                        let terms = (0..k).map(|l| a[(z * m + i) * k + l] * b[(z * k + l) * n + j]);
                        wanted.push(terms.sum::<f32>());
                    }
                }
            }
            // A layout of each operand beside the plain one of the other, and both as attention has them.
            for candidate in ordinary::<Runtime>(Accumulator::F32) {
                for (i, j) in [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (0, 3), (2, 3)] {
                    let (lhs, rhs) = (&lefts[i], &rights[j]);
                    let out = init_matmul_output(lhs, rhs, DType::F32);
                    (candidate.launch)((lhs.clone(), rhs.clone(), out.clone(), true)).unwrap();
                    let out = Tensor::<VulkanPlain, 4>::from_primitive(TensorPrimitive::Float(out));
                    if out.into_data().to_vec::<f32>().unwrap() != wanted {
                        wrong.push(format!("{} {m} × {k} × {n}, layouts {i} and {j}", candidate.name));
                    }
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    #[test]
    fn a_kernel_that_does_not_launch_gives_way_to_the_next_and_without_any_there_is_no_product() {
        if !vulkan_is_there() {
            return;
        }
        static SOME: Tuner = local_tuner!("some-launch");
        static NONE: Tuner = local_tuner!("none-launches");
        let refusing = |name: &str| {
            tunable(Candidate::<Runtime> {
                name: name.into(),
                launch: Arc::new(|_| Err("it does not launch".into())),
            })
        };
        let (a, [lhs, ..]) = layouts([1, 1, 6, 5], 1);
        let (b, [rhs, ..]) = layouts([1, 1, 5, 7], 2);
        let wanted: Vec<f32> = (0..6 * 7)
            .map(|at| (0..5).map(|l| a[at / 7 * 5 + l] * b[l * 7 + at % 7]).sum())
            .collect();

        // As for the matrix units: a group that is tried first, and one that takes what it leaves.
        let some = move || {
            let first = TuneGroup::new("first", |_: &MatmulAutotuneKey| 1);
            let last = TuneGroup::new("last", |_: &MatmulAutotuneKey| 0);
            let naive = tunable(ordinary::<Runtime>(Accumulator::F32).remove(0));
            empty_set()
                .with(naive.group(&last, |_| 0))
                .with(refusing("one").group(&first, |_| 0))
                .with(refusing("another").group(&first, |_| 0))
        };
        let out = fastest(&SOME, some, lhs.clone(), rhs.clone(), DType::F32);
        let out = Tensor::<VulkanPlain, 4>::from_primitive(TensorPrimitive::Float(out));
        assert_eq!(out.into_data().to_vec::<f32>().unwrap(), wanted);

        let none = move || empty_set().with(refusing("one")).with(refusing("another"));
        let product = std::panic::AssertUnwindSafe(|| fastest(&NONE, none, lhs, rhs, DType::F32));
        assert!(
            std::panic::catch_unwind(product).is_err(),
            "an output that nothing wrote"
        );
    }
}
