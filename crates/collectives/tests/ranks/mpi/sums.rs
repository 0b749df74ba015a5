//! Sums, compared with exact sums and with numbers from another implementation.

use half::{bf16, f16};
use mantissa_collectives::{Gradient, error_bound};
use mantissa_core::{Format, ReduceAlgorithm};

use crate::launch::on_ranks;

/// Sums computed by `sums.py`: format, algorithm, number of ranks, and the bits of each sum.
const SUMS: &str = include_str!("../sums.txt");

/// Number of values that `sums.py` adds.
const LEN: usize = 11;

/// Returns the value of `sums.py` with the given number of bits.
fn value(bits: u32, rank: usize, index: usize) -> f64 {
    let mut hash = (1000 * rank as u64 + index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^= hash >> 32;
    let exponent = (hash & 3) as i32 - bits as i32;
    let sign = if hash & 4 == 0 { 1.0 } else { -1.0 };
    sign * (hash >> (64 - bits)) as f64 * 2.0_f64.powi(exponent)
}

fn bits(gradient: &Gradient) -> Vec<u64> {
    match gradient {
        Gradient::F64(values) => values.iter().map(|value| value.to_bits()).collect(),
        Gradient::F32(values) => values.iter().map(|value| value.to_bits().into()).collect(),
        Gradient::Bf16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
        Gradient::F16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
    }
}

#[test]
fn bits_equal_those_of_another_implementation() {
    on_ranks(&[2, 3, 4, 5, 8], ReduceAlgorithm::ALL, |group, algorithm| {
        for (format, bits_of_values) in [("f64", 53), ("f32", 24), ("bf16", 8), ("f16", 11)] {
            let values = (0..LEN).map(|index| value(bits_of_values, group.rank(), index));
            let mut gradient = Gradient::from_f64(format.parse().unwrap(), values);
            group.all_reduce(&mut gradient).unwrap();
            let start = format!("{format} {algorithm} {} ", group.size());
            let line = SUMS.lines().find_map(|line| line.strip_prefix(&start)).unwrap();
            let expected: Vec<u64> = line
                .split(' ')
                .map(|bits| u64::from_str_radix(bits, 16).unwrap())
                .collect();
            assert_eq!(bits(&gradient), expected, "{start}");
        }
    });
}

#[test]
fn sums_of_integers_are_exact() {
    on_ranks(&[1, 2, 3, 4, 8], ReduceAlgorithm::ALL, |group, _| {
        let size = group.size();
        for len in [0, 1, size - 1, size, size + 1, 1000] {
            for format in [Format::F64, Format::F32, Format::Bf16, Format::F16] {
                // The sum of 8 ranks is at most 8 * 15 + 28 = 148, and bf16 has all integers to 256.
                let term = |rank: usize, index: usize| (index + rank) % 16 + rank;
                let terms = (0..len).map(|index| term(group.rank(), index) as f64);
                let mut gradient = Gradient::from_f64(format, terms);
                group.all_reduce(&mut gradient).unwrap();
                let sums =
                    (0..len).map(|index| (0..size).map(|rank| term(rank, index)).sum::<usize>() as f64);
                assert_eq!(
                    gradient.to_f64(),
                    sums.collect::<Vec<_>>(),
                    "{len} {format} values"
                );
            }
        }
    });
}

#[test]
fn errors_are_within_the_bound() {
    on_ranks(&[2, 3, 8], ReduceAlgorithm::ALL, |group, algorithm| {
        for (format, bits) in [(Format::F32, 24), (Format::Bf16, 8), (Format::F16, 11)] {
            let bound = error_bound(algorithm, format, group.size());
            let integer = |rank: usize, index: usize| (rank * 40_503 + index * 30_011) % (1 << bits);
            let values = (0..4096).map(|index| integer(group.rank(), index) as f64);
            let mut gradient = Gradient::from_f64(format, values);
            group.all_reduce(&mut gradient).unwrap();
            let mut largest = 0.0_f64;
            for (index, sum) in gradient.to_f64().into_iter().enumerate() {
                let exact = (0..group.size()).map(|rank| integer(rank, index)).sum::<usize>() as f64;
                largest = largest.max((sum - exact).abs() / exact.max(1.0));
            }
            assert!(
                largest <= bound && largest > 0.0,
                "{format}: {largest}, bound {bound}"
            );
        }
    });
}

#[test]
fn special_values_follow_ieee_arithmetic() {
    on_ranks(&[2, 3], ReduceAlgorithm::ALL, |group, _| {
        let first = group.rank() == 0;
        let own = |value: f64| if first { value } else { 1.0 };
        for format in [Format::F64, Format::F32, Format::Bf16, Format::F16] {
            let opposite = if first { f64::INFINITY } else { f64::NEG_INFINITY };
            let zero = -0.0;
            let values = [
                own(f64::NAN),
                own(f64::INFINITY),
                own(f64::NEG_INFINITY),
                opposite,
                zero,
            ];
            let mut gradient = Gradient::from_f64(format, values);
            group.all_reduce(&mut gradient).unwrap();
            let sums = gradient.to_f64();
            assert!(sums[0].is_nan() && sums[3].is_nan(), "{format}: {sums:?}");
            assert_eq!(sums[1..3], [f64::INFINITY, f64::NEG_INFINITY]);
            assert!(sums[4] == 0.0 && sums[4].is_sign_negative());
        }
        let mut largest = Gradient::F16(vec![f16::MAX]);
        group.all_reduce(&mut largest).unwrap();
        assert_eq!(largest, Gradient::F16(vec![f16::INFINITY]));
        let mut largest = Gradient::Bf16(vec![bf16::MAX]);
        group.all_reduce(&mut largest).unwrap();
        assert_eq!(largest, Gradient::Bf16(vec![bf16::INFINITY]));
    });
}

#[test]
fn every_rank_has_the_same_bits() {
    on_ranks(&[3, 4, 8], ReduceAlgorithm::ALL, |group, _| {
        let values = (0..1009).map(|index| value(24, group.rank(), index));
        let mut gradient = Gradient::from_f64(Format::F32, values);
        group.all_reduce(&mut gradient).unwrap();
        let bytes: Vec<u8> = bits(&gradient).into_iter().flat_map(u64::to_le_bytes).collect();
        let of_all = group.all_gather(&bytes).unwrap();
        assert!(of_all.iter().all(|of_rank| *of_rank == bytes));
    });
}
