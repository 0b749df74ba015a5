//! Wrappers around cubek's routines.
//!
//! A routine chooses the formats of the registers of its kernel: a matmul on matrix units converts f32 operands to TF32, regardless of the
//! element types that the caller passes, and does not report this. Each routine is therefore wrapped: the wrapper reads the element types
//! when cubek creates the blueprint (the configuration) of the kernel, and sets the format of a matmul's sums at the same point.

use std::{cell::Cell, fmt, marker::PhantomData};

use burn::backend::cubecl::dtype_to_elem_type;
use burn::tensor::DType;
use cubecl::{
    client::Client,
    ir::{AddressType, ElemType},
    prelude::{CubeCount, CubeDim},
};
use cubek::{
    attention::{
        components::tile::TileAttentionKind,
        forward::{
            definition::{AttentionProblem, AttentionSetupError},
            launch::BlueprintStrategy as AttentionStrategy,
            routines::{self as attention, Routine as AttentionRoutine},
        },
    },
    matmul::{
        definition::{MatmulElems, MatmulProblem, MatmulSetupError, MatmulVectorSizes},
        multi_level::{
            BatchMatmulRoutine, ExpandInfo, LaunchInfo,
            args::{ConfigRuntimeArg, InputRuntimeArg, MatmulArgs, OutputRuntimeArg},
            components::stage::NumStages,
            definition::{BatchMatmulBlueprint, CubeMappingLaunch},
        },
        routine::{BlueprintStrategy, DeviceSettings, Routine},
    },
};
use mantissa_core::Accumulator;

use super::launch::registers;

thread_local! {
    /// Element types of the registers of the kernel whose blueprint was last created on this thread: both operands and the sums.
    static LAST_REGISTERS: Cell<Option<[ElemType; 3]>> = const { Cell::new(None) };
}

/// Returns the element types of the registers of the kernel whose blueprint was last created on this thread. Returns `None` if no blueprint was
/// created since the last call.
pub(super) fn take_registers() -> Option<[ElemType; 3]> {
    LAST_REGISTERS.take()
}

/// Wrapper around routine `A` that records the element types of its registers.
#[derive(Debug, Clone)]
pub(super) struct Controlled<A>(PhantomData<A>);

/// Settings of a controlled matmul: those of its routine, and the format of its sums.
#[derive(Debug, Clone)]
pub(super) struct Controls<S> {
    pub(super) routine: S,
    pub(super) sums: Accumulator,
}

impl<S: Default> Default for Controls<S> {
    fn default() -> Self {
        Self {
            routine: S::default(),
            sums: Accumulator::F32,
        }
    }
}

impl<S: fmt::Display> fmt::Display for Controls<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.routine.fmt(f)?;
        match self.sums {
            Accumulator::F32 => Ok(()),
            Accumulator::F16 => f.write_str("_f16_sums"),
        }
    }
}

impl<A: Routine<(), Blueprint = BatchMatmulBlueprint>> Routine<()> for Controlled<A> {
    type Strategy = Controls<A::Strategy>;
    type Blueprint = A::Blueprint;
}

impl<A: BatchMatmulRoutine<(), Blueprint = BatchMatmulBlueprint>> BatchMatmulRoutine<()> for Controlled<A> {
    fn launch<MA: MatmulArgs<Config = ()>>(
        client: &Client,
        cube_dim: CubeDim,
        cube_count: CubeCount,
        address_type: AddressType,
        input: InputRuntimeArg<MA>,
        output: OutputRuntimeArg<MA>,
        config: ConfigRuntimeArg<MA>,
        cube_count_input: CubeMappingLaunch,
        blueprint: Self::Blueprint,
        dtypes: &MatmulElems,
        vector_sizes: &MatmulVectorSizes,
    ) -> Result<(), MatmulSetupError> {
        A::launch::<MA>(
            client,
            cube_dim,
            cube_count,
            address_type,
            input,
            output,
            config,
            cube_count_input,
            blueprint,
            dtypes,
            vector_sizes,
        )
    }

    fn expand_blueprint(
        problem: &MatmulProblem,
        settings: &DeviceSettings,
        strategy: &BlueprintStrategy<(), Self>,
    ) -> Result<ExpandInfo<Self::Blueprint>, MatmulSetupError> {
        let (inner, sums) = match strategy {
            BlueprintStrategy::Forced(blueprint) => {
                (BlueprintStrategy::Forced(blueprint.clone()), Accumulator::F32)
            }
            BlueprintStrategy::Inferred(controls) => (
                BlueprintStrategy::Inferred(controls.routine.clone()),
                controls.sums,
            ),
        };
        let mut expanded = A::expand_blueprint(problem, settings, &inner)?;
        if sums == Accumulator::F16 {
            let f16 = dtype_to_elem_type(DType::F16);
            expanded.dtypes.acc_register = f16;
            expanded.dtypes.acc_stage = f16;
        }
        LAST_REGISTERS.set(Some(registers(&expanded.dtypes)));
        Ok(expanded)
    }

    fn prepare(
        problem: &MatmulProblem,
        settings: &DeviceSettings,
        expanded: ExpandInfo<Self::Blueprint>,
    ) -> Result<LaunchInfo<Self::Blueprint>, MatmulSetupError> {
        A::prepare(problem, settings, expanded)
    }

    fn num_stages() -> NumStages {
        A::num_stages()
    }

    fn device_settings(client: &Client, vector_sizes: MatmulVectorSizes) -> DeviceSettings {
        A::device_settings(client, vector_sizes)
    }

    fn validate_blueprint(
        client: &Client,
        blueprint: &Self::Blueprint,
        problem: &MatmulProblem,
        dtypes: &MatmulElems,
        vector_sizes: &MatmulVectorSizes,
    ) -> Result<(), MatmulSetupError> {
        A::validate_blueprint(client, blueprint, problem, dtypes, vector_sizes)
    }
}

impl<A: AttentionRoutine> AttentionRoutine for Controlled<A> {
    const TILE_KIND: TileAttentionKind = A::TILE_KIND;

    type StageAttention = A::StageAttention;
    type GlobalAttention = A::GlobalAttention;
    type BatchAttention = A::BatchAttention;
    type Strategy = A::Strategy;
    type Blueprint = A::Blueprint;

    fn prepare(
        problem: &AttentionProblem,
        settings: &attention::DeviceSettings,
        strategy: AttentionStrategy<Self>,
    ) -> Result<attention::LaunchInfo<Self::Blueprint>, AttentionSetupError> {
        let inner = match strategy {
            AttentionStrategy::Forced(blueprint) => AttentionStrategy::Forced(blueprint),
            AttentionStrategy::Inferred(strategy) => AttentionStrategy::Inferred(strategy),
        };
        let prepared = A::prepare(problem, settings, inner)?;
        // These element types apply to both matmuls of the kernel: queries × keys, and softmax × values.
        let dtypes = &prepared.dtypes;
        LAST_REGISTERS.set(Some([
            dtypes.query_tile,
            dtypes.key_value_tile,
            dtypes.accumulator,
        ]));
        Ok(prepared)
    }
}
