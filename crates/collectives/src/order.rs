//! Order in which the algorithms add the values of the ranks.

use mantissa_core::ReduceAlgorithm;

/// Adds one value per rank in the order of an algorithm. `block` is the index of the block that contains the values, from 0 to
/// `values.len() - 1`; only the ring adds blocks in different orders.
///
/// The orders are those of Open MPI 4.1 (`coll_base_allreduce.c`, `coll_base_reduce.c` and `coll_base_topo.c` in
/// `ompi/mca/coll/base`). An addition in IEEE arithmetic is commutative, so only the parentheses matter.
///
/// # Panics
/// If there are no values.
pub(crate) fn sum<T: Clone>(
    algorithm: ReduceAlgorithm,
    values: &[T],
    block: usize,
    add: &impl Fn(T, T) -> T,
) -> T {
    match algorithm {
        ReduceAlgorithm::Linear => chain(values.iter().rev(), add),
        // The block with the number of a rank starts at this rank.
        ReduceAlgorithm::Ring => {
            let (before, from) = values.split_at(block);
            chain(from.iter().chain(before), add)
        }
        ReduceAlgorithm::Tree => tree(values, add),
        ReduceAlgorithm::RecursiveDoubling => {
            // The first ranks add their values in pairs, so that a power of two remains.
            let extra = values.len() - largest_power_of_two_up_to(values.len());
            let (paired, unpaired) = values.split_at(2 * extra);
            let pairs = paired.chunks(2).map(|pair| chain(pair.iter(), add));
            let mut sums: Vec<T> = pairs.chain(unpaired.iter().cloned()).collect();
            while sums.len() > 1 {
                sums = sums.chunks(2).map(|pair| chain(pair.iter(), add)).collect();
            }
            sums.remove(0)
        }
    }
}

/// Adds values one after the other.
fn chain<'a, T: Clone + 'a>(values: impl Iterator<Item = &'a T>, add: &impl Fn(T, T) -> T) -> T {
    values
        .cloned()
        .reduce(add)
        .expect("a group has at least one rank")
}

/// Adds values along a binomial tree: the root adds the sums of the subtrees at distance 1, 2, 4, ….
fn tree<T: Clone>(values: &[T], add: &impl Fn(T, T) -> T) -> T {
    let mut sum = values[0].clone();
    let mut distance = 1;
    while distance < values.len() {
        let end = values.len().min(2 * distance);
        sum = add(sum, tree(&values[distance..end], add));
        distance *= 2;
    }
    sum
}

/// Returns the largest power of two that does not exceed a positive number.
pub(crate) const fn largest_power_of_two_up_to(number: usize) -> usize {
    1 << number.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum of the numbers of the ranks with its parentheses.
    fn parentheses(algorithm: ReduceAlgorithm, ranks: usize, block: usize) -> String {
        let values: Vec<String> = (0..ranks).map(|rank| rank.to_string()).collect();
        sum(algorithm, &values, block, &|a, b| format!("({a}{b})"))
    }

    #[test]
    fn parentheses_of_each_algorithm() {
        assert_eq!(parentheses(ReduceAlgorithm::Linear, 4, 0), "(((32)1)0)");
        assert_eq!(parentheses(ReduceAlgorithm::Ring, 4, 0), "(((01)2)3)");
        assert_eq!(parentheses(ReduceAlgorithm::Ring, 4, 3), "(((30)1)2)");
        assert_eq!(parentheses(ReduceAlgorithm::Tree, 5, 0), "(((01)(23))4)");
        assert_eq!(parentheses(ReduceAlgorithm::Tree, 8, 0), "(((01)(23))((45)(67)))");
        assert_eq!(
            parentheses(ReduceAlgorithm::RecursiveDoubling, 5, 0),
            "(((01)2)(34))"
        );
        // The example in Open MPI's source.
        assert_eq!(
            parentheses(ReduceAlgorithm::RecursiveDoubling, 7, 0),
            "(((01)(23))((45)6))"
        );
        for algorithm in ReduceAlgorithm::ALL {
            assert_eq!(parentheses(*algorithm, 1, 0), "0");
        }
    }
}
