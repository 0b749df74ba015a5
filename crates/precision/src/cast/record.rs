//! Records what a module does on burn's capture device, which executes nothing.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Range,
    sync::{Arc, Mutex},
};

use burn::{
    backend::{BackendTensor, DispatchTensor, DispatchTensorKind, TensorMetadata, ir::OperationIr},
    tensor::{CapturedGraph, Device, FloatDType, Tensor, TensorData, TensorId},
};

thread_local! {
    /// Capture devices that no recording of this thread uses. burn numbers them with 16 bits and reuses no number.
    static DEVICES: RefCell<Vec<Device>> = const { RefCell::new(vec![]) };
}

/// Passes an idle capture device to `work`. One device records one graph at a time.
pub(super) fn on_capture_device<T>(work: impl FnOnce(&Device) -> T) -> T {
    /// Returns the device, also after a panic.
    struct Lent(Device);
    impl Drop for Lent {
        fn drop(&mut self) {
            DEVICES.with_borrow_mut(|devices| devices.push(self.0.clone()));
        }
    }
    let idle = DEVICES.with_borrow_mut(Vec::pop);
    let lent = Lent(idle.unwrap_or_else(capture_device));
    work(&lent.0)
}

/// A capture device whose floats are f64 unless a module names another format. A cast of the module itself is then recorded:
/// burn leaves out casts that do not change the format.
fn capture_device() -> Device {
    let device = Device::capture();
    let configured = device.capture_scope(|scope| {
        for mut device in [device.clone(), device.clone().autodiff()] {
            // The second call is an error where both are one entry of burn's registry.
            let _ = device.configure(FloatDType::F64);
        }
        scope.complete([], [])
    });
    configured.expect("nothing is recorded on a new device");
    device
}

/// Tensors that a module is made with and that are not parameters, such as tables of positions: computed when the module runs
/// for the first time, and kept.
///
/// They belong to one module, in one setting, trained or not, on one device.
#[derive(Clone)]
pub struct Constants {
    pub(super) seed: u64,
    /// By the place in the order in which the module makes its tensors.
    pub(super) tensors: Arc<Mutex<HashMap<usize, DispatchTensor>>>,
}

impl Constants {
    /// Nothing yet. Random tensors are drawn from the generator of the device, seeded with `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            tensors: Arc::default(),
        }
    }
}

impl fmt::Debug for Constants {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Constants")
            .field("seed", &self.seed)
            .finish()
    }
}

/// The recording in progress.
pub struct Recorder {
    device: Device,
    entered: RefCell<Vec<(TensorId, DispatchTensor)>>,
    made: RefCell<Vec<(Range<TensorId>, Constants)>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Recorder")
    }
}

impl Recorder {
    /// The device of everything that takes part: modules and tensors are created on it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// A stand-in for a real tensor (a parameter, an input), of the same shape. The replay reads the real one.
    pub fn enter<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        let recorded = Tensor::<D>::empty(tensor.shape(), &self.device);
        let id = id(recorded.clone().into_dispatch());
        self.entered.borrow_mut().push((id, tensor.into_dispatch()));
        recorded
    }

    /// Makes a module. The tensors that `make` creates are computed once and kept in `constants`; `make` itself runs at each
    /// recording.
    pub fn once<T>(&self, constants: &Constants, make: impl FnOnce(&Device) -> T) -> T {
        let first = self.marker();
        let output = make(&self.device);
        let end = self.marker();
        self.made.borrow_mut().push((first..end, constants.clone()));
        output
    }

    /// The number of the tensor that would be made next.
    fn marker(&self) -> TensorId {
        id(Tensor::<1>::empty([1], &self.device).into_dispatch())
    }
}

/// A recorded computation.
pub(super) struct Recording {
    pub operations: Vec<OperationIr>,
    /// Contents of tensors that were made from data.
    pub values: BTreeMap<TensorId, TensorData>,
    pub entered: Vec<(TensorId, DispatchTensor)>,
    pub made: Vec<(Range<TensorId>, Constants)>,
    pub output: TensorId,
}

/// Records what `work` does, as in training if the module `trains`.
///
/// # Panics
/// If burn cannot record it.
pub(super) fn record<const D: usize>(trains: bool, work: impl FnOnce(&Recorder) -> Tensor<D>) -> Recording {
    on_capture_device(|device| {
        let recorder = Recorder {
            // Layers ask the device whether they are trained. Nothing tracks gradients: no tensor requires one.
            device: match trains {
                true => device.clone().autodiff(),
                false => device.clone(),
            },
            entered: RefCell::default(),
            made: RefCell::default(),
        };
        let mut output = None;
        let captured = device.capture_scope(|scope| {
            let tensor = work(&recorder);
            let id = id(tensor.clone().into_dispatch());
            output = Some(id);
            // The tensor lives until here: no operation may consume it.
            let complete = scope.complete([], [id]);
            drop(tensor);
            complete
        });
        let CapturedGraph { graph, values } =
            captured.unwrap_or_else(|error| panic!("the module cannot be recorded: {error}"));
        Recording {
            operations: graph.operations,
            values,
            entered: recorder.entered.take(),
            made: recorder.made.take(),
            output: output.expect("the scope has run"),
        }
    })
}

/// The number that a recording knows a tensor by.
///
/// # Panics
/// If the tensor is not one of a recording.
pub(super) fn id(tensor: DispatchTensor) -> TensorId {
    let kind = match tensor.kind {
        DispatchTensorKind::Autodiff(kind) => *kind,
        kind => kind,
    };
    let DispatchTensorKind::Capture(tensor) = kind else {
        panic!(
            "the output of a module comes from {:?}, expected the device of the recorder",
            kind.device()
        );
    };
    match tensor {
        BackendTensor::Float(tensor)
        | BackendTensor::Int(tensor)
        | BackendTensor::Bool(tensor)
        | BackendTensor::Quantized(tensor) => tensor.id(),
        tensor @ BackendTensor::Autodiff(_) => tensor.autodiff_inner().id(),
    }
}
