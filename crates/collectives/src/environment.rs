//! Selection of an algorithm in Open MPI and NCCL.

use mantissa_core::ReduceAlgorithm;

/// Returns the environment variables that select an algorithm in Open MPI and enable the counting of messages. Set them for `mpirun`, which
/// passes them to the ranks. If NCCL has the algorithm, a variable selects it there too.
///
/// `None` selects the algorithms of a parameter server: rank 0 sends and receives one message per rank.
///
/// The names and numbers are those of Open MPI 4.1 (`ompi_info --all`). The ring needs at least as many values as ranks;
/// Open MPI sums shorter buffers by recursive doubling.
pub fn environment(algorithm: Option<ReduceAlgorithm>) -> Vec<(&'static str, &'static str)> {
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
        None => vec![
            ("OMPI_MCA_coll_tuned_gather_algorithm", "1"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm", "1"),
        ],
        Some(ReduceAlgorithm::Linear) => vec![("OMPI_MCA_coll_tuned_allreduce_algorithm", "1")],
        Some(ReduceAlgorithm::RecursiveDoubling) => vec![("OMPI_MCA_coll_tuned_allreduce_algorithm", "3")],
        Some(ReduceAlgorithm::Ring) => vec![
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "4"),
            ("NCCL_ALGO", "Ring"),
        ],
        // A reduction and a broadcast, both along binomial trees and without segments.
        Some(ReduceAlgorithm::Tree) => vec![
            ("OMPI_MCA_coll_tuned_allreduce_algorithm", "2"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm", "5"),
            ("OMPI_MCA_coll_tuned_reduce_algorithm_segmentsize", "0"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm", "6"),
            ("OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize", "0"),
            ("NCCL_ALGO", "Tree"),
        ],
    });
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_has_its_own_variables() {
        let algorithms: Vec<_> = ReduceAlgorithm::ALL
            .iter()
            .copied()
            .map(Some)
            .chain([None])
            .collect();
        for one in &algorithms {
            for other in &algorithms {
                assert_eq!(environment(*one) == environment(*other), one == other);
            }
        }
    }
}
