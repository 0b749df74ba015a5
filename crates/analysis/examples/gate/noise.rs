//! What processes of a cell differ by: laws, and what recorded runs have.

use std::{collections::BTreeMap, fs, io, path::Path};

use mantissa_core::MetricName;
use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};

/// The metrics of a simulated cell: five of time, of which the first three share what happens to their process, two of memory, one of
/// energy.
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

/// The share of variance that metrics of one process share, if they share any.
pub(super) const SHARED: f64 = 0.9;

/// How logarithms of a metric differ from process to process.
#[derive(Debug, Clone)]
pub enum Noise {
    /// Normal, with this deviation.
    Normal(f64),
    /// Normal, with a deviation that differs from cell to cell: its logarithm is normal around this one's, deviation 0.5.
    Unequal(f64),
    /// Normal with the first deviation, and in one cell of five with the second.
    Few(f64, f64),
    /// Student's with three degrees of freedom, scaled to this deviation.
    Heavy(f64),
    /// So many processes of ten are slower by this much, in this share of the cells; beside that normal, 0.3 %.
    Modes(u32, f64, f64),
    /// Processes as recorded, in runs one after another.
    Runs(Recorded),
    /// The same, two sides having taken turns.
    Turns(Recorded),
}

/// Runs of one program, one after another, as `.ci/gate-noise` writes them.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// What they ran on, and when.
    pub origin: String,
    cells: Vec<RecordedCell>,
}

/// Logarithms of what varies in a cell, by run, process and metric.
#[derive(Debug, Clone)]
struct RecordedCell {
    metrics: Vec<MetricName>,
    runs: Vec<Vec<Vec<f64>>>,
}

/// Of each run, of each process, every column.
type RunsOfCell = BTreeMap<String, Vec<Vec<Option<f64>>>>;

impl Recorded {
    /// The first line is the origin after a `#`, the second names the columns: run, cell, repeat, metrics; a line a process.
    pub fn read(path: &Path) -> io::Result<Self> {
        let text = fs::read_to_string(path)?;
        let (origin, table) = text.split_once('\n').unwrap_or_default();
        let mut rows = csv::Reader::from_reader(table.as_bytes());
        let wrong = |name: &str| io::Error::other(format!("{}: no metric `{name}`", path.display()));
        let columns: Vec<MetricName> = rows
            .headers()?
            .iter()
            .skip(3)
            .map(|name| named(name).ok_or_else(|| wrong(name)))
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
            .map(|runs| RecordedCell::of(&columns, runs))
            .collect();
        Ok(Self {
            origin: origin.trim_start_matches(['#', ' ']).to_owned(),
            cells,
        })
    }

    /// How many cells.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// How many runs.
    pub fn runs(&self) -> usize {
        self.cells.first().map_or(0, |cell| cell.runs.len())
    }

    /// Every metric that varies in some cell, in how many, and how much it deviates within a run: the median of the cells and the largest.
    pub fn deviations(&self) -> Vec<(MetricName, usize, f64, f64)> {
        let of = |metric: MetricName| {
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
        MetricName::ALL.iter().copied().filter_map(of).collect()
    }
}

fn named(name: &str) -> Option<MetricName> {
    MetricName::ALL
        .iter()
        .copied()
        .find(|metric| metric.name() == name)
}

impl RecordedCell {
    fn of(columns: &[MetricName], runs: &RunsOfCell) -> Self {
        let processes = || runs.values().flatten();
        let varies = |at: &usize| {
            let metric = columns[*at];
            !metric.is_counted()
                && !metric.is_learned()
                && processes().all(|process| process[*at].is_some_and(|value| value > 0.0))
        };
        let kept: Vec<usize> = (0..columns.len()).filter(varies).collect();
        let logarithms =
            |process: &Vec<Option<f64>>| kept.iter().filter_map(|at| Some(process[*at]?.ln())).collect();
        Self {
            metrics: kept.iter().map(|at| columns[*at]).collect(),
            runs: runs
                .values()
                .map(|run| run.iter().map(logarithms).collect())
                .collect(),
        }
    }

    /// Within a run, over all of them.
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

    /// Whole runs, one after another: of the same moments in every cell that `pick` is the same for.
    fn runs(&self, count: usize, processes: usize, pick: u64) -> Vec<Vec<Vec<f64>>> {
        assert!(
            self.runs.iter().all(|run| !run.is_empty()),
            "a recorded run has processes"
        );
        let mut order: Vec<&Vec<Vec<f64>>> = self.runs.iter().collect();
        order.shuffle(&mut seeded(pick));
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

    /// Two sides that took turns, in rounds one after another: which of a pair of rounds is whose is drawn. Others are whole runs.
    fn turns(&self, count: usize, processes: usize, pick: u64) -> Vec<Vec<Vec<f64>>> {
        let mut random = seeded(pick);
        let rounds: Vec<&Vec<f64>> = self.runs.iter().flatten().collect();
        let first = random.random_range(0..=rounds.len() - 2 * processes);
        let pairs = rounds[first..].chunks_exact(2).take(processes);
        let (mut baseline, mut candidate) = (vec![], vec![]);
        for pair in pairs {
            let swapped = usize::from(random.random_bool(0.5));
            baseline.push(pair[swapped].clone());
            candidate.push(pair[1 - swapped].clone());
        }
        let others = self.runs(count.saturating_sub(2), processes, pick);
        [baseline, candidate]
            .into_iter()
            .chain(others)
            .take(count)
            .collect()
    }
}

impl Noise {
    /// Whether two sides of it took turns. Laws know no moments, and a drift comes between runs.
    pub fn in_turns(&self) -> bool {
        matches!(self, Self::Turns(_))
    }

    /// The metrics of a cell.
    pub fn metrics(&self, cell: usize) -> &[MetricName] {
        match self {
            Self::Runs(recorded) | Self::Turns(recorded) => {
                &recorded.cells[cell % recorded.cells.len()].metrics
            }
            _ => &METRICS,
        }
    }

    /// Runs of a cell: of each process the logarithms of its metrics. `pick` chooses among recorded moments, which all cells share.
    pub fn runs(
        &self,
        cell: usize,
        (count, processes): (usize, usize),
        pick: u64,
        random: &mut ChaCha8Rng,
    ) -> Vec<Vec<Vec<f64>>> {
        let of = |recorded: &'_ Recorded| recorded.cells[cell % recorded.cells.len()].clone();
        match self {
            Self::Runs(recorded) => return of(recorded).runs(count, processes, pick),
            Self::Turns(recorded) => return of(recorded).turns(count, processes, pick),
            _ => {}
        }
        let of_cell = self.of_cell(random);
        let mut run = || (0..processes).map(|_| self.process(of_cell, random)).collect();
        (0..count).map(|_| run()).collect()
    }

    /// What all processes of a cell have in common.
    fn of_cell(&self, random: &mut ChaCha8Rng) -> f64 {
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
            Self::Runs(_) | Self::Turns(_) => 0.0,
        }
    }

    /// The logarithms of the metrics of one process, around 0.
    fn process(&self, of_cell: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
        let normal = |random: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(random) };
        match self {
            Self::Runs(_) | Self::Turns(_) | Self::Normal(_) | Self::Few(..) | Self::Unequal(_) => {
                shared(|random| of_cell * normal(random), random)
            }
            Self::Heavy(_) => {
                let law = StudentT::new(3.0).expect("three is positive");
                shared(|random| of_cell / 3.0f64.sqrt() * law.sample(random), random)
            }
            Self::Modes(slow, ..) => {
                let mode = if random.random_range(0..10) < *slow {
                    of_cell
                } else {
                    0.0
                };
                METRICS.iter().map(|_| mode + 0.003 * normal(random)).collect()
            }
        }
    }
}

/// The first three metrics and the energy share most of what happens to their process.
fn shared(mut draw: impl FnMut(&mut ChaCha8Rng) -> f64, random: &mut ChaCha8Rng) -> Vec<f64> {
    let common = draw(random);
    let of = |at: usize, own: f64| match at {
        0..3 | 7 => SHARED.sqrt() * common + (1.0 - SHARED).sqrt() * own,
        _ => own,
    };
    (0..METRICS.len()).map(|at| of(at, draw(random))).collect()
}

pub fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
