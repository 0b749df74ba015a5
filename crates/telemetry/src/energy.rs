//! Energy of a window of time, from the energy counter of the device and from sampled power.

use std::ops::Range;

use crate::{decimated::Decimated, spans::Spans};

/// Minimum window for an energy, in seconds. The power sensors of an A100 or H100 average over 25 to 100 ms (arXiv
/// 2312.02741), which blurs at most a tenth of a 2 s window: up to 100 ms at each edge.
pub const MIN_ENERGY_SECONDS: f64 = 2.0;

/// Minimum window for integrating sampled power, as a multiple of the sensor's averaging time. The sensor blurs each
/// edge of the window by one averaging time, so it blurs at most a tenth of the window.
pub const MIN_AVERAGING_TIMES: f64 = 20.0;

/// Minimum share of the window that readings must cover. The rest of the window is assumed to have the same mean power.
const MIN_COVERAGE: f64 = 0.95;

/// Maximum difference in mean power between the two halves of a window with steady power, as a share of the mean over
/// the window.
const STEADY_WITHIN: f64 = 0.05;

/// Maximum step of the counter as a share of its difference over the window. The counter is off by up to one step at
/// each edge of the window.
const MAX_STEP_SHARE: f64 = 0.1;

/// Energy of a window by two methods; each value is absent with a reason if it is not available.
#[derive(Debug, Clone, PartialEq)]
pub struct Energy {
    /// Length of the window in seconds.
    pub seconds: f64,
    /// Difference of the energy counter in joules.
    pub counter_joules: Result<f64, String>,
    /// Step of the counter in joules, which is the maximum error of its difference.
    pub counter_step_joules: Option<f64>,
    /// Integral of the sampled power in joules (trapezoidal rule).
    pub integral_joules: Result<f64, String>,
    /// Share of the window that the power readings cover.
    pub coverage: f64,
    /// Averaging time of the power sensor in seconds, if known.
    pub averaged_seconds: Option<f64>,
}

impl Energy {
    /// Subtracts the energy of the idle device. `idle_watts` is the [`crate::Trace::steady_power`] of a window before
    /// the work.
    pub fn above_idle(self, idle_watts: f64) -> Self {
        let idle = idle_watts * self.seconds;
        let above = |joules: f64| {
            if joules >= idle {
                Ok(joules - idle)
            } else {
                Err(format!(
                    "{joules:.0} J are less than the {idle:.0} J of an idle device ({idle_watts:.0} W)"
                ))
            }
        };
        Self {
            counter_joules: self.counter_joules.and_then(above),
            integral_joules: self.integral_joules.and_then(above),
            ..self
        }
    }
}

/// Power and energy counter of a trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    power: Power,
    counter: Counter,
}

impl Meter {
    /// Adds a reading. Between two readings that are more than `max_gap` seconds apart, the power is unknown.
    pub(crate) fn push(&mut self, seconds: f64, watts: Option<f64>, joules: Option<f64>, max_gap: f64) {
        if let Some(watts) = watts {
            self.power.push(seconds, watts, max_gap);
        }
        if let Some(joules) = joules {
            self.counter.push(seconds, joules, max_gap);
        }
    }

    /// Adds an averaging time of the power sensor, in seconds. The longest one counts.
    pub(crate) fn add_averaging_time(&mut self, seconds: f64) {
        let longest = self
            .power
            .averaged_seconds
            .map_or(seconds, |longest| longest.max(seconds));
        self.power.averaged_seconds = Some(longest);
    }

    pub(crate) fn steady_power(&self, window: &Range<f64>) -> Result<f64, String> {
        self.power.steady_mean(window)
    }

    pub(crate) fn energy(&self, window: &Range<f64>) -> Energy {
        let counter = self.counter.joules_and_step(window);
        Energy {
            seconds: window.end - window.start,
            counter_step_joules: counter.as_ref().ok().map(|(_, step)| *step),
            counter_joules: counter.map(|(joules, _)| joules),
            integral_joules: self.power.joules(window),
            coverage: self.power.coverage(window),
            averaged_seconds: self.power.averaged_seconds,
        }
    }
}

/// Returns the length of a window in seconds, or an error if the window is too short for a sensor.
fn check_length(window: &Range<f64>, min_seconds: f64, sensor: &str) -> Result<f64, String> {
    let length = window.end - window.start;
    if length >= min_seconds {
        Ok(length)
    } else {
        Err(format!(
            "{length:.2} s are too short for the {sensor}, which needs {min_seconds} s"
        ))
    }
}

/// Sampled power, integrated over all readings as they arrive, so that dropping readings later does not lose energy.
#[derive(Debug, Clone, Default)]
struct Power {
    sums: Decimated<Sum>,
    last: Option<(f64, Sum)>,
    averaged_seconds: Option<f64>,
}

/// Cumulative sums since the first reading.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    /// Time up to which the sums are taken.
    seconds: f64,
    joules: f64,
    /// Time without gaps between readings, in seconds.
    covered: f64,
}

impl Power {
    fn push(&mut self, seconds: f64, watts: f64, max_gap: f64) {
        let mut sum = self.last.map_or_else(Sum::default, |(_, sum)| sum);
        if let Some((before, _)) = self.last {
            let apart = seconds - sum.seconds;
            // Gaps add nothing to the sums.
            if apart <= max_gap {
                sum.joules += apart * (before + watts) / 2.0;
                sum.covered += apart;
            }
        }
        sum.seconds = seconds;
        self.sums.push(sum);
        self.last = Some((watts, sum));
    }

    /// Returns the sums up to a time, with linear interpolation between readings.
    fn sum_until(&self, at: f64) -> Sum {
        match self.sums.neighbours(at, |sum| sum.seconds) {
            (Some(below), Some(above)) if above.seconds > below.seconds => {
                let part = (at - below.seconds) / (above.seconds - below.seconds);
                Sum {
                    seconds: at,
                    joules: below.joules + part * (above.joules - below.joules),
                    covered: below.covered + part * (above.covered - below.covered),
                }
            }
            (Some(one), _) | (None, Some(one)) => Sum { seconds: at, ..*one },
            (None, None) => Sum::default(),
        }
    }

    fn coverage(&self, window: &Range<f64>) -> f64 {
        let length = window.end - window.start;
        if length > 0.0 {
            (self.sum_until(window.end).covered - self.sum_until(window.start).covered) / length
        } else {
            0.0
        }
    }

    /// Returns the energy of a window in joules.
    fn joules(&self, window: &Range<f64>) -> Result<f64, String> {
        let averaged = self.averaged_seconds.unwrap_or(0.0);
        let watts = self.mean(window)?;
        let length = check_length(window, MIN_AVERAGING_TIMES * averaged, "power sensor")?;
        Ok(watts * length)
    }

    /// Returns the mean power in watts if it is steady. The averaging in the sensor does not distort a steady power.
    fn steady_mean(&self, window: &Range<f64>) -> Result<f64, String> {
        let mean = self.mean(window)?;
        let middle = self.sum_until(f64::midpoint(window.start, window.end));
        let (from, to) = (self.sum_until(window.start), self.sum_until(window.end));
        let between = |a: Sum, b: Sum| (b.joules - a.joules) / (b.covered - a.covered);
        let (first, second) = (between(from, middle), between(middle, to));
        if (second - first).abs() <= STEADY_WITHIN * mean {
            Ok(mean)
        } else {
            Err(format!(
                "the power was not steady: {first:.1} W, and {second:.1} W {:.1} s later",
                (window.end - window.start) / 2.0
            ))
        }
    }

    /// Returns the mean power in watts.
    fn mean(&self, window: &Range<f64>) -> Result<f64, String> {
        if self.last.is_none() {
            return Err("the device does not report its power".into());
        }
        check_length(window, MIN_ENERGY_SECONDS, "power sensor")?;
        let coverage = self.coverage(window);
        if coverage < MIN_COVERAGE {
            return Err(format!("readings cover {:.0} % of the time", 100.0 * coverage));
        }
        let (from, to) = (self.sum_until(window.start), self.sum_until(window.end));
        Ok((to.joules - from.joules) / (to.covered - from.covered))
    }
}

/// Energy counter of the device.
#[derive(Debug, Clone, Default)]
struct Counter {
    readings: Decimated<(f64, f64)>,
    /// Time intervals without gaps between readings.
    covered: Spans,
    /// Decreases of the counter: time, value before and value after.
    decreases: Vec<(f64, f64, f64)>,
    last: Option<(f64, f64)>,
}

impl Counter {
    fn push(&mut self, seconds: f64, joules: f64, max_gap: f64) {
        let near = self.last.filter(|(then, _)| seconds - then <= max_gap);
        self.covered.add(near.map_or(seconds, |(then, _)| then), seconds);
        if let Some((_, before)) = self.last.filter(|(_, before)| joules < *before) {
            self.decreases.push((seconds, before, joules));
        }
        self.readings.push((seconds, joules));
        self.last = Some((seconds, joules));
    }

    /// Returns the difference of the counter over the window, and the step of the counter, in joules.
    fn joules_and_step(&self, window: &Range<f64>) -> Result<(f64, f64), String> {
        if self.last.is_none() {
            return Err("the device does not report its energy counter".into());
        }
        let length = check_length(window, MIN_ENERGY_SECONDS, "energy counter")?;
        // A reading slightly before or after an edge of the window still counts as the reading at this edge.
        let tolerance = length * (1.0 - MIN_COVERAGE) / 2.0;
        let start = self
            .at(window.start, tolerance)
            .ok_or("no reading at the start")?;
        let end = self.at(window.end, tolerance).ok_or("no reading at the end")?;
        let inside = |at: f64| (window.start..=window.end).contains(&at);
        if let Some((at, from, to)) = self.decreases.iter().find(|(at, ..)| inside(*at)) {
            return Err(format!(
                "the counter fell from {from:.0} J to {to:.0} J at {at:.1} s: it was reset or wrapped"
            ));
        }
        // Extrapolate from the readings to the edges of the window.
        let joules = (end.1 - start.1) / (end.0 - start.0) * length;
        let step = self.step(window).filter(|_| joules > 0.0);
        let step = step.ok_or_else(|| format!("the counter did not move in {length:.1} s"))?;
        if step > MAX_STEP_SHARE * joules {
            return Err(format!(
                "{length:.2} s are too short for the energy counter: {joules:.0} J in steps of {step:.0} J"
            ));
        }
        Ok((joules, step))
    }

    /// Returns time and value of the counter at a time, interpolated linearly. If the time is in a gap or outside of the
    /// readings, returns the last reading before it, or else the first one after it, within `tolerance` seconds.
    fn at(&self, at: f64, tolerance: f64) -> Option<(f64, f64)> {
        match self.readings.neighbours(at, |reading| reading.0) {
            (Some(below), Some(above)) if self.covered.contain(&(at..at)) => {
                let apart = above.0 - below.0;
                let part = if apart > 0.0 { (at - below.0) / apart } else { 0.0 };
                Some((at, below.1 + part * (above.1 - below.1)))
            }
            (below, above) => {
                let near = |reading: &&&(f64, f64)| (reading.0 - at).abs() <= tolerance;
                let (below, above) = (below.as_ref().filter(near), above.as_ref().filter(near));
                below.or(above).map(|reading| **reading)
            }
        }
    }

    /// Returns the median of the positive differences between consecutive readings in the window, in joules.
    fn step(&self, window: &Range<f64>) -> Option<f64> {
        let inside = self
            .readings
            .iter()
            .filter(|(seconds, _)| *seconds >= window.start);
        let inside: Vec<f64> = inside
            .take_while(|(seconds, _)| *seconds <= window.end)
            .map(|(_, joules)| *joules)
            .collect();
        let steps = inside.windows(2).map(|pair| pair[1] - pair[0]);
        let mut steps: Vec<f64> = steps.filter(|step| *step > 0.0).collect();
        steps.sort_by(f64::total_cmp);
        steps.get(steps.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_GAP: f64 = 0.1;

    /// Creates readings every 10 ms from functions of the time in seconds.
    fn meter_of(seconds: f64, power: impl Fn(f64) -> f64, counter: impl Fn(f64) -> f64) -> Meter {
        let mut meter = Meter::default();
        for index in 0..=(seconds * 100.0).round() as u32 {
            let at = f64::from(index) / 100.0;
            meter.push(at, Some(power(at)), Some(counter(at)), MAX_GAP);
        }
        meter
    }

    fn steady(seconds: f64) -> Meter {
        meter_of(seconds, |_| 100.0, |at| 5000.0 + 100.0 * at)
    }

    fn near(result: &Result<f64, String>, joules: f64) -> bool {
        result.as_ref().is_ok_and(|value| (value - joules).abs() < 1e-6)
    }

    #[test]
    fn both_methods_agree_for_constant_power() {
        let energy = steady(10.0).energy(&(2.0..7.0));
        assert!(near(&energy.integral_joules, 500.0), "{energy:?}");
        assert!(near(&energy.counter_joules, 500.0), "{energy:?}");
        assert!((energy.coverage - 1.0).abs() < 1e-9);
    }

    #[test]
    fn window_edges_are_interpolated_between_readings() {
        let energy = steady(10.0).energy(&(2.003..7.006));
        assert!(near(&energy.integral_joules, 500.3), "{energy:?}");
        assert!(near(&energy.counter_joules, 500.3), "{energy:?}");
    }

    #[test]
    fn rising_power_is_integrated_by_the_trapezoidal_rule() {
        let energy = meter_of(4.0, |at| 10.0 * at, |_| 0.0).energy(&(0.0..4.0));
        assert!(near(&energy.integral_joules, 80.0), "{energy:?}");
    }

    #[test]
    fn thinning_does_not_lose_energy() {
        // The power alternates between 0 W and 200 W. From every second reading alone, the mean power would be 0 W or 200 W.
        let meter = meter_of(400.0, |at| 200.0 * ((at * 100.0).round() % 2.0), |at| 100.0 * at);
        let energy = meter.energy(&(10.0..390.0));
        assert!(near(&energy.integral_joules, 38_000.0), "{energy:?}");
        assert!(near(&energy.counter_joules, 38_000.0), "{energy:?}");
    }

    #[test]
    fn a_window_that_is_too_short_has_no_energy() {
        let energy = steady(10.0).energy(&(2.0..3.0));
        assert!(energy.integral_joules.unwrap_err().contains("too short"));
        assert!(energy.counter_joules.unwrap_err().contains("too short"));
        let none = steady(10.0).energy(&(2.0..2.0));
        assert!(none.integral_joules.is_err() && none.coverage == 0.0);
    }

    #[test]
    fn a_long_averaging_time_requires_a_longer_window() {
        let mut meter = steady(30.0);
        meter.add_averaging_time(1.0);
        let energy = meter.energy(&(2.0..12.0));
        assert!(energy.integral_joules.unwrap_err().contains("needs 20 s"));
        assert!(near(&energy.counter_joules, 1000.0));
        assert!(near(&meter.energy(&(2.0..27.0)).integral_joules, 2500.0));
    }

    #[test]
    fn a_window_with_half_coverage_has_no_energy() {
        let energy = steady(10.0).energy(&(5.0..15.0));
        assert!(energy.integral_joules.unwrap_err().contains("50 %"));
        assert!(energy.counter_joules.unwrap_err().contains("at the end"));
        assert!((energy.coverage - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_short_gap_is_filled_with_the_mean_power() {
        let mut meter = Meter::default();
        for index in (0..=1000).filter(|index| !(400..430).contains(index)) {
            let at = f64::from(index) / 100.0;
            meter.push(at, Some(100.0), Some(100.0 * at), MAX_GAP);
        }
        let energy = meter.energy(&(0.0..10.0));
        assert!(near(&energy.integral_joules, 1000.0), "{energy:?}");
        assert!(near(&energy.counter_joules, 1000.0), "{energy:?}");
        assert!((energy.coverage - 0.969).abs() < 1e-9, "{energy:?}");
        let most = meter.energy(&(3.5..5.6));
        assert!(most.integral_joules.unwrap_err().contains("85 %"));
    }

    #[test]
    fn the_step_of_a_counter_is_reported() {
        // 500 W, with a counter that is updated every 100 ms.
        let stairs = |at: f64| 50.0 * ((at + 1e-9) * 10.0).floor();
        let energy = meter_of(10.0, |_| 500.0, stairs).energy(&(1.0..9.05));
        assert_eq!(energy.counter_step_joules, Some(50.0));
        let joules = energy.counter_joules.unwrap();
        assert!((joules - 4025.0).abs() <= 50.0, "{joules}");
    }

    #[test]
    fn a_counter_too_coarse_for_the_window_has_no_energy() {
        let coarse = |at: f64| 500.0 * (at + 1e-9).floor();
        let energy = meter_of(10.0, |_| 500.0, coarse).energy(&(1.0..4.5));
        assert!(energy.counter_joules.unwrap_err().contains("steps of 500 J"));
        assert!(near(&energy.integral_joules, 1750.0));
    }

    #[test]
    fn a_reset_or_constant_counter_has_no_energy() {
        let reset = |at: f64| if at < 5.0 { 9000.0 + 100.0 * at } else { 100.0 * at };
        let meter = meter_of(10.0, |_| 100.0, reset);
        let reason = meter.energy(&(2.0..8.0)).counter_joules.unwrap_err();
        assert_eq!(
            reason,
            "the counter fell from 9499 J to 500 J at 5.0 s: it was reset or wrapped"
        );
        assert!(near(&meter.energy(&(6.0..9.0)).counter_joules, 300.0));
        let still = meter_of(10.0, |_| 100.0, |_| 7.0).energy(&(1.0..9.0));
        assert!(still.counter_joules.unwrap_err().contains("did not move"));
    }

    #[test]
    fn idle_energy_is_subtracted_without_going_negative() {
        let above = steady(10.0).energy(&(2.0..7.0)).above_idle(40.0);
        assert!(near(&above.integral_joules, 300.0));
        assert!(near(&above.counter_joules, 300.0));
        let below = steady(10.0).energy(&(2.0..7.0)).above_idle(140.0);
        assert!(below.integral_joules.unwrap_err().contains("idle"));
    }

    #[test]
    fn without_a_power_sensor_the_energy_has_a_reason() {
        let energy = Meter::default().energy(&(0.0..9.0));
        assert_eq!(
            energy.integral_joules,
            Err("the device does not report its power".into())
        );
        assert_eq!(energy.coverage, 0.0);
    }
}
