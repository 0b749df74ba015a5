//! Pareto front of points with two objectives.

/// Returns, for each point, true if another point dominates it. Both coordinates are minimized: a point dominates another if it is smaller
/// in one coordinate and not larger in the other. Equal points do not dominate each other. A point with a missing value (NaN) does not
/// dominate other points and is not dominated.
pub fn dominated(points: &[(f64, f64)]) -> Vec<bool> {
    let mut dominated = vec![false; points.len()];
    let mut lowest: Option<(f64, f64)> = None;
    // In this order (first coordinate, then second), every point comes after the points that dominate it.
    for index in ascending(points) {
        let (first, second) = points[index];
        match lowest {
            Some((at, low)) if low < second || (low == second && at < first) => dominated[index] = true,
            _ => lowest = Some((first, second)),
        }
    }
    dominated
}

/// Returns the indices of the points that no other point dominates, sorted by the first coordinate. Leaves out points with a missing value.
pub fn front(points: &[(f64, f64)]) -> Vec<usize> {
    let dominated = dominated(points);
    let mut front = ascending(points);
    front.retain(|index| !dominated[*index]);
    front
}

/// Returns the indices of the points without missing values, sorted by the first coordinate, then by the second.
fn ascending(points: &[(f64, f64)]) -> Vec<usize> {
    let is_complete = |index: &usize| !points[*index].0.is_nan() && !points[*index].1.is_nan();
    let mut order: Vec<usize> = (0..points.len()).filter(is_complete).collect();
    // Adding 0 converts −0 to +0.
    let key = |index: usize| (points[index].0 + 0.0, points[index].1 + 0.0);
    order.sort_by(|a, b| {
        let (a, b) = (key(*a), key(*b));
        a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn worse_points_are_dominated() {
        let points = [(2.0, 2.0), (1.0, 3.0), (3.0, 2.0), (3.0, 1.0), (2.0, 4.0)];
        assert_eq!(dominated(&points), [false, false, true, false, true]);
        assert_eq!(front(&points), [1, 0, 3]);
    }

    #[test]
    fn equal_points_are_kept_and_nan_points_ignored() {
        let points = [
            (1.0, 1.0),
            (1.0, 1.0),
            (0.0, f64::NAN),
            (f64::NAN, 0.0),
            (1.0, 2.0),
        ];
        assert_eq!(dominated(&points), [false, false, false, false, true]);
        assert_eq!(front(&points), [0, 1]);
        assert_eq!(front(&[]), Vec::<usize>::new());
    }

    #[test]
    fn signed_zeros_are_equal_and_infinities_are_ordered() {
        assert_eq!(dominated(&[(0.0, 2.0), (-0.0, 1.0)]), [true, false]);
        assert_eq!(
            dominated(&[(f64::NEG_INFINITY, 1.0), (0.0, 1.0), (0.0, f64::INFINITY)]),
            [false, true, true]
        );
    }

    /// Computes the dominated points by comparing all pairs.
    fn brute_force(points: &[(f64, f64)]) -> Vec<bool> {
        let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 <= b.1 && (a.0 < b.0 || a.1 < b.1);
        let dominated = |point: &(f64, f64)| points.iter().any(|other| beats(*other, *point));
        points.iter().map(dominated).collect()
    }

    /// Generates coordinates from a small set, to produce many ties.
    fn coordinate() -> impl Strategy<Value = f64> {
        prop_oneof![
            6 => (-3_i8..4).prop_map(f64::from),
            1 => Just(-0.0),
            1 => Just(f64::NAN),
            1 => Just(f64::INFINITY),
            1 => any::<f64>(),
        ]
    }

    proptest! {
        #[test]
        fn dominated_points_match_brute_force(points in prop::collection::vec((coordinate(), coordinate()), 0..24)) {
            prop_assert_eq!(dominated(&points), brute_force(&points));
        }

        #[test]
        fn front_decreases_and_covers_every_complete_point(
            points in prop::collection::vec((coordinate(), coordinate()), 0..24),
        ) {
            let front = front(&points);
            for pair in front.windows(2) {
                let (a, b) = (points[pair[0]], points[pair[1]]);
                prop_assert!(a == b || (a.0 < b.0 && a.1 > b.1));
            }
            for point in points.iter().filter(|point| !point.0.is_nan() && !point.1.is_nan()) {
                prop_assert!(front.iter().any(|index| points[*index].0 <= point.0 && points[*index].1 <= point.1));
            }
        }
    }
}
