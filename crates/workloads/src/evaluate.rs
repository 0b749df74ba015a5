//! Evaluates a model with the given weights and compares its predictions with those in f32.

mod f32_agreement;
mod outcome;
mod predictions;
mod predictor;

use std::time::Instant;

use burn::tensor::Device;
use mantissa_core::{Cell, EvaluateTask, Event};
use mantissa_precision::{Compute, observe_launches, without_recording};

use crate::{
    Inputs, Observer, Outcome, Phase, WorkloadError,
    data::{Dataset, Part, RequestedSplits},
    initial_state::{InitialState, Purpose, initial_state},
    model_and_data::{ModelFactory, ModelTask},
    models::Network,
    outcome::progress,
    timing::wall_clock,
};
use f32_agreement::Reference;
use predictor::Predictor;

pub(crate) use f32_agreement::{agreement, warn_if_failed};
pub(crate) use outcome::outcome;
pub(crate) use predictions::{Predictions, evaluate_part, micro_batches};

/// Runs an evaluation cell on the model and data of a factory.
pub(crate) fn evaluate<F: ModelFactory>(
    cell: &Cell,
    task: &EvaluateTask,
    inputs: &Inputs,
    device: &Device,
    observer: &mut dyn Observer,
    factory: F,
) -> Result<Outcome, WorkloadError> {
    let begun = Instant::now();
    progress(observer, device, Phase::Prepare, 0, 1);
    let testing = EvaluationTask {
        cell,
        inputs,
        device,
        begun,
        observer,
    };
    let splits = RequestedSplits::Test(task.test);
    factory.run(cell, &splits, inputs, testing)
}

/// Evaluation cell whose model and data are not loaded yet.
struct EvaluationTask<'a> {
    cell: &'a Cell,
    inputs: &'a Inputs,
    device: &'a Device,
    begun: Instant,
    observer: &'a mut dyn Observer,
}

impl ModelTask for EvaluationTask<'_> {
    type Output = Outcome;

    fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Outcome, WorkloadError> {
        let test = Test::new(self.cell, model, self.inputs, self.device)?;
        test.run(&data, self.begun, self.inputs, self.observer)
    }
}

/// Model to evaluate.
struct Test<'a, M: Network> {
    cell: &'a Cell,
    model: M,
    initial_state: InitialState,
    compute: Compute,
    device: &'a Device,
}

impl<'a, M: Network> Test<'a, M> {
    fn new(cell: &'a Cell, model: M, inputs: &Inputs, device: &'a Device) -> Result<Self, WorkloadError> {
        let model = model
            .keep_in_f32(cell.setting.keep_f32())
            .map_err(WorkloadError::unavailable)?;
        let format = cell.setting.precision().parameters();
        Ok(Self {
            initial_state: initial_state(&model, (cell, format, Purpose::Testing), inputs, device)?,
            compute: Compute::of(&cell.setting),
            cell,
            model,
            device,
        })
    }

    /// Evaluates the model on data whose loading started at `begun`.
    fn run(
        self,
        data: &Dataset<M::Part>,
        begun: Instant,
        inputs: &Inputs,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, WorkloadError> {
        let load_seconds = begun.elapsed().as_secs_f64();
        let started = Instant::now();
        progress(observer, self.device, Phase::WarmUp, 0, 1);
        let clock = wall_clock(self.device)?;
        let batches = micro_batches(self.cell, &data.test);
        let predictor = self.predictor();
        // Run both batch shapes twice: the first call compiles.
        for indices in [batches.first(), batches.last()].into_iter().flatten() {
            let batch = data.test.batch(indices);
            predictor.predict(&batch)?;
            predictor.predict(&batch)?;
        }
        let launches = match batches.first() {
            Some(indices) => {
                let batch = data.test.batch(indices);
                observe_launches(self.device, || predictor.predict(&batch).map(drop))?
            }
            None => None,
        };
        let warmup_seconds = started.elapsed().as_secs_f64();

        let total = batches.len() as u64;
        progress(observer, self.device, Phase::Measure, 0, total);
        let predict = |indices: &[usize]| predictor.predict(&data.test.batch(indices));
        let result = evaluate_part(self.cell, &data.test, predict, observer)?;
        // The comparison with f32 does not count towards the setting's time, energy or memory.
        progress(observer, self.device, Phase::Evaluate, 0, total);
        observer.memory_peak_reached();
        drop(predictor);
        let InitialState {
            parameters,
            running,
            read,
            events,
        } = self.initial_state;
        // Free the memory for the copy in f32.
        drop((parameters, running));
        let reference = Reference {
            cell: self.cell,
            model: &self.model,
            device: self.device,
        };
        let mut events: Vec<Event> = events.iter().cloned().chain([clock]).collect();
        let agreement = match read {
            // Launches of the comparison with f32 must not count as launches of the setting.
            Some(_) => {
                let agreement =
                    without_recording(|| reference.agreement(data, &result.predicted, inputs, observer));
                warn_if_failed(agreement, &mut events)?
            }
            None => None,
        };
        let seconds = (load_seconds, warmup_seconds);
        Ok(Outcome {
            launches,
            ..outcome(self.cell, data, result, read, agreement, events, seconds)
        })
    }

    /// Returns the model with its parameters, ready to predict.
    fn predictor(&self) -> Predictor<'_, M> {
        Predictor::new(&self.model, &self.initial_state, self.compute, self.device)
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use mantissa_core::{
        Axis, AxisValue, Backend, DatasetKind, ImageNetResNetSize, Model, ResNetSize, Setting, Task,
        TaskKind, Workload,
    };

    use super::*;
    use crate::{Progress, ReadWeights, Share, TaskMeasurements, data::Labelled, model_and_data::BuiltIn};

    /// Observer that records the reported phases, and the number of reports before `memory_peak_reached`.
    #[derive(Default)]
    struct PhaseRecorder(Vec<Phase>, Option<usize>);

    impl Observer for PhaseRecorder {
        fn progress(&mut self, progress: Progress) {
            self.0.push(progress.phase);
        }

        fn memory_peak_reached(&mut self) {
            self.1 = Some(self.0.len());
        }
    }

    fn cell(model: Model, dataset: DatasetKind, precision: &str) -> Cell {
        let task = EvaluateTask {
            model,
            dataset,
            test: Some(10),
        };
        let workload = Workload {
            name: "trained".into(),
            task: Task::Evaluate(task),
        };
        let mut setting = Setting::of(&workload, Backend::Flex);
        assert_eq!(workload.kind(), TaskKind::Evaluate);
        setting
            .set(Axis::Precision, AxisValue::Text(precision.into()))
            .unwrap();
        setting.set(Axis::Batch, AxisValue::Integer(4)).unwrap();
        Cell::new("s", workload, setting, 1)
    }

    fn evaluate_cell(cell: &Cell, inputs: &Inputs) -> (Outcome, PhaseRecorder) {
        let Task::Evaluate(task) = &cell.workload.task else {
            unreachable!("`cell` creates an evaluation task")
        };
        let mut recorder = PhaseRecorder::default();
        let outcome = evaluate(cell, task, inputs, &Device::flex(), &mut recorder, BuiltIn).unwrap();
        (outcome, recorder)
    }

    const TINY: ResNetSize = ResNetSize { depth: 8, width: 4 };

    #[test]
    fn every_example_is_predicted_once() {
        let inputs = Inputs::default();
        let run = |precision: &str| {
            evaluate_cell(
                &cell(Model::Resnet(TINY), DatasetKind::SyntheticImages, precision),
                &inputs,
            )
        };
        let (single, recorder) = run("32-true");
        let TaskMeasurements::Evaluate {
            weights,
            examples,
            loss,
            test,
            agreement,
            windows,
            ..
        } = single.measured
        else {
            panic!("{:?}", single.measured)
        };
        assert_eq!((weights, examples, test.n, windows.len()), (None, 4, 10, 3));
        assert!(agreement.is_none() && loss > 0.0);
        assert!(
            single.samples.test_correct.is_none(),
            "the accuracy of random weights is recorded"
        );
        assert_eq!(single.samples.series[0].values().count(), 3);
        // The measure phase reports its start and each of three batches. The evaluate phase reports only its start.
        let phases =
            |recorder: &PhaseRecorder, phase| recorder.0.iter().filter(|seen| **seen == phase).count();
        assert_eq!(
            (
                phases(&recorder, Phase::Measure),
                phases(&recorder, Phase::Evaluate)
            ),
            (4, 1)
        );
    }

    #[test]
    fn weights_are_compared_with_f32_after_the_measurements() {
        let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/resnet18-tiny.safetensors");
        let size = ImageNetResNetSize {
            depth: 18,
            width: 3,
            image_size: 33,
        };
        let inputs = Inputs {
            weights: [("trained".to_owned(), weights)].into(),
            ..Inputs::default()
        };
        let run = |precision: &str| {
            let cell = cell(
                Model::ResnetImagenet(size.clone()),
                DatasetKind::SyntheticImages,
                precision,
            );
            let Task::Evaluate(task) = &cell.workload.task else {
                unreachable!("`cell` creates an evaluation task")
            };
            // The weights have five classes, so the images get five classes, too.
            let mut data = crate::data::synthetic_images(&RequestedSplits::Test(task.test), 33);
            data.test = data.test.with_labels(|label| label % 5);
            data.classes = 5;
            let model = crate::models::ImageNetResNet::new(size.clone(), 33, 5);
            let device = Device::flex();
            let test = Test::new(&cell, model, &inputs, &device).unwrap();
            let mut recorder = PhaseRecorder::default();
            let outcome = test.run(&data, Instant::now(), &inputs, &mut recorder).unwrap();
            (outcome, recorder)
        };
        let (single, _) = run("32-true");
        let TaskMeasurements::Evaluate {
            agreement,
            test,
            loss,
            ..
        } = single.measured
        else {
            panic!("{:?}", single.measured)
        };
        assert!(agreement.is_none());
        let correct = single.samples.test_correct.unwrap();
        assert_eq!(
            (correct.len(), correct.matches('1').count() as u64),
            (10, test.hits)
        );
        let (half, recorder) = run("bf16-true");
        let TaskMeasurements::Evaluate {
            agreement,
            loss: rounded,
            ..
        } = half.measured
        else {
            panic!("{:?}", half.measured)
        };
        let agreement = agreement.unwrap();
        assert_eq!(agreement.n, 10);
        assert!(agreement.hits >= 8, "{agreement:?}");
        assert!(
            rounded != loss && (rounded - loss).abs() < 0.1 * loss,
            "loss {rounded} in bf16, {loss} in f32"
        );
        // After the memory of the setting is known, the f32 pass reports its start and then each of its five half-size batches.
        let known = recorder.1.unwrap();
        assert_eq!(recorder.0[known - 1], Phase::Evaluate);
        assert!(!recorder.0[..known - 1].contains(&Phase::Evaluate));
        assert_eq!(recorder.0.len() - known, 5);
    }

    /// Returns the path of a real data file, which is not in the repository.
    fn real_data(name: &str) -> Option<PathBuf> {
        mantissa_testing::real_data(name)
    }

    #[test]
    fn trained_resnet_matches_pytorch_on_real_images() {
        let (Some(weights), Some(images)) = (
            real_data("cifar_resnet/resnet20-12fca82f.safetensors"),
            real_data("images/cifar10_lossless4000/cifar10_first4000_train.bin"),
        ) else {
            return;
        };
        let inputs = Inputs {
            weights: [("trained".to_owned(), weights)].into(),
            data: [(DatasetKind::Images, images.clone())].into(),
            ..Inputs::default()
        };
        let data = crate::data::load_images(
            (&images, None),
            &RequestedSplits::Test(None),
            32,
            &crate::data::ImagePreprocessing::without_config(crate::data::Normalization::IMAGENET),
        )
        .unwrap();
        assert_eq!(data.test.len(), 4000);
        assert_eq!(&data.test.labels()[..10], [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]);
        // With the same files, `peers/pytorch/golden/cifar.py` misclassifies only the 554th of these images, as class 0.
        let cell = cell(
            Model::Resnet(ResNetSize::RESNET20),
            DatasetKind::Images,
            "32-true",
        );
        let model = crate::models::ResNet::new(ResNetSize::RESNET20, 32, 10);
        let device = Device::flex();
        let test = Test::new(&cell, model, &inputs, &device).unwrap();
        let predictor = test.predictor();
        let indices: Vec<usize> = (540..570).collect();
        let batch = data.test.batch(&indices);
        let predicted = predictor.predict(&batch).unwrap().predicted;
        let wrong: Vec<_> = indices
            .iter()
            .zip(predicted.iter().zip(batch.labels()))
            .filter(|(_, (predicted, label))| predicted != label)
            .map(|(index, (predicted, _))| (*index, *predicted))
            .collect();
        assert_eq!(wrong, [(553, 0)]);
        let Some(ReadWeights::Here { bytes, .. }) = test.initial_state.read else {
            panic!("{:?}", test.initial_state.read)
        };
        // 269,722 parameters and 1,376 running statistics of four bytes.
        assert_eq!(bytes, 4 * (269_722 + 2 * 688));
    }

    #[test]
    fn loss_on_stories_matches_pytorch() {
        let [weights, tokenizer, text] = ["stories260K.bin", "tok512.bin", "stories.txt"]
            .map(|file| mantissa_testing::shipped(&format!("stories/{file}")));
        let Some(Model::Llama(size)) = mantissa_inputs::weights::model_of(&weights).unwrap() else {
            panic!("{} is not a LLaMA", weights.display())
        };
        let cache = tempfile::tempdir().unwrap();
        let inputs = Inputs {
            weights: [("trained".to_owned(), weights)].into(),
            data: [(DatasetKind::Text, text)].into(),
            vocabulary: Some(tokenizer),
            cache: cache.path().to_owned(),
            ..Inputs::default()
        };
        let evaluate_in = |precision: &str| {
            let mut cell = cell(Model::Llama(size.clone()), DatasetKind::Text, precision);
            cell.setting.set(Axis::Sequence, AxisValue::Integer(512)).unwrap();
            let (outcome, _) = evaluate_cell(&cell, &inputs);
            let TaskMeasurements::Evaluate {
                loss,
                predicts_tokens,
                test,
                agreement,
                tested_passages,
                passage_losses,
                agreeing_passages,
                ..
            } = outcome.measured
            else {
                panic!("{:?}", outcome.measured)
            };
            assert!(predicts_tokens);
            let sum = |passages: &[Share]| {
                let hits = passages.iter().map(|passage| passage.hits).sum();
                let n = passages.iter().map(|passage| passage.n).sum();
                Share { hits, n }
            };
            assert_eq!(sum(&tested_passages), test);
            assert_eq!(passage_losses.len(), tested_passages.len());
            assert!((passage_losses.iter().sum::<f64>() / test.n as f64 - loss).abs() < 1e-12);
            assert_eq!(sum(&agreeing_passages), agreement.unwrap_or_default());
            (loss, test.n, agreement)
        };
        // The expected loss is the mean over the tokens of five stories, by `peers/pytorch/golden/stories.py` with the same files.
        let (loss, tokens, agreement) = evaluate_in("64-true");
        assert_eq!((tokens, agreement.map(|share| share.n)), (1804, Some(1804)));
        assert!((loss - 1.266_441_031_332_281_6).abs() < 1e-9, "{loss}");
        let (loss, _, agreement) = evaluate_in("32-true");
        assert!((loss - 1.266_441_031_332_281_6).abs() < 1e-6, "{loss}");
        assert!(agreement.is_none());
        let (loss, _, agreement) = evaluate_in("bf16-true");
        let agreement = agreement.unwrap();
        assert!(
            (loss - 1.266_441).abs() > 1e-6 && (loss - 1.266_441).abs() < 0.02,
            "{loss}"
        );
        assert!(agreement.rate() > 0.97 && agreement.rate() < 1.0, "{agreement:?}");
    }
}
