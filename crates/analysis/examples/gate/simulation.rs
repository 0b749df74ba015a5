//! Simulated suites with known true changes, judged by the gate.

use mantissa_analysis::{Compared, Floor, Rules, Scale, Verdict, gate, median, noise_fence};
use mantissa_core::{Better, MetricName};
use rand::{Rng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use super::noise::{Noise, seeded_rng};

/// Number of cells of a suite.
pub const CELLS: usize = 20;

/// Number of runs from which a fence (run-to-run noise of a cell) is computed.
pub const HISTORY: usize = 20;

/// Parameters of a simulated comparison.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Number of processes of a cell on each side.
    pub repeats: usize,
    /// Relative change of all times and energies of the candidate, caused by the machine.
    pub drift: f64,
    /// Metric and size of a relative regression of one cell.
    pub injected: Option<(MetricName, f64)>,
    /// True if cells have a history, from which fences are computed.
    pub fenced: bool,
}

impl Scenario {
    /// Returns a comparison of a program with itself.
    pub const fn unchanged(repeats: usize) -> Self {
        Self {
            repeats,
            drift: 0.0,
            injected: None,
            fenced: false,
        }
    }
}

/// Simulates `suites` suites. Returns the number of suites with any false regression, and the number of suites in which the injected
/// regression is detected.
pub fn simulate_suites(noise: &Noise, scenario: Scenario, suites: usize) -> (usize, usize) {
    let mut random = seeded_rng(10);
    let (mut false_alarms, mut detected) = (0, 0);
    for _ in 0..suites {
        let worse = simulate_suite(noise, scenario, &mut random);
        false_alarms += usize::from(worse.iter().any(|(injected, worse)| *worse && !injected));
        detected += usize::from(worse.iter().any(|(injected, worse)| *worse && *injected));
    }
    (false_alarms, detected)
}

/// Simulates a suite. Returns, for each comparison, whether a regression was injected and whether one was detected.
fn simulate_suite(noise: &Noise, scenario: Scenario, random: &mut ChaCha8Rng) -> Vec<(bool, bool)> {
    let run_seed = random.random();
    let cells: Vec<Cell> = (0..CELLS)
        .map(|at| Cell::draw(noise, at, run_seed, scenario, random))
        .collect();
    let injected_cell = scenario.injected.and_then(|(metric, _)| {
        let candidates: Vec<usize> = (0..CELLS)
            .filter(|cell| noise.metrics(*cell).contains(&metric))
            .collect();
        candidates.choose(random).copied()
    });
    let mut values = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        for (metric_index, &metric) in noise.metrics(at).iter().enumerate() {
            let injected = scenario
                .injected
                .filter(|(worse, _)| *worse == metric && injected_cell == Some(at));
            let drift = if is_memory(metric) { 0.0 } else { scenario.drift };
            let worse = (1.0 + injected.map_or(0.0, |(_, share)| share)) * (1.0 + drift);
            let factor = match metric.better() {
                Better::Lower => worse,
                Better::Higher => 1.0 / worse,
            };
            let column = |processes: &[Vec<f64>], factor: f64| -> Vec<f64> {
                processes
                    .iter()
                    .map(|process| process[metric_index].exp() * factor)
                    .collect()
            };
            values.push((
                metric,
                column(&cell.baseline, 1.0),
                column(&cell.candidate, factor),
                cell.fence(metric_index),
                injected.is_some(),
            ));
        }
    }
    let family: Vec<Compared<'_>> = values
        .iter()
        .map(|(metric, baseline, candidate, fence, _)| Compared {
            metric: *metric,
            baseline,
            candidate,
            floor: Floor::of(*metric).expect("every simulated metric has a floor"),
            fence: *fence,
            shared_error: 0.0,
            turns: noise.is_interleaved(),
        })
        .collect();
    gate(&family, Rules::default())
        .iter()
        .zip(&values)
        .map(|(ruling, (.., injected))| (*injected, ruling.verdict == Verdict::Regressed))
        .collect()
}

fn is_memory(metric: MetricName) -> bool {
    metric.unit() == mantissa_core::Unit::Bytes
}

/// Processes of a cell, as logarithms of their metrics.
struct Cell {
    baseline: Vec<Vec<f64>>,
    candidate: Vec<Vec<f64>>,
    history: Vec<Vec<Vec<f64>>>,
}

impl Cell {
    fn draw(noise: &Noise, at: usize, run_seed: u64, scenario: Scenario, random: &mut ChaCha8Rng) -> Self {
        let history = if scenario.fenced { HISTORY } else { 0 };
        let mut runs = noise.runs(at, (2 + history, scenario.repeats), run_seed, random);
        let history = runs.split_off(2);
        let candidate = runs.pop().unwrap_or_default();
        let baseline = runs.pop().unwrap_or_default();
        Self {
            baseline,
            candidate,
            history,
        }
    }

    fn fence(&self, metric: usize) -> Option<f64> {
        let level = |run: &Vec<Vec<f64>>| median(run.iter().map(|process| process[metric].exp()));
        let levels: Option<Vec<f64>> = self.history.iter().map(|run| Some(level(run)?.value)).collect();
        noise_fence(&levels?, Scale::Ratio)
    }
}
