//! Ranks of values with ties.

/// Summary of the ties in a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ties {
    /// Σ (t³ − t) over groups of t equal values, for the variance of rank statistics.
    pub(crate) cubes: f64,
}

/// Returns the rank of each value, from 1, in the order of `values`. Equal values share the mean of their ranks.
pub(crate) fn midranks(values: &[f64]) -> (Vec<f64>, Ties) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut ties = Ties { cubes: 0.0 };
    let mut below = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let size = group.len() as f64;
        group
            .iter()
            .for_each(|&at| ranks[at] = below as f64 + (size + 1.0) / 2.0);
        ties.cubes += size * size * size - size;
        below += group.len();
    }
    (ranks, ties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_share_the_mean_rank() {
        let (ranks, ties) = midranks(&[3.0, 1.0, 3.0, -2.0, 3.0]);
        assert_eq!(ranks, [4.0, 2.0, 4.0, 1.0, 4.0]);
        assert_eq!(ties.cubes, 24.0);
    }

    #[test]
    fn signed_zeros_share_a_rank() {
        assert_eq!(midranks(&[0.0, -0.0]).0, [1.5, 1.5]);
        assert!(midranks(&[]).0.is_empty());
    }
}
