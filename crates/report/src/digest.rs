//! What the tables need of the raw samples of one process; figures read the few that they show again.

use mantissa_analysis::{Label, Process, Sample, Serial, label_outliers, serial};
use mantissa_core::{Samples, Series};

/// A few kilobytes that stand for the samples of one process, however many they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Digest {
    /// Times of its optimizer steps or launches.
    pub times: Option<Times>,
    /// Which test examples it predicted right.
    pub correct: Option<Correct>,
    /// Whether it has a loss curve.
    pub has_loss: bool,
    /// Seconds that its telemetry spans; absent without any.
    pub traced_seconds: Option<f64>,
}

/// Times of the same piece of work, done again and again by one process.
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// For estimates over processes, seconds.
    pub process: Process,
    /// How many are far from the others; they are kept.
    pub outliers: u64,
    /// How many were taken while the clock was held back, and are marked so.
    pub throttled: u64,
    /// What their order shows; absent for fewer than ten.
    pub serial: Option<Serial>,
}

impl Digest {
    /// The series that it is made from; of the others it asks whether they are there and where they end.
    pub(crate) const READS: [&str; 3] = ["launch_seconds", "step_seconds", "throttled"];

    /// Reduces the samples of a process.
    pub fn new(samples: &Samples) -> Self {
        let traced = samples
            .series
            .iter()
            .filter(|series| series.x_name == "seconds")
            .filter_map(|series| series.x.last());
        Self {
            times: times_of(samples).and_then(|series| Times::new(series, samples.get("throttled"))),
            correct: samples.test_correct.as_deref().map(Correct::new),
            has_loss: samples
                .get("train_loss")
                .is_some_and(|series| !series.x.is_empty()),
            traced_seconds: traced.copied().reduce(f64::max),
        }
    }
}

/// The times that a process took samples of: of launches, else of optimizer steps.
pub(crate) fn times_of(samples: &Samples) -> Option<&Series> {
    ["launch_seconds", "step_seconds"]
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
            serial: serial(&values),
        })
    }

    /// How many there are.
    pub fn n(&self) -> u64 {
        self.process.samples()
    }
}

/// Deviations below this share of the median are no spread: among times that are all but equal, one that lies half a
/// per cent off is not far off. Nor are those below a tick of the clock, as the smallest step between two times shows it.
const SPREAD_FROM: f64 = 0.001;

/// Which times are far from the others.
pub(crate) fn outliers(values: &[f64]) -> Option<Vec<bool>> {
    let median = Sample::new(values.iter().copied())?.median();
    let labels = label_outliers(values, tick(values).max(SPREAD_FROM * median.abs()))?;
    Some(labels.into_iter().map(|label| label != Label::Typical).collect())
}

/// The smallest step between two different values. Of a clock without ticks that can be seen it is next to nothing; a single
/// step would be the distance of the odd ones, whose size is the question, and tells of no tick.
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

/// Which test examples were predicted right, a bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correct {
    examples: usize,
    bits: Vec<u64>,
}

impl Correct {
    /// From a character an example, `1` if it was right.
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

    /// How many examples were tested.
    pub fn examples(&self) -> u64 {
        self.examples as u64
    }

    /// How many examples it got right.
    pub fn hits(&self) -> u64 {
        self.bits.iter().map(|bits| u64::from(bits.count_ones())).sum()
    }

    /// How many examples only this one got right, and how many only the other; nothing if the examples are not the same.
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

    fn series(name: &str, values: &[f64]) -> Series {
        let mut series = Series::new(name, "s", "launch");
        for (index, value) in values.iter().enumerate() {
            series.push(index as f64 + 1.0, *value);
        }
        series
    }

    #[test]
    fn a_tick_of_the_clock_is_no_distance() {
        // Ticks of half a microsecond: most times are one number, one is a tick off, and one lies far off.
        let mut times = vec![10e-6; 30];
        times[7] = 10.5e-6;
        times[9] = 20e-6;
        let far = outliers(&times).unwrap();
        assert_eq!((far[7], far[9]), (false, true));
        assert_eq!(far.iter().filter(|far| **far).count(), 1);
        assert_eq!(outliers(&[10e-6; 30]).unwrap(), [false; 30]);
        // One alone is no tick of its own.
        times[7] = 10e-6;
        assert!(outliers(&times).unwrap()[9]);
    }

    #[test]
    fn examples_that_only_one_got_right_are_counted_across_words() {
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
                series("launch_seconds", &values),
                series("throttled", &[0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
            ],
            test_correct: None,
            ranges: vec![],
            trials: vec![],
        };
        let times = Digest::new(&samples).times.unwrap();
        assert_eq!((times.n(), times.outliers, times.throttled), (10, 1, 1));
        assert!((times.process.median() - 1.005).abs() < 1e-12);
    }

    #[test]
    fn among_equal_times_a_hair_more_is_no_outlier() {
        let mut times = vec![5.0; 20];
        times[7] = 5.02;
        assert!(!outliers(&times).unwrap()[7]);
        // Ten of the steps in which these times differ.
        times[8] = 5.2;
        assert!(outliers(&times).unwrap()[8]);
    }

    #[test]
    fn nothing_sampled_is_an_empty_digest() {
        assert_eq!(Digest::new(&Samples::default()), Digest::default());
    }
}
