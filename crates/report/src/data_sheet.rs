//! Peak matmul throughput of GPUs according to their data sheets, from `assets/data-sheets.csv`.

use std::{collections::HashMap, sync::LazyLock};

use mantissa_core::{Accumulator, MatmulPrecision, Precision, Setting};
use serde::Deserialize;

static CARDS: LazyLock<HashMap<String, Card>> = LazyLock::new(|| {
    let mut reader = csv::Reader::from_reader(include_str!("../assets/data-sheets.csv").as_bytes());
    let cards = reader.deserialize().map(|card| {
        let card: Card = card.expect("the built-in data-sheets.csv is valid");
        (card.card.clone(), card)
    });
    cards.collect()
});

/// Peaks of a GPU without sparsity in TFLOP/s, by operand format. `None` if the data sheet does not state the peak.
#[derive(Debug, Deserialize)]
struct Card {
    /// Product name, as reported by NVML.
    card: String,
    f64: Option<f64>,
    f32: Option<f64>,
    tf32: Option<f64>,
    bf16: Option<f64>,
    f16: Option<f64>,
    /// f16 with accumulation in f16.
    f16_sums: Option<f64>,
    source: String,
}

/// Peak of a card in the arithmetic of a setting.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SheetPeak {
    pub flops_per_second: f64,
    /// Format of the operands.
    pub format: &'static str,
    /// Title of the data sheet.
    pub source: &'static str,
}

/// Returns the peak of a card for matmuls in a setting's arithmetic, or `None` if the card or its peak is not known.
pub(crate) fn peak(card: &str, setting: &Setting) -> Option<SheetPeak> {
    let card = CARDS.get(card)?;
    let (teraflops, format) = match (setting.precision(), setting.matmul(), setting.accumulator()) {
        (Precision::True64, ..) => (card.f64, "f64"),
        (Precision::True32, MatmulPrecision::Highest, _) => (card.f32, "f32"),
        (Precision::True32, MatmulPrecision::High, _) => (card.tf32, "TF32"),
        (Precision::True32, MatmulPrecision::Medium, _)
        | (Precision::MixedBf16 | Precision::TrueBf16, ..) => (card.bf16, "bf16"),
        (Precision::Mixed16 | Precision::True16, _, Accumulator::F32) => (card.f16, "f16"),
        (Precision::Mixed16 | Precision::True16, _, Accumulator::F16) => (card.f16_sums, "f16 sums"),
    };
    Some(SheetPeak {
        flops_per_second: teraflops? * 1e12,
        format,
        source: &card.source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_card_has_increasing_peaks() {
        assert_eq!(
            CARDS.len(),
            include_str!("../assets/data-sheets.csv").lines().count() - 1
        );
        for card in CARDS.values() {
            let name = &card.card;
            assert!(!card.source.is_empty(), "{name}");
            let peaks = [card.f32, card.tf32, card.bf16, card.f16_sums.or(card.f16)];
            let known: Vec<f64> = peaks.into_iter().flatten().collect();
            assert!(known.len() >= 2 && known.is_sorted(), "{name}: {known:?}");
            assert!(
                known.iter().all(|peak| (1.0..10_000.0).contains(peak)),
                "{name}: {known:?}"
            );
        }
    }
}
