//! Parameters of a burn module: collects them with their paths, and replaces them.

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::{Device, Tensor},
};
use mantissa_precision::Recorder;

use super::UserWorkload;
use crate::models::{Init, ParameterSpec};

/// Parameters of a module with their paths.
#[derive(Default)]
pub(super) struct ModuleParameters {
    path: Vec<String>,
    ids: Vec<ParamId>,
    pub(super) specs: Vec<ParameterSpec>,
    pub(super) values: Vec<Vec<f32>>,
    /// Index of the parameter at each position in the module.
    pub(super) parameter_indices: Vec<usize>,
    /// Names of frozen parameters and of running statistics.
    pub(super) frozen: Vec<String>,
}

impl ModuleParameters {
    /// Collects the parameters of the module as created on the CPU.
    pub(super) fn of<W: UserWorkload>(workload: &W, seed: u64) -> Self {
        let device = Device::flex().autodiff();
        device.seed(seed);
        let mut found = Self::default();
        workload.model(&device).visit(&mut found);
        found
    }
}

impl ModuleVisitor for ModuleParameters {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, parameter: &Param<Tensor<D>>) {
        if let Some(index) = self.ids.iter().position(|id| *id == parameter.id) {
            self.parameter_indices.push(index);
            return;
        }
        let (value, name) = (parameter.val(), self.path.join("."));
        if !value.is_require_grad() {
            self.frozen.push(name);
            return;
        }
        self.parameter_indices.push(self.ids.len());
        self.ids.push(parameter.id);
        self.specs.push(ParameterSpec {
            name,
            shape: value.dims().to_vec(),
            init: Init::Zeros,
        });
        self.values.push(value.into_data().iter::<f32>().collect());
    }
}

/// Mapper that replaces the parameters of a module.
pub(super) struct ParameterFiller<'a, V> {
    /// Function that returns a parameter by index, flattened.
    pub(super) vector: V,
    /// Recorder that the parameters are registered with.
    pub(super) recorder: Option<&'a Recorder>,
    pub(super) specs: &'a [ParameterSpec],
    pub(super) parameter_indices: std::slice::Iter<'a, usize>,
}

impl<V: Fn(usize) -> Tensor<1>> ModuleMapper for ParameterFiller<'_, V> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let index = *self
            .parameter_indices
            .next()
            .expect("every call of `model` creates the same parameters");
        let shape = self.specs[index].shape.as_slice();
        let shape: [usize; D] = shape
            .try_into()
            .expect("every call of `model` creates the same ranks");
        let value = (self.vector)(index).reshape(shape);
        let value = match self.recorder {
            Some(recorder) => recorder.enter(value),
            None => value,
        };
        Param::initialized(parameter.id, value)
    }
}
