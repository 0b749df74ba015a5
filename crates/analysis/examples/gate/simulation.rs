//! Suites whose true changes are known, through the gate.

use mantissa_analysis::{Compared, Floor, Rules, Scale, Verdict, gate, median, noise_fence};
use mantissa_core::{Better, MetricName};
use rand_chacha::ChaCha8Rng;

use crate::noise::{Noise, seeded};

/// Cells of a suite.
pub const CELLS: usize = 20;

/// Runs that a fence is learned from.
pub const HISTORY: usize = 20;

/// What is done to a suite.
#[derive(Debug, Clone, Copy)]
pub struct Scene {
    /// Processes a cell on each side.
    pub repeats: usize,
    /// A change of every time and energy of the candidate, as a share: the machine's, not the program's.
    pub drift: f64,
    /// A change for the worse of the first metric of the first cell, as a share.
    pub injected: f64,
    /// Whether cells have a history.
    pub fenced: bool,
}

impl Scene {
    pub const fn same(repeats: usize) -> Self {
        Self {
            repeats,
            drift: 0.0,
            injected: 0.0,
            fenced: false,
        }
    }
}

/// How many of `suites` suites have any false regression, and of how many the injected one is found.
pub fn suites(noise: &Noise, scene: Scene, suites: usize) -> (usize, usize) {
    let mut random = seeded(10);
    let (mut false_alarms, mut caught) = (0, 0);
    for _ in 0..suites {
        let worse = suite(noise, scene, &mut random);
        let first = usize::from(scene.injected > 0.0);
        false_alarms += usize::from(worse[first..].iter().any(|worse| *worse));
        caught += usize::from(scene.injected > 0.0 && worse[0]);
    }
    (false_alarms, caught)
}

/// Which comparisons of a suite are found to be worse.
fn suite(noise: &Noise, scene: Scene, random: &mut ChaCha8Rng) -> Vec<bool> {
    let metrics = noise.metrics();
    let cells: Vec<Cell> = (0..CELLS).map(|_| Cell::draw(noise, scene, random)).collect();
    let mut values = Vec::new();
    for (at, cell) in cells.iter().enumerate() {
        for (which, &metric) in metrics.iter().enumerate() {
            let injected = if at == 0 && which == 0 {
                scene.injected
            } else {
                0.0
            };
            let drift = if of_memory(metric) { 0.0 } else { scene.drift };
            let worse = (1.0 + injected) * (1.0 + drift);
            let factor = match metric.better() {
                Better::Lower => worse,
                Better::Higher => 1.0 / worse,
            };
            let of = |processes: &[Vec<f64>], factor: f64| -> Vec<f64> {
                processes
                    .iter()
                    .map(|process| process[which].exp() * factor)
                    .collect()
            };
            values.push((
                metric,
                of(&cell.baseline, 1.0),
                of(&cell.candidate, factor),
                cell.fence(which),
            ));
        }
    }
    let family: Vec<Compared<'_>> = values
        .iter()
        .map(|(metric, baseline, candidate, fence)| Compared {
            metric: *metric,
            baseline,
            candidate,
            floor: Floor::of(*metric).expect("each of these metrics has a floor"),
            fence: *fence,
            shared_error: 0.0,
        })
        .collect();
    gate(&family, Rules::default())
        .iter()
        .map(|ruling| ruling.verdict == Verdict::Regressed)
        .collect()
}

fn of_memory(metric: MetricName) -> bool {
    metric.unit() == mantissa_core::Unit::Bytes
}

/// Processes of a cell, each the logarithms of its metrics.
struct Cell {
    baseline: Vec<Vec<f64>>,
    candidate: Vec<Vec<f64>>,
    history: Vec<Vec<Vec<f64>>>,
}

impl Cell {
    fn draw(noise: &Noise, scene: Scene, random: &mut ChaCha8Rng) -> Self {
        let of_cell = noise.cell(random);
        let mut run = || -> Vec<Vec<f64>> {
            (0..scene.repeats)
                .map(|_| noise.process(of_cell, random))
                .collect()
        };
        Self {
            baseline: run(),
            candidate: run(),
            history: (0..if scene.fenced { HISTORY } else { 0 })
                .map(|_| run())
                .collect(),
        }
    }

    fn fence(&self, metric: usize) -> Option<f64> {
        let level = |run: &Vec<Vec<f64>>| median(run.iter().map(|process| process[metric].exp()));
        let levels: Option<Vec<f64>> = self.history.iter().map(|run| Some(level(run)?.value)).collect();
        noise_fence(&levels?, Scale::Ratio)
    }
}
