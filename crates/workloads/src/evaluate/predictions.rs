//! Predictions for test examples, micro-batch by micro-batch.

use std::{ops::Range, time::Instant};

use mantissa_core::{Cell, Series, SeriesName};

use crate::{
    AllocatorBytes, Observer, Phase, Progress, Share, WorkloadError,
    data::{Labelled, Part},
};

/// Predictions for a micro-batch of examples.
pub(crate) struct Predictions {
    /// Class or token with the highest logit of each example.
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
    /// Time of each micro-batch.
    pub(super) seconds: Series,
    pub(super) windows: Vec<Range<Instant>>,
    pub(super) predicted: Vec<i32>,
    /// `1` for a correct prediction, `0` for a wrong one, in order.
    pub(super) correct: String,
    /// Mean cross-entropy, nats.
    pub(super) loss: f64,
    /// Correct predictions of each passage of running text.
    pub(super) passages: Vec<Share>,
    /// Summed cross-entropy of each passage, nats.
    pub(super) passage_losses: Vec<f64>,
}

impl EvaluationResult {
    /// Returns the class or token with the highest logit of each example.
    pub fn predicted(&self) -> &[i32] {
        &self.predicted
    }
}

/// Runs `predict` once over all test examples, in micro-batches.
pub(crate) fn evaluate_part<P: Part>(
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
        let duration = predictions.window.end - predictions.window.start;
        seconds.push(f64::from(number), duration.as_secs_f64());
        let is_correct = || {
            predictions
                .predicted
                .iter()
                .zip(batch.labels())
                .map(|(a, b)| a == b)
        };
        correct.extend(is_correct().map(|correct| if correct { '1' } else { '0' }));
        if predicts_tokens {
            let token_counts = batch.label_counts();
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
