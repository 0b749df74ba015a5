//! Result of an evaluation of one split of the data.

use crate::Share;

/// Result over one split of the data.
pub(crate) struct Evaluation {
    /// Mean cross-entropy per class or token, in nats.
    pub loss: f64,
    /// Correctly predicted classes or tokens.
    pub share: Share,
    /// Correct predictions by passage of running text; empty for classes.
    pub passages: Vec<Share>,
    /// `1` for correct, `0` for wrong: one character per class or token, in order.
    pub correct: String,
}

impl Evaluation {
    /// Creates the result from the summed loss, and from `1` (correct) or `0` for each class or token.
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
