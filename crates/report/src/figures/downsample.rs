//! Reduction of the number of points of a line without a visible difference.

/// Returns at most `max_points` points, in their order: the smallest and the largest of each bucket of consecutive points. `max_points`
/// must be at least 2.
pub fn downsample(points: &[(f64, f64)], max_points: usize) -> Vec<(f64, f64)> {
    if points.len() <= max_points {
        return points.to_vec();
    }
    let bucket = points.len().div_ceil(max_points / 2);
    let mut kept = Vec::with_capacity(max_points);
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
    fn a_single_point_is_kept() {
        assert_eq!(downsample(&[(1.0, 2.0)], 400), [(1.0, 2.0)]);
    }

    #[test]
    fn downsampling_keeps_order_and_extremes() {
        let mut points = (0..5_000)
            .map(|i| (f64::from(i), f64::from(i)))
            .collect::<Vec<_>>();
        points[1234].1 = 1e9;
        let kept = downsample(&points, 400);
        assert!(kept.len() <= 400 && kept.is_sorted_by(|a, b| a.0 < b.0));
        assert!(kept.contains(&(1234.0, 1e9)));
    }
}
