//! Pattern matching of layers in a recording.
//!
//! burn decomposes some layers into steps before a device receives them: always linear layers, and on a device with autodiff also
//! softmax, norms and attention. A 16-bit setting would round after each step. This module therefore replaces the steps by the layer.
//!
//! The steps are not hard-coded. To test if a recording contains a layer, this module lets burn record that layer on inputs of the same
//! shapes. It then compares both sequences of steps.

mod decomposition;
mod patterns;

use std::collections::{BTreeMap, HashMap};

use burn::{
    backend::{
        DispatchTensor,
        ir::{
            BaseOperationIr, FloatOperationIr, IrVisitorMut, MatmulOpIr, ModuleOperationIr,
            NumericOperationIr, OperationIr, TensorIr, TensorStatus,
        },
    },
    tensor::{Distribution, TensorData, TensorId},
};

use self::decomposition::{Expected, is_computed};

/// Name of the custom operation for dropout. burn does not have one.
pub(super) const DROPOUT: &str = "dropout";

/// Layer as one operation, and the number of operations that it replaces.
type Layer = (OperationIr, usize);

/// Replaces the steps of layers in a recording by the layers.
pub(super) fn match_layers(
    operations: Vec<OperationIr>,
    values: &BTreeMap<TensorId, TensorData>,
    output: TensorId,
) -> Vec<OperationIr> {
    let computed: Vec<_> = operations.into_iter().filter(is_computed).collect();
    let mut reads = HashMap::from([(output, 1)]);
    for tensor in computed.iter().flat_map(OperationIr::inputs) {
        *reads.entry(tensor.id).or_default() += 1;
    }
    let mut layers = vec![];
    let mut remaining = computed.as_slice();
    while let [first, ..] = remaining {
        let steps = Steps {
            operations: remaining,
            values,
            reads: &reads,
        };
        let (operation, count) = steps.match_layer().unwrap_or_else(|| (first.clone(), 1));
        layers.push(operation);
        remaining = &remaining[count..];
    }
    layers
}

/// Operations that may begin with the steps of a layer.
struct Steps<'a> {
    operations: &'a [OperationIr],
    values: &'a BTreeMap<TensorId, TensorData>,
    /// Number of reads of each tensor.
    reads: &'a HashMap<TensorId, usize>,
}

impl Steps<'_> {
    fn match_layer(&self) -> Option<Layer> {
        match &self.operations[0] {
            OperationIr::NumericFloat(_, NumericOperationIr::MaxDim(max)) => {
                self.softmax(&max.input, max.axis)
            }
            OperationIr::NumericFloat(_, NumericOperationIr::MeanDim(mean)) => self.layer_norm(&mean.input),
            OperationIr::NumericFloat(_, NumericOperationIr::LowerElem(lower)) => self.prelu(&lower.lhs),
            OperationIr::BaseFloat(BaseOperationIr::SwapDims(swap)) => self.attention(&swap.input),
            OperationIr::BaseFloat(BaseOperationIr::Reshape(_)) => {
                self.linear().or_else(|| self.batch_norm())
            }
            OperationIr::Float(_, FloatOperationIr::Matmul(_)) => self.linear(),
            OperationIr::Float(_, FloatOperationIr::Random(random)) => match random.distribution {
                Distribution::Bernoulli(keep_probability) => self.dropout(&random.out, keep_probability),
                _ => None,
            },
            OperationIr::Module(ModuleOperationIr::Conv2d(_)) => self.unfold(),
            _ => None,
        }
    }

    fn numeric(&self, index: usize) -> Option<&NumericOperationIr> {
        match self.operations.get(index)? {
            OperationIr::NumericFloat(_, operation) => Some(operation),
            _ => None,
        }
    }

    fn matmul(&self, index: usize) -> Option<&MatmulOpIr> {
        match self.operations.get(index)? {
            OperationIr::Float(_, FloatOperationIr::Matmul(operation)) => Some(operation),
            _ => None,
        }
    }

    fn reshape(&self, index: usize) -> Option<(&TensorIr, &TensorIr)> {
        match self.operations.get(index)? {
            OperationIr::BaseFloat(BaseOperationIr::Reshape(operation)) => {
                Some((&operation.input, &operation.out))
            }
            _ => None,
        }
    }

    /// Returns the input of a reshape.
    fn reshape_input(&self, index: usize) -> Option<&TensorIr> {
        self.reshape(index).map(|(input, _)| input)
    }

    /// Returns true if only the first `count` operations read these tensors.
    fn are_read_only_by(&self, tensors: impl IntoIterator<Item = TensorId>, count: usize) -> bool {
        let inputs = || self.operations[..count].iter().flat_map(OperationIr::inputs);
        tensors.into_iter().all(|id| {
            let reads = inputs().filter(|tensor| tensor.id == id).count();
            self.reads.get(&id).copied().unwrap_or(0) == reads
        })
    }

    /// Returns the output of a layer and its number of steps. Returns `None` if the operations do not begin with the steps that burn
    /// records for this layer, or if later operations read an intermediate result.
    fn match_steps(
        &self,
        name: (&'static str, &[f64]),
        inputs: &[&TensorIr],
        layer: impl FnOnce(&[DispatchTensor]) -> DispatchTensor,
    ) -> Option<(TensorIr, usize)> {
        let expected = Expected::cached(name, inputs, layer);
        let count = expected.operations.len();
        let steps = self.operations.get(..count)?;
        let input_ids = inputs.iter().map(|input| input.id);
        let mut ids: HashMap<_, _> = expected.inputs.iter().copied().zip(input_ids).collect();
        for (expected, step) in expected.operations.iter().zip(steps) {
            let (tensors, step_tensors) = (expected.nodes(), step.nodes());
            for (tensor, step_tensor) in tensors.iter().zip(&step_tensors) {
                ids.entry(tensor.id).or_insert(step_tensor.id);
            }
            if with_tensor_ids(expected, &ids) != with_tensor_ids(step, &HashMap::new()) {
                return None;
            }
        }
        let mut values = expected.values.iter();
        if !values.all(|(id, value)| self.values.get(&ids[id]) == Some(value)) {
            return None;
        }
        let output = ids[&expected.output];
        let mut outputs: Vec<_> = steps.iter().flat_map(OperationIr::outputs).collect();
        let index = outputs.iter().position(|tensor| tensor.id == output)?;
        let output = outputs.swap_remove(index).clone();
        self.are_read_only_by(outputs.iter().map(|tensor| tensor.id), count)
            .then_some((output, count))
    }
}

/// Returns the operation with renamed tensor IDs and one read status for all tensors, so that operations can be compared.
fn with_tensor_ids(operation: &OperationIr, ids: &HashMap<TensorId, TensorId>) -> OperationIr {
    struct Renames<'a>(&'a HashMap<TensorId, TensorId>);
    impl IrVisitorMut for Renames<'_> {
        fn visit_tensor_mut(&mut self, tensor: &mut TensorIr) {
            tensor.id = self.0.get(&tensor.id).copied().unwrap_or(tensor.id);
            tensor.status = TensorStatus::ReadOnly;
        }
    }
    let mut operation = operation.clone();
    operation.visit_mut(&mut Renames(ids));
    operation
}
