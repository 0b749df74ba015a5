//! Probe of the engine's arithmetic.

use mantissa_collectives::probe;
use mantissa_core::{Format, ReduceAlgorithm};

use crate::launch::on_ranks;

#[test]
fn probe_finds_the_format_and_the_order() {
    on_ranks(&[1, 2, 3, 4, 5, 8], ReduceAlgorithm::ALL, |group, algorithm| {
        for (format, bits) in [
            (Format::F64, 53),
            (Format::F32, 24),
            (Format::Bf16, 8),
            (Format::F16, 11),
        ] {
            let observation = probe(group, format).unwrap();
            assert_eq!(
                observation.significand_bits,
                (group.size() > 1).then_some(bits),
                "{format}"
            );
            let trees = [ReduceAlgorithm::Tree, ReduceAlgorithm::RecursiveDoubling];
            let expected = match (group.size(), algorithm) {
                (1 | 2, _) => ReduceAlgorithm::ALL,
                (3 | 4 | 8, ReduceAlgorithm::Tree | ReduceAlgorithm::RecursiveDoubling) => &trees,
                _ => &[algorithm],
            };
            assert_eq!(observation.orders, expected, "{format}");
        }
    });
}
