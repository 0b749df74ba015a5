//! Compares predictions with the predictions of the same weights in f32.

use burn::tensor::Device;
use mantissa_core::{Cell, Event, EventKind};
use mantissa_precision::Compute;

use super::{predictions::Predictions, predictor::Predictor};
use crate::{
    Inputs, Observer, Phase, Progress, Share, WorkloadError,
    data::{Dataset, Labelled, Part},
    initial_state::{Purpose, initial_state},
    models::Network,
};

/// The same weights in f32, loaded after the weights in the setting's format are freed.
pub(super) struct Reference<'a, M: Network> {
    pub(super) cell: &'a Cell,
    pub(super) model: &'a M,
    pub(super) device: &'a Device,
}

impl<M: Network> Reference<'_, M> {
    /// Returns the share of predictions that equal those of `precision = 32-true` with `matmul = highest`: the total, and the share of each passage
    /// if the model predicts tokens. Returns `None` if the cell itself uses this setting.
    pub(super) fn agreement(
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
        let cell_and_format = (self.cell, setting.precision().parameters(), Purpose::Testing);
        let initial_state = initial_state(self.model, cell_and_format, inputs, self.device)?;
        let predictor = Predictor::new(self.model, &initial_state, Compute::of(&setting), self.device);
        let part = &data.test;
        let predict = |indices: &[usize]| predictor.predict(&part.batch(indices));
        agreement(self.cell, part, predicted, predict, observer).map(Some)
    }
}

/// Adds a warning to the record if the comparison with f32 failed on the device. It may run out of memory, since f32 needs twice the memory of
/// a 16-bit format. The measurements stay valid, since the comparison runs after them.
pub(crate) fn warn_if_failed<T>(
    result: Result<Option<T>, WorkloadError>,
    events: &mut Vec<Event>,
) -> Result<Option<T>, WorkloadError> {
    let reason = match result {
        Err(WorkloadError::Device(reason)) => reason.to_string(),
        other => return other,
    };
    events.push(Event::new(
        EventKind::Warning,
        format!("predictions were not compared with the f32 predictions: {reason}"),
    ));
    Ok(None)
}

/// Returns the share of predictions that equal those of `predict` for the same test examples: the total, and the share of each passage if the model
/// predicts tokens.
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
    let (mut hits, mut offset, mut passages) = (0, 0, vec![]);
    for (number, indices) in (1u64..).zip(batches) {
        let predictions = predict(indices)?;
        let agrees = || {
            predictions
                .predicted
                .iter()
                .zip(&predicted[offset..])
                .map(|(a, b)| a == b)
        };
        hits += agrees().filter(|agrees| *agrees).count();
        if predicts_tokens {
            passages.extend(Share::by_passage(&part.batch(indices).label_counts(), agrees()));
        }
        offset += predictions.predicted.len();
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
    use super::*;

    #[test]
    fn a_failed_f32_comparison_keeps_the_measurements_and_adds_a_warning() {
        let mut events = vec![];
        let failed = |error: WorkloadError| Err::<Option<u32>, _>(error);
        let agreement = warn_if_failed(failed(WorkloadError::device("out of memory")), &mut events);
        assert!(matches!(agreement, Ok(None)));
        assert_eq!(
            events[0].detail,
            "predictions were not compared with the f32 predictions: out of memory"
        );
        assert!(warn_if_failed(failed(WorkloadError::data("no vocabulary")), &mut events).is_err());
        assert!(matches!(warn_if_failed(Ok(Some(1)), &mut events), Ok(Some(1))));
        assert_eq!(events.len(), 1);
    }
}
