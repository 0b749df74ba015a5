//! Masking of tokens for bidirectional models (BERT, arXiv 1810.04805, section 3.1 and appendix A.1).

use rand::{Rng as _, seq::index};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::{DataError, subwords::TextTokenizer};

/// Share of the tokens of a passage that are predicted.
const PREDICTED_SHARE: f64 = 0.15;
/// Share of the predicted tokens that are replaced by the mask.
const MASKED_SHARE: f64 = 0.8;
/// Share of the predicted tokens that are replaced by a random token. The rest are left unchanged.
const RANDOM_SHARE: f64 = 0.1;

/// Number of special tokens around a passage: one before it and one after it.
pub(super) const SPECIAL_TOKENS_PER_PASSAGE: usize = 2;

/// Returns the number of predicted tokens in a full sequence of this length.
pub fn masked_count(sequence: u32) -> usize {
    predicted_count((sequence as usize).saturating_sub(SPECIAL_TOKENS_PER_PASSAGE))
}

/// Returns 15 % of the number of tokens, rounded, and at least one.
fn predicted_count(tokens: usize) -> usize {
    ((PREDICTED_SHARE * tokens as f64).round() as usize).clamp(1, tokens.max(1))
}

/// Special tokens for masking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Masking {
    /// `[CLS]`.
    pub cls: u32,
    /// `[SEP]`.
    pub sep: u32,
    /// `[MASK]`.
    mask: u32,
    vocabulary: u32,
}

impl Masking {
    /// Returns the special tokens of a tokenizer, or an error if one is missing.
    pub fn of(tokenizer: &TextTokenizer) -> Result<Self, DataError> {
        let tokens = (tokenizer.beginning(), tokenizer.end(), tokenizer.mask());
        let (Some(cls), Some(sep), Some(mask)) = tokens else {
            return Err(DataError::MissingSpecialTokens);
        };
        Ok(Self {
            cls,
            sep,
            mask,
            vocabulary: tokenizer.vocabulary(),
        })
    }

    /// Masks some tokens of a passage and returns the positions of the predicted tokens. The positions depend only on the length of the
    /// passage and on `start`, the position of the passage in the corpus, so they are the same in every run and every epoch.
    pub fn mask(&self, tokens: &mut [i32], start: usize) -> Vec<usize> {
        let mut rng = ChaCha8Rng::seed_from_u64(start as u64);
        let mut positions = index::sample(&mut rng, tokens.len(), predicted_count(tokens.len())).into_vec();
        positions.sort_unstable();
        for &position in &positions {
            let drawn: f64 = rng.random();
            if drawn < MASKED_SHARE {
                tokens[position] = self.mask as i32;
            } else if drawn < MASKED_SHARE + RANDOM_SHARE {
                tokens[position] = rng.random_range(0..self.vocabulary) as i32;
            }
        }
        positions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASKING: Masking = Masking {
        cls: 2,
        sep: 3,
        mask: 4,
        vocabulary: 1_000,
    };

    #[test]
    fn fifteen_percent_but_at_least_one_token_is_predicted() {
        let expected = [(1, 1), (3, 1), (9, 1), (10, 2), (20, 3), (126, 19), (510, 77)];
        for (tokens, predicted) in expected {
            assert_eq!(predicted_count(tokens), predicted, "of {tokens} tokens");
        }
    }

    #[test]
    fn masked_positions_depend_only_on_the_passage() {
        let masked = |start| {
            let mut tokens = [7; 200];
            let positions = MASKING.mask(&mut tokens, start);
            (positions, tokens)
        };
        assert_eq!(masked(5), masked(5));
        assert_ne!(masked(5).0, masked(6).0);
        assert!(masked(5).0.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn predicted_tokens_are_masked_in_the_ratio_80_10_10() {
        let (mut predicted, mut masked, mut replaced) = (0, 0, 0);
        for start in 0..2_000 {
            let mut tokens = [1_500; 100];
            let positions = MASKING.mask(&mut tokens, start);
            assert_eq!(positions.len(), 15);
            predicted += positions.len();
            masked += positions
                .iter()
                .filter(|position| tokens[**position] == 4)
                .count();
            replaced += positions
                .iter()
                .filter(|position| ![4, 1_500].contains(&tokens[**position]))
                .count();
            let changed = tokens.iter().filter(|token| **token != 1_500).count();
            assert!(changed <= positions.len(), "only predicted tokens may change");
        }
        // The bounds are four standard deviations of a binomial with 30,000 draws.
        let share = |count: usize| count as f64 / f64::from(predicted as u32);
        assert!((share(masked) - 0.8).abs() < 0.01, "{}", share(masked));
        assert!((share(replaced) - 0.1).abs() < 0.007, "{}", share(replaced));
    }
}
