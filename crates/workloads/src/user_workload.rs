//! User-defined models: any burn module, with its data, under every precision setting.
//!
//! The user defines how to create the module, how it computes logits from its input, and the examples. Training, testing and measurement are the
//! same as for built-in models.

mod gradients;

use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use burn::{
    module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId},
    tensor::{Device, Tensor},
};
use mantissa_core::{Cell, DataSource, Precision, Task};
use mantissa_inputs::weights::Weight;
use mantissa_precision::{Autocast, Constants, Recorder};

use crate::{
    Inputs, Observer, Outcome, WorkloadError,
    data::{Dataset, Labelled, Part, Wanted, divided},
    evaluate,
    model_and_data::{ModelFactory, ModelTask},
    models::{F32Layers, Init, Network, ParameterSpec, Pass},
    train,
};

/// User-defined classifier and its data. `examples/own_model.rs` contains a complete program.
///
/// The module is an ordinary burn module. [`Autocast`] records and replays the module, so that its layers and tensor operations compute in the
/// formats of each setting. In true settings, its parameters have the setting's format, too. Modules that cannot be replayed are rejected before
/// the measurement: modules with frozen parameters, with running statistics of batch norms (which burn keeps inside the module), or with
/// gradients that differ from those of the recorded operations because of `detach`.
///
/// [`model`](Self::model), [`input`](Self::input) and [`forward`](Self::forward) run for every micro-batch. They create tensors on the given
/// `device`, and must not read them or move them (`to_device`).
pub trait UserWorkload: Send + Sync + 'static {
    /// Example in host memory.
    type Example: Send + Sync + 'static;

    /// Module of the model.
    type Model: Module + 'static;

    /// Micro-batch on a device.
    type Input;

    /// Returns all examples with their classes, numbered from 0.
    ///
    /// # Errors
    /// The data is invalid. The text is shown to the user unchanged.
    fn examples(&self, data: Option<&Path>) -> Result<Examples<Self::Example>, String>;

    /// Returns the bytes of an example. Records contain a hash of all examples, which shows whether two runs used the same data.
    fn bytes(&self, example: &Self::Example) -> Vec<u8>;

    /// Returns the number of classes.
    fn classes(&self) -> u32;

    /// Creates the module. Its parameters are initialized on the CPU after burn's generator is seeded, so that every setting and device starts with
    /// the same parameters. Tensors that are not parameters are computed once, on the device of the run and with the same seed. Do not read files
    /// here; read them when the workload is created.
    fn model(&self, device: &Device) -> Self::Model;

    /// Uploads a micro-batch to a device. Under a mixed setting, floats are f32 until a matmul reads them. A true setting has one format, also
    /// for tensors created here, in [`UserWorkload::model`] and in [`UserWorkload::forward`].
    fn input(&self, examples: &[&Self::Example], device: &Device) -> Self::Input;

    /// Computes logits `[examples, classes]`.
    fn forward(&self, model: &Self::Model, input: Self::Input) -> Tensor<2>;
}

/// Examples with their classes.
#[derive(Debug, Clone)]
pub struct Examples<E> {
    /// Name of the data in reports.
    pub name: String,
    /// True if a generator created the data; reports mark such data.
    pub synthetic: bool,
    /// Training examples, or all examples if there is no test part.
    pub train: Vec<(E, u32)>,
    /// Test examples.
    pub test: Option<Vec<(E, u32)>>,
}

/// Type-erased [`UserWorkload`] that a worker runs for `model = "own"` in a suite.
#[derive(Clone)]
pub struct OwnModel(Arc<RunWorkload>);

type RunWorkload =
    dyn Fn(&Cell, &Inputs, &Device, &mut dyn Observer) -> Result<Outcome, WorkloadError> + Send + Sync;

impl OwnModel {
    /// Wraps a workload.
    pub fn new(workload: impl UserWorkload) -> Self {
        let workload = Arc::new(workload);
        let run = move |cell: &Cell, inputs: &Inputs, device: &Device, observer: &mut dyn Observer| {
            let own = UserModel::new(workload.clone(), cell.seed)?;
            match &cell.workload.task {
                Task::Train(task) => train::train(cell, task, inputs, device, observer, own),
                Task::Evaluate(task) => evaluate::evaluate(cell, task, inputs, device, observer, own),
                Task::Generate(_) | Task::Kernel(_) => {
                    unreachable!("suites accept own models only for training and evaluation")
                }
            }
        };
        Self(Arc::new(run))
    }

    pub(crate) fn run(
        &self,
        cell: &Cell,
        inputs: &Inputs,
        device: &Device,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, WorkloadError> {
        (self.0)(cell, inputs, device, observer)
    }
}

impl fmt::Debug for OwnModel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OwnModel")
    }
}

impl<W: UserWorkload> ModelFactory for UserModel<W> {
    fn run<T: ModelTask>(
        self,
        cell: &Cell,
        wanted: &Wanted,
        inputs: &Inputs,
        task: T,
    ) -> Result<T::Output, WorkloadError> {
        let mut paths = inputs.data.values();
        let path = paths.next().map(PathBuf::as_path);
        if paths.next().is_some() {
            return Err(WorkloadError::Data(
                "`model = \"own\"` accepts only one `--data`, but several are given".to_owned(),
            ));
        }
        let data = self.data(wanted, path)?;
        if let Task::Train(_) = &cell.workload.task {
            gradients::check(&self, &data.train.examples)?;
        }
        task.run(self, data)
    }
}

/// Adapter of a user-defined model to the trainer: a network of one segment, which computes the logits.
pub(crate) struct UserModel<W> {
    workload: Arc<W>,
    specs: Arc<Vec<ParameterSpec>>,
    seed: u64,
    /// Parameter index of each position in the module. Several positions may share a parameter.
    places: Arc<Vec<usize>>,
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
    fn new(workload: Arc<W>, seed: u64) -> Result<Self, WorkloadError> {
        let found = ModuleParameters::of(&*workload, seed);
        if !found.fixed.is_empty() {
            return Err(WorkloadError::Data(format!(
                "frozen parameters and running statistics of batch norms are not supported: the model has `{}`",
                found.fixed.join("`, `")
            )));
        }
        if found.specs.is_empty() {
            return Err(WorkloadError::Data("the model has no parameters".to_owned()));
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

    fn data(&self, wanted: &Wanted, path: Option<&Path>) -> Result<Dataset<OwnPart<W>>, WorkloadError> {
        let given = self.workload.examples(path).map_err(WorkloadError::Data)?;
        let classes = self.workload.classes();
        let mut hasher = blake3::Hasher::new();
        for (example, class) in given.train.iter().chain(given.test.iter().flatten()) {
            if *class >= classes {
                return Err(WorkloadError::Data(format!(
                    "an example has class {class}, but the model has {classes} classes, numbered from 0"
                )));
            }
            let bytes = self.workload.bytes(example);
            hasher.update(&class.to_le_bytes());
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(&bytes);
        }
        hasher.update(&(given.train.len() as u64).to_le_bytes());
        let parts = divided(given.train, given.test, wanted);
        let ([train, validation, test], remark) =
            parts.map_err(|error| WorkloadError::Data(error.to_string()))?;
        let part = |examples: Vec<(W::Example, u32)>| OwnPart {
            examples: Arc::new(examples),
        };
        Ok(Dataset {
            train: part(train),
            validation: part(validation),
            test: part(test),
            classes,
            source: DataSource {
                name: given.name + remark,
                hash: hasher.finalize().to_hex()[..16].to_owned(),
                synthetic: given.synthetic,
                ..DataSource::default()
            },
        })
    }

    /// Computes the logits of examples by recording and replaying the module. `vector` returns a parameter by index.
    fn logits(
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
    fn filled(
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

/// Parameters of a module with their paths.
#[derive(Default)]
struct ModuleParameters {
    path: Vec<String>,
    ids: Vec<ParamId>,
    specs: Vec<ParameterSpec>,
    values: Vec<Vec<f32>>,
    places: Vec<usize>,
    /// Names of frozen parameters.
    fixed: Vec<String>,
}

impl ModuleParameters {
    /// Collects the parameters of the module as created on the CPU.
    fn of<W: UserWorkload>(workload: &W, seed: u64) -> Self {
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
        if let Some(place) = self.ids.iter().position(|id| *id == parameter.id) {
            self.places.push(place);
            return;
        }
        let (value, name) = (parameter.val(), self.path.join("."));
        if !value.is_require_grad() {
            self.fixed.push(name);
            return;
        }
        self.places.push(self.ids.len());
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
struct ParameterFiller<'a, V> {
    /// Function that returns a parameter by index, flattened.
    vector: V,
    /// Recorder that the parameters are registered with.
    recorder: Option<&'a Recorder>,
    specs: &'a [ParameterSpec],
    places: std::slice::Iter<'a, usize>,
}

impl<V: Fn(usize) -> Tensor<1>> ModuleMapper for ParameterFiller<'_, V> {
    fn map_float<const D: usize>(&mut self, parameter: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let place = *self
            .places
            .next()
            .expect("every call of `model` creates the same parameters");
        let shape = self.specs[place].shape.as_slice();
        let shape: [usize; D] = shape
            .try_into()
            .expect("every call of `model` creates the same ranks");
        let value = (self.vector)(place).reshape(shape);
        let value = match self.recorder {
            Some(recorder) => recorder.enter(value),
            None => value,
        };
        Param::initialized(parameter.id, value)
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

/// Part of the user's examples.
pub(crate) struct OwnPart<W: UserWorkload> {
    examples: Arc<Vec<(W::Example, u32)>>,
}

/// Batch of the user's examples.
pub(crate) struct OwnBatch<W: UserWorkload> {
    examples: Arc<Vec<(W::Example, u32)>>,
    indices: Vec<usize>,
    labels: Vec<i32>,
}

impl<W: UserWorkload> Clone for OwnBatch<W> {
    fn clone(&self) -> Self {
        Self {
            examples: self.examples.clone(),
            indices: self.indices.clone(),
            labels: self.labels.clone(),
        }
    }
}

impl<W: UserWorkload> Part for OwnPart<W> {
    type Batch = OwnBatch<W>;

    fn len(&self) -> usize {
        self.examples.len()
    }

    fn batch(&self, indices: &[usize]) -> OwnBatch<W> {
        OwnBatch {
            examples: self.examples.clone(),
            indices: indices.to_vec(),
            labels: indices
                .iter()
                .map(|index| self.examples[*index].1 as i32)
                .collect(),
        }
    }
}

impl<W: UserWorkload> Labelled for OwnBatch<W> {
    fn labels(&self) -> &[i32] {
        &self.labels
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig},
        tensor::TensorData,
    };
    use mantissa_core::{
        Axis, Backend as Executor, DatasetKind, Model, SeriesName, Setting, Split, TaskKind, TrainTask,
        Updates,
    };

    use super::*;
    use crate::{Progress, TaskMeasurements};

    #[derive(Module, Debug)]
    struct Line {
        first: Linear,
        norm: Option<BatchNorm>,
        dropout: Dropout,
        second: Linear,
    }

    /// Points on both sides of a line. A tied module uses the same matrix twice. A detaching module stops the gradients between its layers.
    #[derive(Clone, Copy)]
    struct Sides {
        tied: bool,
        normal: bool,
        dropout: f64,
        detaches: bool,
        classes: u32,
    }

    const SIDES: Sides = Sides {
        tied: false,
        normal: false,
        dropout: 0.0,
        detaches: false,
        classes: 2,
    };

    impl UserWorkload for Sides {
        type Example = [f32; 2];
        type Model = Line;
        type Input = Tensor<2>;

        fn examples(&self, _: Option<&Path>) -> Result<Examples<[f32; 2]>, String> {
            let point = |number: u32| {
                let x = (number as f32 * 0.37).sin();
                let y = (number as f32 * 0.73).cos();
                ([x, y], u32::from(x + y > 0.0))
            };
            Ok(Examples {
                name: "sides".into(),
                synthetic: true,
                train: (0..120).map(point).collect(),
                test: Some((120..160).map(point).collect()),
            })
        }

        fn bytes(&self, example: &[f32; 2]) -> Vec<u8> {
            example.iter().flat_map(|value| value.to_le_bytes()).collect()
        }

        fn classes(&self) -> u32 {
            self.classes
        }

        fn model(&self, device: &Device) -> Line {
            let first = LinearConfig::new(2, 2).init(device);
            Line {
                second: match self.tied {
                    true => first.clone(),
                    false => LinearConfig::new(2, 2).init(device),
                },
                first,
                norm: self.normal.then(|| BatchNormConfig::new(2).init(device)),
                dropout: DropoutConfig::new(self.dropout).init(),
            }
        }

        fn input(&self, examples: &[&[f32; 2]], device: &Device) -> Tensor<2> {
            let values: Vec<f32> = examples.iter().flat_map(|example| **example).collect();
            Tensor::from_data(TensorData::new(values, [examples.len(), 2]), device)
        }

        fn forward(&self, line: &Line, points: Tensor<2>) -> Tensor<2> {
            let hidden = line.dropout.forward(line.first.forward(points));
            let hidden = match self.detaches {
                true => hidden.detach(),
                false => hidden,
            };
            line.second.forward(hidden)
        }
    }

    struct NoProgress;
    impl Observer for NoProgress {
        fn progress(&mut self, _: Progress) {}
    }

    fn outcome(sides: Sides, precision: &str) -> Result<Outcome, WorkloadError> {
        let task = TrainTask {
            model: Model::Own,
            dataset: DatasetKind::Own,
            split: Split {
                join: false,
                train: None,
                validation: 20,
                test: None,
                seed: 1,
            },
            epochs: 15,
            learning_rate: 0.05,
            weight_decay: 0.0,
            momentum: 0.0,
            drop_last: false,
            observe_every: 0,
            sensitivity: false,
            updates: Updates::default(),
        };
        let workload = mantissa_core::Workload {
            name: "sides".into(),
            task: Task::Train(task),
        };
        let mut setting = Setting::defaults(TaskKind::Train, Executor::Flex);
        for (axis, text) in [
            (Axis::Precision, precision),
            (Axis::Batch, "8"),
            (Axis::Optimizer, "adam"),
        ] {
            setting.set(axis, axis.parse(text).unwrap()).unwrap();
        }
        let cell = Cell::new("own", workload, setting, 1);
        let own = OwnModel::new(sides);
        crate::run(&cell, &Inputs::default(), Some(&own), &mut NoProgress)
    }

    #[test]
    fn own_models_learn_in_every_precision_of_the_cpu_from_the_same_parameters() {
        let mut first = vec![];
        for precision in ["64-true", "32-true", "16-mixed", "bf16-mixed", "bf16-true"] {
            let outcome = outcome(SIDES, precision).unwrap();
            assert_eq!(outcome.data.as_ref().unwrap().name, "sides");
            let TaskMeasurements::Train { test, .. } = &outcome.measured else {
                panic!("not a training: {:?}", outcome.measured)
            };
            assert!(test.rate() > 0.9, "{precision}: {test:?}");
            let mut losses = outcome.samples.series.iter();
            let losses = losses
                .find(|series| series.name == SeriesName::TrainLoss)
                .unwrap();
            first.push(losses.y[0].expect("the loss is finite"));
        }
        let spread =
            first.iter().copied().fold(f64::MIN, f64::max) - first.iter().copied().fold(f64::MAX, f64::min);
        assert!(spread > 0.0 && spread < 0.02, "{first:?}");
    }

    #[test]
    fn logits_with_a_wrong_number_of_classes_panic() {
        let wrong = std::panic::catch_unwind(|| outcome(Sides { classes: 3, ..SIDES }, "32-true"));
        assert!(wrong.is_err());
    }

    #[test]
    fn a_shared_parameter_is_counted_once() {
        let of = |tied| {
            let own = UserModel::new(Arc::new(Sides { tied, ..SIDES }), 1).unwrap();
            let names: Vec<String> = own.parameters().into_iter().map(|spec| spec.name).collect();
            (names, own.places.to_vec())
        };
        let (names, places) = of(true);
        assert_eq!((names.len(), places), (2, vec![0, 1, 0, 1]));
        let (names, places) = of(false);
        assert_eq!(
            names,
            ["first.weight", "first.bias", "second.weight", "second.bias"]
        );
        assert_eq!(places, [0, 1, 2, 3]);
        assert!(outcome(Sides { tied: true, ..SIDES }, "32-true").is_ok());
    }

    #[test]
    fn unsupported_models_are_rejected_with_the_reason() {
        let error = |sides| match outcome(sides, "32-true") {
            Err(WorkloadError::Data(text)) => text,
            other => panic!("{other:?}"),
        };
        let text = error(Sides {
            normal: true,
            ..SIDES
        });
        assert!(
            text.ends_with("not supported: the model has `norm.running_mean`, `norm.running_var`"),
            "{text}"
        );
        let text = error(Sides { classes: 1, ..SIDES });
        assert_eq!(
            text,
            "an example has class 1, but the model has 1 classes, numbered from 0"
        );
        let text = error(Sides {
            detaches: true,
            ..SIDES
        });
        assert!(
            text.starts_with(
                "the gradients of `first.weight`, `first.bias` differ from those that burn computes"
            ),
            "{text}"
        );
    }

    #[test]
    fn modules_may_contain_dropout() {
        let with_dropout = Sides {
            dropout: 0.2,
            ..SIDES
        };
        assert!(outcome(with_dropout, "bf16-mixed").is_ok());
    }
}
