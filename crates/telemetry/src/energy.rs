//! Energy of a window of time, from the energy counter of the device and from sampled power.

use std::ops::Range;

use crate::{decimated::Decimated, spans::Spans};

/// Minimum window for an energy, in seconds. The power sensors of an A100 or H100 average over 25 to 100 ms (arXiv
/// 2312.02741), so in 2 s the two edges of the window account for at most a tenth.
pub const MIN_ENERGY_SECONDS: f64 = 2.0;

/// Minimum window for integrating sampled power, in averaging times of the sensor. Each edge of the window is blurred
/// by one averaging time, so both account for at most a tenth.
pub const MIN_AVERAGING_TIMES: f64 = 20.0;

/// Minimum share of the window that readings must cover. The rest of the window is assumed to have the same mean power.
const MIN_COVERAGE: f64 = 0.95;

/// Maximum difference in power between the two halves of a window, as a share of the mean, for the power to count as
/// steady.
const STEADY_WITHIN: f64 = 0.05;

/// Maximum step of the counter as a share of its difference. The error at each edge of the window is up to one step.
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
    /// Adds a reading. The time between two readings that are more than `hole` seconds apart is unknown.
    pub(crate) fn push(&mut self, seconds: f64, watts: Option<f64>, joules: Option<f64>, hole: f64) {
        if let Some(watts) = watts {
            self.power.push(seconds, watts, hole);
        }
        if let Some(joules) = joules {
            self.counter.push(seconds, joules, hole);
        }
    }

    /// Sets the averaging time of the power sensor in seconds. The longest one counts.
    pub(crate) fn averaged(&mut self, seconds: f64) {
        let most = self
            .power
            .averaged_seconds
            .map_or(seconds, |most| most.max(seconds));
        self.power.averaged_seconds = Some(most);
    }

    pub(crate) fn steady_power(&self, window: &Range<f64>) -> Result<f64, String> {
        self.power.steady(window)
    }

    pub(crate) fn energy(&self, window: &Range<f64>) -> Energy {
        let counter = self.counter.between(window);
        Energy {
            seconds: window.end - window.start,
            counter_step_joules: counter.as_ref().ok().map(|(_, step)| *step),
            counter_joules: counter.map(|(joules, _)| joules),
            integral_joules: self.power.between(window),
            coverage: self.power.coverage(window),
            averaged_seconds: self.power.averaged_seconds,
        }
    }
}

/// Returns the length of the window in seconds, or an error if it is too short.
fn long_enough(window: &Range<f64>, least: f64, of: &str) -> Result<f64, String> {
    let length = window.end - window.start;
    if length >= least {
        Ok(length)
    } else {
        Err(format!(
            "{length:.2} s are too short for the {of}, which needs {least} s"
        ))
    }
}

/// Sampled power, integrated as readings arrive so that thinning does not lose energy.
#[derive(Debug, Clone, Default)]
struct Power {
    sums: Decimated<Sum>,
    last: Option<(f64, Sum)>,
    averaged_seconds: Option<f64>,
}

/// Sums from the first reading on.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    /// End of the summed time.
    seconds: f64,
    joules: f64,
    /// Covered time in seconds.
    covered: f64,
}

impl Power {
    fn push(&mut self, seconds: f64, watts: f64, hole: f64) {
        let mut sum = self.last.map_or_else(Sum::default, |(_, sum)| sum);
        if let Some((before, _)) = self.last {
            let apart = seconds - sum.seconds;
            // Holes add nothing to the sums.
            if apart <= hole {
                sum.joules += apart * (before + watts) / 2.0;
                sum.covered += apart;
            }
        }
        sum.seconds = seconds;
        self.sums.push(sum);
        self.last = Some((watts, sum));
    }

    /// Returns the sums up to a time, with linear interpolation between readings.
    fn until(&self, at: f64) -> Sum {
        match self.sums.around(at, |sum| sum.seconds) {
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
            (self.until(window.end).covered - self.until(window.start).covered) / length
        } else {
            0.0
        }
    }

    fn between(&self, window: &Range<f64>) -> Result<f64, String> {
        let averaged = self.averaged_seconds.unwrap_or(0.0);
        let watts = self.mean(window)?;
        let length = long_enough(window, MIN_AVERAGING_TIMES * averaged, "power sensor")?;
        Ok(watts * length)
    }

    /// Returns the mean power in watts if it is steady. In this case, averaging in the sensor does not distort it.
    fn steady(&self, window: &Range<f64>) -> Result<f64, String> {
        let mean = self.mean(window)?;
        let middle = self.until(f64::midpoint(window.start, window.end));
        let (from, to) = (self.until(window.start), self.until(window.end));
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
        long_enough(window, MIN_ENERGY_SECONDS, "power sensor")?;
        let coverage = self.coverage(window);
        if coverage < MIN_COVERAGE {
            return Err(format!("readings cover {:.0} % of the time", 100.0 * coverage));
        }
        let (from, to) = (self.until(window.start), self.until(window.end));
        Ok((to.joules - from.joules) / (to.covered - from.covered))
    }
}

/// Energy counter of the device.
#[derive(Debug, Clone, Default)]
struct Counter {
    readings: Decimated<(f64, f64)>,
    /// Intervals without holes between readings.
    known: Spans,
    /// Decreases of the counter: time, value before and value after.
    falls: Vec<(f64, f64, f64)>,
    last: Option<(f64, f64)>,
}

impl Counter {
    fn push(&mut self, seconds: f64, joules: f64, hole: f64) {
        let near = self.last.filter(|(then, _)| seconds - then <= hole);
        self.known.add(near.map_or(seconds, |(then, _)| then), seconds);
        if let Some((_, before)) = self.last.filter(|(_, before)| joules < *before) {
            self.falls.push((seconds, before, joules));
        }
        self.readings.push((seconds, joules));
        self.last = Some((seconds, joules));
    }

    /// Returns the difference of the counter over the window and its step, in joules.
    fn between(&self, window: &Range<f64>) -> Result<(f64, f64), String> {
        if self.last.is_none() {
            return Err("the device does not report its energy counter".into());
        }
        let length = long_enough(window, MIN_ENERGY_SECONDS, "energy counter")?;
        // Tolerance at the edges, so that a reading that is slightly late still counts as the one at the edge.
        let slack = length * (1.0 - MIN_COVERAGE) / 2.0;
        let start = self.at(window.start, slack).ok_or("no reading at the start")?;
        let end = self.at(window.end, slack).ok_or("no reading at the end")?;
        let inside = |at: f64| (window.start..=window.end).contains(&at);
        if let Some((at, from, to)) = self.falls.iter().find(|(at, ..)| inside(*at)) {
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

    /// Returns time and value of the counter at a time, interpolated linearly. If the time is not between known
    /// readings, returns the nearest reading within `slack` seconds.
    fn at(&self, at: f64, slack: f64) -> Option<(f64, f64)> {
        match self.readings.around(at, |reading| reading.0) {
            (Some(below), Some(above)) if self.known.hold(&(at..at)) => {
                let apart = above.0 - below.0;
                let part = if apart > 0.0 { (at - below.0) / apart } else { 0.0 };
                Some((at, below.1 + part * (above.1 - below.1)))
            }
            (below, above) => {
                let near = |reading: &&&(f64, f64)| (reading.0 - at).abs() <= slack;
                let (below, above) = (below.as_ref().filter(near), above.as_ref().filter(near));
                below.or(above).map(|reading| **reading)
            }
        }
    }

    /// Returns the median of the non-zero differences between readings in the window, in joules.
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

    const HOLE: f64 = 0.1;

    /// Creates readings every 10 ms from functions of the time in seconds.
    fn metered(seconds: f64, power: impl Fn(f64) -> f64, counter: impl Fn(f64) -> f64) -> Meter {
        let mut meter = Meter::default();
        for index in 0..=(seconds * 100.0).round() as u32 {
            let at = f64::from(index) / 100.0;
            meter.push(at, Some(power(at)), Some(counter(at)), HOLE);
        }
        meter
    }

    fn steady(seconds: f64) -> Meter {
        metered(seconds, |_| 100.0, |at| 5000.0 + 100.0 * at)
    }

    fn near(result: &Result<f64, String>, joules: f64) -> bool {
        result.as_ref().is_ok_and(|value| (value - joules).abs() < 1e-6)
    }

    #[test]
    fn steady_power_gives_watts_times_seconds_by_both_ways() {
        let energy = steady(10.0).energy(&(2.0..7.0));
        assert!(near(&energy.integral_joules, 500.0), "{energy:?}");
        assert!(near(&energy.counter_joules, 500.0), "{energy:?}");
        assert!((energy.coverage - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_window_between_readings_is_not_rounded_to_them() {
        let energy = steady(10.0).energy(&(2.003..7.006));
        assert!(near(&energy.integral_joules, 500.3), "{energy:?}");
        assert!(near(&energy.counter_joules, 500.3), "{energy:?}");
    }

    #[test]
    fn a_rising_power_is_integrated_as_a_trapezoid() {
        let energy = metered(4.0, |at| 10.0 * at, |_| 0.0).energy(&(0.0..4.0));
        assert!(near(&energy.integral_joules, 80.0), "{energy:?}");
    }

    #[test]
    fn a_long_trace_loses_no_energy_to_thinning() {
        // The power alternates with the readings: every second reading alone would report 0 W or 200 W.
        let meter = metered(400.0, |at| 200.0 * ((at * 100.0).round() % 2.0), |at| 100.0 * at);
        let energy = meter.energy(&(10.0..390.0));
        assert!(near(&energy.integral_joules, 38_000.0), "{energy:?}");
        assert!(near(&energy.counter_joules, 38_000.0), "{energy:?}");
    }

    #[test]
    fn a_window_too_short_for_the_sensor_says_so_instead_of_a_number() {
        let energy = steady(10.0).energy(&(2.0..3.0));
        assert!(energy.integral_joules.unwrap_err().contains("too short"));
        assert!(energy.counter_joules.unwrap_err().contains("too short"));
        let none = steady(10.0).energy(&(2.0..2.0));
        assert!(none.integral_joules.is_err() && none.coverage == 0.0);
    }

    #[test]
    fn a_sensor_that_averages_over_a_second_takes_a_longer_window() {
        let mut meter = steady(30.0);
        meter.averaged(1.0);
        let energy = meter.energy(&(2.0..12.0));
        assert!(energy.integral_joules.unwrap_err().contains("needs 20 s"));
        assert!(near(&energy.counter_joules, 1000.0));
        assert!(near(&meter.energy(&(2.0..27.0)).integral_joules, 2500.0));
    }

    #[test]
    fn a_window_half_without_readings_gives_no_energy() {
        let energy = steady(10.0).energy(&(5.0..15.0));
        assert!(energy.integral_joules.unwrap_err().contains("50 %"));
        assert!(energy.counter_joules.unwrap_err().contains("at the end"));
        assert!((energy.coverage - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_hole_in_the_middle_counts_at_the_mean_of_the_rest() {
        let mut meter = Meter::default();
        for index in (0..=1000).filter(|index| !(400..430).contains(index)) {
            let at = f64::from(index) / 100.0;
            meter.push(at, Some(100.0), Some(100.0 * at), HOLE);
        }
        let energy = meter.energy(&(0.0..10.0));
        assert!(near(&energy.integral_joules, 1000.0), "{energy:?}");
        assert!(near(&energy.counter_joules, 1000.0), "{energy:?}");
        assert!((energy.coverage - 0.969).abs() < 1e-9, "{energy:?}");
        let most = meter.energy(&(3.5..5.6));
        assert!(most.integral_joules.unwrap_err().contains("85 %"));
    }

    #[test]
    fn a_counter_that_moves_in_steps_says_how_large_they_are() {
        // 500 W, with a counter that is updated every 100 ms.
        let stairs = |at: f64| 50.0 * ((at + 1e-9) * 10.0).floor();
        let energy = metered(10.0, |_| 500.0, stairs).energy(&(1.0..9.05));
        assert_eq!(energy.counter_step_joules, Some(50.0));
        let joules = energy.counter_joules.unwrap();
        assert!((joules - 4025.0).abs() <= 50.0, "{joules}");
    }

    #[test]
    fn a_counter_too_coarse_for_the_window_gives_no_number() {
        let coarse = |at: f64| 500.0 * (at + 1e-9).floor();
        let energy = metered(10.0, |_| 500.0, coarse).energy(&(1.0..4.5));
        assert!(energy.counter_joules.unwrap_err().contains("steps of 500 J"));
        assert!(near(&energy.integral_joules, 1750.0));
    }

    #[test]
    fn a_counter_that_fell_or_stood_still_gives_no_number() {
        let reset = |at: f64| if at < 5.0 { 9000.0 + 100.0 * at } else { 100.0 * at };
        let meter = metered(10.0, |_| 100.0, reset);
        let reason = meter.energy(&(2.0..8.0)).counter_joules.unwrap_err();
        assert_eq!(
            reason,
            "the counter fell from 9499 J to 500 J at 5.0 s: it was reset or wrapped"
        );
        assert!(near(&meter.energy(&(6.0..9.0)).counter_joules, 300.0));
        let still = metered(10.0, |_| 100.0, |_| 7.0).energy(&(1.0..9.0));
        assert!(still.counter_joules.unwrap_err().contains("did not move"));
    }

    #[test]
    fn idle_power_is_subtracted_from_both_and_never_below_nothing() {
        let above = steady(10.0).energy(&(2.0..7.0)).above_idle(40.0);
        assert!(near(&above.integral_joules, 300.0));
        assert!(near(&above.counter_joules, 300.0));
        let below = steady(10.0).energy(&(2.0..7.0)).above_idle(140.0);
        assert!(below.integral_joules.unwrap_err().contains("idle"));
    }

    #[test]
    fn without_a_sensor_there_is_a_reason_and_no_number() {
        let energy = Meter::default().energy(&(0.0..9.0));
        assert_eq!(
            energy.integral_joules,
            Err("the device does not report its power".into())
        );
        assert_eq!(energy.coverage, 0.0);
    }
}
