//! Predicting a labelled part without training on it.

use mantissa_precision::PrecisionBackend;

use super::{Trainer, progress, read};
use crate::{Observer, Phase, Share, WorkloadError, data::Part, models::Network};

/// Result over one part of the data.
pub(super) struct Evaluation {
    /// Mean cross-entropy, in nats.
    pub loss: f64,
    /// Examples predicted right.
    pub share: Share,
    /// `1` for right, `0` for wrong, an example each, in order.
    pub correct: String,
}

/// Predicts every example of a part, in order.
pub(super) fn evaluate<B: PrecisionBackend, M: Network>(
    trainer: &Trainer<'_, B, M>,
    part: &M::Part,
    observer: &mut dyn Observer,
    phase: Phase,
) -> Result<Evaluation, WorkloadError> {
    let indices: Vec<usize> = (0..part.len()).collect();
    let batches = indices.chunks(trainer.cell.setting.batch() as usize);
    let total = batches.len() as u64;
    let parameters = trainer.working().freeze();
    let (mut loss, mut correct) = (0.0, String::with_capacity(part.len()));
    for (done, indices) in batches.enumerate() {
        let batch = part.batch(indices);
        let (logits, labels) = trainer.predict(&parameters, &batch);
        let predicted = logits
            .clone()
            .argmax(1)
            .flatten::<1>(0, 1)
            .equal(labels.clone())
            .int();
        loss += read(trainer.compute.cross_entropy_sum(logits, labels))?[0];
        let hits = predicted
            .try_into_data()
            .map_err(|error| WorkloadError::Device(format!("{error:?}")))?;
        correct.extend(hits.iter::<i64>().map(|hit| if hit == 1 { '1' } else { '0' }));
        if phase == Phase::Evaluate {
            progress::<B>(observer, trainer.device, phase, done as u64 + 1, total);
        }
    }
    let hits = correct.bytes().filter(|bit| *bit == b'1').count() as u64;
    let n = part.len() as u64;
    Ok(Evaluation {
        loss: loss / n as f64,
        share: Share { hits, n },
        correct,
    })
}
