//! Algorithms of an all-reduce, and their selection in Open MPI.

use std::{fmt, str::FromStr};

use mantissa_core::{UnknownName, in_one_line, nearest};

/// Algorithm of an all-reduce. Algorithms differ in their traffic and in the order of the additions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// Each rank sums one block of the buffer along a ring, then the blocks circulate.
    Ring,
    /// A binomial tree sums to rank 0, then another one broadcasts the sum.
    Tree,
    /// Rank 0 receives the buffers of all other ranks, and sends each of them the sum.
    Linear,
    /// Ranks exchange partial sums with a partner at distance 1, 2, 4, ….
    RecursiveDoubling,
}

impl Algorithm {
    /// All values.
    pub const ALL: &'static [Self] = &[Self::Ring, Self::Tree, Self::Linear, Self::RecursiveDoubling];

    /// Returns the name used in files and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::Linear => "linear",
            Self::RecursiveDoubling => "recursive-doubling",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = UnknownName;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|algorithm| algorithm.name() == given);
        found.copied().ok_or_else(|| {
            let valid: Vec<_> = Self::ALL.iter().map(|algorithm| algorithm.name()).collect();
            UnknownName {
                what: "algorithm",
                given: in_one_line(&given),
                nearest: nearest(given, valid.iter().copied()),
                valid,
            }
        })
    }
}

/// Returns the environment variables that select an algorithm in Open MPI and enable the counting of messages. Set them for `mpirun`, which
/// passes them to the ranks.
///
/// The names and numbers are those of Open MPI 4.1 (`ompi_info --all`). The ring needs at least as many values as ranks;
/// Open MPI sums shorter buffers by recursive doubling.
pub fn environment(algorithm: Algorithm) -> Vec<(&'static str, &'static str)> {
    let mut variables = vec![
        // Messages through shared memory and TCP.
        // `monitoring` is a layer above `ob1` that counts messages. Both must be listed, or it stays off without an error.
        ("OMPI_MCA_pml", "ob1,monitoring"),
        ("OMPI_MCA_pml_monitoring_enable", "1"),
        ("OMPI_MCA_btl", "self,vader,tcp"),
        // Containers often forbid reading the memory of another process.
        ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
        ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
    ];
    variables.extend(match algorithm {
        Algorithm::Linear => vec![("OMPI_MCA_coll_tuned_allreduce_algorithm", "1")],
        Algorithm::RecursiveDoubling => vec![("OMPI_MCA_coll_tuned_allreduce_algorithm", "3")],
        Algorithm::Ring => vec![("OMPI_MCA_coll_tuned_allreduce_algorithm", "4")],
        // A reduction and a broadcast, both along binomial trees and without segments.
        Algorithm::Tree => vec![
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "2"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm", "5"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm_segmentsize", "0"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm", "6"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize", "0"),
        ],
    });
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed() {
        for algorithm in Algorithm::ALL {
            assert_eq!(algorithm.name().parse(), Ok(*algorithm));
        }
        let error = "recursive_doubling".parse::<Algorithm>().unwrap_err();
        assert_eq!(error.nearest, Some("recursive-doubling"));
    }

    #[test]
    fn each_algorithm_has_its_own_variables() {
        for one in Algorithm::ALL {
            for other in Algorithm::ALL {
                assert_eq!(environment(*one) == environment(*other), one == other);
            }
        }
    }
}
