//! Sensitivity of a trained model to range and precision, from its accuracy in formats with fewer and fewer bits.

use mantissa_core::{FormatTrial, Layout};

use crate::mcnemar;

/// Largest loss of accuracy, as a share of the examples, at which a format counts as keeping the accuracy.
pub const TOLERATED_LOSS: f64 = 0.01;

/// Significance level for a loss of accuracy.
const SIGNIFICANCE: f64 = 0.05;

/// Returns true if a format keeps the accuracy: the loss is at most [`TOLERATED_LOSS`] and not significant at 5 % (exact McNemar test of
/// the format against f32 on the same examples).
pub fn keeps(trial: &FormatTrial) -> bool {
    let loss = (trial.lost as f64 - trial.won as f64) / trial.examples as f64;
    let by_chance = trial.lost <= trial.won || mcnemar(trial.lost, trial.won) >= SIGNIFICANCE;
    loss <= TOLERATED_LOSS && by_chance
}

/// Requirements of a model on its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sensitivity {
    /// Keeps the accuracy with the exponent of f16 and with the fraction of bf16.
    Neither,
    /// Needs more exponent bits than f16 has.
    Range,
    /// Needs more fraction bits than bf16 has.
    Precision,
    /// Needs both.
    Both,
}

impl Sensitivity {
    /// Classifies a model by the minimum numbers of exponent bits and of fraction bits that keep the accuracy. Each minimum is found with
    /// enough bits of the other field.
    pub fn of(exponent_bits: u32, fraction_bits: u32) -> Self {
        const F16_EXPONENT_BITS: u32 = 5;
        const BF16_FRACTION_BITS: u32 = 7;
        match (
            exponent_bits > F16_EXPONENT_BITS,
            fraction_bits > BF16_FRACTION_BITS,
        ) {
            (false, false) => Self::Neither,
            (true, false) => Self::Range,
            (false, true) => Self::Precision,
            (true, true) => Self::Both,
        }
    }

    /// Returns the name used in output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Neither => "insensitive",
            Self::Range => "range-sensitive",
            Self::Precision => "precision-sensitive",
            Self::Both => "range- and precision-sensitive",
        }
    }
}

/// Returns the smallest number of bits for which the trials with this number and with all larger numbers keep the accuracy. `bits`: returns
/// the width of the field. Returns `None` if the largest number of bits does not keep the accuracy.
pub fn min_bits(trials: &[FormatTrial], bits: fn(Layout) -> u32) -> Option<u32> {
    let mut sorted: Vec<(u32, bool)> = trials
        .iter()
        .map(|trial| (bits(trial.layout), keeps(trial)))
        .collect();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let kept = sorted.into_iter().take_while(|(_, kept)| *kept);
    kept.map(|(bits, _)| bits).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(layout: Layout, lost: u64, won: u64) -> FormatTrial {
        FormatTrial {
            layout,
            layer: None,
            kept: vec![],
            examples: 1000,
            right: 800 + won - lost,
            lost,
            won,
        }
    }

    #[test]
    fn loss_must_be_small_and_not_significant() {
        let keeps = |lost, won| keeps(&trial(Layout::new(5, 3), lost, won));
        assert!(keeps(0, 0) && keeps(3, 9) && keeps(20, 15));
        assert!(!keeps(15, 0), "1.5 % and p < 0.001");
        assert!(!keeps(9, 0), "0.9 %, but p = 0.004");
        assert!(!keeps(100, 85), "1.5 %, though p = 0.3");
    }

    #[test]
    fn all_larger_bit_counts_must_keep_the_accuracy() {
        let losses = [(8, 0), (7, 0), (6, 50), (5, 0), (4, 200)];
        let trials: Vec<_> = losses
            .map(|(e, lost)| trial(Layout::new(e, 23), lost, 0))
            .to_vec();
        assert_eq!(min_bits(&trials, Layout::exponent_bits), Some(7));
        assert_eq!(min_bits(&trials[2..], Layout::exponent_bits), None);
        assert_eq!(min_bits(&[], Layout::exponent_bits), None);
    }

    #[test]
    fn sensitivity_is_relative_to_f16_and_bf16() {
        assert_eq!(Sensitivity::of(5, 7), Sensitivity::Neither);
        assert_eq!(Sensitivity::of(6, 7), Sensitivity::Range);
        assert_eq!(Sensitivity::of(5, 8), Sensitivity::Precision);
        assert_eq!(Sensitivity::of(8, 10), Sensitivity::Both);
    }
}
