//! Execution of recorded operations on real tensors, in the formats of autocast.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    ops::Range,
    sync::PoisonError,
};

use burn::{
    backend::{
        Dispatch, DispatchTensor,
        ir::{FloatOperationIr, NumericOperationIr, OperationIr, TensorIr},
        ops::{BoolTensorOps, FloatTensorOps, IntTensorOps},
    },
    tensor::{BoolDType, DType, Device, FloatDType, IntDType, TensorData, TensorId},
};

use super::{
    layer_matching::{self, DROPOUT},
    record::{Constants, Recording},
    rejection::reject,
    rounding::round_to,
};
use crate::{
    Compute, DropoutMasks,
    dtypes::{dtype, intermediate_dtype},
};

/// State of the execution of a recording.
pub(super) struct Replay<'a> {
    pub compute: Compute,
    pub masks: Option<&'a DropoutMasks>,
    /// Device on which new tensors are created. It has no autodiff, since new tensors are constants.
    pub device: Device,
    values: BTreeMap<TensorId, TensorData>,
    tensors: HashMap<TensorId, DispatchTensor>,
    /// Remaining reads of each tensor.
    reads: HashMap<TensorId, usize>,
    /// Formats of tensors before casts by the module.
    before_cast: HashMap<TensorId, DType>,
    /// Tensors to cache for later replays, each with its index in the order of creation.
    to_cache: HashMap<TensorId, (usize, Constants)>,
}

/// Computes the output of a recording on `device`.
pub(super) fn replay(
    recording: Recording,
    (compute, masks): (Compute, Option<&DropoutMasks>),
    device: &Device,
) -> DispatchTensor {
    let Recording {
        operations,
        values,
        entered,
        constants_by_range,
        output,
    } = recording;
    let constants_by_range: Vec<_> = constants_by_range
        .into_iter()
        .map(|(range, constants)| (creation_indices(&range, &operations, &values), range, constants))
        .collect();
    let operations = layer_matching::match_layers(operations, &values, output);
    let mut replay = Replay {
        compute,
        masks,
        device: device.clone().without_autodiff(),
        values,
        tensors: entered.into_iter().collect(),
        reads: HashMap::new(),
        before_cast: HashMap::new(),
        to_cache: HashMap::new(),
    };
    let uncached: Vec<_> = constants_by_range
        .into_iter()
        .filter_map(|(indices, range, constants)| {
            let must_compute = replay.load_constants(&operations, output, indices, &range, constants);
            must_compute.then_some(range)
        })
        .collect();
    let needed = replay.needed_operations(&operations, output, &uncached);
    let inputs = needed.iter().flat_map(|operation| operation.inputs());
    for id in inputs.map(|tensor| tensor.id).chain([output]) {
        *replay.reads.entry(id).or_default() += 1;
    }
    for operation in needed {
        replay.execute(operation);
    }
    replay.take_id(output)
}

/// Returns the tensors of a range with their index in the order of creation.
fn creation_indices(
    range: &Range<TensorId>,
    operations: &[OperationIr],
    values: &BTreeMap<TensorId, TensorData>,
) -> BTreeMap<TensorId, usize> {
    let computed = operations.iter().flat_map(OperationIr::outputs);
    let ids = computed.map(|tensor| tensor.id).chain(values.keys().copied());
    let inside: BTreeSet<_> = ids.filter(|id| range.contains(id)).collect();
    inside.into_iter().zip(0..).collect()
}

fn has_output_in(operation: &OperationIr, range: &Range<TensorId>) -> bool {
    operation.outputs().any(|tensor| range.contains(&tensor.id))
}

impl Replay<'_> {
    /// Loads the cached tensors of a module. Returns true if they are not cached and have to be computed.
    fn load_constants(
        &mut self,
        operations: &[OperationIr],
        output: TensorId,
        indices: BTreeMap<TensorId, usize>,
        range: &Range<TensorId>,
        constants: Constants,
    ) -> bool {
        let others = operations
            .iter()
            .filter(|operation| !has_output_in(operation, range));
        let read = others.flat_map(OperationIr::inputs).map(|tensor| tensor.id);
        let needed: HashSet<_> = read.chain([output]).collect();
        let needed: Vec<_> = indices
            .into_iter()
            .filter(|(id, _)| needed.contains(id))
            .collect();
        let cached = constants
            .tensors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if needed.iter().all(|(_, index)| cached.contains_key(index)) {
            let found = needed.into_iter().map(|(id, index)| (id, cached[&index].clone()));
            self.tensors.extend(found);
            return false;
        }
        let mut own_operations = operations
            .iter()
            .filter(|operation| has_output_in(operation, range));
        let is_random = |operation: &OperationIr| {
            matches!(
                operation,
                OperationIr::Float(_, FloatOperationIr::Random(_))
                    | OperationIr::NumericInt(_, NumericOperationIr::IntRandom(_))
            )
        };
        if own_operations.any(is_random) {
            self.device.seed(constants.seed);
        }
        let to_cache = needed
            .into_iter()
            .map(|(id, index)| (id, (index, constants.clone())));
        self.to_cache.extend(to_cache);
        true
    }

    /// Returns the operations that the output needs, and all operations that compute uncached constants. The latter include constants that
    /// the output does not need: skipping a random constant would change the random numbers of the constants after it.
    fn needed_operations<'a>(
        &self,
        operations: &'a [OperationIr],
        output: TensorId,
        uncached: &[Range<TensorId>],
    ) -> Vec<&'a OperationIr> {
        let mut needed_tensors = HashSet::from([output]);
        let mut executed = vec![];
        for operation in operations.iter().rev() {
            let mut missing = operation
                .outputs()
                .filter(|tensor| !self.tensors.contains_key(&tensor.id));
            let is_needed = missing.any(|tensor| {
                needed_tensors.contains(&tensor.id) || uncached.iter().any(|range| range.contains(&tensor.id))
            });
            if is_needed {
                needed_tensors.extend(operation.inputs().map(|tensor| tensor.id));
                executed.push(operation);
            }
        }
        executed.reverse();
        executed
    }

    fn execute(&mut self, operation: &OperationIr) {
        let mut inputs = operation.inputs();
        let before_cast = inputs.find_map(|tensor| self.before_cast.get(&tensor.id).copied());
        match operation {
            OperationIr::BaseFloat(operation) => self.base_float(operation),
            OperationIr::NumericFloat(_, operation) => self.numeric_float(operation),
            OperationIr::Float(_, operation) => self.float(operation),
            OperationIr::Activation(operation) => self.activation(operation),
            OperationIr::Module(operation) => self.module(operation),
            OperationIr::BaseInt(operation) => self.base_int(operation),
            OperationIr::NumericInt(_, operation) => self.numeric_int(operation),
            OperationIr::Int(operation) => self.int(operation),
            OperationIr::BaseBool(operation) => self.base_bool(operation),
            OperationIr::Bool(operation) => self.bool(operation),
            OperationIr::Custom(operation) if operation.id == DROPOUT => self.dropout(operation),
            OperationIr::Custom(operation) if operation.id.contains("fft") => reject("a Fourier transform"),
            OperationIr::Custom(operation) => reject(&format!(
                "the operation `{}` of a backend extension",
                operation.id
            )),
            OperationIr::Distributed(_) => reject("a collective operation"),
            // Data is uploaded when it is read, and tensors are dropped after their last read.
            OperationIr::Init(_) | OperationIr::Drop(_) => {}
        }
        if let Some(before_cast) = before_cast {
            let cast = operation.outputs().filter(|tensor| has_explicit_format(tensor));
            self.before_cast
                .extend(cast.map(|tensor| (tensor.id, before_cast)));
        }
    }

    /// Returns a tensor that an operation reads, and counts the read.
    pub fn take(&mut self, tensor: &TensorIr) -> DispatchTensor {
        self.take_id(tensor.id)
    }

    fn take_id(&mut self, id: TensorId) -> DispatchTensor {
        if !self.tensors.contains_key(&id) {
            let data = self.values.remove(&id);
            let data = data.unwrap_or_else(|| panic!("tensor {id} is read but was not recorded"));
            let tensor = self.upload(data);
            self.put_id(id, tensor);
        }
        let remaining = self.reads.get_mut(&id).expect("every read is counted");
        *remaining -= 1;
        match *remaining {
            0 => self.tensors.remove(&id),
            _ => self.tensors.get(&id).cloned(),
        }
        .expect("the tensor was computed or uploaded")
    }

    /// Stores the output of an operation.
    pub fn put(&mut self, tensor: &TensorIr, value: DispatchTensor) {
        self.put_id(tensor.id, value);
    }

    fn put_id(&mut self, id: TensorId, value: DispatchTensor) {
        if let Some((index, constants)) = self.to_cache.remove(&id) {
            let mut cached = constants.tensors.lock().unwrap_or_else(PoisonError::into_inner);
            cached.insert(index, value.clone());
        }
        if self.reads.contains_key(&id) {
            self.tensors.insert(id, value);
        }
    }

    /// Records the format of a tensor before a cast by the module.
    pub fn record_cast(&mut self, from: &TensorIr, to: &TensorIr, format: DType) {
        let format = self.before_cast.get(&from.id).copied().unwrap_or(format);
        if has_explicit_format(to) {
            self.before_cast.insert(to.id, format);
        }
    }

    /// Returns the target format of a cast: the explicit one, or else the format that the tensor had before earlier casts.
    pub fn cast_target(&self, from: &TensorIr, to: &TensorIr, format: DType) -> DType {
        match has_explicit_format(to) {
            true => to.dtype,
            false => self.before_cast.get(&from.id).copied().unwrap_or(format),
        }
    }

    /// Returns the format of a new tensor: the explicit format of the module if the setting is mixed, otherwise the format of the
    /// parameters.
    pub fn format(&self, recorded: DType) -> DType {
        let precision = self.compute.precision();
        match recorded {
            recorded if recorded != DType::F64 && precision.is_mixed() => recorded,
            _ => dtype(precision.parameters()),
        }
    }

    /// Creates a tensor. For 16-bit formats its values are computed in f32 and rounded once.
    pub fn create(
        &self,
        recorded: DType,
        create: impl FnOnce(FloatDType) -> DispatchTensor,
    ) -> DispatchTensor {
        let format = self.format(recorded);
        round_to(create(intermediate_dtype(format).into()), format)
    }

    /// Returns the format of integers: the default of the device for the default of recordings (I64), otherwise the recorded format.
    pub fn int_format(&self, recorded: DType) -> IntDType {
        match recorded {
            DType::I64 => self.device.settings().int_dtype,
            recorded => recorded.into(),
        }
    }

    /// Returns the storage format of booleans on the device.
    pub fn bool_format(&self) -> BoolDType {
        self.device.settings().bool_dtype
    }

    fn upload(&self, data: TensorData) -> DispatchTensor {
        let device = self.device.as_dispatch();
        let recorded = data.dtype();
        if recorded.is_float() {
            self.create(recorded, |format| {
                Dispatch::float_from_data(data.convert_dtype(format.into()), device)
            })
        } else if recorded.is_bool() {
            Dispatch::bool_from_data(data.convert_dtype(self.bool_format().into()), device)
        } else {
            Dispatch::int_from_data(data.convert_dtype(self.int_format(recorded).into()), device)
        }
    }
}

/// Returns true if the module set the format of a float tensor explicitly. All other float tensors are recorded as f64.
fn has_explicit_format(tensor: &TensorIr) -> bool {
    tensor.dtype.is_float() && tensor.dtype != DType::F64
}
