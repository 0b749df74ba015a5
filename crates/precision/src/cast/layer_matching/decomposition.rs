//! Decomposition of layers: the steps that burn records for a layer, cached by its inputs and options.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    rc::Rc,
};

use burn::{
    backend::{
        Dispatch, DispatchTensor,
        ir::{OperationIr, TensorIr},
        ops::{BoolTensorOps, FloatTensorOps},
    },
    tensor::{CapturedGraph, DType, Shape, TensorData, TensorId},
};

use crate::cast::record;

/// Returns false for operations that create a tensor from data. They are not steps of a layer: matching looks up
/// their data where another operation reads the tensor.
pub(super) fn is_computed(operation: &OperationIr) -> bool {
    !matches!(operation, OperationIr::Init(_))
}

/// Layer, the bits of its options, and the shapes and formats of its inputs.
type Key = (&'static str, Vec<u64>, Vec<(Shape, DType)>);

thread_local! {
    /// Cache of the steps of layers, for this thread.
    static CACHE: RefCell<HashMap<Key, Rc<Expected>>> = RefCell::default();
}

/// Maximum number of cached layers. Without a limit the cache would grow, because sequence lengths may differ between batches.
const MAX_CACHED: usize = 1_000;

/// Steps that burn records for a layer.
pub(super) struct Expected {
    pub(super) operations: Vec<OperationIr>,
    pub(super) values: BTreeMap<TensorId, TensorData>,
    pub(super) inputs: Vec<TensorId>,
    pub(super) output: TensorId,
}

impl Expected {
    /// Returns the steps of a layer with these options and inputs, recorded on first use.
    pub(super) fn cached(
        (name, options): (&'static str, &[f64]),
        inputs: &[&TensorIr],
        layer: impl FnOnce(&[DispatchTensor]) -> DispatchTensor,
    ) -> Rc<Self> {
        let options = options.iter().map(|option| option.to_bits()).collect();
        let shapes = inputs.iter().map(|input| (input.shape.clone(), input.dtype));
        let key = (name, options, shapes.collect());
        if let Some(expected) = CACHE.with_borrow(|cache| cache.get(&key).cloned()) {
            return expected;
        }
        let expected = Rc::new(Self::record(inputs, layer));
        CACHE.with_borrow_mut(|cache| {
            if cache.len() >= MAX_CACHED {
                cache.clear();
            }
            cache.insert(key, expected.clone());
        });
        expected
    }

    /// Records the steps of a layer on inputs with these shapes and formats, on a device with autodiff. Without autodiff burn
    /// decomposes fewer layers.
    fn record(inputs: &[&TensorIr], layer: impl FnOnce(&[DispatchTensor]) -> DispatchTensor) -> Self {
        record::on_capture_device(|device| {
            let autodiff = device.clone().autodiff();
            let device_handle = autodiff.as_dispatch();
            let mut ids = None;
            let captured = device.capture_scope(|scope| {
                let tensors: Vec<_> = inputs
                    .iter()
                    .map(|input| match input.dtype.is_bool() {
                        true => Dispatch::bool_empty(input.shape.clone(), device_handle, input.dtype.into()),
                        false => {
                            Dispatch::float_empty(input.shape.clone(), device_handle, input.dtype.into())
                        }
                    })
                    .collect();
                let output = layer(&tensors);
                let input_ids: Vec<_> = tensors.into_iter().map(record::id).collect();
                let output_id = record::id(output.clone());
                ids = Some((input_ids, output_id));
                let complete = scope.complete([], [output_id]);
                drop(output);
                complete
            });
            let CapturedGraph { graph, values } = captured.expect("burn can record its own layers");
            let (inputs, output) = ids.expect("the scope has run");
            let computed = graph.operations.into_iter().skip(inputs.len());
            Self {
                operations: computed.filter(is_computed).collect(),
                values,
                inputs,
                output,
            }
        })
    }
}
