//! Adapter of a user-defined module to the models of this crate.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use burn::{
    module::Module,
    tensor::{Device, Tensor},
};
use mantissa_core::Precision;
use mantissa_inputs::weights::Weight;
use mantissa_precision::{Autocast, Constants, Recorder};

use super::{
    UserWorkload,
    dataset::{OwnBatch, OwnPart},
    parameters::{ModuleParameters, ParameterFiller},
};
use crate::{
    WorkloadError,
    models::{F32Layers, Network, ParameterSpec, Pass},
};

/// Adapter of a user-defined model to the trainer: a network of one segment, which computes the logits.
pub(crate) struct UserModel<W> {
    pub(super) workload: Arc<W>,
    pub(super) specs: Arc<Vec<ParameterSpec>>,
    pub(super) seed: u64,
    /// Parameter index of each position in the module. Several positions may share a parameter.
    pub(super) places: Arc<Vec<usize>>,
    /// Tensors created with the module that are not parameters, by precision and by `trains`.
    constants: Arc<Mutex<HashMap<(Precision, bool), Constants>>>,
    kept: F32Layers,
}

impl<W> Clone for UserModel<W> {
    fn clone(&self) -> Self {
        Self {
            workload: self.workload.clone(),
            specs: self.specs.clone(),
            seed: self.seed,
            places: self.places.clone(),
            constants: self.constants.clone(),
            kept: self.kept.clone(),
        }
    }
}

impl<W: UserWorkload> UserModel<W> {
    pub(super) fn new(workload: Arc<W>, seed: u64) -> Result<Self, WorkloadError> {
        let found = ModuleParameters::of(&*workload, seed);
        if !found.fixed.is_empty() {
            return Err(WorkloadError::data(format!(
                "frozen parameters and running statistics of batch norms are not supported: the model has `{}`",
                found.fixed.join("`, `")
            )));
        }
        if found.specs.is_empty() {
            return Err(WorkloadError::data("the model has no parameters".to_owned()));
        }
        Ok(Self {
            workload,
            seed,
            specs: Arc::new(found.specs),
            places: Arc::new(found.places),
            constants: Arc::default(),
            kept: F32Layers::default(),
        })
    }

    /// Computes the logits of examples by recording and replaying the module. `vector` returns a parameter by index.
    pub(super) fn logits(
        &self,
        autocast: Autocast,
        (constants, device): (&Constants, &Device),
        examples: &[&W::Example],
        vector: impl Fn(usize) -> Tensor<1>,
    ) -> Tensor<2> {
        autocast.run(device, |recorder| {
            let module = recorder.once(constants, |device| self.workload.model(device));
            let module = self.filled(module, vector, Some(recorder));
            let input = self.workload.input(examples, recorder.device());
            self.workload.forward(&module, input)
        })
    }

    /// Replaces the parameters of a module.
    pub(super) fn filled(
        &self,
        module: W::Model,
        vector: impl Fn(usize) -> Tensor<1>,
        recorder: Option<&Recorder>,
    ) -> W::Model {
        module.map(&mut ParameterFiller {
            vector,
            recorder,
            specs: &self.specs,
            places: self.places.iter(),
        })
    }
}

impl<W: UserWorkload> Network for UserModel<W> {
    type Part = OwnPart<W>;
    type Input = (OwnBatch<W>, Device);

    fn parameters(&self) -> Vec<ParameterSpec> {
        self.specs.to_vec()
    }

    fn initial(&self, _: u64) -> Box<dyn Iterator<Item = Weight> + '_> {
        let ModuleParameters { specs, values, .. } = ModuleParameters::of(&*self.workload, self.seed);
        let parts = specs.into_iter().zip(values);
        Box::new(parts.map(|(spec, values)| (spec.name, spec.shape, values.into())))
    }

    /// Always false: operations other than matmuls may read the same parameter, so each operation casts the parameter to its own format.
    fn is_multiplied(_: &str) -> bool {
        false
    }

    fn kept(&self) -> &F32Layers {
        &self.kept
    }

    fn with_kept(self, kept: F32Layers) -> Self {
        Self { kept, ..self }
    }

    /// Always true, since a module may contain dropout.
    fn drops(&self) -> bool {
        true
    }

    /// Only copies the batch. The input is created during the recording.
    fn upload(batch: &OwnBatch<W>, device: &Device) -> Self::Input {
        (batch.clone(), device.clone())
    }

    /// The module is one segment without blocks.
    fn block_count(&self) -> u32 {
        0
    }

    fn block(&self, _: &Pass<'_>, _: u32, _: &Self::Input, hidden: Tensor<2>) -> Tensor<2> {
        hidden
    }

    fn embed(&self, pass: &Pass<'_>, (batch, device): &Self::Input) -> Tensor<2> {
        let examples: Vec<_> = batch
            .indices
            .iter()
            .map(|index| &batch.examples[*index].0)
            .collect();
        let trains = pass.trains();
        let constants = {
            let mut all = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
            let constants = all.entry((pass.compute.precision(), trains));
            constants.or_insert_with(|| Constants::new(self.seed)).clone()
        };
        let autocast = Autocast::new(*pass.compute).training(trains);
        let logits = self.logits(autocast, (&constants, device), &examples, |place| {
            pass.parameters.vector(&self.specs[place].name)
        });
        let wanted = [examples.len(), self.workload.classes() as usize];
        assert_eq!(
            logits.dims(),
            wanted,
            "`forward` must return logits `[examples, classes]`"
        );
        pass.record("logits", logits)
    }

    fn head(&self, _: &Pass<'_>, logits: Tensor<2>, _: &Self::Input) -> Tensor<2> {
        logits
    }
}
