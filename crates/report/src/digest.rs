//! Summary of the raw samples of one process for the tables. Figures read their samples from the store.

use mantissa_analysis::{Label, Process, Sample, SerialDependence, label_outliers, serial_dependence};
use mantissa_core::{Samples, Series, SeriesName};

/// Summary of the samples of one process. Its size, a few kilobytes, does not depend on the number of samples.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Digest {
    /// Times of launches or optimizer steps; `None` if the process recorded neither, or if a time is not finite.
    pub times: Option<Times>,
    /// Correctness of the predictions, by test example.
    pub correct: Option<Correct>,
    /// `true` if the process recorded a loss curve.
    pub has_loss: bool,
    /// Seconds spanned by the telemetry; `None` without telemetry.
    pub traced_seconds: Option<f64>,
}

/// Repeated times of the same piece of work in one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Statistics for estimates over processes, in seconds.
    pub process: Process,
    /// Number of outliers. They are kept in every estimate.
    pub outliers: u64,
    /// Number of measured times during which, according to the samples, the clock was throttled.
    pub throttled: u64,
    /// Drift and serial correlation; `None` for fewer than ten times.
    pub serial: Option<SerialDependence>,
}

impl Digest {
    /// Series that a digest needs in full. Of other series, a digest needs only the last `x` (step or time).
    pub(crate) const FULL_SERIES: [SeriesName; 3] = [
        SeriesName::LaunchSeconds,
        SeriesName::StepSeconds,
        SeriesName::Throttled,
    ];

    /// Reduces the samples of a process.
    pub fn new(samples: &Samples) -> Self {
        let traced = samples
            .series
            .iter()
            .filter(|series| series.x_name == "seconds")
            .filter_map(|series| series.x.last());
        Self {
            times: times_of(samples)
                .and_then(|series| Times::new(series, samples.get(SeriesName::Throttled))),
            correct: samples.test_correct.as_deref().map(Correct::new),
            has_loss: samples
                .get(SeriesName::TrainLoss)
                .is_some_and(|series| !series.x.is_empty()),
            traced_seconds: traced.copied().reduce(f64::max),
        }
    }
}

/// Returns the times of launches if the process recorded them, else those of optimizer steps.
pub(crate) fn times_of(samples: &Samples) -> Option<&Series> {
    [SeriesName::LaunchSeconds, SeriesName::StepSeconds]
        .into_iter()
        .find_map(|name| samples.get(name))
}

impl Times {
    fn new(series: &Series, throttled: Option<&Series>) -> Option<Self> {
        let values: Vec<f64> = series.values().collect();
        let outliers = outliers(&values)?;
        Some(Self {
            process: Process::new(&Sample::new(values.iter().copied())?),
            outliers: outliers.into_iter().filter(|is| *is).count() as u64,
            throttled: throttled.map_or(0, |marks| {
                marks.values().filter(|mark| *mark > 0.0).count() as u64
            }),
            serial: serial_dependence(&values),
        })
    }

    /// Returns the number of measured times.
    pub fn n(&self) -> u64 {
        self.process.samples()
    }
}

/// Minimum of the median absolute deviation in outlier detection, as a share of the median. A time that deviates by less than 0.5 % is
/// therefore never an outlier. If one tick of the clock (see [`tick`]) is larger, the tick is the minimum.
const MIN_SPREAD: f64 = 0.001;

/// Marks the outliers of `values`; `None` without values, or if one is not finite.
pub(crate) fn outliers(values: &[f64]) -> Option<Vec<bool>> {
    let median = Sample::new(values.iter().copied())?.median();
    let labels = label_outliers(values, tick(values).max(MIN_SPREAD * median.abs()))?;
    Some(labels.into_iter().map(|label| label != Label::Typical).collect())
}

/// Returns the smallest difference between two distinct values, an estimate of the clock's resolution. Returns 0 for fewer than three
/// distinct values, because the only difference between two values may be due to an outlier.
fn tick(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let steps = sorted.windows(2).map(|pair| pair[1] - pair[0]);
    let steps: Vec<f64> = steps.filter(|step| *step > 0.0).collect();
    match steps.len() {
        0 | 1 => 0.0,
        _ => steps.into_iter().fold(f64::INFINITY, f64::min),
    }
}

/// Correctness of predictions, one bit per test example.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correct {
    examples: usize,
    bits: Vec<u64>,
}

impl Correct {
    /// Parses one character per example, `1` for a correct prediction.
    pub fn new(text: &str) -> Self {
        let word = |characters: &[u8]| {
            let bits = characters.iter().enumerate();
            bits.fold(0, |word, (at, character)| {
                word | (u64::from(*character == b'1') << at)
            })
        };
        Self {
            examples: text.len(),
            bits: text.as_bytes().chunks(64).map(word).collect(),
        }
    }

    /// Returns the number of tested examples.
    pub fn examples(&self) -> u64 {
        self.examples as u64
    }

    /// Returns the number of correct predictions.
    pub fn hits(&self) -> u64 {
        self.bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// Counts the examples that only `self` predicted correctly and those that only `other` did; `None` if the numbers of examples
    /// differ or are 0.
    pub fn apart(&self, other: &Self) -> Option<(u64, u64)> {
        let only = |these: &Self, others: &Self| {
            let pairs = these.bits.iter().zip(&others.bits);
            pairs
                .map(|(this, other)| u64::from((this & !other).count_ones()))
                .sum()
        };
        let same = self.examples == other.examples && self.examples > 0;
        same.then(|| (only(self, other), only(other, self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: SeriesName, values: &[f64]) -> Series {
        let mut series = Series::new(name);
        for (index, value) in values.iter().enumerate() {
            series.push(index as f64 + 1.0, *value);
        }
        series
    }

    #[test]
    fn a_tick_of_the_clock_is_not_an_outlier() {
        // Ticks of half a microsecond: most times are equal, one is a tick larger, and one is an outlier.
        let mut times = vec![10e-6; 30];
        times[7] = 10.5e-6;
        times[9] = 20e-6;
        let labels = outliers(&times).unwrap();
        assert_eq!((labels[7], labels[9]), (false, true));
        assert_eq!(labels.iter().filter(|label| **label).count(), 1);
        assert_eq!(outliers(&[10e-6; 30]).unwrap(), [false; 30]);
        // Two distinct times are too few to estimate the tick.
        times[7] = 10e-6;
        assert!(outliers(&times).unwrap()[9]);
    }

    #[test]
    fn discordant_examples_are_counted_across_machine_words() {
        let text = |wrong: &[usize]| -> String {
            let right = |at| if wrong.contains(&at) { '0' } else { '1' };
            (0..130).map(right).collect()
        };
        let first = Correct::new(&text(&[3, 70]));
        let second = Correct::new(&text(&[70, 71, 129]));
        assert_eq!(first.apart(&second), Some((2, 1)));
        assert_eq!((first.hits(), second.hits()), (128, 127));
        assert_eq!(first.apart(&Correct::new("1")), None);
        assert_eq!(Correct::new("").apart(&Correct::new("")), None);
    }

    #[test]
    fn times_are_counted_with_their_outliers_and_marks() {
        let mut values = [1.0, 1.01, 1.02, 0.99, 1.0, 1.01, 0.98, 1.0, 1.02, 0.99];
        values[4] = 9.0;
        let samples = Samples {
            series: vec![
                series(SeriesName::LaunchSeconds, &values),
                series(
                    SeriesName::Throttled,
                    &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                ),
            ],
            test_correct: None,
            ranges: vec![],
            trials: vec![],
            staleness: vec![],
        };
        let times = Digest::new(&samples).times.unwrap();
        assert_eq!((times.n(), times.outliers, times.throttled), (10, 1, 1));
        assert!((times.process.median() - 1.005).abs() < 1e-12);
    }

    #[test]
    fn a_slightly_larger_time_among_equal_ones_is_not_an_outlier() {
        let mut times = vec![5.0; 20];
        times[7] = 5.02;
        assert!(!outliers(&times).unwrap()[7]);
        // `times[8]` deviates by ten times the smallest difference between the times.
        times[8] = 5.2;
        assert!(outliers(&times).unwrap()[8]);
    }

    #[test]
    fn empty_samples_are_an_empty_digest() {
        assert_eq!(Digest::new(&Samples::default()), Digest::default());
    }
}
