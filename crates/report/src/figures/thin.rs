//! Thinning of points without a visible difference.

/// Returns at most `most + 2` points that keep the extremes: the smallest and the largest of every bucket.
pub fn thin(points: &[(f64, f64)], most: usize) -> Vec<(f64, f64)> {
    if points.len() <= most {
        return points.to_vec();
    }
    let bucket = points.len().div_ceil(most / 2);
    let mut kept = Vec::with_capacity(most + 2);
    for chunk in points.chunks(bucket) {
        let low = chunk.iter().enumerate().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let high = chunk.iter().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        if let (Some(low), Some(high)) = (low, high) {
            let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
            kept.push(*first.1);
            if first.0 != second.0 {
                kept.push(*second.1);
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_point_survives_thinning() {
        assert_eq!(thin(&[(1.0, 2.0)], 400), [(1.0, 2.0)]);
    }

    #[test]
    fn thinning_keeps_order_and_extremes() {
        let mut points = (0..5_000)
            .map(|i| (f64::from(i), f64::from(i)))
            .collect::<Vec<_>>();
        points[1234].1 = 1e9;
        let thin = thin(&points, 400);
        assert!(thin.len() <= 402 && thin.is_sorted_by(|a, b| a.0 < b.0));
        assert!(thin.contains(&(1234.0, 1e9)));
    }
}
