//! Tokenised examples, and batches of them.

use super::{Labelled, Part};

/// Examples as token ids, without padding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokenized {
    /// All ids, one example after the other.
    pub(super) ids: Vec<u32>,
    /// Where each example ends in `ids`.
    pub(super) ends: Vec<usize>,
    pub(super) labels: Vec<u32>,
    pub(super) padding: u32,
    /// Tokens of an example in a batch.
    pub(super) sequence: usize,
    pub(super) vocabulary: u32,
}

/// Some examples, padded to one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBatch {
    /// Token ids, `[examples, sequence]` in row-major order, padded on the right.
    pub ids: Vec<i32>,
    /// Tokens of each example, padding not counted: the attention mask is `position < length`.
    pub lengths: Vec<i32>,
    /// Class of each example, from 0.
    pub labels: Vec<i32>,
}

impl Tokenized {
    /// No examples yet; `padding` is the id that fills a batch.
    pub(super) fn new(padding: u32) -> Self {
        Self {
            padding,
            ..Self::default()
        }
    }

    pub(super) fn push(&mut self, ids: &[u32], label: u32) {
        self.ids.extend_from_slice(ids);
        self.ends.push(self.ids.len());
        self.labels.push(label);
    }

    /// The same, in batches of examples padded to `sequence` tokens.
    pub fn padded_to(self, sequence: usize) -> Self {
        Self { sequence, ..self }
    }

    /// The same, of a vocabulary of so many ids.
    pub(super) fn of_vocabulary(self, vocabulary: u32) -> Self {
        Self { vocabulary, ..self }
    }

    /// Number of ids in its vocabulary.
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// The class of every example, from 0.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The ids of one example, special tokens included.
    ///
    /// # Panics
    /// If there is no such example.
    pub fn ids(&self, index: usize) -> &[u32] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.ids[start..self.ends[index]]
    }
}

impl Labelled for TokenBatch {
    fn labels(&self) -> &[i32] {
        &self.labels
    }
}

impl Part for Tokenized {
    type Batch = TokenBatch;

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// The examples of these numbers, in this order, padded.
    ///
    /// # Panics
    /// If there is no such example, or one is longer than a batch's sequence.
    fn batch(&self, indices: &[usize]) -> TokenBatch {
        let sequence = self.sequence;
        let mut batch = TokenBatch {
            ids: vec![self.padding as i32; indices.len() * sequence],
            lengths: Vec::with_capacity(indices.len()),
            labels: Vec::with_capacity(indices.len()),
        };
        for (row, &index) in indices.iter().enumerate() {
            let ids = self.ids(index);
            assert!(
                ids.len() <= sequence,
                "example {index} has {} tokens, the batch {sequence}",
                ids.len()
            );
            for (to, &id) in batch.ids[row * sequence..].iter_mut().zip(ids) {
                *to = id as i32;
            }
            batch.lengths.push(ids.len() as i32);
            batch.labels.push(self.labels[index] as i32);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn three() -> Tokenized {
        let mut tokens = Tokenized::new(9);
        tokens.push(&[1, 2], 0);
        tokens.push(&[1, 5, 6, 2], 1);
        tokens.push(&[1, 7, 2], 0);
        tokens
    }

    #[test]
    fn a_batch_holds_the_examples_in_the_order_asked_for_and_pads_them() {
        let batch = three().padded_to(4).batch(&[2, 0]);
        assert_eq!(batch.ids, [1, 7, 2, 9, 1, 2, 9, 9]);
        assert_eq!(batch.lengths, [3, 2]);
        assert_eq!(batch.labels, [0, 0]);
    }

    #[test]
    #[should_panic(expected = "example 1 has 4 tokens, the batch 3")]
    fn an_example_is_never_cut_by_a_batch() {
        three().padded_to(3).batch(&[1]);
    }
}
