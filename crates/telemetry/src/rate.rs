//! Accuracy and cost of the sampling.

use std::{fmt, ops::Range};

use crate::{decimated::Decimated, spans::Spans};

/// Accuracy and cost of the sampling in a window of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// Requested sampling period in seconds.
    pub requested_seconds: f64,
    /// Mean time between two readings in seconds.
    pub period_seconds: Option<f64>,
    /// 99th percentile of the delay of a reading after its scheduled time, in seconds.
    pub late_p99_seconds: Option<f64>,
    /// Share of the window that is at most two requested periods away from a reading.
    pub coverage: f64,
    /// Mean duration of a reading in seconds of wall time.
    pub reading_seconds: Option<f64>,
    /// 99th percentile of the duration of a reading in seconds of wall time.
    pub reading_p99_seconds: Option<f64>,
    /// Total duration of the readings as a share of the window: an upper bound on the load of one core.
    pub reading_share: Option<f64>,
    /// Number of readings in the window.
    pub readings: usize,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} readings, {:.0} Hz requested",
            self.readings,
            1.0 / self.requested_seconds
        )?;
        if let Some(period) = self.period_seconds {
            write!(f, ", {:.1} Hz achieved", 1.0 / period)?;
        }
        write!(f, ", {:.1} % covered", 100.0 * self.coverage)?;
        if let Some(late) = self.late_p99_seconds {
            write!(f, ", p99 {:.2} ms late", 1e3 * late)?;
        }
        if let (Some(mean), Some(p99)) = (self.reading_seconds, self.reading_p99_seconds) {
            write!(f, ", {:.3} ms per reading (p99 {:.3} ms)", 1e3 * mean, 1e3 * p99)?;
        }
        if let Some(share) = self.reading_share {
            write!(f, ", {:.2} % of the time", 100.0 * share)?;
        }
        Ok(())
    }
}

/// Log of the start times and durations of all readings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    readings: Decimated<LoggedReading>,
    covered: Spans,
    count: usize,
    total_seconds: f64,
}

#[derive(Debug, Clone, Copy)]
struct LoggedReading {
    /// Start in seconds.
    seconds: f64,
    /// Delay of the start in seconds.
    late: Option<f64>,
    /// Duration in seconds.
    taken: Option<f64>,
    /// Number of readings up to and including this one.
    count: usize,
    /// Total duration of the earlier readings in seconds.
    before_seconds: f64,
}

impl Log {
    pub(crate) fn push(&mut self, seconds: f64, late: Option<f64>, taken: Option<f64>, period: f64) {
        self.covered.add(seconds - 2.0 * period, seconds + 2.0 * period);
        self.count += 1;
        self.readings.push(LoggedReading {
            seconds,
            late,
            taken,
            count: self.count,
            before_seconds: self.total_seconds,
        });
        self.total_seconds += taken.unwrap_or(0.0);
    }

    pub(crate) fn rate(&self, window: &Range<f64>, requested_seconds: f64) -> Rate {
        let inside = self.readings.iter().filter(|one| window.contains(&one.seconds));
        let inside: Vec<&LoggedReading> = inside.collect();
        let ends = inside.first().zip(inside.last());
        let distinct_ends = ends.filter(|(first, last)| last.seconds > first.seconds);
        let period = distinct_ends
            .map(|(first, last)| (last.seconds - first.seconds) / (last.count - first.count) as f64);
        let cost =
            |(first, last): (&&LoggedReading, &&LoggedReading)| last.before_seconds - first.before_seconds;
        let length = window.end - window.start;
        let p99 = |value: fn(&LoggedReading) -> Option<f64>| {
            let mut values: Vec<f64> = inside.iter().filter_map(|one| value(one)).collect();
            values.sort_by(f64::total_cmp);
            let rank = (values.len() * 99).div_ceil(100).saturating_sub(1);
            values.get(rank).copied()
        };
        let reading_p99_seconds = p99(|one| one.taken);
        Rate {
            requested_seconds,
            period_seconds: period,
            late_p99_seconds: p99(|one| one.late),
            coverage: if length > 0.0 {
                self.covered.seconds_in(window) / length
            } else {
                0.0
            },
            reading_seconds: distinct_ends
                .filter(|_| reading_p99_seconds.is_some())
                .map(|(first, last)| cost((first, last)) / (last.count - first.count) as f64),
            reading_p99_seconds,
            reading_share: distinct_ends
                .filter(|_| reading_p99_seconds.is_some())
                .map(|(first, last)| cost((first, last)) / (last.seconds - first.seconds)),
            readings: ends.map_or(0, |(first, last)| last.count - first.count + 1),
        }
    }

    /// Returns start and duration of the stored readings, which are evenly spaced, in seconds.
    pub(crate) fn durations(&self) -> impl Iterator<Item = (f64, Option<f64>)> {
        self.readings
            .evenly_spaced()
            .iter()
            .map(|one| (one.seconds, one.taken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: f64 = 0.01;

    #[test]
    fn punctual_readings_cover_the_window() {
        let mut log = Log::default();
        for index in 0..=1000 {
            log.push(f64::from(index) * PERIOD, Some(0.0), Some(0.0005), PERIOD);
        }
        let rate = log.rate(&(2.0..8.0), PERIOD);
        assert_eq!(rate.readings, 600);
        assert!((rate.period_seconds.unwrap() - PERIOD).abs() < 1e-9);
        assert!((rate.coverage - 1.0).abs() < 1e-9);
        assert_eq!(rate.late_p99_seconds, Some(0.0));
        assert!((rate.reading_share.unwrap() - 0.05).abs() < 1e-9);
        assert_eq!(
            rate.to_string(),
            "600 readings, 100 Hz requested, 100.0 Hz achieved, 100.0 % covered, p99 0.00 ms late, \
             0.500 ms per reading (p99 0.500 ms), 5.00 % of the time"
        );
    }

    #[test]
    fn a_gap_lowers_the_coverage_and_the_rate() {
        let mut log = Log::default();
        for index in (0..=400).filter(|index| !(101..200).contains(index)) {
            log.push(f64::from(index) * PERIOD, None, None, PERIOD);
        }
        let rate = log.rate(&(0.0..4.0), PERIOD);
        assert!(
            (rate.coverage - 0.76).abs() < 1e-9,
            "each side covers two periods of the gap"
        );
        assert!((rate.period_seconds.unwrap() - 3.99 / 300.0).abs() < 1e-9);
        assert_eq!(rate.reading_share, None);
    }

    #[test]
    fn thinning_changes_neither_count_nor_cost() {
        let mut log = Log::default();
        for index in 0..100_000 {
            log.push(f64::from(index) * PERIOD, Some(0.0), Some(0.001), PERIOD);
        }
        let rate = log.rate(&(0.0..2000.0), PERIOD);
        assert_eq!(rate.readings, 100_000);
        assert!((rate.reading_share.unwrap() - 0.1).abs() < 1e-6);
    }

    #[test]
    fn the_99th_percentile_ignores_one_late_reading_in_100() {
        let mut log = Log::default();
        for index in 0..200 {
            let late = if index % 100 == 7 { 0.05 } else { 0.001 };
            log.push(f64::from(index) * PERIOD, Some(late), None, PERIOD);
        }
        assert_eq!(log.rate(&(0.0..2.0), PERIOD).late_p99_seconds, Some(0.001));
    }

    #[test]
    fn a_window_without_readings_has_no_rate() {
        let rate = Log::default().rate(&(0.0..1.0), PERIOD);
        assert_eq!(
            (rate.readings, rate.period_seconds, rate.coverage),
            (0, None, 0.0)
        );
        assert_eq!(rate.to_string(), "0 readings, 100 Hz requested, 0.0 % covered");
    }
}
