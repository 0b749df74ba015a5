//! Trains and tests a model.
//!
//! The training loop is that of the articles: epochs of shuffled micro-batches, a validation after each epoch, and a test at the end. An optimizer
//! step accumulates the gradients of a group of `accumulate` micro-batches. Each micro-batch contributes its *summed* loss divided by the number
//! of labels in the group, so that short micro-batches are weighted by their size. An incomplete group at the end of an epoch also makes a step.

mod batch_order;
mod checkpointing;
mod evaluate;
#[cfg(test)]
mod golden;
mod memory;
mod observe;
mod schedule;
mod sensitivity;
#[cfg(test)]
pub(crate) mod testing;
mod warm_up;

use std::{cell::RefCell, ops::Range, time::Instant};

use burn::tensor::{Device, Int, Tensor, TensorData};
use mantissa_core::{
    Axis, Cell, Event, EventKind, Executed, OptimizerKind, Precision, Samples, Series, SeriesName, TrainTask,
};
use mantissa_precision::{
    Compute, GradientSum, LossScaler, Moments, Optimizer, OptimizerSettings, ParameterSet, ScaleChange,
    Tracked, micro_batch_momentum, submit, without_recording,
};

use crate::{
    Inputs, MemoryParts, Observer, Outcome, Phase, Share, TaskMeasurements, WorkloadError,
    data::{Dataset, Labelled, Part, Wanted},
    estimate::estimate_for,
    initial_state::{Purpose, Start, start},
    model_and_data::{ModelFactory, ModelTask},
    models::{Batch, DistilBert, Network, Norms, Stage},
    outcome::{progress, read, sync},
    timing::wall_clock,
};
use evaluate::evaluate;

pub(crate) use batch_order::{learning_rate, order};
pub(crate) use evaluate::Evaluation;
pub(crate) use warm_up::{first, sizes};

/// Runs a training cell on the model and data of a factory.
pub(crate) fn train<F: ModelFactory>(
    cell: &Cell,
    task: &TrainTask,
    inputs: &Inputs,
    device: &Device,
    observer: &mut dyn Observer,
    factory: F,
) -> Result<Outcome, WorkloadError> {
    let started = Instant::now();
    progress(observer, device, Phase::Prepare, 0, 1);
    let wanted = Wanted::Divided(task.split.clone());
    let training = Training {
        cell,
        task,
        inputs,
        device,
        started,
        observer,
    };
    factory.run(cell, &wanted, inputs, training)
}

/// Training before its model and data are loaded.
struct Training<'a> {
    cell: &'a Cell,
    task: &'a TrainTask,
    inputs: &'a Inputs,
    device: &'a Device,
    started: Instant,
    observer: &'a mut dyn Observer,
}

impl ModelTask for Training<'_> {
    type Output = Outcome;

    fn run<M: Network>(self, model: M, data: Dataset<M::Part>) -> Result<Outcome, WorkloadError> {
        let trainer = Trainer::new(self.cell, self.task, model, self.inputs, self.device)?;
        train_on(trainer, &data, self.inputs, self.started, self.observer)
    }
}

/// Trains and tests a model. Loading of the data began at `started`.
fn train_on<M: Network>(
    mut trainer: Trainer<'_, M>,
    data: &Dataset<M::Part>,
    inputs: &Inputs,
    started: Instant,
    observer: &mut dyn Observer,
) -> Result<Outcome, WorkloadError> {
    let (cell, task, device) = (trainer.cell, trainer.task, trainer.device);
    sync(device)?;
    let load_seconds = started.elapsed().as_secs_f64();

    let started = Instant::now();
    progress(observer, device, Phase::WarmUp, 0, 1);
    trainer.log.events.push(wall_clock(device)?);
    trainer.warm_up(data)?;
    let warmup_seconds = started.elapsed().as_secs_f64();

    let memory = memory::parts(&mut trainer, data, observer)?;
    let launches = trainer.launches(data)?;
    trainer.start_over(inputs)?;
    trainer.run(data, observer)?;
    trainer
        .log
        .events
        .extend(observe::event(&trainer.log.samples.ranges));
    let test = evaluate(&trainer, &data.test, observer, Phase::Evaluate)?;

    if task.sensitivity && cell.setting.precision() == Precision::True32 {
        let (trials, verdict) = sensitivity::sensitivity(&mut trainer, &data.test, &test.correct, observer)?;
        trainer.log.samples.trials = trials;
        trainer.log.events.push(verdict);
    }

    let seconds = (load_seconds, warmup_seconds);
    Ok(Outcome {
        launches,
        ..outcome(cell, data, trainer.log, test, seconds, memory)
    })
}

/// Builds the outcome of a training from its log and its test.
pub(crate) fn outcome<P: Part>(
    cell: &Cell,
    data: &Dataset<P>,
    log: Log,
    test: Evaluation,
    (load_seconds, warmup_seconds): (f64, f64),
    memory: Option<MemoryParts>,
) -> Outcome {
    let (mut samples, totals) = (log.samples, log.totals);
    // Tokens of one text are not independent, so runs are not paired by token.
    samples.test_correct = (!cell.workload.predicts_tokens()).then_some(test.correct);
    Outcome {
        samples,
        events: log.events,
        diverged: log.diverged,
        data: Some(data.source.clone()),
        executed: Executed::unverified(),
        load_seconds,
        warmup_seconds,
        launches: None,
        measured: TaskMeasurements::Train {
            train_seconds: totals.train_seconds,
            examples: totals.examples,
            words: cell.workload.predicts_tokens(),
            tokens: cell
                .workload
                .concerns(Axis::Sequence)
                .then(|| totals.examples * u64::from(cell.setting.sequence())),
            stepping_seconds: totals.stepping_seconds,
            train: totals.train,
            validation: totals.validation,
            test: test.share,
            validated_passages: totals.validated_passages,
            tested_passages: test.passages,
            skipped_steps: totals.skipped_steps,
            non_finite_steps: totals.non_finite_steps,
            clipped_steps: log.clip_norm.map(|_| totals.clipped_steps),
            memory,
            estimated: estimate_for(cell, (data.test.words().unwrap_or_default(), data.classes)),
            windows: totals.windows,
        },
    }
}

/// Momentum of running statistics, as in PyTorch.
const BATCH_NORM_MOMENTUM: f64 = 0.1;

/// State of a model in training.
struct Trainer<'a, M: Network = DistilBert> {
    cell: &'a Cell,
    task: &'a TrainTask,
    model: M,
    parameters: ParameterSet,
    /// Running statistics of the batch norms.
    running: Norms,
    /// Initial running statistics.
    first_running: Norms,
    settings: OptimizerSettings,
    optimizer: Optimizer,
    scaler: Option<LossScaler>,
    compute: Compute,
    /// Number of processed micro-batches.
    micro_batches: u64,
    device: &'a Device,
    log: Log,
}

/// Log of a training.
pub(crate) struct Log {
    samples: Samples,
    pub events: Vec<Event>,
    diverged: Option<String>,
    /// Maximum gradient norm; `None` if gradients are not clipped, or if it is unknown whether they are.
    clip_norm: Option<f64>,
    pub totals: Totals,
}

#[derive(Default)]
pub(crate) struct Totals {
    pub steps: u64,
    examples: u64,
    skipped_steps: u64,
    non_finite_steps: u64,
    clipped_steps: u64,
    stepping_seconds: f64,
    /// Time windows of the steps.
    pub windows: Vec<Range<Instant>>,
    observing_seconds: f64,
    pub train_seconds: f64,
    /// Correct predictions of the last epoch.
    pub train: Share,
    validation: Share,
    /// Correct predictions by passage of running text.
    validated_passages: Vec<Share>,
}

/// Loss of a micro-batch.
struct Loss {
    /// Summed loss over all labels, with its graph.
    summed: Tensor<1>,
    /// Number of correct predictions.
    hits: Tensor<1, Int>,
    /// Moments with which the batch norms normalized the micro-batch.
    moments: Norms,
}

/// Result of an optimizer step.
pub(crate) struct StepResult {
    /// Mean loss of the group.
    pub loss: f64,
    /// Number of correctly predicted classes or tokens.
    pub hits: u64,
    /// Number of predicted classes or tokens.
    pub answers: u64,
    pub examples: u64,
    pub scale: Option<ScaleChange>,
    /// Norm of the gradients before clipping, if they are clipped.
    pub norm: Option<f64>,
}

/// Returns a warning if epsilon is 0 in the format of the optimizer state. If the second moment underflows as well, the update is 0/0 and the
/// training diverges.
fn vanishing_epsilon(cell: &Cell) -> Option<Event> {
    let setting = &cell.setting;
    let adaptive = matches!(
        setting.optimizer(),
        OptimizerKind::Adam | OptimizerKind::AdamW | OptimizerKind::Lamb
    );
    let (epsilon, format) = (setting.adam_eps(), setting.precision().parameters());
    let vanishes = adaptive && epsilon > 0.0 && format.round(epsilon).value == 0.0;
    vanishes.then(|| Event {
        kind: EventKind::Warning,
        step: None,
        value: Some(epsilon),
        detail: format!("`adam_eps={epsilon:e}` is rounded to 0 in {format}, so that updates may be 0/0"),
    })
}

/// Creates the loss scaler; `None` if the setting does not scale the loss.
fn scaler(cell: &Cell, task: &TrainTask) -> Option<LossScaler> {
    let scaler = || {
        task.updates
            .loss_scale
            .map_or_else(LossScaler::default, LossScaler::constant)
    };
    cell.setting.precision().scales_loss().then(scaler)
}

/// Returns the initial state of a training.
fn beginning<M: Network>(
    model: &M,
    cell: &Cell,
    inputs: &Inputs,
    device: &Device,
) -> Result<Start, WorkloadError> {
    let format = cell.setting.precision().parameters();
    start(model, (cell, format, Purpose::Training), inputs, device)
}

impl<'a, M: Network> Trainer<'a, M> {
    fn new(
        cell: &'a Cell,
        task: &'a TrainTask,
        model: M,
        inputs: &Inputs,
        device: &'a Device,
    ) -> Result<Self, WorkloadError> {
        let model = model
            .keeping(cell.setting.keep_f32())
            .map_err(WorkloadError::Unavailable)?;
        let begin = beginning(&model, cell, inputs, device)?;
        let parameters = begin.parameters;
        let settings = OptimizerSettings {
            momentum: task.momentum,
            epsilon: cell.setting.adam_eps(),
            weight_decay: task.weight_decay,
            clip_norm: task.updates.clip_norm,
            ..OptimizerSettings::new(cell.setting.optimizer(), task.learning_rate)
        };
        Ok(Self {
            optimizer: Optimizer::new(settings.clone(), parameters.len()),
            settings,
            scaler: scaler(cell, task),
            compute: Compute::of(&cell.setting),
            micro_batches: 0,
            first_running: begin.running.clone(),
            running: begin.running,
            log: Log {
                clip_norm: task.updates.clip_norm,
                ..Log::of(begin.events.into_iter().chain(vanishing_epsilon(cell)).collect())
            },
            cell,
            task,
            model,
            parameters,
            device,
        })
    }

    fn run(&mut self, data: &Dataset<M::Part>, observer: &mut dyn Observer) -> Result<(), WorkloadError> {
        let started = Instant::now();
        for epoch in 0..self.task.epochs {
            let groups = order(self.cell, self.task, data.train.len(), epoch);
            let total = groups.len() as u64 * u64::from(self.task.epochs);
            let rate = learning_rate(self.cell, self.task, total);
            self.log.totals.train = Share::default();
            for group in groups {
                let begun = Instant::now();
                let learning_rate = rate.at(self.log.totals.steps);
                self.optimizer.set_learning_rate(learning_rate);
                let micro_batches: Vec<_> = group.iter().map(|indices| data.train.batch(indices)).collect();
                let observing = self.observe(&micro_batches)?;
                let result = self.step(&micro_batches)?;
                let seconds = begun.elapsed().as_secs_f64() - observing;
                self.log.totals.windows.push(begun..Instant::now());
                let scale = self.scaler.as_ref().map(LossScaler::scale);
                self.log.note(&result, seconds, learning_rate, scale);
                progress(
                    observer,
                    self.device,
                    Phase::Measure,
                    self.log.totals.steps,
                    total,
                );
            }
            if !data.validation.is_empty() {
                let validation = evaluate(self, &data.validation, observer, Phase::Measure)?;
                self.log.validated(epoch, validation);
            }
        }
        let totals = &mut self.log.totals;
        totals.train_seconds = started.elapsed().as_secs_f64() - totals.observing_seconds;
        Ok(())
    }

    /// Observes the value ranges of the next step if the step is due for observation. Returns the duration in seconds.
    fn observe(&mut self, micro_batches: &[Batch<M>]) -> Result<f64, WorkloadError> {
        let every = u64::from(self.task.observe_every);
        if every == 0 || !self.log.totals.steps.is_multiple_of(every) {
            return Ok(0.0);
        }
        let begun = Instant::now();
        // Skip non-finite parameters: an observation cannot show the cause any more.
        if self.parameters.all_finite().map_err(WorkloadError::Device)? {
            let ranges = without_recording(|| {
                let ranges = observe::observe(self, self.log.totals.steps + 1, micro_batches)?;
                sync(self.device).map(|()| ranges)
            })?;
            self.log.samples.ranges.extend(ranges);
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.log.totals.observing_seconds += seconds;
        Ok(seconds)
    }

    /// Runs an optimizer step over the micro-batches of a group and reads the results from the device.
    fn step(&mut self, micro_batches: &[Batch<M>]) -> Result<StepResult, WorkloadError> {
        let labels: usize = micro_batches.iter().map(|batch| batch.labels().len()).sum();
        let examples: usize = micro_batches.iter().map(Labelled::examples).sum();
        let scale = self.scaler.as_ref().map_or(1.0, LossScaler::scale);
        let mut gradients = GradientSum::new(self.parameters.len());
        let (mut losses, mut hits) = (vec![], vec![]);
        #[cfg(test)]
        warm_up::record_step(micro_batches.len(), self.optimizer.state().next().is_some());
        let working = self.working();
        let share = 1.0 / labels as f64;
        for batch in micro_batches {
            let loss = self.backward(&working, batch, share * scale, &mut gradients);
            losses.push(loss.summed.inner());
            hits.push(loss.hits);
            self.follow(loss.moments, micro_batches.len());
            self.micro_batches += 1;
        }
        drop(working);
        let (optimizer, parameters) = (&mut self.optimizer, &mut self.parameters);
        let change = match &mut self.scaler {
            Some(scaler) => {
                let change = scaler.step(optimizer, parameters, gradients);
                Some(change.map_err(WorkloadError::Device)?)
            }
            None => {
                optimizer.step(parameters, gradients);
                None
            }
        };
        sync(self.device)?;
        let losses: Vec<f64> = read(Tensor::cat(losses, 0))?;
        let norm = self.optimizer.take_norm().map(read).transpose()?;
        let hits: Vec<i64> = read(Tensor::cat(hits, 0))?;
        Ok(StepResult {
            loss: share * losses.iter().sum::<f64>(),
            hits: hits.iter().sum::<i64>() as u64,
            answers: labels as u64,
            examples: examples as u64,
            scale: change,
            norm: norm.and_then(|norm| norm.first().copied()),
        })
    }

    /// Updates the running statistics with the moments of a micro-batch. `micro_batches` is the number of micro-batches per optimizer step.
    fn follow(&mut self, moments: Norms, micro_batches: usize) {
        let rule = self.cell.setting.batchnorm_momentum();
        let momentum = micro_batch_momentum(rule, BATCH_NORM_MOMENTUM, micro_batches as u32);
        for (name, moments) in moments {
            let mut norms = self.running.iter_mut();
            let (_, running) = norms
                .find(|(norm, _)| *norm == name)
                .unwrap_or_else(|| panic!("`{name}` is not a batch norm of the model"));
            *running = running.clone().follow(moments, momentum);
        }
    }

    /// Returns the parameters with low-precision copies for forward passes, valid until the next update.
    fn working(&self) -> ParameterSet {
        #[cfg(test)]
        testing::CASTS.with(|casts| casts.set(casts.get() + 1));
        self.parameters
            .working(&self.compute, |name| self.model.multiplies(name))
    }

    /// Adds the gradients of `factor` times a micro-batch's summed loss.
    fn backward(&self, working: &ParameterSet, batch: &Batch<M>, factor: f64, sum: &mut GradientSum) -> Loss {
        if self.cell.setting.checkpointing() {
            let kept = checkpointing::forward(self, working, batch);
            return checkpointing::backward(self, working, batch, kept, factor, sum);
        }
        let parameters = working.track();
        let loss = self.loss(&parameters, batch);
        sum.add(loss.summed.clone().mul_scalar(factor), &parameters);
        loss
    }

    /// Computes the loss of a micro-batch, with its graph.
    fn loss(&self, parameters: &Tracked, batch: &Batch<M>) -> Loss {
        #[cfg(test)]
        warm_up::record_shape("trained", batch.labels().len());
        let (input, labels) = upload::<M>(batch, self.device);
        let recorded = RefCell::default();
        let pass = self
            .model
            .pass(parameters, &self.compute, Stage::Training(&recorded));
        let before = |segment| self.draw_masks_of(segment);
        let logits = self.model.forward(&pass, &input, before);
        let recorded = recorded.into_inner().into_iter();
        let inner = |moments: Moments| Moments {
            mean: moments.mean.inner(),
            variance: moments.variance.inner(),
        };
        let moments = recorded.map(|(name, moments)| (name, inner(moments)));
        self.loss_of(logits, labels, moments.collect())
    }

    fn loss_of(&self, logits: Tensor<2>, labels: Tensor<1, Int>, moments: Norms) -> Loss {
        let predicted = logits.clone().inner().argmax(1).flatten::<1>(0, 1);
        Loss {
            hits: predicted.equal(labels.clone()).int().sum(),
            summed: self.compute.cross_entropy_sum(logits, labels),
            moments,
        }
    }

    /// Seeds the dropout masks of a segment. Each segment of each micro-batch has its own seed, so that checkpointing can draw the same masks again,
    /// and masks are equal with and without checkpointing. Submits pending operations first, which must draw their numbers before the seed changes.
    fn draw_masks_of(&self, segment: u32) {
        if !self.model.drops() {
            return;
        }
        // Ignore an error: it is reported at the end of the step, when results are read.
        let _ = submit(self.device);
        let number = (self.micro_batches << 16) + u64::from(segment);
        self.device.seed(stream_seed(self.cell.seed, number));
    }

    /// Computes the logits of a micro-batch without dropout or graph. Returns the logits and the labels.
    fn predict(&self, parameters: &Tracked, batch: &Batch<M>) -> (Tensor<2>, Tensor<1, Int>) {
        #[cfg(test)]
        warm_up::record_shape("predicted", batch.labels().len());
        let (input, labels) = upload::<M>(batch, self.device);
        let pass = self
            .model
            .pass(parameters, &self.compute, Stage::Testing(&self.running));
        (self.model.forward(&pass, &input, |_| ()), labels)
    }
}

impl Log {
    /// Creates a log with the given events.
    pub fn of(events: Vec<Event>) -> Self {
        let names = [
            SeriesName::TrainLoss,
            SeriesName::StepSeconds,
            SeriesName::LossScale,
            SeriesName::LearningRate,
            SeriesName::ValidationLoss,
            SeriesName::ValidationAccuracy,
        ];
        let series = names.into_iter().map(Series::new).collect();
        Self {
            samples: Samples {
                series,
                test_correct: None,
                ranges: vec![],
                trials: vec![],
            },
            events,
            diverged: None,
            clip_norm: None,
            totals: Totals::default(),
        }
    }

    /// Records a step. `scale` is the loss scale after the step.
    pub fn note(&mut self, result: &StepResult, seconds: f64, learning_rate: f64, scale: Option<f64>) {
        self.totals.steps += 1;
        self.totals.examples += result.examples;
        self.totals.stepping_seconds += seconds;
        self.totals.train.hits += result.hits;
        self.totals.train.n += result.answers;
        let step = self.totals.steps;
        self.push(SeriesName::TrainLoss, step as f64, result.loss);
        self.push(SeriesName::StepSeconds, step as f64, seconds);
        self.push(SeriesName::LearningRate, step as f64, learning_rate);
        if let Some(scale) = scale {
            self.push(SeriesName::LossScale, step as f64, scale);
        }
        match result.scale {
            Some(ScaleChange::BackedOff(scale)) => {
                self.totals.skipped_steps += 1;
                self.event(
                    EventKind::LossScale,
                    step,
                    Some(scale),
                    "a scaled gradient overflowed: step skipped, scale halved",
                );
            }
            Some(ScaleChange::Skipped) => {
                self.totals.skipped_steps += 1;
                self.event(
                    EventKind::LossScale,
                    step,
                    None,
                    "a scaled gradient overflowed: step skipped",
                );
            }
            Some(ScaleChange::Grew(scale)) => {
                self.event(EventKind::LossScale, step, Some(scale), "scale doubled")
            }
            Some(ScaleChange::Kept) | None => {}
        }
        if let (Some(norm), Some(max_norm)) = (result.norm, self.clip_norm) {
            self.totals.clipped_steps += u64::from(norm > max_norm);
        }
        self.totals.non_finite_steps += u64::from(!result.loss.is_finite());
        if result.loss.is_finite() {
            self.diverged = None;
        } else if self.diverged.is_none() {
            self.diverged = Some(format!(
                "the loss is not finite from optimizer step {step} to the end"
            ));
            self.event(EventKind::NonFiniteLoss, step, None, "the loss is not finite");
        }
    }

    /// Records the validation after an epoch.
    pub fn validated(&mut self, epoch: u32, validation: Evaluation) {
        let epoch = f64::from(epoch + 1);
        self.push(SeriesName::ValidationLoss, epoch, validation.loss);
        self.push(SeriesName::ValidationAccuracy, epoch, validation.share.rate());
        self.totals.validation = validation.share;
        self.totals.validated_passages = validation.passages;
    }

    fn push(&mut self, name: SeriesName, x: f64, y: f64) {
        let series = self.samples.series.iter_mut().find(|series| series.name == name);
        series.expect("`Log::of` creates every series").push(x, y);
    }

    fn event(&mut self, kind: EventKind, step: u64, value: Option<f64>, detail: &str) {
        self.events.push(Event {
            kind,
            step: Some(step),
            value,
            detail: detail.into(),
        });
    }
}

/// Derives an independent seed for a numbered stream (finalizer of SplitMix64).
fn stream_seed(seed: u64, number: u64) -> u64 {
    let mut z = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Uploads a micro-batch to the device.
fn upload<M: Network>(batch: &Batch<M>, device: &Device) -> (M::Input, Tensor<1, Int>) {
    let labels = batch.labels();
    let labels = Tensor::from_data(TensorData::new(labels.to_vec(), [labels.len()]), device);
    (M::upload(batch, device), labels)
}
