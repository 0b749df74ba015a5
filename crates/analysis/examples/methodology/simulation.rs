//! Simulated coverage of intervals and error rates of verdicts, from distributions with a known median. Used by the example
//! that writes the tables and by the tests that check them.

use mantissa_analysis::{
    Decision, Groups, Interval, LOOK_GROWTH, LOOKS_IN_A_ROW, MIN_PROCESSES, MIN_SAMPLES, Process, RESAMPLES,
    Sample, Stopping, StoppingRule, Verdict, judge, median, median_over_processes,
};
use mantissa_core::Better;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

/// Distribution of times with a median of 1.
#[derive(Debug, Clone, Copy)]
pub struct TimeDistribution {
    /// Name in the tables.
    pub name: &'static str,
    /// Standard deviation of the values, or of their logarithms.
    pub deviation: f64,
    /// True if the logarithms are normally distributed; otherwise the values are.
    pub logarithmic: bool,
    /// Tick of the clock; 0 if the values are continuous.
    pub tick: f64,
}

/// Simulated distributions; those without ticks come first.
pub const DISTRIBUTIONS: [TimeDistribution; 6] = [
    distribution("normal, deviation 5 %", 0.05, false, 0.0),
    distribution("log-normal, deviation 50 %", 0.5, true, 0.0),
    distribution("normal, ticks of a quarter deviation", 0.05, false, 0.0123),
    distribution("normal, ticks of a deviation", 0.05, false, 0.047),
    distribution("normal, ticks of three deviations", 0.05, false, 0.147),
    distribution("log-normal, ticks of a fifth deviation", 0.5, true, 0.097),
];

/// Number of [`DISTRIBUTIONS`] without ticks.
pub const CONTINUOUS: usize = 2;

const fn distribution(name: &'static str, deviation: f64, logarithmic: bool, tick: f64) -> TimeDistribution {
    TimeDistribution {
        name,
        deviation,
        logarithmic,
        tick,
    }
}

impl TimeDistribution {
    fn on_ticks(self, x: f64) -> f64 {
        if self.tick > 0.0 {
            (x / self.tick).round() * self.tick
        } else {
            x
        }
    }

    pub fn draw(self, random: &mut ChaCha8Rng) -> f64 {
        let z: f64 = StandardNormal.sample(random);
        let shifted = self.deviation * z;
        self.on_ticks(if self.logarithmic {
            shifted.exp()
        } else {
            1.0 + shifted
        })
    }

    /// Returns the median: the rounded median of the unrounded values, because rounding is monotonic.
    pub fn median(self) -> f64 {
        self.on_ticks(1.0)
    }

    /// Returns the mean; only valid without ticks.
    pub fn mean(self) -> f64 {
        if self.logarithmic {
            (self.deviation * self.deviation / 2.0).exp()
        } else {
            1.0
        }
    }

    /// Returns the approximate relative half-width of the interval of the median for `n` samples.
    pub fn noise_at(self, n: f64) -> f64 {
        1.96 * (std::f64::consts::FRAC_PI_2 / n).sqrt() * self.deviation
    }
}

/// Number of hits and of draws.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    pub hits: usize,
    pub draws: usize,
}

impl Rate {
    pub fn share(self) -> f64 {
        self.hits as f64 / self.draws as f64
    }

    pub fn count(&mut self, hit: bool) {
        self.hits += usize::from(hit);
        self.draws += 1;
    }
}

/// Simulates how often the interval of `n` values covers `truth`.
pub fn coverage_with_fixed_samples(
    distribution: TimeDistribution,
    truth: f64,
    n: usize,
    draws: usize,
    interval: impl Fn(&Sample) -> Option<Interval>,
) -> Rate {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut rate = Rate::default();
    for _ in 0..draws {
        let sample = Sample::new((0..n).map(|_| distribution.draw(&mut random))).unwrap();
        rate.count(interval(&sample).unwrap().contains(truth));
    }
    rate
}

/// Simulates how often the interval of the median covers the median if sampling stops by the rule. Also returns the mean number of samples.
pub fn coverage_with_stopping(distribution: TimeDistribution, max_noise: f64, draws: usize) -> (Rate, f64) {
    let rule = StoppingRule::new(max_noise, MIN_SAMPLES, 5_000, f64::INFINITY).unwrap();
    coverage_with_sampling(distribution, draws, |samples, random| {
        let mut stopping = Stopping::new(rule);
        loop {
            let sample = distribution.draw(random);
            samples.push(sample);
            if stopping.push(sample) != Decision::Continue {
                break;
            }
        }
    })
}

/// Simulates the coverage if the interval is computed after every sample, from the twentieth on, and sampling stops as soon as it is narrow.
/// Coverage is then too low; the stopping rule exists to avoid this.
pub fn coverage_at_first_narrow_interval(
    distribution: TimeDistribution,
    max_noise: f64,
    draws: usize,
) -> (Rate, f64) {
    coverage_with_sampling(distribution, draws, |samples, random| {
        samples.extend((0..MIN_SAMPLES).map(|_| distribution.draw(random)));
        loop {
            let found = median(samples.iter().copied()).unwrap();
            let interval = found.interval.unwrap();
            if (interval.high - interval.low) / 2.0 <= max_noise * found.value {
                break;
            }
            samples.push(distribution.draw(random));
        }
    })
}

fn coverage_with_sampling(
    distribution: TimeDistribution,
    draws: usize,
    take: impl Fn(&mut Vec<f64>, &mut ChaCha8Rng),
) -> (Rate, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(2);
    let (mut rate, mut taken) = (Rate::default(), 0);
    for _ in 0..draws {
        let mut samples = Vec::new();
        take(&mut samples, &mut random);
        taken += samples.len();
        let interval = median(samples).unwrap().interval.unwrap();
        rate.count(interval.contains(distribution.median()));
    }
    (rate, taken as f64 / draws as f64)
}

/// Simulates how often the interval over `processes` covers the true median over processes. Each process has 30 samples with
/// a deviation of 1 around a centre with a deviation of `between`.
pub fn coverage_over_processes(processes: usize, between: f64, draws: usize) -> Rate {
    let mut random = ChaCha8Rng::seed_from_u64(3);
    let mut rate = Rate::default();
    for seed in 0..draws {
        let mut normal = || -> f64 { StandardNormal.sample(&mut random) };
        let groups: Vec<Process> = (0..processes)
            .map(|_| {
                let centre = between * normal();
                Process::new(&Sample::new((0..30).map(|_| centre + normal())).unwrap())
            })
            .collect();
        let found = median_over_processes(&groups, seed as u64).unwrap();
        rate.count(found.interval.unwrap().contains(0.0));
    }
    rate
}

/// Simulates how often a family of `members` comparisons between equal distributions, `n` repeats each, has any improvement
/// or regression. Changes of any size count as relevant.
pub fn false_positives(n: usize, members: usize, draws: usize) -> Rate {
    let mut random = ChaCha8Rng::seed_from_u64(4);
    let mut rate = Rate::default();
    for _ in 0..draws {
        let mut repeats = || -> Vec<f64> { (0..n).map(|_| DISTRIBUTIONS[1].draw(&mut random)).collect() };
        let values: Vec<(Vec<f64>, Vec<f64>)> = (0..members).map(|_| (repeats(), repeats())).collect();
        let family: Vec<Groups<'_>> = values
            .iter()
            .map(|(baseline, candidate)| Groups {
                baseline,
                candidate,
                better: Better::Lower,
                threshold: 1e-9,
            })
            .collect();
        let is_finding = |verdict| matches!(verdict, Verdict::Improved | Verdict::Regressed);
        rate.count(judge(&family).iter().any(|judged| is_finding(judged.verdict)));
    }
    rate
}

/// Describes the constants with which the tables are computed, so that a test detects tables that were computed with other constants.
pub fn constants() -> String {
    format!(
        "Sampling stops after at least {MIN_SAMPLES} samples. Each look is at {LOOK_GROWTH} times as many samples as the previous one, and\n\
         {LOOKS_IN_A_ROW} consecutive looks must find a narrow interval. A bootstrap draws {RESAMPLES} resamples. An interval over processes\n\
         needs at least {MIN_PROCESSES} processes."
    )
}
