//! Sorted samples and their quantiles.

/// Non-empty sorted sample of finite values.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Sorts the values. Returns `None` if there are no values or a value is not finite: the caller decides which values to omit.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        Some(Self(values))
    }

    /// Returns the values, smallest first.
    pub fn sorted(&self) -> &[f64] {
        &self.0
    }

    /// Returns the quantile of order `q`, clamped to 0..=1. Interpolates linearly between order statistics (type 7 of Hyndman and Fan 1996,
    /// doi:10.2307/2684934), like R, NumPy and Julia by default.
    pub fn quantile(&self, q: f64) -> f64 {
        let position = q.clamp(0.0, 1.0) * (self.0.len() - 1) as f64;
        let (below, above) = (
            self.0[position.floor() as usize],
            self.0[position.ceil() as usize],
        );
        below + (above - below) * position.fract()
    }

    /// Returns the middle value, or the mean of the two middle values.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// Returns the arithmetic mean.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.iter().copied()).unwrap()
    }

    #[test]
    fn quantiles_agree_with_numpy() {
        let four = sample(&[7.0, 1.0, 3.0, 2.0]);
        assert_eq!(four.median(), 2.5);
        assert_eq!(four.quantile(0.25), 1.75);
        assert_eq!(four.quantile(0.875), 5.5);
        assert_eq!((four.quantile(0.0), four.quantile(1.0)), (1.0, 7.0));
        assert_eq!(four.mean(), 3.25);
        assert_eq!(sample(&[5.0, 1.0, 9.0]).median(), 5.0);
    }

    #[test]
    fn single_value_is_every_quantile() {
        assert_eq!(sample(&[4.0]).quantile(0.3), 4.0);
        assert_eq!(sample(&[4.0]).median(), 4.0);
        assert_eq!(sample(&[6.0, 4.0]).median(), 5.0);
    }

    #[test]
    fn quantile_of_equal_values_is_exact() {
        assert_eq!(sample(&[0.1; 7]).quantile(0.37), 0.1);
    }

    #[test]
    fn quantile_order_is_clamped_to_0_and_1() {
        assert_eq!(sample(&[1.0, 2.0]).quantile(-1.0), 1.0);
        assert_eq!(sample(&[1.0, 2.0]).quantile(2.0), 2.0);
    }

    #[test]
    fn empty_and_non_finite_input_is_rejected() {
        assert_eq!(Sample::new([]), None);
        assert_eq!(Sample::new([1.0, f64::NAN]), None);
        assert_eq!(Sample::new([1.0, f64::INFINITY]), None);
    }
}
