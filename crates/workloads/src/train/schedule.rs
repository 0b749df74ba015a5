//! Order of the examples, and groups of micro-batches that form an optimizer step.

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

/// Shuffles `0..examples` and divides it into groups of `accumulate` micro-batches of `batch` examples.
///
/// A shorter last group is kept. A shorter last micro-batch is dropped if `drop_last` is true, unless it is the only micro-batch.
pub(super) fn groups(
    examples: usize,
    batch: usize,
    accumulate: usize,
    drop_last: bool,
    seed: u64,
) -> Vec<Vec<Vec<usize>>> {
    let mut order: Vec<usize> = (0..examples).collect();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let mut micro_batches: Vec<Vec<usize>> = order.chunks(batch).map(<[usize]>::to_vec).collect();
    let short = micro_batches.last().is_some_and(|last| last.len() < batch);
    if drop_last && short && micro_batches.len() > 1 {
        micro_batches.pop();
    }
    micro_batches
        .chunks(accumulate)
        .map(<[Vec<usize>]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(groups: &[Vec<Vec<usize>>]) -> Vec<Vec<usize>> {
        groups
            .iter()
            .map(|group| group.iter().map(Vec::len).collect())
            .collect()
    }

    #[test]
    fn a_short_micro_batch_and_a_short_group_are_kept() {
        assert_eq!(sizes(&groups(11, 2, 4, false, 1)), [vec![2, 2, 2, 2], vec![2, 1]]);
    }

    #[test]
    fn drop_last_drops_the_short_micro_batch_and_not_the_group() {
        assert_eq!(sizes(&groups(11, 2, 4, true, 1)), [vec![2, 2, 2, 2], vec![2]]);
        assert_eq!(sizes(&groups(1, 2, 4, true, 1)), [vec![1]]);
    }

    #[test]
    fn every_example_is_visited_once_in_a_seeded_order() {
        let flat = |seed| {
            groups(50, 4, 3, false, seed)
                .into_iter()
                .flatten()
                .flatten()
                .collect::<Vec<_>>()
        };
        let mut sorted = flat(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert_eq!(flat(1), flat(1));
        assert_ne!(flat(1), flat(2));
    }

    #[test]
    fn accumulation_groups_the_same_examples_as_a_larger_batch() {
        let small = groups(24, 2, 4, false, 7);
        let large = groups(24, 8, 1, false, 7);
        let joined: Vec<Vec<usize>> = small.into_iter().map(|group| group.concat()).collect();
        assert_eq!(
            joined,
            large.into_iter().map(|group| group.concat()).collect::<Vec<_>>()
        );
    }
}
