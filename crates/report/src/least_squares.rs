//! Straight line through points by least squares.

/// Fits a straight line by least squares and returns slope and intercept. `None` if all x are equal, and for fewer than three points,
/// because two points always lie on a line.
pub(crate) fn straight_line(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let n = points.len() as f64;
    let mean = |pick: fn(&(f64, f64)) -> f64| points.iter().map(pick).sum::<f64>() / n;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let sum_xx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let sum_xy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let slope = sum_xy / sum_xx;
    (points.len() >= 3 && sum_xx > 0.0).then_some((slope, mean_y - slope * mean_x))
}
