//! Tokenized examples and their batches.

use std::ops::Range;

use super::{
    Labelled, Named, Part,
    ids::Ids,
    masking::{Masking, SPECIAL_TOKENS_PER_PASSAGE},
};

/// Examples as token ids, without padding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokenized {
    pub(super) ids: Ids,
    /// Range of each example in `ids`.
    pub(super) ranges: Vec<Range<usize>>,
    pub(super) labels: Vec<u32>,
    pub(super) padding: u32,
    /// Number of tokens of an example in a batch, including padding.
    pub(super) sequence: usize,
    pub(super) vocabulary: u32,
    pub(super) target: Target,
}

/// Prediction task of an example.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Target {
    /// Predict the class of the example.
    #[default]
    Class,
    /// Predict the next token after each token.
    NextToken,
    /// Predict masked tokens.
    MaskedToken(Masking),
}

/// Batch of examples, padded to one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenBatch {
    /// Token ids, `[examples, sequence]` in row-major order, padded on the right.
    pub ids: Vec<i32>,
    /// Number of tokens of each example, without padding. The attention mask is `position < length`.
    pub lengths: Vec<i32>,
    /// Rows of the hidden states `[examples · sequence, width]` that predict the labels: the last token of each example for a class, the
    /// position before each token for the next token, and the masked positions for masked tokens.
    pub rows: Vec<i32>,
    /// Labels, one per row: classes from 0, or token ids.
    pub labels: Vec<i32>,
}

impl Tokenized {
    /// Creates an empty set. `padding` is the id of the padding token.
    pub(super) fn new(padding: u32) -> Self {
        Self {
            padding,
            ..Self::default()
        }
    }

    /// Creates examples without classes from ranges of ids.
    pub(super) fn from_ranges(ids: Ids, ranges: Vec<Range<usize>>) -> Self {
        Self {
            ids,
            labels: vec![0; ranges.len()],
            ranges,
            ..Self::default()
        }
    }

    /// Adds an example.
    pub(super) fn push(&mut self, ids: &[u32], label: u32) {
        let start = self.ids.len();
        self.ids.extend(ids);
        self.ranges.push(start..self.ids.len());
        self.labels.push(label);
    }

    /// Sets the number of tokens to which examples are padded in a batch.
    pub fn padded_to(self, sequence: usize) -> Self {
        Self { sequence, ..self }
    }

    /// Sets the size of the vocabulary.
    pub(super) fn with_vocabulary_size(self, vocabulary: u32) -> Self {
        Self { vocabulary, ..self }
    }

    /// Sets the task to next-token prediction.
    pub fn with_next_token_task(self) -> Self {
        Self {
            target: Target::NextToken,
            ..self
        }
    }

    /// Sets the task to masked-token prediction. A batch encloses each example in two special tokens.
    pub(super) fn with_masked_token_task(self, masking: Masking) -> Self {
        Self {
            target: Target::MaskedToken(masking),
            ..self
        }
    }

    /// Returns the number of ids in the vocabulary.
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// Returns the class of every example, from 0.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// Returns the ids of one example, including special tokens.
    ///
    /// # Panics
    /// If the index is out of range.
    pub fn ids(&self, index: usize) -> &[u32] {
        &self.ids[self.ranges[index].clone()]
    }
}

impl Labelled for TokenBatch {
    fn labels(&self) -> &[i32] {
        &self.labels
    }

    fn examples(&self) -> usize {
        self.lengths.len()
    }

    fn tensors(&self) -> Vec<Named<'_>> {
        let examples = self.lengths.len();
        let sequence = self.ids.len().checked_div(examples).unwrap_or_default();
        vec![
            Named::whole("ids", vec![examples, sequence], &self.ids),
            Named::whole("lengths", vec![examples], &self.lengths),
            Named::whole("rows", vec![self.rows.len()], &self.rows),
            Named::whole("labels", vec![self.labels.len()], &self.labels),
        ]
    }

    fn label_counts(&self) -> Vec<u32> {
        let examples = self.lengths.len();
        let mut answers = vec![0; examples];
        for row in &self.rows {
            answers[*row as usize * examples / self.ids.len()] += 1;
        }
        answers
    }
}

impl Part for Tokenized {
    type Batch = TokenBatch;

    fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Returns the examples with these indices, in this order, padded.
    ///
    /// # Panics
    /// If an index is out of range, or an example is longer than the sequence of a batch.
    fn batch(&self, indices: &[usize]) -> TokenBatch {
        let sequence = self.sequence;
        let mut batch = TokenBatch {
            ids: vec![self.padding as i32; indices.len() * sequence],
            lengths: Vec::with_capacity(indices.len()),
            rows: vec![],
            labels: vec![],
        };
        for (row, &index) in indices.iter().enumerate() {
            let ids = self.ids(index);
            let special_tokens = match self.target {
                Target::MaskedToken(_) => SPECIAL_TOKENS_PER_PASSAGE,
                Target::Class | Target::NextToken => 0,
            };
            let length = ids.len() + special_tokens;
            assert!(
                length <= sequence,
                "example {index} has {length} tokens, but the batch has {sequence}"
            );
            let row_ids = &mut batch.ids[row * sequence..][..length];
            for (to, &id) in row_ids[special_tokens / 2..].iter_mut().zip(ids) {
                *to = id as i32;
            }
            batch.lengths.push(length as i32);
            let first = (row * sequence) as i32;
            match self.target {
                Target::Class => {
                    batch.rows.push(first + length as i32 - 1);
                    batch.labels.push(self.labels[index] as i32);
                }
                Target::NextToken => {
                    batch.rows.extend(first..first + length as i32 - 1);
                    batch.labels.extend(ids[1..].iter().map(|&id| id as i32));
                }
                Target::MaskedToken(masking) => {
                    (row_ids[0], row_ids[length - 1]) = (masking.cls as i32, masking.sep as i32);
                    let masked = masking.mask(&mut row_ids[1..length - 1], self.ranges[index].start);
                    batch
                        .rows
                        .extend(masked.iter().map(|position| first + 1 + *position as i32));
                    batch
                        .labels
                        .extend(masked.iter().map(|position| ids[*position] as i32));
                }
            }
        }
        batch
    }

    fn words(&self) -> Option<u32> {
        Some(self.vocabulary)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::TextTokenizer, *};

    fn three() -> Tokenized {
        let mut tokens = Tokenized::new(9);
        tokens.push(&[1, 2], 0);
        tokens.push(&[1, 5, 6, 2], 1);
        tokens.push(&[1, 7, 2], 0);
        tokens
    }

    #[test]
    fn a_batch_has_the_padded_examples_in_the_requested_order() {
        let batch = three().padded_to(4).batch(&[2, 0]);
        assert_eq!(batch.ids, [1, 7, 2, 9, 1, 2, 9, 9]);
        assert_eq!(batch.lengths, [3, 2]);
        assert_eq!(batch.label_counts(), [1, 1]);
        assert_eq!((batch.rows, batch.labels), (vec![2, 5], vec![0, 0]));
    }

    #[test]
    fn next_token_targets_exclude_the_first_token_and_padding() {
        let batch = three().padded_to(4).with_next_token_task().batch(&[2, 1]);
        assert_eq!(batch.label_counts(), [2, 3]);
        assert_eq!(batch.rows, [0, 1, 4, 5, 6]);
        assert_eq!(batch.labels, [7, 2, 5, 6, 2]);
    }

    #[test]
    fn masked_token_batches_have_special_tokens_and_targets() {
        let masking = Masking::of(&TextTokenizer::synthetic().unwrap()).unwrap();
        let (cls, sep) = (masking.cls as i32, masking.sep as i32);
        let mut tokens = Tokenized::new(9);
        let long: Vec<u32> = (100..140).collect();
        tokens.push(&[77], 0);
        tokens.push(&long, 0);
        let batch = tokens
            .padded_to(44)
            .with_masked_token_task(masking)
            .batch(&[1, 0]);
        assert_eq!(
            (batch.lengths.clone(), batch.label_counts()),
            (vec![42, 3], vec![6, 1])
        );
        assert_eq!((batch.ids[0], batch.ids[41], batch.ids[42]), (cls, sep, 9));
        assert_eq!((batch.ids[44], batch.ids[46], batch.ids[47]), (cls, sep, 9));
        assert_eq!((batch.rows[6], batch.labels[6]), (44 + 1, 77));
        for (row, label) in batch.rows[..6].iter().zip(&batch.labels) {
            assert_eq!(*label, 100 + row - 1, "targets must be the original tokens");
        }
        let changed = (1..41).filter(|at| batch.ids[*at as usize] != 100 + at - 1);
        assert!(changed.clone().count() > 0);
        assert!(changed.into_iter().all(|at| batch.rows.contains(&at)));
    }

    #[test]
    #[should_panic(expected = "example 1 has 4 tokens, but the batch has 3")]
    fn a_batch_never_truncates_an_example() {
        three().padded_to(3).batch(&[1]);
    }
}
