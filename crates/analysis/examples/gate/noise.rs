//! Noise between processes of a cell: theoretical distributions, and the noise of recorded runs.

use std::{collections::BTreeMap, fs, io, path::Path};

use mantissa_core::MetricName;
use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};

/// Metrics of a simulated cell: five of time, two of memory and one of energy. The first three and the energy are correlated within a
/// process.
pub const METRICS: [MetricName; 8] = [
    MetricName::TrainSeconds,
    MetricName::StepSeconds,
    MetricName::SamplesPerSecond,
    MetricName::LoadSeconds,
    MetricName::FirstTokenSeconds,
    MetricName::HostPeakBytes,
    MetricName::ProcessPeakBytes,
    MetricName::EnergyCounterJoules,
];

/// Share of the variance of each correlated metric that comes from a value common to all of them.
pub(super) const SHARED_VARIANCE: f64 = 0.9;

/// Distribution of the logarithms of a metric over processes.
#[derive(Debug, Clone)]
pub enum Noise {
    /// Normal with this deviation.
    Normal(f64),
    /// Normal with a different deviation for each cell. The deviations are log-normal with this median; their logarithms have a standard
    /// deviation of 0.5.
    Unequal(f64),
    /// Normal with the first deviation in most cells, and with the second in one cell of five.
    Few(f64, f64),
    /// Student's t with three degrees of freedom, scaled to this deviation.
    Heavy(f64),
    /// Two modes, fast and slow: mean number of slow processes among ten, their relative slowdown, and share of the cells with two modes.
    /// All processes also have normal noise of 0.3 %.
    Modes(u32, f64, f64),
    /// Recorded processes in consecutive runs.
    Consecutive(Recorded),
    /// Recorded processes in interleaved rounds.
    Interleaved(Recorded),
}

/// Consecutive runs of one program, as written by `.ci/gate-noise`.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// Machine and date.
    pub origin: String,
    cells: Vec<RecordedCell>,
}

/// Logarithms of the varying metrics of a cell, by run, process and metric.
#[derive(Debug, Clone)]
struct RecordedCell {
    metrics: Vec<MetricName>,
    runs: Vec<Vec<Vec<f64>>>,
}

/// Values by run, process and column.
type RunsOfCell = BTreeMap<String, Vec<Vec<Option<f64>>>>;

impl Recorded {
    /// Reads `noise.csv`. The first line is the origin after a `#`, the second contains the column names (run, cell, repeat, metrics), and
    /// each other line is a process.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let (origin, table) = text.split_once('\n').unwrap_or_default();
        let mut rows = csv::Reader::from_reader(table.as_bytes());
        let unknown_metric =
            |name: &str| io::Error::other(format!("{}: unknown metric `{name}`", path.display()));
        let columns: Vec<MetricName> = rows
            .headers()?
            .iter()
            .skip(3)
            .map(|name| metric_named(name).ok_or_else(|| unknown_metric(name)))
            .collect::<io::Result<_>>()?;
        let mut cells: BTreeMap<String, RunsOfCell> = BTreeMap::new();
        for row in rows.records() {
            let row = row?;
            let values = row
                .iter()
                .skip(3)
                .map(|value| value.parse::<f64>().ok())
                .collect();
            let runs = cells.entry(row[1].to_owned()).or_default();
            runs.entry(row[0].to_owned()).or_default().push(values);
        }
        let cells = cells
            .values()
            .map(|runs| RecordedCell::new(&columns, runs))
            .collect();
        Ok(Self {
            origin: origin.trim_start_matches(['#', ' ']).to_owned(),
            cells,
        })
    }

    /// Returns the number of cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Returns the number of runs.
    pub fn runs(&self) -> usize {
        self.cells.first().map_or(0, |cell| cell.runs.len())
    }

    /// Returns each metric that varies in any cell, with the number of cells in which it varies. For its standard deviation within a run,
    /// also returns the median and the maximum over these cells.
    pub fn deviations(&self) -> Vec<(MetricName, usize, f64, f64)> {
        let summary = |metric: MetricName| {
            let mut deviations: Vec<f64> = self
                .cells
                .iter()
                .filter_map(|cell| cell.deviation(metric))
                .collect();
            deviations.sort_by(f64::total_cmp);
            let largest = *deviations.last()?;
            Some((
                metric,
                deviations.len(),
                deviations[deviations.len() / 2],
                largest,
            ))
        };
        MetricName::ALL.iter().copied().filter_map(summary).collect()
    }
}

fn metric_named(name: &str) -> Option<MetricName> {
    MetricName::ALL
        .iter()
        .copied()
        .find(|metric| metric.name() == name)
}

impl RecordedCell {
    fn new(columns: &[MetricName], runs: &RunsOfCell) -> Self {
        let processes = || runs.values().flatten();
        let varies = |at: &usize| {
            let metric = columns[*at];
            !metric.is_counted()
                && !metric.is_learned()
                && processes().all(|process| process[*at].is_some_and(|value| value > 0.0))
        };
        let varying: Vec<usize> = (0..columns.len()).filter(varies).collect();
        let logarithms =
            |process: &Vec<Option<f64>>| varying.iter().filter_map(|at| Some(process[*at]?.ln())).collect();
        Self {
            metrics: varying.iter().map(|at| columns[*at]).collect(),
            runs: runs
                .values()
                .map(|run| run.iter().map(logarithms).collect())
                .collect(),
        }
    }

    /// Returns the pooled deviation within runs.
    fn deviation(&self, metric: MetricName) -> Option<f64> {
        let at = self.metrics.iter().position(|other| *other == metric)?;
        let (mut squares, mut freedom) = (0.0, 0.0);
        for run in &self.runs {
            let n = run.len() as f64;
            let mean = run.iter().map(|process| process[at]).sum::<f64>() / n;
            squares += run
                .iter()
                .map(|process| (process[at] - mean).powi(2))
                .sum::<f64>();
            freedom += n - 1.0;
        }
        Some((squares / freedom).sqrt())
    }

    /// Draws whole runs. With the same `run_seed`, all cells draw the same runs.
    fn runs(&self, count: usize, processes: usize, run_seed: u64) -> Vec<Vec<Vec<f64>>> {
        assert!(
            self.runs.iter().all(|run| !run.is_empty()),
            "a recorded run must have processes"
        );
        let mut order: Vec<&Vec<Vec<f64>>> = self.runs.iter().collect();
        order.shuffle(&mut seeded_rng(run_seed));
        let mut left = order.into_iter().cycle();
        let mut run = || {
            let mut drawn = Vec::new();
            while drawn.len() < processes {
                drawn.extend(left.next().into_iter().flatten().cloned());
            }
            drawn.truncate(processes);
            drawn
        };
        (0..count).map(|_| run()).collect()
    }

    /// Draws two interleaved sides from consecutive recorded processes: of every two, a random one is assigned to the baseline and the other
    /// to the candidate. The remaining `count` − 2 runs are whole recorded runs.
    fn interleaved(&self, count: usize, processes: usize, run_seed: u64) -> Vec<Vec<Vec<f64>>> {
        let mut random = seeded_rng(run_seed);
        let rounds: Vec<&Vec<f64>> = self.runs.iter().flatten().collect();
        let first = random.random_range(0..=rounds.len() - 2 * processes);
        let pairs = rounds[first..].chunks_exact(2).take(processes);
        let (mut baseline, mut candidate) = (vec![], vec![]);
        for pair in pairs {
            let swapped = usize::from(random.random_bool(0.5));
            baseline.push(pair[swapped].clone());
            candidate.push(pair[1 - swapped].clone());
        }
        let others = self.runs(count.saturating_sub(2), processes, run_seed);
        [baseline, candidate]
            .into_iter()
            .chain(others)
            .take(count)
            .collect()
    }
}

impl Noise {
    /// Returns true if the two sides are interleaved. Simulated noise counts as not interleaved, because a drift occurs between runs.
    pub fn is_interleaved(&self) -> bool {
        matches!(self, Self::Interleaved(_))
    }

    /// Returns the metrics of a cell.
    pub fn metrics(&self, cell: usize) -> &[MetricName] {
        match self {
            Self::Consecutive(recorded) | Self::Interleaved(recorded) => {
                &recorded.cells[cell % recorded.cells.len()].metrics
            }
            _ => &METRICS,
        }
    }

    /// Draws runs of a cell: the logarithms of the metrics of each process. `run_seed` selects the recorded runs, which all cells share.
    pub fn runs(
        &self,
        cell: usize,
        (count, processes): (usize, usize),
        run_seed: u64,
        random: &mut ChaCha8Rng,
    ) -> Vec<Vec<Vec<f64>>> {
        let recorded_cell = |recorded: &'_ Recorded| recorded.cells[cell % recorded.cells.len()].clone();
        match self {
            Self::Consecutive(recorded) => return recorded_cell(recorded).runs(count, processes, run_seed),
            Self::Interleaved(recorded) => {
                return recorded_cell(recorded).interleaved(count, processes, run_seed);
            }
            _ => {}
        }
        let parameter = self.parameter(random);
        let mut run = || (0..processes).map(|_| self.process(parameter, random)).collect();
        (0..count).map(|_| run()).collect()
    }

    /// Draws the parameter that all processes of a cell share.
    fn parameter(&self, random: &mut ChaCha8Rng) -> f64 {
        match self {
            Self::Unequal(deviation) => {
                let z: f64 = StandardNormal.sample(random);
                deviation * (0.5 * z).exp()
            }
            Self::Normal(deviation) | Self::Heavy(deviation) => *deviation,
            Self::Few(quiet, noisy) => match random.random_bool(0.2) {
                true => *noisy,
                false => *quiet,
            },
            Self::Modes(_, apart, share) => {
                if random.random_bool(*share) {
                    apart.ln_1p()
                } else {
                    0.0
                }
            }
            Self::Consecutive(_) | Self::Interleaved(_) => 0.0,
        }
    }

    /// Draws the logarithms of the metrics of one process, around 0.
    fn process(&self, parameter: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
        let normal = |random: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(random) };
        match self {
            Self::Consecutive(_)
            | Self::Interleaved(_)
            | Self::Normal(_)
            | Self::Few(..)
            | Self::Unequal(_) => correlated(|random| parameter * normal(random), random),
            Self::Heavy(_) => {
                let law = StudentT::new(3.0).expect("the degrees of freedom must be positive");
                correlated(|random| parameter / 3.0f64.sqrt() * law.sample(random), random)
            }
            Self::Modes(slow, ..) => {
                let mode = if random.random_range(0..10) < *slow {
                    parameter
                } else {
                    0.0
                };
                METRICS.iter().map(|_| mode + 0.003 * normal(random)).collect()
            }
        }
    }
}

/// Draws values of which the first three metrics and the energy are correlated.
fn correlated(mut draw: impl FnMut(&mut ChaCha8Rng) -> f64, random: &mut ChaCha8Rng) -> Vec<f64> {
    let common = draw(random);
    let mix = |at: usize, independent: f64| match at {
        0..3 | 7 => SHARED_VARIANCE.sqrt() * common + (1.0 - SHARED_VARIANCE).sqrt() * independent,
        _ => independent,
    };
    (0..METRICS.len()).map(|at| mix(at, draw(random))).collect()
}

pub fn seeded_rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
