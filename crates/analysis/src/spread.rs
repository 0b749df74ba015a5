//! Spread of values around their median, and outliers.

use crate::Sample;

/// Ratio of the standard deviation to the median absolute deviation for normal values, 1/Φ⁻¹(3/4).
const NORMAL_FACTOR: f64 = 1.482_602_218_505_602;

/// Distance from the median, in standard deviations estimated from the MAD, beyond which a value is an outlier. This limit of Iglewicz and
/// Hoaglin, *How to Detect and Handle Outliers* (1993), labels one in two thousand normal values.
pub const OUTLIER_BEYOND: f64 = 3.5;

/// Returns the median absolute deviation (MAD) from the median, in the unit of the values and not scaled to a standard deviation. The
/// result is at least the `resolution` of the clock, because times that the clock shows as equal can differ by up to the resolution.
pub fn median_absolute_deviation(sample: &Sample, resolution: f64) -> f64 {
    let median = sample.median();
    Sample::new(sample.sorted().iter().map(|value| (value - median).abs()))
        .map_or(0.0, |deviations| deviations.median())
        .max(resolution)
}

/// Position of a value relative to the others. Outliers are labelled for the reader but not removed, because the median is robust against
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Label {
    /// Not an outlier.
    Typical,
    /// Far below the others.
    Low,
    /// Far above the others.
    High,
}

/// Labels the values, in the given order. Outliers are more than [`OUTLIER_BEYOND`] standard deviations from the median, estimated from
/// [`median_absolute_deviation`]. If the MAD and the resolution are 0, every value that differs from the median is an outlier. Returns
/// `None` without values, or if a value is not finite.
pub fn label_outliers(values: &[f64], resolution: f64) -> Option<Vec<Label>> {
    let sample = Sample::new(values.iter().copied())?;
    let median = sample.median();
    let limit = OUTLIER_BEYOND * NORMAL_FACTOR * median_absolute_deviation(&sample, resolution);
    let label = |value: &f64| match value - median {
        distance if distance > limit => Label::High,
        distance if distance < -limit => Label::Low,
        _ => Label::Typical,
    };
    Some(values.iter().map(label).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mad(values: &[f64], resolution: f64) -> f64 {
        median_absolute_deviation(&Sample::new(values.iter().copied()).unwrap(), resolution)
    }

    #[test]
    fn mad_matches_hand_calculation() {
        // The median is 2, and the absolute deviations are 1 1 0 0 2 4 7.
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0], 0.0), 1.0);
        assert_eq!(mad(&[5.0], 0.0), 0.0);
        assert_eq!(mad(&[1.0, 4.0], 0.0), 1.5);
    }

    #[test]
    fn mad_is_at_least_the_resolution() {
        assert_eq!(mad(&[3.0, 3.0, 3.0, 4.0], 0.5), 0.5);
        assert_eq!(mad(&[1.0, 4.0], 0.5), 1.5);
    }

    #[test]
    fn outliers_are_labelled_at_their_index() {
        // The MAD is 1, so the limit is 3.5 · 1.4826 = 5.19 around 12.
        let values = [12.0, 17.3, 11.0, 13.0, 6.0, 12.0, 17.1, 11.0, 13.0];
        let labels = label_outliers(&values, 0.0).unwrap();
        let far: Vec<_> = (0..9).filter(|&at| labels[at] != Label::Typical).collect();
        assert_eq!(far, [1, 4]);
        assert_eq!((labels[1], labels[4]), (Label::High, Label::Low));
    }

    #[test]
    fn one_clock_tick_is_not_an_outlier() {
        let mut ticks = [5.0; 20];
        ticks[7] = 6.0;
        assert_eq!(label_outliers(&ticks, 1.0).unwrap()[7], Label::Typical);
        assert_eq!(label_outliers(&ticks, 0.0).unwrap()[7], Label::High);
    }

    #[test]
    fn empty_and_nan_input_has_no_labels() {
        assert_eq!(label_outliers(&[], 0.0), None);
        assert_eq!(label_outliers(&[f64::NAN], 0.0), None);
    }
}
