//! Division of the documents of a corpus into passages, the examples of a language model. Passages are numbered, and the tokens of a
//! passage are located only when the passage is used, because a corpus may have millions of passages of which a run uses a few.

use std::ops::Range;

use super::{
    DataError, examples::Part, masking::SPECIAL_TOKENS_PER_PASSAGE, split::PredefinedSplits,
    token_file::Document,
};

/// Prediction task on running text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LanguageTask {
    /// Predict the next token after each token.
    Next,
    /// Predict masked tokens of the text.
    Masked,
}

impl LanguageTask {
    /// Returns the minimum sequence length for a prediction.
    pub(super) fn min_sequence(self) -> u32 {
        match self {
            Self::Next => 2,
            Self::Masked => SPECIAL_TOKENS_PER_PASSAGE as u32 + 1,
        }
    }
}

/// Rules for the division of a document into passages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PassageLayout {
    /// Number of tokens that are skipped at the start of a document: 1 for a beginning token that is replaced by one in every passage, otherwise 0.
    skipped: usize,
    /// Number of tokens between the beginnings of consecutive passages.
    step: usize,
    /// Number of tokens that a passage shares with the next.
    shared: usize,
}

impl PassageLayout {
    /// Creates the layout for a sequence length, which must be at least [`LanguageTask::min_sequence`]. `beginning` is true if the
    /// tokenizer puts a token before every document.
    pub fn new(task: LanguageTask, sequence: u32, beginning: bool) -> Self {
        let sequence = sequence as usize;
        match task {
            LanguageTask::Next => Self {
                skipped: 0,
                step: sequence - 1,
                shared: 1,
            },
            LanguageTask::Masked => Self {
                skipped: usize::from(beginning),
                step: sequence - SPECIAL_TOKENS_PER_PASSAGE,
                shared: 0,
            },
        }
    }

    /// Returns the first passage of a document with these tokens. The document must have at least one passage.
    pub fn first_passage(self, tokens: &Range<usize>) -> Range<usize> {
        let start = tokens.start + self.skipped;
        start..tokens.end.min(start + self.step + self.shared)
    }

    /// Returns the number of passages in a document of this length.
    fn count(self, tokens: usize) -> usize {
        tokens
            .saturating_sub(self.skipped + self.shared)
            .div_ceil(self.step)
    }
}

/// Passages of documents, numbered in their order.
pub(super) struct Passages {
    layout: PassageLayout,
    documents: Vec<NumberedDocument>,
}

/// Document with the number of its first passage.
struct NumberedDocument {
    part: Part,
    /// Number of passages in all earlier documents.
    passages: u32,
    tokens: Range<usize>,
}

impl Passages {
    /// Divides documents into passages. The tokens of the documents are consecutive.
    pub fn new(documents: &[Document], layout: PassageLayout) -> Result<Self, DataError> {
        let total: u64 = documents
            .iter()
            .map(|document| layout.count(document.tokens) as u64)
            .sum();
        u32::try_from(total).map_err(|_| DataError::Passages(total))?;
        let (mut passages, mut tokens) = (0, 0);
        let numbered = documents.iter().map(|document| {
            let numbered = NumberedDocument {
                part: document.part,
                passages,
                tokens: tokens..tokens + document.tokens,
            };
            passages += layout.count(document.tokens) as u32;
            tokens += document.tokens;
            numbered
        });
        Ok(Self {
            documents: numbered.collect(),
            layout,
        })
    }

    /// Returns the numbers of the passages of each part.
    pub fn numbers(&self) -> PredefinedSplits<u32> {
        let numbers_of = |part| {
            let documents = self
                .documents
                .iter()
                .filter(move |document| document.part == part);
            documents.flat_map(|document| {
                let count = self.layout.count(document.tokens.len()) as u32;
                document.passages..document.passages + count
            })
        };
        let has = |part| self.documents.iter().any(|document| document.part == part);
        let optional = |part| has(part).then(|| numbers_of(part).collect());
        PredefinedSplits {
            train: numbers_of(Part::Train).collect(),
            validation: optional(Part::Validation),
            test: optional(Part::Test),
        }
    }

    /// Returns the range of the tokens of a passage.
    ///
    /// # Panics
    /// If the number is out of range.
    pub fn range(&self, number: u32) -> Range<usize> {
        let next = self
            .documents
            .partition_point(|document| document.passages <= number);
        let document = &self.documents[next - 1];
        let start = document.tokens.start + (number - document.passages) as usize * self.layout.step;
        let range = self.layout.first_passage(&(start..document.tokens.end));
        assert!(
            range.len() > self.layout.shared,
            "passage {number} is out of range"
        );
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(part: Part, tokens: usize) -> Document {
        Document { part, tokens }
    }

    fn cut(documents: &[Document], task: LanguageTask, sequence: u32) -> PredefinedSplits<Range<usize>> {
        let passages = Passages::new(documents, PassageLayout::new(task, sequence, true)).unwrap();
        let predefined = passages.numbers();
        let ranges = |numbers: Vec<u32>| numbers.into_iter().map(|number| passages.range(number)).collect();
        PredefinedSplits {
            train: ranges(predefined.train),
            validation: predefined.validation.map(ranges),
            test: predefined.test.map(ranges),
        }
    }

    #[test]
    fn next_token_passages_predict_each_token_once() {
        let documents = [
            document(Part::Train, 10),
            document(Part::Test, 4),
            document(Part::Train, 1),
            document(Part::Train, 0),
            document(Part::Train, 5),
        ];
        let predefined = cut(&documents, LanguageTask::Next, 4);
        assert_eq!(predefined.train, [0..4, 3..7, 6..10, 15..19, 18..20]);
        assert_eq!(predefined.validation, None);
        let test: Vec<usize> = predefined.test.into_iter().flatten().flatten().collect();
        assert_eq!(test, [10, 11, 12, 13]);
        for sequence in 2..12 {
            for tokens in 0..30 {
                let predefined = cut(&[document(Part::Train, tokens)], LanguageTask::Next, sequence);
                let predicted: Vec<usize> = predefined
                    .train
                    .iter()
                    .flat_map(|range| range.start + 1..range.end)
                    .collect();
                assert_eq!(predicted, (1..tokens).collect::<Vec<_>>());
                assert!(
                    predefined
                        .train
                        .iter()
                        .all(|range| range.len() <= sequence as usize)
                );
            }
        }
    }

    #[test]
    fn masked_passages_do_not_overlap_and_skip_the_start_token() {
        let documents = [
            document(Part::Test, 6),
            document(Part::Test, 1),
            document(Part::Test, 2),
        ];
        let test = cut(&documents, LanguageTask::Masked, 5).test.unwrap();
        assert_eq!(test, [1..4, 4..6, 8..9]);
        for sequence in 3..12 {
            for tokens in 0..30 {
                let predefined = cut(&[document(Part::Train, tokens)], LanguageTask::Masked, sequence);
                let covered: Vec<usize> = predefined.train.iter().cloned().flatten().collect();
                assert_eq!(covered, (1..tokens).collect::<Vec<_>>());
                let fits =
                    |range: &Range<usize>| range.len() + SPECIAL_TOKENS_PER_PASSAGE <= sequence as usize;
                assert!(predefined.train.iter().all(fits));
            }
        }
    }

    #[test]
    fn too_many_passages_are_rejected() {
        let huge = document(Part::Train, 1 << 33);
        let error = Passages::new(&[huge], PassageLayout::new(LanguageTask::Next, 2, true))
            .err()
            .unwrap();
        let text = error.to_string();
        assert!(
            text.starts_with(
                "the text has 8589934591 passages, more than the maximum of 4294967295\n  hint: "
            ),
            "{text}"
        );
    }
}
