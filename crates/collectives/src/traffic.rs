//! Messages that a rank sends, and the number that an algorithm should send.

use std::ops::{AddAssign, Sub};

use mantissa_core::ReduceAlgorithm;

use crate::{Gradient, order::largest_power_of_two_up_to};

/// Messages that a rank sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of messages.
    pub messages: u64,
    /// Bytes of data in all messages, without headers.
    pub bytes: u64,
}

impl Traffic {
    /// Returns the traffic of messages that all have the values of a buffer. Without values, no message is sent.
    pub fn of_messages(messages: usize, buffer: &Gradient) -> Self {
        let bytes = buffer.len() as u64 * u64::from(buffer.format().storage_bytes());
        let messages = if buffer.is_empty() { 0 } else { messages as u64 };
        Self {
            messages,
            bytes: messages * bytes,
        }
    }
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, other: Self) {
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

impl Sub for Traffic {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            messages: self.messages - other.messages,
            bytes: self.bytes - other.bytes,
        }
    }
}

/// Returns the messages that a rank sends in an all-reduce of `len` values of `value_bytes` bytes each.
///
/// Sources: R. Thakur, R. Rabenseifner and W. Gropp, *Optimization of Collective Communication Operations in MPICH*,
/// International Journal of High Performance Computing Applications 19(1), 2005, for the algorithms;
/// `ompi/mca/coll/base` of Open MPI 4.1 for blocks of different sizes and numbers of ranks that are not a power of two:
///
/// - Ring: `2 (ranks - 1)` messages, with about `2 (ranks - 1) / ranks` of the buffer. With fewer values than ranks,
///   recursive doubling.
/// - Recursive doubling: the whole buffer `log2(ranks)` times. If the number of ranks exceeds a power of two by `e`, the
///   first `2 e` ranks form pairs. The first rank of a pair sends its buffer once; the second one also sends the sum back.
/// - Linear: the whole buffer once, and `ranks - 1` times from rank 0.
/// - Tree: the whole buffer once to the parent (except rank 0), and once to each child of the broadcast.
pub fn expected_traffic(
    algorithm: ReduceAlgorithm,
    rank: usize,
    ranks: usize,
    len: usize,
    value_bytes: usize,
) -> Traffic {
    if ranks < 2 || len == 0 {
        return Traffic::default();
    }
    let whole_buffers = |messages: usize| (messages, messages * len);
    let (messages, values) = match algorithm {
        ReduceAlgorithm::Ring if len >= ranks => {
            // While summing, a rank sends all blocks except the next one; while distributing, all except the one after.
            let block = |index: usize| len / ranks + usize::from(index % ranks < len % ranks);
            (2 * (ranks - 1), 2 * len - block(rank + 1) - block(rank + 2))
        }
        ReduceAlgorithm::Ring | ReduceAlgorithm::RecursiveDoubling => {
            let power = largest_power_of_two_up_to(ranks);
            let steps = power.ilog2() as usize;
            whole_buffers(match rank {
                rank if rank >= 2 * (ranks - power) => steps,
                rank if rank % 2 == 0 => 1,
                _ => steps + 1,
            })
        }
        ReduceAlgorithm::Linear => whole_buffers(if rank == 0 { ranks - 1 } else { 1 }),
        ReduceAlgorithm::Tree => {
            let distances = (0..usize::BITS).map(|bit| 1 << bit);
            let children = distances
                .take_while(|distance| rank + distance < ranks)
                .filter(|distance| *distance > rank);
            whole_buffers(children.count() + usize::from(rank > 0))
        }
    };
    Traffic {
        messages: messages as u64,
        bytes: (values * value_bytes) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_all_ranks(algorithm: ReduceAlgorithm, ranks: usize, len: usize) -> Vec<(u64, u64)> {
        let traffic = (0..ranks).map(|rank| expected_traffic(algorithm, rank, ranks, len, 1));
        traffic.map(|traffic| (traffic.messages, traffic.bytes)).collect()
    }

    #[test]
    fn traffic_of_five_ranks_counted_by_hand() {
        // Blocks of 3, 3, 2, 2, 2 values. Rank 0 sends the blocks 0, 4, 3, 2, then 1, 0, 4, 3.
        let ring = [(8, 19), (8, 20), (8, 20), (8, 19), (8, 18)];
        assert_eq!(of_all_ranks(ReduceAlgorithm::Ring, 5, 12), ring);
        // Rank 0 sends to 1, rank 1 receives, exchanges with 2 and 3, and sends back.
        let doubling = [(1, 12), (3, 36), (2, 24), (2, 24), (2, 24)];
        assert_eq!(of_all_ranks(ReduceAlgorithm::RecursiveDoubling, 5, 12), doubling);
        let linear = [(4, 48), (1, 12), (1, 12), (1, 12), (1, 12)];
        assert_eq!(of_all_ranks(ReduceAlgorithm::Linear, 5, 12), linear);
        // The sum is broadcast by rank 0 to 1, 2, 4 and by rank 1 to 3.
        let tree = [(3, 36), (2, 24), (1, 12), (1, 12), (1, 12)];
        assert_eq!(of_all_ranks(ReduceAlgorithm::Tree, 5, 12), tree);
    }

    #[test]
    fn ring_of_few_values_is_recursive_doubling() {
        for ranks in 2..=9 {
            let doubling = of_all_ranks(ReduceAlgorithm::RecursiveDoubling, ranks, ranks - 1);
            assert_eq!(of_all_ranks(ReduceAlgorithm::Ring, ranks, ranks - 1), doubling);
        }
    }

    #[test]
    fn total_of_all_ranks_does_not_depend_on_the_sizes_of_blocks() {
        for ranks in 2..=17 {
            for len in [ranks, ranks + 1, 1000, 100_003] {
                let bytes = |algorithm| {
                    of_all_ranks(algorithm, ranks, len)
                        .iter()
                        .map(|(_, bytes)| bytes)
                        .sum::<u64>()
                };
                let minimum = (2 * (ranks - 1) * len) as u64;
                assert_eq!(bytes(ReduceAlgorithm::Ring), minimum);
                assert_eq!(bytes(ReduceAlgorithm::Linear), minimum);
                assert_eq!(bytes(ReduceAlgorithm::Tree), minimum);
                assert!(bytes(ReduceAlgorithm::RecursiveDoubling) >= minimum);
            }
        }
    }

    #[test]
    fn nothing_is_sent_by_a_single_rank_or_for_an_empty_buffer() {
        for algorithm in ReduceAlgorithm::ALL {
            assert_eq!(expected_traffic(*algorithm, 0, 1, 1000, 4), Traffic::default());
            assert_eq!(expected_traffic(*algorithm, 1, 4, 0, 4), Traffic::default());
        }
    }
}
