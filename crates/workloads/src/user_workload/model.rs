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

/// Adapter of a user-defined model to the trainer: a network with a single segment, whose output is the logits.
pub(crate) struct UserModel<W> {
    pub(super) workload: Arc<W>,
    pub(super) specs: Arc<Vec<ParameterSpec>>,
    pub(super) seed: u64,
    /// Index of the parameter at each position in the module. Several positions may share a parameter.
    pub(super) parameter_indices: Arc<Vec<usize>>,
    /// Tensors that are created with the module but are not parameters, by precision and by mode: true for training, false for evaluation.
    constants: Arc<Mutex<HashMap<(Precision, bool), Constants>>>,
    f32_layers: F32Layers,
}

impl<W> Clone for UserModel<W> {
    fn clone(&self) -> Self {
        Self {
            workload: self.workload.clone(),
            specs: self.specs.clone(),
            seed: self.seed,
            parameter_indices: self.parameter_indices.clone(),
            constants: self.constants.clone(),
            f32_layers: self.f32_layers.clone(),
        }
    }
}

impl<W: UserWorkload> UserModel<W> {
    pub(super) fn new(workload: Arc<W>, seed: u64) -> Result<Self, WorkloadError> {
        let found = ModuleParameters::of(&*workload, seed);
        if !found.frozen.is_empty() {
            return Err(WorkloadError::data(format!(
                "frozen parameters and running statistics of batch norms are not supported: the model has `{}`",
                found.frozen.join("`, `")
            )));
        }
        if found.specs.is_empty() {
            return Err(WorkloadError::data("the model has no parameters".to_owned()));
        }
        Ok(Self {
            workload,
            seed,
            specs: Arc::new(found.specs),
            parameter_indices: Arc::new(found.parameter_indices),
            constants: Arc::default(),
            f32_layers: F32Layers::default(),
        })
    }

    /// Computes the logits of examples by recording and replaying the module. `vector` returns a parameter by index.
    pub(super) fn logits(
        &self,
        autocast: Autocast<'_>,
        (constants, device): (&Constants, &Device),
        examples: &[&W::Example],
        vector: impl Fn(usize) -> Tensor<1>,
    ) -> Tensor<2> {
        autocast.run(device, |recorder| {
            let module = recorder.once(constants, |device| self.workload.model(device));
            let module = self.with_parameters(module, vector, Some(recorder));
            let input = self.workload.input(examples, recorder.device());
            self.workload.forward(&module, input)
        })
    }

    /// Replaces the parameters of a module.
    pub(super) fn with_parameters(
        &self,
        module: W::Model,
        vector: impl Fn(usize) -> Tensor<1>,
        recorder: Option<&Recorder>,
    ) -> W::Model {
        module.map(&mut ParameterFiller {
            vector,
            recorder,
            specs: &self.specs,
            parameter_indices: self.parameter_indices.iter(),
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

    /// Always false: operations other than matmuls may read the same parameter, so each operation casts the parameter itself.
    fn is_matmul_weight(_: &str) -> bool {
        false
    }

    fn f32_layers(&self) -> &F32Layers {
        &self.f32_layers
    }

    fn with_f32_layers(self, f32_layers: F32Layers) -> Self {
        Self { f32_layers, ..self }
    }

    /// Always true, since a module may for example add noise.
    fn may_draw_random_numbers(&self) -> bool {
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
        let masks = pass.dropout_masks();
        let trains = masks.is_some();
        let constants = {
            let mut all = self.constants.lock().unwrap_or_else(PoisonError::into_inner);
            let constants = all.entry((pass.compute.precision(), trains));
            constants.or_insert_with(|| Constants::new(self.seed)).clone()
        };
        let autocast = Autocast::new(*pass.compute).training(trains);
        let autocast = match masks {
            Some(masks) => autocast.with_dropout_masks(masks),
            None => autocast,
        };
        let logits = self.logits(autocast, (&constants, device), &examples, |index| {
            pass.parameters.vector(&self.specs[index].name)
        });
        let expected = [examples.len(), self.workload.classes() as usize];
        assert_eq!(
            logits.dims(),
            expected,
            "`forward` must return logits `[examples, classes]`"
        );
        pass.record("logits", logits)
    }

    fn head(&self, _: &Pass<'_>, logits: Tensor<2>, _: &Self::Input) -> Tensor<2> {
        logits
    }
}
