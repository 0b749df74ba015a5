//! Pattern matching of layers in a recording.
//!
//! burn decomposes some layers before a device receives them: linear layers always; softmax, norms and attention on a device
//! with autodiff. If they were executed step by step, a 16-bit setting would round each step. This module replaces the steps by
//! the layer.
//!
//! The steps are not hard-coded. A candidate layer is recorded once more by burn itself, with inputs of the same shapes, and the
//! result is compared with the recording.

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

/// Name of a dropout, for which burn does not have an operation.
pub(super) const DROPOUT: &str = "dropout";

/// Layer, and its number of steps.
type Layer = (OperationIr, usize);

/// Replaces the steps of layers in a recording by the layers.
pub(super) fn layers(
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
        let (operation, count) = steps.layer().unwrap_or_else(|| (first.clone(), 1));
        layers.push(operation);
        remaining = &remaining[count..];
    }
    layers
}

/// Operations that may begin with the steps of a layer.
struct Steps<'a> {
    operations: &'a [OperationIr],
    values: &'a BTreeMap<TensorId, TensorData>,
    /// Reads of each tensor.
    reads: &'a HashMap<TensorId, usize>,
}

impl Steps<'_> {
    fn layer(&self) -> Option<Layer> {
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
                Distribution::Bernoulli(kept) => self.dropout(&random.out, kept),
                _ => None,
            },
            OperationIr::Module(ModuleOperationIr::Conv2d(_)) => self.unfold(),
            _ => None,
        }
    }

    fn numeric(&self, place: usize) -> Option<&NumericOperationIr> {
        match self.operations.get(place)? {
            OperationIr::NumericFloat(_, operation) => Some(operation),
            _ => None,
        }
    }

    fn matmul(&self, place: usize) -> Option<&MatmulOpIr> {
        match self.operations.get(place)? {
            OperationIr::Float(_, FloatOperationIr::Matmul(operation)) => Some(operation),
            _ => None,
        }
    }

    fn reshape(&self, place: usize) -> Option<(&TensorIr, &TensorIr)> {
        match self.operations.get(place)? {
            OperationIr::BaseFloat(BaseOperationIr::Reshape(operation)) => {
                Some((&operation.input, &operation.out))
            }
            _ => None,
        }
    }

    /// Returns the input of a reshape.
    fn reshaped(&self, place: usize) -> Option<&TensorIr> {
        self.reshape(place).map(|(input, _)| input)
    }

    /// Returns true if only the first `count` operations read these tensors.
    fn are_inside(&self, tensors: impl IntoIterator<Item = TensorId>, count: usize) -> bool {
        let inputs = || self.operations[..count].iter().flat_map(OperationIr::inputs);
        tensors.into_iter().all(|id| {
            let inside = inputs().filter(|tensor| tensor.id == id).count();
            self.reads.get(&id).copied().unwrap_or(0) == inside
        })
    }

    /// Returns the output of a layer and its number of steps, if the operations begin with the steps that burn records for
    /// it.
    fn steps_of(
        &self,
        name: (&'static str, &[f64]),
        inputs: &[&TensorIr],
        layer: impl FnOnce(&[DispatchTensor]) -> DispatchTensor,
    ) -> Option<(TensorIr, usize)> {
        let expected = Expected::known(name, inputs, layer);
        let count = expected.operations.len();
        let steps = self.operations.get(..count)?;
        let given = inputs.iter().map(|input| input.id);
        let mut ids: HashMap<_, _> = expected.inputs.iter().copied().zip(given).collect();
        for (expected, step) in expected.operations.iter().zip(steps) {
            let (tensors, found) = (expected.nodes(), step.nodes());
            for (tensor, found) in tensors.iter().zip(&found) {
                ids.entry(tensor.id).or_insert(found.id);
            }
            if renamed(expected, &ids) != renamed(step, &HashMap::new()) {
                return None;
            }
        }
        let mut values = expected.values.iter();
        if !values.all(|(id, value)| self.values.get(&ids[id]) == Some(value)) {
            return None;
        }
        let output = ids[&expected.output];
        let mut made: Vec<_> = steps.iter().flat_map(OperationIr::outputs).collect();
        let place = made.iter().position(|tensor| tensor.id == output)?;
        let output = made.swap_remove(place).clone();
        self.are_inside(made.iter().map(|tensor| tensor.id), count)
            .then_some((output, count))
    }
}

/// Returns an operation with renamed tensors, and without their read status.
fn renamed(operation: &OperationIr, ids: &HashMap<TensorId, TensorId>) -> OperationIr {
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
