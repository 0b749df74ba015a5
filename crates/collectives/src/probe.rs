//! Probe: infers the format and the order of the additions of an all-reduce from sums of chosen numbers.

use mantissa_core::{Format, ReduceAlgorithm};

use crate::{CollectiveError, Gradient, Group, order};

/// Arithmetic of an all-reduce, as observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// Bits of the significand that partial sums keep. `None` for a single rank, which adds nothing.
    ///
    /// The sum of two ranks shows at most the bits of the gradient. The sum of more ranks also shows wider accumulators:
    /// up to 53 bits, or 25 in f16, whose range is too small for more.
    pub significand_bits: Option<u32>,
    /// Algorithms that add in the observed order and round each addition to the format of the gradient. Empty if none of
    /// them reproduces all sums exactly.
    ///
    /// Some algorithms add in the same order: all of them with one or two ranks; [`ReduceAlgorithm::Tree`] and
    /// [`ReduceAlgorithm::RecursiveDoubling`] also with `2^a` or `2^a - 2^b` ranks, such as 3, 4, 6, 7 and 8.
    pub orders: Vec<ReduceAlgorithm>,
}

/// Observes the arithmetic of an all-reduce of gradients in a format. Every rank must call the function.
pub fn probe(group: &mut dyn Group, format: Format) -> Result<Observation, CollectiveError> {
    probe_sum((group.rank(), group.size()), format, |gradient| {
        group.all_reduce(gradient)
    })
}

/// Observes the arithmetic of a function that replaces a gradient in a format by its sum over all ranks. The first argument has the rank and
/// the number of ranks. Every rank must call the function.
pub fn probe_sum<E>(
    (rank, ranks): (usize, usize),
    format: Format,
    mut sum: impl FnMut(&mut Gradient) -> Result<(), E>,
) -> Result<Observation, E> {
    let mut sums = Gradient::from_f64(format, terms(format, rank, ranks));
    sum(&mut sums)?;
    let significand_bits = (ranks > 1).then(|| kept_bits(format, ranks, &sums.to_f64()));

    let mut sums = Gradient::from_f64(format, (0..SUMS * ranks).map(|index| value(format, rank, index)));
    sum(&mut sums)?;
    let sums = sums.to_f64();
    let reproduces = |algorithm: &ReduceAlgorithm| expected_sums(*algorithm, format, ranks) == sums;
    let orders = ReduceAlgorithm::ALL.iter().copied().filter(reproduces).collect();
    Ok(Observation {
        significand_bits,
        orders,
    })
}

/// Large term of the sums that show the bits of an accumulator. It is so large that all small terms are normal numbers,
/// because an engine may flush subnormal ones to zero.
const LARGE: f64 = 1536.0;

/// Returns the small terms of the sums that show the bits of an accumulator. An accumulator of `p` bits rounds the sum of
/// [`LARGE`] and the term with the number `p` (from 1) to `LARGE`, and keeps the terms before.
fn small_terms(format: Format) -> impl Iterator<Item = f64> {
    let bits = if format == Format::F16 { 24 } else { 52 };
    (1..=bits).map(|bit| 1024.0 * 2.0_f64.powi(-bit))
}

/// Returns the ranks that add a small term, `LARGE` and `-LARGE`. Two ranks have no place for `-LARGE`. With more ranks,
/// it cancels `LARGE`, so that the format of the result does not limit the observation. Each of the three ranks adds the
/// small term once, so one of the sums adds it to `LARGE` or `-LARGE` in any order of the additions.
fn holders(ranks: usize) -> Vec<[usize; 3]> {
    let (first, middle, last) = (0, ranks / 2, ranks - 1);
    match ranks {
        2 => vec![[0, 1, 2]],
        _ => vec![
            [first, middle, last],
            [middle, last, first],
            [last, first, middle],
        ],
    }
}

/// Returns the terms that a rank adds.
fn terms(format: Format, rank: usize, ranks: usize) -> Vec<f64> {
    let holders = holders(ranks);
    let terms = small_terms(format).flat_map(|small| {
        holders
            .iter()
            .map(move |[of_small, of_large, of_negative]| match rank {
                rank if rank == *of_small => small,
                rank if rank == *of_large => LARGE,
                rank if rank == *of_negative => -LARGE,
                _ => 0.0,
            })
    });
    terms.collect()
}

/// Returns the bits of the accumulator from the sums of the terms.
fn kept_bits(format: Format, ranks: usize, sums: &[f64]) -> u32 {
    let large = if ranks == 2 { LARGE } else { 0.0 };
    let exact = small_terms(format).map(|small| large + small);
    let of_terms = exact.zip(sums.chunks(holders(ranks).len()));
    let kept = of_terms.take_while(|(exact, sums)| sums.iter().all(|sum| sum == exact));
    1 + kept.count() as u32
}

/// Number of sums per rank that show the order.
const SUMS: usize = 64;

/// Returns the sums of the values of all ranks in the order of an algorithm.
fn expected_sums(algorithm: ReduceAlgorithm, format: Format, ranks: usize) -> Vec<f64> {
    let sums = (0..SUMS * ranks).map(|index| {
        let values: Vec<f64> = (0..ranks).map(|rank| value(format, rank, index)).collect();
        order::sum(algorithm, &values, index / SUMS, &addition(format))
    });
    sums.collect()
}

/// Returns the addition in a format. The double rounding is harmless, because f64 has at least `2 p + 2` bits for every narrower format of
/// `p` bits.
pub(crate) fn addition(format: Format) -> impl Fn(f64, f64) -> f64 {
    move |a, b| format.round(a + b).value
}

/// Returns a pseudo-random number with a magnitude below 8 and a full significand.
fn value(format: Format, rank: usize, index: usize) -> f64 {
    // The finalizer of SplitMix64.
    let mut bits = (rank as u64 + 1) << 32 | index as u64;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    let significand = bits >> (u64::BITS - format.significand_bits());
    let exponent = (bits & 3) as i32 - format.significand_bits() as i32;
    let sign = if bits & 4 == 0 { 1.0 } else { -1.0 };
    sign * significand as f64 * 2.0_f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Single, ThreadGroup};

    const FORMATS: [Format; 4] = [Format::F64, Format::F32, Format::Bf16, Format::F16];

    #[test]
    fn single_rank_adds_nothing() {
        let observation = probe(&mut Single, Format::F32).unwrap();
        assert_eq!(
            observation,
            Observation {
                significand_bits: None,
                orders: ReduceAlgorithm::ALL.to_vec()
            }
        );
    }

    #[test]
    fn threads_add_linearly_in_the_format_of_the_gradient() {
        for format in FORMATS {
            for ranks in [2, 3, 8] {
                let groups = ThreadGroup::new(ranks).into_iter();
                let threads =
                    groups.map(|mut group| thread::spawn(move || probe(&mut group, format).unwrap()));
                for thread in threads.collect::<Vec<_>>() {
                    let observation = thread.join().unwrap();
                    assert_eq!(observation.significand_bits, Some(format.significand_bits()));
                    let expected = if ranks == 2 {
                        ReduceAlgorithm::ALL
                    } else {
                        &[ReduceAlgorithm::Linear]
                    };
                    assert_eq!(observation.orders, expected);
                }
            }
        }
    }

    #[test]
    fn algorithms_that_the_probe_cannot_tell_apart() {
        for format in FORMATS {
            for ranks in 3..=16_usize {
                let sums = |algorithm| expected_sums(algorithm, format, ranks);
                let chains = [ReduceAlgorithm::Ring, ReduceAlgorithm::Linear].map(sums);
                let trees = [ReduceAlgorithm::Tree, ReduceAlgorithm::RecursiveDoubling].map(sums);
                assert_ne!(chains[0], chains[1]);
                assert!(
                    chains.iter().all(|chain| !trees.contains(chain)),
                    "{format}, {ranks} ranks"
                );
                let missing = ranks.next_power_of_two() - ranks;
                let same = missing == 0 || missing.is_power_of_two();
                assert_eq!(trees[0] == trees[1], same, "{format}, {ranks} ranks");
            }
        }
    }

    #[test]
    fn bits_of_accumulators_that_differ_from_the_gradient() {
        let observed = |gradient: Format, accumulator: Format, ranks: usize| {
            let terms: Vec<_> = (0..ranks).map(|rank| terms(gradient, rank, ranks)).collect();
            let sums = (0..terms[0].len()).map(|index| {
                let values: Vec<f64> = terms.iter().map(|terms| terms[index]).collect();
                let sum = order::sum(ReduceAlgorithm::Tree, &values, 0, &addition(accumulator));
                gradient.round(sum).value
            });
            kept_bits(gradient, ranks, &sums.collect::<Vec<_>>())
        };
        for ranks in [3, 4, 5, 8] {
            assert_eq!(observed(Format::F32, Format::F16, ranks), 11);
            assert_eq!(observed(Format::F32, Format::Bf16, ranks), 8);
            assert_eq!(observed(Format::F32, Format::F64, ranks), 53);
            assert_eq!(observed(Format::Bf16, Format::F32, ranks), 24);
            assert_eq!(observed(Format::F16, Format::F32, ranks), 24);
            assert_eq!(observed(Format::F16, Format::F64, ranks), 25);
        }
        // The result of two ranks has the format of the gradient.
        assert_eq!(observed(Format::F32, Format::F16, 2), 11);
        assert_eq!(observed(Format::Bf16, Format::F32, 2), 8);
    }
}
