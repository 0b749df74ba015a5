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
    rejection::refused,
    rounding::rounded,
};
use crate::{
    Compute,
    dtypes::{dtype, inside},
};

/// State of the execution of a recording.
pub(super) struct Replay {
    pub compute: Compute,
    /// Device on which tensors are created: without autodiff, since they are constants.
    pub device: Device,
    values: BTreeMap<TensorId, TensorData>,
    tensors: HashMap<TensorId, DispatchTensor>,
    /// Remaining reads of each tensor.
    reads: HashMap<TensorId, usize>,
    /// Formats of tensors before casts by the module.
    before_cast: HashMap<TensorId, DType>,
    /// Tensors to cache for later replays, with their index.
    keep: HashMap<TensorId, (usize, Constants)>,
}

/// Computes the output of a recording on `device`.
pub(super) fn replay(recording: Recording, compute: Compute, device: &Device) -> DispatchTensor {
    let Recording {
        operations,
        values,
        entered,
        made,
        output,
    } = recording;
    let made: Vec<_> = made
        .into_iter()
        .map(|(range, constants)| (places(&range, &operations, &values), range, constants))
        .collect();
    let operations = layer_matching::layers(operations, &values, output);
    let mut replay = Replay {
        compute,
        device: device.clone().without_autodiff(),
        values,
        tensors: entered.into_iter().collect(),
        reads: HashMap::new(),
        before_cast: HashMap::new(),
        keep: HashMap::new(),
    };
    let making: Vec<_> = made
        .into_iter()
        .filter_map(|(places, range, constants)| {
            let makes = replay.makes(&operations, output, places, &range, constants);
            makes.then_some(range)
        })
        .collect();
    let executed = replay.executed(&operations, output, &making);
    let read = executed.iter().flat_map(|operation| operation.inputs());
    for id in read.map(|tensor| tensor.id).chain([output]) {
        *replay.reads.entry(id).or_default() += 1;
    }
    for operation in executed {
        replay.execute(operation);
    }
    replay.take_id(output)
}

/// Returns the tensors of a range with their index in the order of creation.
fn places(
    range: &Range<TensorId>,
    operations: &[OperationIr],
    values: &BTreeMap<TensorId, TensorData>,
) -> BTreeMap<TensorId, usize> {
    let computed = operations.iter().flat_map(OperationIr::outputs);
    let ids = computed.map(|tensor| tensor.id).chain(values.keys().copied());
    let inside: BTreeSet<_> = ids.filter(|id| range.contains(id)).collect();
    inside.into_iter().zip(0..).collect()
}

fn makes_any(operation: &OperationIr, range: &Range<TensorId>) -> bool {
    operation.outputs().any(|tensor| range.contains(&tensor.id))
}

impl Replay {
    /// Loads the cached tensors of a module. Returns true if they have to be computed.
    fn makes(
        &mut self,
        operations: &[OperationIr],
        output: TensorId,
        places: BTreeMap<TensorId, usize>,
        range: &Range<TensorId>,
        constants: Constants,
    ) -> bool {
        let elsewhere = operations.iter().filter(|operation| !makes_any(operation, range));
        let read = elsewhere.flat_map(OperationIr::inputs).map(|tensor| tensor.id);
        let needed: HashSet<_> = read.chain([output]).collect();
        let needed: Vec<_> = places.into_iter().filter(|(id, _)| needed.contains(id)).collect();
        let kept = constants
            .tensors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        if needed.iter().all(|(_, place)| kept.contains_key(place)) {
            let found = needed.into_iter().map(|(id, place)| (id, kept[&place].clone()));
            self.tensors.extend(found);
            return false;
        }
        let mut inside = operations.iter().filter(|operation| makes_any(operation, range));
        let is_random = |operation: &OperationIr| {
            matches!(
                operation,
                OperationIr::Float(_, FloatOperationIr::Random(_))
                    | OperationIr::NumericInt(_, NumericOperationIr::IntRandom(_))
            )
        };
        if inside.any(is_random) {
            self.device.seed(constants.seed);
        }
        let keep = needed
            .into_iter()
            .map(|(id, place)| (id, (place, constants.clone())));
        self.keep.extend(keep);
        true
    }

    /// Returns the operations that the output needs, and all operations that create the tensors of a module: random
    /// values must not depend on which of them are needed.
    fn executed<'a>(
        &self,
        operations: &'a [OperationIr],
        output: TensorId,
        making: &[Range<TensorId>],
    ) -> Vec<&'a OperationIr> {
        let mut needed = HashSet::from([output]);
        let mut executed = vec![];
        for operation in operations.iter().rev() {
            let mut missing = operation
                .outputs()
                .filter(|tensor| !self.tensors.contains_key(&tensor.id));
            let is_executed = missing.any(|tensor| {
                needed.contains(&tensor.id) || making.iter().any(|range| range.contains(&tensor.id))
            });
            if is_executed {
                needed.extend(operation.inputs().map(|tensor| tensor.id));
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
            OperationIr::Custom(operation) if operation.id.contains("fft") => refused("a Fourier transform"),
            OperationIr::Custom(operation) => refused(&format!(
                "the operation `{}` of a backend extension",
                operation.id
            )),
            OperationIr::Distributed(_) => refused("a collective operation"),
            // Data is uploaded when it is read, and tensors are dropped after their last read.
            OperationIr::Init(_) | OperationIr::Drop(_) => {}
        }
        if let Some(before_cast) = before_cast {
            let cast = operation.outputs().filter(|tensor| names_format(tensor));
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
            let tensor = self.uploaded(data);
            self.put_id(id, tensor);
        }
        let left = self.reads.get_mut(&id).expect("every read is counted");
        *left -= 1;
        match *left {
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
        if let Some((place, constants)) = self.keep.remove(&id) {
            let mut kept = constants.tensors.lock().unwrap_or_else(PoisonError::into_inner);
            kept.insert(place, value.clone());
        }
        if self.reads.contains_key(&id) {
            self.tensors.insert(id, value);
        }
    }

    /// Records the format of a tensor before a cast by the module.
    pub fn note_cast(&mut self, from: &TensorIr, to: &TensorIr, format: DType) {
        let format = self.before_cast.get(&from.id).copied().unwrap_or(format);
        if names_format(to) {
            self.before_cast.insert(to.id, format);
        }
    }

    /// Returns the target format of a cast: the one that it names, or else the format before an earlier cast.
    pub fn cast_target(&self, from: &TensorIr, to: &TensorIr, format: DType) -> DType {
        match names_format(to) {
            true => to.dtype,
            false => self.before_cast.get(&from.id).copied().unwrap_or(format),
        }
    }

    /// Returns the format of a new tensor: the one that the module names if the setting is mixed, otherwise that of the
    /// parameters.
    pub fn format(&self, recorded: DType) -> DType {
        let precision = self.compute.precision();
        match recorded {
            recorded if recorded != DType::F64 && precision.is_mixed() => recorded,
            _ => dtype(precision.parameters()),
        }
    }

    /// Creates a tensor. For 16-bit formats its values are computed in f32 and rounded once.
    pub fn created(
        &self,
        recorded: DType,
        create: impl FnOnce(FloatDType) -> DispatchTensor,
    ) -> DispatchTensor {
        let format = self.format(recorded);
        rounded(create(inside(format).into()), format)
    }

    /// Returns the format of integers; the default is that of the device.
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

    fn uploaded(&self, data: TensorData) -> DispatchTensor {
        let device = self.device.as_dispatch();
        let recorded = data.dtype();
        if recorded.is_float() {
            self.created(recorded, |format| {
                Dispatch::float_from_data(data.convert_dtype(format.into()), device)
            })
        } else if recorded.is_bool() {
            Dispatch::bool_from_data(data.convert_dtype(self.bool_format().into()), device)
        } else {
            Dispatch::int_from_data(data.convert_dtype(self.int_format(recorded).into()), device)
        }
    }
}

/// Returns true if the module itself named the format of a float tensor. Others are recorded as f64.
fn names_format(tensor: &TensorIr) -> bool {
    tensor.dtype.is_float() && tensor.dtype != DType::F64
}
