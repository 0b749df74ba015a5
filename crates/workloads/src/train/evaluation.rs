//! Result of an evaluation of one split of the data.

use crate::Share;

/// Result over one split of the data. A prediction is the class of an example or one token of running text.
pub(crate) struct Evaluation {
    /// Mean cross-entropy per prediction, in nats.
    pub loss: f64,
    /// Share of correct predictions.
    pub share: Share,
    /// Share of correct predictions in each passage of running text; empty if classes are predicted.
    pub passages: Vec<Share>,
    /// One character per prediction, in order: `1` if correct, `0` if wrong.
    pub correct: String,
}

impl Evaluation {
    /// Creates the result from the sum of the losses and from the characters of [`Self::correct`].
    pub fn new(summed: f64, correct: String, passages: Vec<Share>) -> Self {
        let hits = correct.bytes().filter(|bit| *bit == b'1').count() as u64;
        let n = correct.len() as u64;
        Self {
            loss: summed / n as f64,
            share: Share { hits, n },
            passages,
            correct,
        }
    }
}
