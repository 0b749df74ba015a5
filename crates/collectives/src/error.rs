//! Errors of collective operations.

use crate::Call;

/// Error of a collective operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// Ranks that make different calls. The field has the call of each rank.
    #[error("the ranks of the group make different calls: {}", by_call(.0))]
    Disagreement(Vec<Call>),
    /// Root that is not a rank of the group.
    #[error("rank {root} cannot be the root: the group has {size} ranks")]
    Root {
        /// The invalid rank.
        root: usize,
        /// Number of ranks.
        size: usize,
    },
    /// Buffer that is too long for one call of MPI.
    #[error(
        "a buffer has {len} elements, the maximum of MPI is {}\n  hint: split the buffer",
        i32::MAX
    )]
    TooLong {
        /// Number of elements.
        len: usize,
    },
    /// Receiver of a message that is not another rank of the group.
    #[error("cannot send to rank {rank}: it is not another rank of the group, which has {size} ranks")]
    NoRank {
        /// The invalid rank.
        rank: usize,
        /// Number of ranks.
        size: usize,
    },
    /// Rank that waits for a message that no rank can send.
    #[error("no other rank is left that could send a message")]
    NoSender,
    /// Rank that left the group while others wait for it.
    #[error("rank {rank} left the group")]
    RankLeft {
        /// The missing rank.
        rank: usize,
    },
    /// Function of MPI that failed.
    #[error("{function} failed: {message}")]
    Mpi {
        /// Name of the function.
        function: &'static str,
        /// Message of the library.
        message: String,
    },
}

/// Lists each call with the ranks that make it, in the order of the ranks.
fn by_call(calls: &[Call]) -> String {
    let mut groups: Vec<(Call, Vec<String>)> = Vec::new();
    for (rank, call) in calls.iter().enumerate() {
        match groups.iter_mut().find(|(other, _)| other == call) {
            Some((_, ranks)) => ranks.push(rank.to_string()),
            None => groups.push((*call, vec![rank.to_string()])),
        }
    }
    let groups = groups.iter().map(|(call, ranks)| match ranks.as_slice() {
        [rank] => format!("rank {rank}: {call}"),
        ranks => format!("ranks {}: {call}", ranks.join(", ")),
    });
    groups.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use mantissa_core::Format;

    use super::*;

    #[test]
    fn disagreement_lists_the_ranks_of_each_call() {
        let call = |len| Call::AllReduce {
            format: Format::F32,
            len,
        };
        let error = CollectiveError::Disagreement(vec![call(8), call(8), call(7), call(8)]);
        assert_eq!(
            error.to_string(),
            "the ranks of the group make different calls: ranks 0, 1, 3: all-reduce of 8 f32 values; \
             rank 2: all-reduce of 7 f32 values"
        );
    }
}
