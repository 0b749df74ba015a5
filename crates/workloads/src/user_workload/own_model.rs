//! Type-erased user-defined model, as a worker runs it.

use std::{fmt, path::PathBuf, sync::Arc};

use burn::tensor::Device;
use mantissa_collectives::Group;
use mantissa_core::{Cell, Task};

use super::{UserWorkload, dataset, gradients, model::UserModel};
use crate::{
    Inputs, Observer, Outcome, WorkloadError,
    data::RequestedSplits,
    evaluate,
    model_and_data::{ModelFactory, ModelTask},
    train,
};

/// Type-erased [`UserWorkload`] that a worker runs for `model = "own"` in a suite.
#[derive(Clone)]
pub struct OwnModel(Arc<RunWorkload>);

type RunWorkload = dyn Fn(&Cell, &Inputs, &Device, &mut dyn Group, &mut dyn Observer) -> Result<Outcome, WorkloadError>
    + Send
    + Sync;

impl OwnModel {
    /// Wraps a workload.
    pub fn new(workload: impl UserWorkload) -> Self {
        let workload = Arc::new(workload);
        let run = move |cell: &Cell,
                        inputs: &Inputs,
                        device: &Device,
                        group: &mut dyn Group,
                        observer: &mut dyn Observer| {
            let own = UserModel::new(workload.clone(), cell.seed)?;
            match &cell.workload.task {
                Task::Train(task) => train::train(cell, task, inputs, device, group, observer, own),
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
        group: &mut dyn Group,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, WorkloadError> {
        (self.0)(cell, inputs, device, group, observer)
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
        splits: &RequestedSplits,
        inputs: &Inputs,
        task: T,
    ) -> Result<T::Output, WorkloadError> {
        let mut paths = inputs.data.values();
        let path = paths.next().map(PathBuf::as_path);
        if paths.next().is_some() {
            return Err(WorkloadError::data(
                "`model = \"own\"` accepts only one `--data`, but several are given".to_owned(),
            ));
        }
        let data = dataset::load(&*self.workload, splits, path)?;
        if let Task::Train(_) = &cell.workload.task {
            gradients::check(&self, &data.train.examples)?;
        }
        task.run(self, data)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use burn::{
        module::Module,
        nn::{BatchNorm, BatchNormConfig, Dropout, DropoutConfig, Linear, LinearConfig},
        tensor::{Distribution, Tensor, TensorData},
    };
    use mantissa_core::{
        Axis, Backend as Executor, DatasetKind, Model, SeriesName, Setting, Split, TaskKind, TrainTask,
        Updates,
    };

    use super::*;
    use crate::{Progress, TaskMeasurements, models::Network, user_workload::Examples};

    #[derive(Module, Debug)]
    struct Line {
        first: Linear,
        norm: Option<BatchNorm>,
        dropout: Dropout,
        second: Linear,
    }

    /// Workload that classifies points by their side of a line. If `tied`, the module uses the same matrix twice. If `has_batch_norm`, it contains a
    /// batch norm. If `detaches`, it stops the gradients between its layers. If `adds_noise`, it adds normal noise between its layers.
    #[derive(Clone, Copy)]
    struct Sides {
        tied: bool,
        has_batch_norm: bool,
        dropout: f64,
        detaches: bool,
        adds_noise: bool,
        classes: u32,
    }

    const SIDES: Sides = Sides {
        tied: false,
        has_batch_norm: false,
        dropout: 0.0,
        detaches: false,
        adds_noise: false,
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
                norm: self.has_batch_norm.then(|| BatchNormConfig::new(2).init(device)),
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
            let hidden = match self.adds_noise {
                true => {
                    let noise = Distribution::Normal(0.0, 0.1);
                    hidden.clone() + Tensor::random(hidden.shape(), noise, &hidden.device())
                }
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
        outcome_with(sides, &[(Axis::Precision, precision), (Axis::Batch, "8")])
    }

    /// Returns the losses of the training steps.
    fn losses(sides: Sides, axes: &[(Axis, &str)]) -> Vec<f64> {
        let outcome = outcome_with(sides, axes).unwrap();
        let mut series = outcome.samples.series.iter();
        let losses = series.find(|series| series.name == SeriesName::TrainLoss);
        losses.unwrap().y.iter().map(|loss| loss.unwrap()).collect()
    }

    fn outcome_with(sides: Sides, axes: &[(Axis, &str)]) -> Result<Outcome, WorkloadError> {
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
        for (axis, text) in [&[(Axis::Optimizer, "adam")], axes].concat() {
            setting.set(axis, axis.parse(text).unwrap()).unwrap();
        }
        let cell = Cell::new("own", workload, setting, 1);
        let own = OwnModel::new(sides);
        let mut group = mantissa_collectives::Single;
        crate::run(&cell, &Inputs::default(), Some(&own), &mut group, &mut NoProgress)
    }

    #[test]
    fn own_models_learn_in_every_cpu_precision() {
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
    fn shared_parameters_are_counted_once() {
        let of = |tied| {
            let own = UserModel::new(Arc::new(Sides { tied, ..SIDES }), 1).unwrap();
            let names: Vec<String> = own.parameters().into_iter().map(|spec| spec.name).collect();
            (names, own.parameter_indices.to_vec())
        };
        let (names, parameter_indices) = of(true);
        assert_eq!((names.len(), parameter_indices), (2, vec![0, 1, 0, 1]));
        let (names, parameter_indices) = of(false);
        assert_eq!(
            names,
            ["first.weight", "first.bias", "second.weight", "second.bias"]
        );
        assert_eq!(parameter_indices, [0, 1, 2, 3]);
        assert!(outcome(Sides { tied: true, ..SIDES }, "32-true").is_ok());
    }

    #[test]
    fn unsupported_models_are_rejected_with_the_reason() {
        let error = |sides| match outcome(sides, "32-true") {
            Err(WorkloadError::Data(cause)) => cause.to_string(),
            other => panic!("{other:?}"),
        };
        let text = error(Sides {
            has_batch_norm: true,
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
        let in_f64 = |axes: &[(Axis, &'static str)]| [&[(Axis::Precision, "64-true")], axes].concat();
        let joined = losses(with_dropout, &in_f64(&[(Axis::Batch, "8")]));
        let divided = losses(
            with_dropout,
            &in_f64(&[(Axis::Batch, "4"), (Axis::Accumulate, "2")]),
        );
        let plain = losses(SIDES, &in_f64(&[(Axis::Batch, "8")]));
        let difference = |other: &[f64]| {
            assert_eq!(joined.len(), other.len());
            let pairs = joined.iter().zip(other);
            pairs
                .map(|(one, other)| (one - other).abs())
                .fold(0.0, mantissa_testing::worse)
        };
        assert!(difference(&divided) < 1e-12, "{}", difference(&divided));
        assert!(difference(&plain) > 1e-3, "dropout has no effect");
    }

    #[test]
    fn checkpointing_recomputes_the_same_random_numbers() {
        let noisy = Sides {
            adds_noise: true,
            ..SIDES
        };
        let with = |sides, checkpointing| {
            let axes = [
                (Axis::Precision, "32-true"),
                (Axis::Batch, "8"),
                (Axis::Checkpointing, checkpointing),
            ];
            losses(sides, &axes)
        };
        assert_eq!(with(noisy, "on"), with(noisy, "off"));
        assert_ne!(with(noisy, "on"), with(SIDES, "on"), "the noise has no effect");
    }
}
