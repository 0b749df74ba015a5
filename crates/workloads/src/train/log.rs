//! Log of a training: losses, times and counters of its steps, and validations.

use std::{ops::Range, time::Instant};

use mantissa_core::{Event, EventKind, Samples, Series, SeriesName};
use mantissa_precision::ScaleChange;

use super::evaluation::Evaluation;
use crate::{Communication, Share};

/// Log of a training.
pub(crate) struct Log {
    pub(super) samples: Samples,
    pub events: Vec<Event>,
    pub(super) diverged: Option<String>,
    /// Maximum gradient norm; `None` if gradients are not clipped, or if a peer trains, which does not report gradient norms.
    pub(super) clip_norm: Option<f64>,
    pub totals: Totals,
}

#[derive(Default)]
pub(crate) struct Totals {
    pub steps: u64,
    pub(super) examples: u64,
    pub(super) skipped_steps: u64,
    pub(super) non_finite_steps: u64,
    pub(super) clipped_steps: u64,
    pub(super) stepping_seconds: f64,
    /// Time windows of the steps.
    pub windows: Vec<Range<Instant>>,
    pub(super) observing_seconds: f64,
    pub train_seconds: f64,
    pub(super) communication: Option<Communication>,
    /// Correct predictions of the last epoch.
    pub train: Share,
    pub(super) validation: Share,
    /// Correct predictions in the last validation, by passage of running text.
    pub(super) validated_passages: Vec<Share>,
}

/// Result of an optimizer step.
pub(crate) struct StepResult {
    /// Mean loss over all micro-batches of the step.
    pub loss: f64,
    /// Number of correctly predicted classes or tokens.
    pub hits: u64,
    /// Number of predicted classes or tokens.
    pub labels: u64,
    pub examples: u64,
    pub scale: Option<ScaleChange>,
    /// Norm of the gradients before clipping; `None` if clipping is off.
    pub norm: Option<f64>,
}

impl Log {
    /// Creates a log with the given events.
    pub fn new(events: Vec<Event>) -> Self {
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
                staleness: vec![],
            },
            events,
            diverged: None,
            clip_norm: None,
            totals: Totals::default(),
        }
    }

    /// Records a step. `scale` is the loss scale after the step.
    pub fn record_step(&mut self, result: &StepResult, seconds: f64, learning_rate: f64, scale: Option<f64>) {
        self.totals.steps += 1;
        self.totals.examples += result.examples;
        self.totals.stepping_seconds += seconds;
        self.totals.train.hits += result.hits;
        self.totals.train.n += result.labels;
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
    pub fn record_validation(&mut self, epoch: u32, validation: Evaluation) {
        let epoch = f64::from(epoch + 1);
        self.push(SeriesName::ValidationLoss, epoch, validation.loss);
        self.push(SeriesName::ValidationAccuracy, epoch, validation.share.rate());
        self.totals.validation = validation.share;
        self.totals.validated_passages = validation.passages;
    }

    fn push(&mut self, name: SeriesName, x: f64, y: f64) {
        let series = self.samples.series.iter_mut().find(|series| series.name == name);
        series.expect("`Log::new` creates every series").push(x, y);
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
