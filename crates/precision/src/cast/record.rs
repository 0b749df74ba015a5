//! Recording of a module on burn's capture device, which executes nothing.

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
    /// Idle capture devices of this thread. They are reused, because burn numbers capture devices with 16 bits and never reuses a number.
    static DEVICES: RefCell<Vec<Device>> = const { RefCell::new(vec![]) };
}

/// Passes an idle capture device to `work`. A device records one graph at a time.
pub(super) fn on_capture_device<T>(work: impl FnOnce(&Device) -> T) -> T {
    /// Returns the device to the idle ones on drop, also after a panic.
    struct ReturnOnDrop(Device);
    impl Drop for ReturnOnDrop {
        fn drop(&mut self) {
            DEVICES.with_borrow_mut(|devices| devices.push(self.0.clone()));
        }
    }
    let idle = DEVICES.with_borrow_mut(Vec::pop);
    let device = ReturnOnDrop(idle.unwrap_or_else(capture_device));
    work(&device.0)
}

/// Creates a capture device whose default float format is f64. burn omits casts that do not change the format. With this default, casts to
/// any format but f64 are recorded.
fn capture_device() -> Device {
    let device = Device::capture();
    let configured = device.capture_scope(|scope| {
        for mut device in [device.clone(), device.clone().autodiff()] {
            // The second call fails if burn's registry stores both devices as one entry. This error is harmless.
            let _ = device.configure(FloatDType::F64);
        }
        scope.complete([], [])
    });
    configured.expect("a new capture device can be configured");
    device
}

/// Cache of the tensors, other than parameters, that a module creates, such as tables of positions. The first run of the module computes
/// them.
///
/// Use one cache per module, setting, training mode and device.
#[derive(Clone)]
pub struct Constants {
    pub(super) seed: u64,
    /// Cached tensors, by their index in the order of creation.
    pub(super) tensors: Arc<Mutex<HashMap<usize, DispatchTensor>>>,
}

impl Constants {
    /// Creates an empty cache. Random tensors are drawn from the generator of the device, seeded with `seed`.
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

/// Recording in progress.
pub struct Recorder {
    device: Device,
    entered: RefCell<Vec<(TensorId, DispatchTensor)>>,
    constants_by_range: RefCell<Vec<(Range<TensorId>, Constants)>>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Recorder")
    }
}

impl Recorder {
    /// Returns the device on which modules and tensors of the recording are created.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns a placeholder for a real tensor (a parameter, an input) of the same shape. The replay reads the real
    /// tensor.
    pub fn enter<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        let recorded = Tensor::<D>::empty(tensor.shape(), &self.device);
        let id = id(recorded.clone().into_dispatch());
        self.entered.borrow_mut().push((id, tensor.into_dispatch()));
        recorded
    }

    /// Creates a module. The tensors that `create` creates are computed once and cached in `constants`; `create` itself runs in each
    /// recording.
    pub fn once<T>(&self, constants: &Constants, create: impl FnOnce(&Device) -> T) -> T {
        let first = self.next_id();
        let output = create(&self.device);
        let last = self.next_id();
        self.constants_by_range
            .borrow_mut()
            .push((first..last, constants.clone()));
        output
    }

    /// Returns the ID of the next tensor.
    fn next_id(&self) -> TensorId {
        id(Tensor::<1>::empty([1], &self.device).into_dispatch())
    }
}

/// Recorded computation.
pub(super) struct Recording {
    pub operations: Vec<OperationIr>,
    /// Contents of tensors that were created from data.
    pub values: BTreeMap<TensorId, TensorData>,
    pub entered: Vec<(TensorId, DispatchTensor)>,
    pub constants_by_range: Vec<(Range<TensorId>, Constants)>,
    pub output: TensorId,
}

/// Records `work`, in training mode if `trains`.
///
/// # Panics
/// If burn cannot record it.
pub(super) fn record<const D: usize>(trains: bool, work: impl FnOnce(&Recorder) -> Tensor<D>) -> Recording {
    on_capture_device(|device| {
        let recorder = Recorder {
            // Layers read the training mode from the device. Gradients are not tracked, because no tensor requires
            // them.
            device: match trains {
                true => device.clone().autodiff(),
                false => device.clone(),
            },
            entered: RefCell::default(),
            constants_by_range: RefCell::default(),
        };
        let mut output = None;
        let captured = device.capture_scope(|scope| {
            let tensor = work(&recorder);
            let id = id(tensor.clone().into_dispatch());
            output = Some(id);
            // Keep `tensor` alive until the scope is complete. Otherwise, an operation might consume it.
            let complete = scope.complete([], [id]);
            drop(tensor);
            complete
        });
        let CapturedGraph { graph, values } =
            captured.unwrap_or_else(|error| panic!("cannot record the module: {error}"));
        Recording {
            operations: graph.operations,
            values,
            entered: recorder.entered.take(),
            constants_by_range: recorder.constants_by_range.take(),
            output: output.expect("the scope has run"),
        }
    })
}

/// Returns the ID of a tensor in a recording.
///
/// # Panics
/// If the tensor does not belong to a recording.
pub(super) fn id(tensor: DispatchTensor) -> TensorId {
    let kind = match tensor.kind {
        DispatchTensorKind::Autodiff(kind) => *kind,
        kind => kind,
    };
    let DispatchTensorKind::Capture(tensor) = kind else {
        panic!(
            "the output of the module is on {:?}, expected the device of the recorder",
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
