//! Masking of tokens for bidirectional models (BERT, arXiv 1810.04805, section 3.1 and appendix A.1).

use rand::{Rng as _, seq::index};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::{DataError, subwords::TextTokenizer};

/// Share of the tokens of a passage that are predicted.
const PREDICTED: f64 = 0.15;
/// Share of the predicted tokens that are replaced by the mask.
const MASKED: f64 = 0.8;
/// Share of the predicted tokens that are replaced by a random token. The rest are left unchanged.
const RANDOMIZED: f64 = 0.1;

/// Number of special tokens around a passage: one before it and one after it.
pub(super) const AROUND: usize = 2;

/// Returns the number of predicted tokens in a full sequence of this length.
pub fn masked_count(sequence: u32) -> usize {
    predicted_count((sequence as usize).saturating_sub(AROUND))
}

/// Returns 15 % of the number of tokens, rounded, and at least one.
fn predicted_count(tokens: usize) -> usize {
    ((PREDICTED * tokens as f64).round() as usize).clamp(1, tokens.max(1))
}

/// Special tokens for masking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Masking {
    /// `[CLS]`.
    pub before: u32,
    /// `[SEP]`.
    pub behind: u32,
    /// `[MASK]`.
    mask: u32,
    vocabulary: u32,
}

impl Masking {
    /// Returns the special tokens of a tokenizer that has all three.
    pub fn of(tokenizer: &TextTokenizer) -> Result<Self, DataError> {
        let tokens = (tokenizer.beginning(), tokenizer.end(), tokenizer.mask());
        let (Some(before), Some(behind), Some(mask)) = tokens else {
            return Err(DataError::MissingSpecialTokens);
        };
        Ok(Self {
            before,
            behind,
            mask,
            vocabulary: tokenizer.vocabulary(),
        })
    }

    /// Masks some tokens of a passage and returns their positions. The choice depends only on the length of the passage and on `begins`, its
    /// position in the corpus. It is the same under every setting and in every epoch.
    pub fn mask(&self, tokens: &mut [i32], begins: usize) -> Vec<usize> {
        let mut rng = ChaCha8Rng::seed_from_u64(begins as u64);
        let mut places = index::sample(&mut rng, tokens.len(), predicted_count(tokens.len())).into_vec();
        places.sort_unstable();
        for &place in &places {
            let drawn: f64 = rng.random();
            if drawn < MASKED {
                tokens[place] = self.mask as i32;
            } else if drawn < MASKED + RANDOMIZED {
                tokens[place] = rng.random_range(0..self.vocabulary) as i32;
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASKING: Masking = Masking {
        before: 2,
        behind: 3,
        mask: 4,
        vocabulary: 1_000,
    };

    #[test]
    fn fifteen_percent_of_the_tokens_are_predicted_and_at_least_one() {
        let expected = [(1, 1), (3, 1), (9, 1), (10, 2), (20, 3), (126, 19), (510, 77)];
        for (tokens, predicted) in expected {
            assert_eq!(predicted_count(tokens), predicted, "of {tokens} tokens");
        }
    }

    #[test]
    fn masked_positions_are_reproducible_and_differ_between_passages() {
        let masked = |begins| {
            let mut tokens = [7; 200];
            let places = MASKING.mask(&mut tokens, begins);
            (places, tokens)
        };
        assert_eq!(masked(5), masked(5));
        assert_ne!(masked(5).0, masked(6).0);
        assert!(masked(5).0.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn predicted_tokens_are_masked_replaced_or_unchanged_in_the_ratio_80_10_10() {
        let (mut predicted, mut masked, mut replaced) = (0, 0, 0);
        for begins in 0..2_000 {
            let mut tokens = [1_500; 100];
            let places = MASKING.mask(&mut tokens, begins);
            assert_eq!(places.len(), 15);
            predicted += places.len();
            masked += places.iter().filter(|place| tokens[**place] == 4).count();
            replaced += places
                .iter()
                .filter(|place| ![4, 1_500].contains(&tokens[**place]))
                .count();
            let changed = tokens.iter().filter(|token| **token != 1_500).count();
            assert!(changed <= places.len(), "only predicted tokens may change");
        }
        // The bounds are four standard deviations of a binomial with 30,000 draws.
        let share = |count: usize| count as f64 / f64::from(predicted as u32);
        assert!((share(masked) - 0.8).abs() < 0.01, "{}", share(masked));
        assert!((share(replaced) - 0.1).abs() < 0.007, "{}", share(replaced));
    }
}
