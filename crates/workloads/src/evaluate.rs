//! Evaluates a model with the given weights and compares its predictions with those in f32.

use std::{ops::Range, time::Instant};

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::{
    Axis, Cell, EvaluateTask, Event, EventKind, Executed, Precision, Samples, Series, SeriesName,
};
use mantissa_precision::{Compute, Tracked, observe_launches, without_recording};

use crate::{
    AllocatorBytes, Inputs, Observer, Outcome, Phase, Progress, ReadWeights, Share, TaskMeasurements,
    WorkloadError,
    data::{Dataset, Labelled, Part, Wanted},
    initial_state::{Purpose, Start, start},
    model_and_data::{ModelFactory, ModelTask},
    models::{Batch, Network, Norms, Stage},
    outcome::{allocator, progress, read},
    timing::wall_clock,
};

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
    let testing = Testing {
        cell,
        inputs,
        device,
        begun,
        observer,
    };
    let wanted = Wanted::Test(task.test);
    factory.run(cell, &wanted, inputs, testing)
}

/// Evaluation before its model and data are loaded.
struct Testing<'a> {
    cell: &'a Cell,
    inputs: &'a Inputs,
    device: &'a Device,
    begun: Instant,
    observer: &'a mut dyn Observer,
}

impl ModelTask for Testing<'_> {
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
    start: Start,
    compute: Compute,
    device: &'a Device,
}

/// Predictions for a micro-batch of examples.
pub(crate) struct Predictions {
    /// Class with the highest logit of each example.
    pub predicted: Vec<i32>,
    /// Cross-entropy of each example, nats.
    pub losses: Vec<f64>,
    /// Time window from before the upload of the examples until the predictions are on the host.
    pub window: Range<Instant>,
    /// Allocator statistics while the logits are in memory.
    pub allocator: Option<AllocatorBytes>,
}

/// Predictions for all test examples.
pub(crate) struct EvaluationResult {
    seconds: Series,
    windows: Vec<Range<Instant>>,
    predicted: Vec<i32>,
    correct: String,
    /// Mean cross-entropy, nats.
    loss: f64,
    passages: Vec<Share>,
    passage_losses: Vec<f64>,
}

impl EvaluationResult {
    /// Returns the class or token with the highest logit of each example.
    pub fn predicted(&self) -> &[i32] {
        &self.predicted
    }
}

/// Runs `predict` once over all test examples, in micro-batches.
pub(crate) fn go_through<P: Part>(
    cell: &Cell,
    part: &P,
    mut predict: impl FnMut(&[usize]) -> Result<Predictions, WorkloadError>,
    observer: &mut dyn Observer,
) -> Result<EvaluationResult, WorkloadError> {
    let mut seconds = Series::new(SeriesName::BatchSeconds);
    let (mut predicted, mut loss, mut windows) = (vec![], 0.0, vec![]);
    let mut correct = String::with_capacity(part.len());
    let predicts_tokens = cell.workload.predicts_tokens();
    let (mut passages, mut passage_losses) = (vec![], vec![]);
    let batches = micro_batches(cell, part);
    let total = batches.len() as u64;
    for (number, indices) in (1u32..).zip(&batches) {
        let batch = part.batch(indices);
        let predictions = predict(indices)?;
        let taken = predictions.window.end - predictions.window.start;
        seconds.push(f64::from(number), taken.as_secs_f64());
        let is_correct = || {
            predictions
                .predicted
                .iter()
                .zip(batch.labels())
                .map(|(a, b)| a == b)
        };
        correct.extend(is_correct().map(|correct| if correct { '1' } else { '0' }));
        if predicts_tokens {
            let token_counts = batch.answers();
            passages.extend(Share::by_passage(&token_counts, is_correct()));
            let mut losses = predictions.losses.iter();
            let sum = |tokens: &u32| losses.by_ref().take(*tokens as usize).sum::<f64>();
            passage_losses.extend(token_counts.iter().map(sum));
        }
        loss += predictions.losses.iter().sum::<f64>();
        predicted.extend(predictions.predicted);
        windows.push(predictions.window);
        observer.progress(Progress {
            phase: Phase::Measure,
            done: number.into(),
            total,
            allocator: predictions.allocator,
        });
    }
    Ok(EvaluationResult {
        loss: loss / correct.len() as f64,
        seconds,
        windows,
        predicted,
        correct,
        passages,
        passage_losses,
    })
}

/// Returns the indices of the examples of each micro-batch.
pub(crate) fn micro_batches<P: Part>(cell: &Cell, part: &P) -> Vec<Vec<usize>> {
    let indices: Vec<usize> = (0..part.len()).collect();
    let batches = indices.chunks(cell.setting.batch() as usize);
    batches.map(<[usize]>::to_vec).collect()
}

/// Builds the outcome of an evaluation. `read` are the weights read from a checkpoint. The last argument is the time of loading and of the
/// warm-up in seconds.
pub(crate) fn outcome<P: Part>(
    cell: &Cell,
    data: &Dataset<P>,
    tested: EvaluationResult,
    read: Option<ReadWeights>,
    agreement: Option<(Share, Vec<Share>)>,
    events: Vec<Event>,
    (load_seconds, warmup_seconds): (f64, f64),
) -> Outcome {
    let words = cell.workload.predicts_tokens();
    let (agreement, agreeing_passages) = agreement.unzip();
    let n = tested.correct.len() as u64;
    let hits = tested.correct.bytes().filter(|bit| *bit == b'1').count() as u64;
    let tokens = cell.workload.concerns(Axis::Sequence);
    let batch = cell.setting.batch() as usize;
    let examples = batch.min(data.test.len()) as u64;
    let diverged = !tested.loss.is_finite();
    Outcome {
        samples: Samples {
            series: vec![tested.seconds],
            // Skip random weights (their accuracy is meaningless) and tokens of one text (they are not independent).
            test_correct: read.filter(|_| !words).map(|_| tested.correct),
            ranges: vec![],
            trials: vec![],
        },
        events,
        diverged: diverged.then(|| "the test loss is not finite".to_owned()),
        data: Some(data.source.clone()),
        executed: Executed::unverified(),
        load_seconds,
        warmup_seconds,
        launches: None,
        measured: TaskMeasurements::Evaluate {
            weights: read,
            examples,
            full: (data.test.len() / batch) as u64,
            words,
            tokens: tokens.then(|| examples * u64::from(cell.setting.sequence())),
            loss: tested.loss,
            test: Share { hits, n },
            agreement,
            tested_passages: tested.passages,
            passage_losses: tested.passage_losses,
            agreeing_passages: agreeing_passages.unwrap_or_default(),
            windows: tested.windows,
        },
    }
}

/// Returns the precision in which the loss is computed.
fn wide(precision: Precision) -> Precision {
    match precision {
        Precision::True64 => Precision::True64,
        _ => Precision::True32,
    }
}

/// Model that is ready to predict.
struct Ready<'a, M: Network> {
    model: &'a M,
    parameters: Tracked,
    running: &'a Norms,
    compute: Compute,
    device: &'a Device,
}

impl<M: Network> Ready<'_, M> {
    /// Predicts a micro-batch. The window lasts from the upload until the predictions are on the host.
    fn predict(&self, batch: &Batch<M>) -> Result<Predictions, WorkloadError> {
        let begun = Instant::now();
        let input = M::upload(batch, self.device);
        let pass = self
            .model
            .pass(&self.parameters, &self.compute, Stage::Testing(self.running));
        let logits = self.model.forward(&pass, &input, |_| ());
        let predicted = read(logits.clone().argmax(1))?;
        let window = begun..Instant::now();
        // Read the allocator while the logits are still in memory.
        let allocator = allocator(self.device);
        let labels = batch.labels();
        let labels = Tensor::from_data(TensorData::new(labels.to_vec(), [labels.len()]), self.device);
        // The logits have the setting's precision, but the loss must not be rounded to its format.
        let losses = Compute::from(wide(self.compute.precision())).cross_entropies(logits, labels);
        Ok(Predictions {
            predicted,
            losses: read(losses)?,
            window,
            allocator,
        })
    }
}

impl<'a, M: Network> Test<'a, M> {
    fn new(cell: &'a Cell, model: M, inputs: &Inputs, device: &'a Device) -> Result<Self, WorkloadError> {
        let model = model
            .keeping(cell.setting.keep_f32())
            .map_err(WorkloadError::Unavailable)?;
        let format = cell.setting.precision().parameters();
        Ok(Self {
            start: start(&model, (cell, format, Purpose::Testing), inputs, device)?,
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
        let ready = self.ready();
        // Run both batch shapes twice: the first call compiles.
        for indices in [batches.first(), batches.last()].into_iter().flatten() {
            let batch = data.test.batch(indices);
            ready.predict(&batch)?;
            ready.predict(&batch)?;
        }
        let launches = match batches.first() {
            Some(indices) => {
                let batch = data.test.batch(indices);
                observe_launches(self.device, || ready.predict(&batch).map(drop))?
            }
            None => None,
        };
        let warmup_seconds = started.elapsed().as_secs_f64();

        let total = batches.len() as u64;
        progress(observer, self.device, Phase::Measure, 0, total);
        let predict = |indices: &[usize]| ready.predict(&data.test.batch(indices));
        let tested = go_through(self.cell, &data.test, predict, observer)?;
        // The comparison with f32 does not count towards the setting's time, energy or memory.
        progress(observer, self.device, Phase::Evaluate, 0, total);
        observer.memory_known();
        drop(ready);
        let Start {
            parameters,
            running,
            read,
            events,
        } = self.start;
        // Free the memory for the copy in f32.
        drop((parameters, running));
        let reference = Reference {
            cell: self.cell,
            model: &self.model,
            device: self.device,
        };
        let mut events: Vec<Event> = events.iter().cloned().chain([clock]).collect();
        let agreement = match read {
            // Launches of the f32 comparison must not count as launches of the setting.
            Some(_) => {
                let compared =
                    without_recording(|| reference.agreement(data, &tested.predicted, inputs, observer));
                warn_if_failed(compared, &mut events)?
            }
            None => None,
        };
        let seconds = (load_seconds, warmup_seconds);
        Ok(Outcome {
            launches,
            ..outcome(self.cell, data, tested, read, agreement, events, seconds)
        })
    }

    fn ready<'b>(&'b self) -> Ready<'b, M> {
        ready(&self.model, &self.start, self.compute, self.device)
    }
}

/// Creates the low-precision parameter copies that forward passes read, and returns the model with them.
fn ready<'a, M: Network>(
    model: &'a M,
    start: &'a Start,
    compute: Compute,
    device: &'a Device,
) -> Ready<'a, M> {
    let working = start.parameters.working(&compute, |name| model.multiplies(name));
    Ready {
        model,
        parameters: working.freeze(),
        running: &start.running,
        compute,
        device,
    }
}

/// The same weights in f32, loaded after the setting's own weights are freed.
struct Reference<'a, M: Network> {
    cell: &'a Cell,
    model: &'a M,
    device: &'a Device,
}

impl<M: Network> Reference<'_, M> {
    /// Returns the share of predictions that agree with those of `32-true` and `highest`, in total and, for tokens, by passage. Returns `None`
    /// if this is the cell's own setting.
    fn agreement(
        &self,
        data: &Dataset<M::Part>,
        predicted: &[i32],
        inputs: &Inputs,
        observer: &mut dyn Observer,
    ) -> Result<Option<(Share, Vec<Share>)>, WorkloadError> {
        let setting = self.cell.setting.in_f32();
        if setting == self.cell.setting {
            return Ok(None);
        }
        let of = (self.cell, setting.precision().parameters(), Purpose::Testing);
        let start = start(self.model, of, inputs, self.device)?;
        let ready = ready(self.model, &start, Compute::of(&setting), self.device);
        let part = &data.test;
        let predict = |indices: &[usize]| ready.predict(&part.batch(indices));
        agreement(self.cell, part, predicted, predict, observer).map(Some)
    }
}

/// Adds a warning to the record if the comparison with f32 failed on the device. It may run out of memory, since f32 needs twice the memory of
/// a 16-bit format. The measurements stay valid, since the comparison runs after them.
pub(crate) fn warn_if_failed<T>(
    compared: Result<Option<T>, WorkloadError>,
    events: &mut Vec<Event>,
) -> Result<Option<T>, WorkloadError> {
    let reason = match compared {
        Err(WorkloadError::Device(reason)) => reason,
        known => return known,
    };
    events.push(Event::new(
        EventKind::Warning,
        format!("predictions were not compared with the f32 predictions: {reason}"),
    ));
    Ok(None)
}

/// Returns the share of predictions that agree with those of `predict` for the same test examples, in total and, for tokens, by passage.
pub(crate) fn agreement<P: Part>(
    cell: &Cell,
    part: &P,
    predicted: &[i32],
    mut predict: impl FnMut(&[usize]) -> Result<Predictions, WorkloadError>,
    observer: &mut dyn Observer,
) -> Result<(Share, Vec<Share>), WorkloadError> {
    // Halve the batch size, since f32 values may be twice as large as the setting's.
    let batch = (cell.setting.batch() as usize).div_ceil(2);
    let indices: Vec<usize> = (0..part.len()).collect();
    let batches = indices.chunks(batch);
    let total = batches.len() as u64;
    let predicts_tokens = cell.workload.predicts_tokens();
    let (mut hits, mut at, mut passages) = (0, 0, vec![]);
    for (number, indices) in (1u64..).zip(batches) {
        let predictions = predict(indices)?;
        let agrees = || {
            predictions
                .predicted
                .iter()
                .zip(&predicted[at..])
                .map(|(a, b)| a == b)
        };
        hits += agrees().filter(|agrees| *agrees).count();
        if predicts_tokens {
            passages.extend(Share::by_passage(&part.batch(indices).answers(), agrees()));
        }
        at += predictions.predicted.len();
        observer.progress(Progress {
            phase: Phase::Evaluate,
            done: number,
            total,
            allocator: predictions.allocator,
        });
    }
    let all = Share {
        hits: hits as u64,
        n: predicted.len() as u64,
    };
    Ok((all, passages))
}

#[cfg(test)]
mod tests {
    use crate::model_and_data::BuiltIn;
    use std::path::{Path, PathBuf};

    use mantissa_core::{
        AxisValue, Backend, DatasetKind, ImageNetResNetSize, Model, ResNetSize, Setting, Task, TaskKind,
        Workload,
    };

    use super::*;

    #[test]
    fn a_failed_f32_comparison_keeps_the_measurements_and_adds_a_warning() {
        let mut events = vec![];
        let failed = |error: WorkloadError| Err::<Option<u32>, _>(error);
        let agreement = warn_if_failed(failed(WorkloadError::Device("out of memory".into())), &mut events);
        assert!(matches!(agreement, Ok(None)));
        assert_eq!(
            events[0].detail,
            "predictions were not compared with the f32 predictions: out of memory"
        );
        assert!(warn_if_failed(failed(WorkloadError::Data("no vocabulary".into())), &mut events).is_err());
        assert!(matches!(warn_if_failed(Ok(Some(1)), &mut events), Ok(Some(1))));
        assert_eq!(events.len(), 1);
    }

    /// Observer that records the phases, and how many of them preceded `memory_known`.
    #[derive(Default)]
    struct PhaseRecorder(Vec<Phase>, Option<usize>);

    impl Observer for PhaseRecorder {
        fn progress(&mut self, progress: Progress) {
            self.0.push(progress.phase);
        }

        fn memory_known(&mut self) {
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

    fn tested(cell: &Cell, inputs: &Inputs) -> (Outcome, PhaseRecorder) {
        let Task::Evaluate(task) = &cell.workload.task else {
            unreachable!("`cell` creates an evaluation task")
        };
        let mut recorder = PhaseRecorder::default();
        let outcome = evaluate(cell, task, inputs, &Device::flex(), &mut recorder, BuiltIn).unwrap();
        (outcome, recorder)
    }

    const TINY: ResNetSize = ResNetSize { depth: 8, width: 4 };

    #[test]
    fn every_example_is_predicted_once_and_random_weights_are_recorded_as_such() {
        let inputs = Inputs::default();
        let run = |precision: &str| {
            tested(
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
        // The measure phase reports its start and each of three batches. Evaluate reports only its start.
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
            let mut data = crate::data::synthetic_images(&Wanted::Test(task.test), 33);
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
        // The f32 pass starts after the memory of the setting is known: one progress report, then its five half-size batches.
        let known = recorder.1.unwrap();
        assert_eq!(recorder.0[known - 1], Phase::Evaluate);
        assert!(!recorder.0[..known - 1].contains(&Phase::Evaluate));
        assert_eq!(recorder.0.len() - known, 5);
    }

    /// Returns the path of a real data file, which is not in the repository.
    fn real(name: &str) -> Option<PathBuf> {
        mantissa_testing::real_data(name)
    }

    #[test]
    fn the_trained_resnet_predicts_real_images_as_in_pytorch() {
        let (Some(weights), Some(images)) = (
            real("cifar_resnet/resnet20-12fca82f.safetensors"),
            real("images/cifar10_lossless4000/cifar10_first4000_train.bin"),
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
            &Wanted::Test(None),
            32,
            &crate::data::ImagePreprocessing::usual(crate::data::Normalization::IMAGENET),
        )
        .unwrap();
        assert_eq!(data.test.len(), 4000);
        assert_eq!(&data.test.labels()[..10], [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]);
        // `peers/pytorch/golden/cifar.py` with the same files: of these images, only the 554th is misclassified, as 0.
        let cell = cell(
            Model::Resnet(ResNetSize::RESNET20),
            DatasetKind::Images,
            "32-true",
        );
        let model = crate::models::ResNet::new(ResNetSize::RESNET20, 32, 10);
        let device = Device::flex();
        let test = Test::new(&cell, model, &inputs, &device).unwrap();
        let ready = test.ready();
        let indices: Vec<usize> = (540..570).collect();
        let batch = data.test.batch(&indices);
        let predicted = ready.predict(&batch).unwrap().predicted;
        let wrong: Vec<_> = indices
            .iter()
            .zip(predicted.iter().zip(batch.labels()))
            .filter(|(_, (predicted, label))| predicted != label)
            .map(|(index, (predicted, _))| (*index, *predicted))
            .collect();
        assert_eq!(wrong, [(553, 0)]);
        let Some(ReadWeights::Here { bytes, .. }) = test.start.read else {
            panic!("{:?}", test.start.read)
        };
        // 269,722 parameters and 1,376 running statistics of four bytes.
        assert_eq!(bytes, 4 * (269_722 + 2 * 688));
    }

    #[test]
    fn the_loss_on_stories_equals_that_in_pytorch() {
        let (Some(weights), Some(tokenizer), Some(text)) = (
            real("llama_tiny/stories260K.bin"),
            real("llama_tiny/tok512.bin"),
            real("llama_tiny/tinystories_sample_cs336.txt"),
        ) else {
            return;
        };
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
        let measured = |precision: &str| {
            let mut cell = cell(Model::Llama(size.clone()), DatasetKind::Text, precision);
            cell.setting.set(Axis::Sequence, AxisValue::Integer(512)).unwrap();
            let (outcome, _) = tested(&cell, &inputs);
            let TaskMeasurements::Evaluate {
                loss,
                words,
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
            assert!(words);
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
        // `peers/pytorch/golden/stories.py` with the same files: mean over the tokens of five stories.
        let (loss, tokens, agreement) = measured("64-true");
        assert_eq!((tokens, agreement.map(|share| share.n)), (1804, Some(1804)));
        assert!((loss - 1.266_441_031_332_281_6).abs() < 1e-9, "{loss}");
        let (loss, _, agreement) = measured("32-true");
        assert!((loss - 1.266_441_031_332_281_6).abs() < 1e-6, "{loss}");
        assert!(agreement.is_none());
        let (loss, _, agreement) = measured("bf16-true");
        let agreement = agreement.unwrap();
        assert!(
            (loss - 1.266_441).abs() > 1e-6 && (loss - 1.266_441).abs() < 0.02,
            "{loss}"
        );
        assert!(agreement.rate() > 0.97 && agreement.rate() < 1.0, "{agreement:?}");
    }
}
