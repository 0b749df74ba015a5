//! What processes of a cell differ by: laws, and what recorded runs have.

use std::{collections::BTreeMap, fs, io, path::Path};

use mantissa_core::MetricName;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StudentT};
use serde_json::Value;

/// The metrics of a simulated cell: five of time, of which the first three share what happens to their process, two of memory, one of
/// energy.
pub const METRICS: [MetricName; 8] = [
    MetricName::TrainSeconds,
    MetricName::StepSeconds,
    MetricName::SamplesPerSecond,
    MetricName::LoadSeconds,
    MetricName::WarmupSeconds,
    MetricName::HostPeakBytes,
    MetricName::ProcessPeakBytes,
    MetricName::EnergyCounterJoules,
];

/// The share of variance that metrics of one process share, if they share any.
const SHARED: f64 = 0.9;

/// How logarithms of a metric differ from process to process.
#[derive(Debug, Clone)]
pub enum Noise {
    /// Normal, with this deviation.
    Normal(f64),
    /// Normal, with a deviation that differs from cell to cell: its logarithm is normal around this one's, deviation 0.5.
    Unequal(f64),
    /// Student's with three degrees of freedom, scaled to this deviation.
    Heavy(f64),
    /// So many processes of ten are slower by this much, in this share of the cells; beside that normal, 0.3 %.
    Modes(u32, f64, f64),
    /// Processes as recorded.
    Recorded(Recorded),
}

/// Residuals of logarithms around their cell's mean, a process a row, inflated by √(n/(n − 1)) for the mean being that of the same n
/// values.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The metrics that vary.
    pub metrics: Vec<MetricName>,
    rows: Vec<Vec<f64>>,
    /// How many cells they are from.
    pub cells: usize,
}

impl Recorded {
    pub fn processes(&self) -> usize {
        self.rows.len()
    }

    /// The deviation of one metric over all processes.
    pub fn deviation(&self, metric: usize) -> f64 {
        let squares: f64 = self.rows.iter().map(|row| row[metric].powi(2)).sum();
        (squares / self.rows.len() as f64).sqrt()
    }

    /// All cells with three processes or more in the records of the runs in a folder.
    pub fn read(reports: &Path) -> io::Result<Self> {
        let mut cells: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
        let mut folders: Vec<_> = fs::read_dir(reports)?.collect::<io::Result<_>>()?;
        folders.sort_by_key(fs::DirEntry::path);
        for folder in folders {
            let Ok(records) = fs::read_to_string(folder.path().join("records.jsonl")) else {
                continue;
            };
            for line in records.lines() {
                let record: Value = serde_json::from_str(line)?;
                if record["status"] == "ok" {
                    let run = folder.file_name().to_string_lossy().into_owned();
                    let cell = record["cell"]["id"].as_str().unwrap_or_default().to_owned();
                    cells.entry((run, cell)).or_default().push(record);
                }
            }
        }
        cells.retain(|_, processes| processes.len() >= 3);
        Ok(Self::of(cells.values().map(Vec::as_slice)))
    }

    fn of<'a>(cells: impl Iterator<Item = &'a [Value]> + Clone) -> Self {
        let value = |process: &Value, metric: MetricName| process["metrics"][metric.name()]["value"].as_f64();
        let varies = |metric: &&MetricName| {
            let of = |cell: &[Value]| -> Option<Vec<f64>> {
                cell.iter().map(|process| value(process, **metric)).collect()
            };
            let everywhere: Option<Vec<Vec<f64>>> = cells.clone().map(of).collect();
            let readings = !metric.is_counted() && !metric.is_learned();
            readings
                && everywhere.is_some_and(|cells| {
                    !cells.is_empty() && cells.iter().flatten().all(|value| *value > 0.0)
                })
        };
        let metrics: Vec<MetricName> = MetricName::ALL.iter().filter(varies).copied().collect();
        let mut rows = Vec::new();
        for cell in cells.clone() {
            let n = cell.len() as f64;
            let columns: Vec<Vec<f64>> = metrics
                .iter()
                .map(|metric| {
                    let logs: Vec<f64> = cell
                        .iter()
                        .filter_map(|process| value(process, *metric))
                        .map(f64::ln)
                        .collect();
                    let mean = logs.iter().sum::<f64>() / n;
                    logs.iter()
                        .map(|log| (log - mean) * (n / (n - 1.0)).sqrt())
                        .collect()
                })
                .collect();
            rows.extend(
                (0..cell.len()).map(|process| columns.iter().map(|column| column[process]).collect()),
            );
        }
        Self {
            metrics,
            rows,
            cells: cells.count(),
        }
    }
}

impl Noise {
    /// The metrics of each cell.
    pub fn metrics(&self) -> &[MetricName] {
        match self {
            Self::Recorded(recorded) => &recorded.metrics,
            _ => &METRICS,
        }
    }

    /// What all processes of a cell have in common.
    pub fn cell(&self, random: &mut ChaCha8Rng) -> f64 {
        match self {
            Self::Unequal(deviation) => {
                let z: f64 = StandardNormal.sample(random);
                deviation * (0.5 * z).exp()
            }
            Self::Normal(deviation) | Self::Heavy(deviation) => *deviation,
            Self::Modes(_, apart, share) => {
                if random.random_bool(*share) {
                    apart.ln_1p()
                } else {
                    0.0
                }
            }
            Self::Recorded(_) => 0.0,
        }
    }

    /// The logarithms of the metrics of one process, around 0.
    pub fn process(&self, of_cell: f64, random: &mut ChaCha8Rng) -> Vec<f64> {
        let normal = |random: &mut ChaCha8Rng| -> f64 { StandardNormal.sample(random) };
        match self {
            Self::Recorded(recorded) => recorded.rows[random.random_range(0..recorded.rows.len())].clone(),
            Self::Normal(_) | Self::Unequal(_) => shared(|random| of_cell * normal(random), random),
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
