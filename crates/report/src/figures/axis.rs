//! Axes: tick positions and the mapping from values to pixels.

/// A mapping from values to logical pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    log: bool,
}

impl Axis {
    /// Creates a linear axis from `values.0` at pixel `pixels.0` to `values.1` at `pixels.1`. A range of width zero is widened.
    pub fn linear(values: (f64, f64), pixels: (f64, f64)) -> Self {
        let to = if values.1 > values.0 {
            values.1
        } else {
            values.0 + 1.0
        };
        Self {
            from: values.0,
            to,
            start: pixels.0,
            end: pixels.1,
            log: false,
        }
    }

    /// Creates a logarithmic axis. Both values must be positive. A range of width zero is widened.
    pub fn log(values: (f64, f64), pixels: (f64, f64)) -> Self {
        let to = if values.1 > values.0 {
            values.1
        } else {
            values.0 * 2.0
        };
        Self {
            from: values.0.ln(),
            to: to.ln(),
            start: pixels.0,
            end: pixels.1,
            log: true,
        }
    }

    /// Returns the pixel of a value, clamped to the axis.
    pub fn at(self, value: f64) -> f64 {
        let value = if self.log {
            value.max(f64::MIN_POSITIVE).ln()
        } else {
            value
        };
        let share = ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0);
        self.start + share * (self.end - self.start)
    }
}

/// Returns about `count` round values (1, 2, 2.5 or 5 times a power of ten) within the range, smallest first.
pub fn ticks((low, high): (f64, f64), count: usize) -> Vec<f64> {
    let span = high - low;
    if !(span > 0.0 && span.is_finite()) || count == 0 {
        return vec![low];
    }
    let rough = span / count as f64;
    let magnitude = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * magnitude);
    let step = steps
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(steps[4]);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}

/// Widens the range to whole steps of its ticks.
pub fn rounded((low, high): (f64, f64), count: usize) -> (f64, f64) {
    let inner = ticks((low, high), count);
    let step = if inner.len() > 1 {
        inner[1] - inner[0]
    } else {
        (high - low).abs().max(1e-9)
    };
    ((low / step).floor() * step, (high / step).ceil() * step)
}

/// Returns the number of decimals that distinguishes the ticks.
pub fn tick_decimals(ticks: &[f64]) -> usize {
    let step = if ticks.len() > 1 { ticks[1] - ticks[0] } else { 1.0 };
    (0..6)
        .find(|d| (step * 10f64.powi(*d) - (step * 10f64.powi(*d)).round()).abs() < 1e-6)
        .unwrap_or(6) as usize
}

/// Returns the powers of ten whose decades cover the range.
pub fn decades((low, high): (f64, f64)) -> (i32, i32) {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    (first, last.max(first + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_lie_in_the_range() {
        assert_eq!(ticks((0.0, 100.0), 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks((0.3, 0.9), 3), [0.4, 0.6000000000000001, 0.8]);
        assert_eq!(ticks((0.0, 25.0), 5), [0.0, 5.0, 10.0, 15.0, 20.0, 25.0]);
        assert_eq!(ticks((2.0, 2.0), 5), [2.0]);
    }

    #[test]
    fn decimals_are_just_enough_to_distinguish_ticks() {
        assert_eq!(tick_decimals(&[0.0, 5.0]), 0);
        assert_eq!(tick_decimals(&[0.0, 0.25]), 2);
    }

    #[test]
    fn decades_cover_the_range_with_at_least_one() {
        assert_eq!(decades((3e-7, 2e-3)), (-7, -2));
        assert_eq!(decades((1.0, 1.0)), (0, 1));
    }

    #[test]
    fn values_beyond_an_axis_stay_on_it() {
        let axis = Axis::linear((0.0, 10.0), (100.0, 200.0));
        assert_eq!(
            (axis.at(5.0), axis.at(20.0), axis.at(-1.0)),
            (150.0, 200.0, 100.0)
        );
        let axis = Axis::log((1.0, 100.0), (0.0, 2.0));
        assert!((axis.at(10.0) - 1.0).abs() < 1e-12 && axis.at(0.0) == 0.0);
    }

    #[test]
    fn a_range_without_width_does_not_divide_by_zero() {
        assert!(Axis::linear((3.0, 3.0), (0.0, 1.0)).at(3.0).is_finite());
        assert!(Axis::log((3.0, 3.0), (0.0, 1.0)).at(3.0).is_finite());
    }
}
