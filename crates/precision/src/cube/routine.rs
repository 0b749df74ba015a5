//! cubek's matmul routines under control.
//!
//! A routine decides by itself what the registers of its kernel hold: one on matrix units turns f32 operands into TF32,
//! whatever element types its caller passes, and writes nothing back. So each routine is wrapped: what its blueprint
//! says is read where it is made, and the width of the sum is set there, for the same reason. And some of them read
//! beyond the end of a sum, which is set right there too.

use std::{cell::RefCell, fmt, marker::PhantomData};

use burn::tensor::DType;
use cubecl::{client::ComputeClient, prelude::Runtime};
use cubek::matmul::{
    components::stage::NumStages,
    definition::{MatmulElems, MatmulProblem, MatmulSetupError, MatmulVectorSizes, TilingBlueprint},
    routines::{BlueprintStrategy, DeviceSettings, ExpandInfo, LaunchInfo, Routine},
};
use mantissa_core::Accumulator;

thread_local! {
    /// Element types of the blueprint that was last expanded on this thread.
    static EXPANDED: RefCell<Option<MatmulElems>> = const { RefCell::new(None) };
}

/// Element types of the blueprint that was expanded since the last call.
pub(super) fn expanded() -> Option<MatmulElems> {
    EXPANDED.take()
}

/// The routine `A` with its element types in view.
#[derive(Debug)]
pub(super) struct Controlled<A>(PhantomData<A>);

/// What [`Controlled`] is told beside what the routine itself is.
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

impl<A: Routine<(), Blueprint = TilingBlueprint>> Routine<()> for Controlled<A> {
    type Strategy = Controls<A::Strategy>;
    type Blueprint = A::Blueprint;
    type Config = A::Config;
    type BatchMatmul = A::BatchMatmul;

    fn expand_blueprint<R: Runtime>(
        problem: &MatmulProblem,
        settings: &DeviceSettings<R>,
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
            expanded.dtypes.acc_register = DType::F16.into();
            expanded.dtypes.acc_stage = DType::F16.into();
        }
        // A kernel that works on several stages in turn always runs all of them. cubek has it look for the end of the
        // sum only if that lies within a stage: an odd number of whole stages would be summed with what lies behind.
        let stages = A::num_stages();
        let stage = expanded.blueprint.tiling_scheme.elements_per_stage_along_k();
        let all = stage * stages.lhs.max(stages.rhs);
        expanded.blueprint.check_k_bounds |= !(problem.k as u32).is_multiple_of(all);
        EXPANDED.set(Some(expanded.dtypes.clone()));
        Ok(expanded)
    }

    fn prepare<R: Runtime>(
        problem: &MatmulProblem,
        settings: &DeviceSettings<R>,
        expanded: ExpandInfo<Self::Blueprint>,
    ) -> Result<LaunchInfo<Self::Blueprint>, MatmulSetupError> {
        A::prepare(problem, settings, expanded)
    }

    fn num_stages() -> NumStages {
        A::num_stages()
    }

    fn device_settings<R: Runtime>(
        client: &ComputeClient<R>,
        vector_sizes: MatmulVectorSizes,
    ) -> DeviceSettings<R> {
        A::device_settings(client, vector_sizes)
    }

    fn validate_blueprint<R: Runtime>(
        client: &ComputeClient<R>,
        blueprint: &Self::Blueprint,
        problem: &MatmulProblem,
        dtypes: &MatmulElems,
        vector_sizes: &MatmulVectorSizes,
    ) -> Result<(), MatmulSetupError> {
        A::validate_blueprint(client, blueprint, problem, dtypes, vector_sizes)
    }
}
