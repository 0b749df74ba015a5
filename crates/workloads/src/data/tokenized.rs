//! Tokenised examples, and batches of them.

/// Examples as token ids, without padding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokenized {
    /// All ids, one example after the other.
    pub(super) ids: Vec<u32>,
    /// Where each example ends in `ids`.
    pub(super) ends: Vec<usize>,
    pub(super) labels: Vec<u32>,
    pub(super) padding: u32,
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

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
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

    /// The examples of these numbers, in this order, padded to `sequence` tokens.
    ///
    /// # Panics
    /// If there is no such example, or one is longer than `sequence`.
    pub fn batch(&self, indices: &[usize], sequence: usize) -> TokenBatch {
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
        let batch = three().batch(&[2, 0], 4);
        assert_eq!(batch.ids, [1, 7, 2, 9, 1, 2, 9, 9]);
        assert_eq!(batch.lengths, [3, 2]);
        assert_eq!(batch.labels, [0, 0]);
    }

    #[test]
    #[should_panic(expected = "example 1 has 4 tokens, the batch 3")]
    fn an_example_is_never_cut_by_a_batch() {
        three().batch(&[1], 3);
    }
}
