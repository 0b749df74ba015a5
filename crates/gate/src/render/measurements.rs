//! Measurements of one run for programs that store many runs: one estimate over processes for each cell and metric.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Interval, Process, Sample, median_over_processes, wilson};
use mantissa_core::{Axis, Cell, MetricName, Setting, Unit};

use crate::{MeasuredCell, Reading, RunMeasurements, render::escape::sanitize};

/// Estimates of a run.
#[derive(Debug, Clone)]
pub struct Measurements<'a> {
    /// The run.
    pub run: &'a RunMeasurements,
    /// Cells with at least one metric, ordered by suite, workload and name.
    pub cells: Vec<CellEstimates<'a>>,
}

/// Estimates of a cell.
#[derive(Debug, Clone)]
pub struct CellEstimates<'a> {
    /// The cell and its processes.
    pub measured: &'a MeasuredCell,
    /// Estimate of each metric over the completed processes.
    pub estimates: BTreeMap<MetricName, Estimate>,
}

impl<'a> Measurements<'a> {
    /// Computes the estimates of a run: the median over processes, with a confidence interval if there are at least five. Shares of
    /// examples have Wilson's interval.
    pub fn of(run: &'a RunMeasurements) -> Self {
        let cells = run.cells.values().map(|measured| CellEstimates {
            measured,
            estimates: estimates(measured),
        });
        let mut cells: Vec<CellEstimates<'_>> = cells.filter(|cell| !cell.estimates.is_empty()).collect();
        cells.sort_by_cached_key(CellEstimates::series);
        Self { run, cells }
    }

    /// Keeps only these metrics.
    #[must_use]
    pub fn only(mut self, metrics: &[MetricName]) -> Self {
        for cell in &mut self.cells {
            cell.estimates.retain(|metric, _| metrics.contains(metric));
        }
        self.cells.retain(|cell| !cell.estimates.is_empty());
        self
    }
}

impl CellEstimates<'_> {
    /// Returns the cell.
    pub fn cell(&self) -> &Cell {
        &self.measured.cell
    }

    /// Maximum length of a name without the seed and the identity of the cell, which are appended, in bytes.
    const MAX_NAME_BYTES: usize = 900;

    /// Returns a name of at most 1,024 bytes that is stable across runs, e.g.
    /// `smoke/matmul · bf16-true · size 512 · seed 1 [547d2bc4619f9cff]`. It lists the axes that differ from their defaults, and does not
    /// depend on other cells. The identity distinguishes cells of different sizes, such as those of two profiles.
    pub fn series(&self) -> String {
        let cell = self.cell();
        let mut name = format!(
            "{}/{} · {}",
            cell.suite,
            cell.workload.name,
            cell.setting.precision()
        );
        let defaults = Setting::of(&cell.workload, cell.setting.backend());
        for (axis, value) in cell.setting.iter() {
            if axis != Axis::Precision && defaults.get(axis).as_ref() != Some(&value) {
                name += &format!(" · {axis} {value}");
            }
        }
        let mut name = sanitize(&name);
        if name.len() > Self::MAX_NAME_BYTES {
            let end = (0..=Self::MAX_NAME_BYTES)
                .rev()
                .find(|end| name.is_char_boundary(*end));
            name.truncate(end.unwrap_or_default());
            name.push('…');
        }
        format!("{name} · seed {} [{}]", cell.seed, cell.id)
    }
}

fn estimates(measured: &MeasuredCell) -> BTreeMap<MetricName, Estimate> {
    let mut readings: BTreeMap<MetricName, Vec<Reading>> = BTreeMap::new();
    for process in measured.completed() {
        for (metric, reading) in &process.values {
            readings.entry(*metric).or_default().push(*reading);
        }
    }
    let seed = u64::from_str_radix(measured.cell.id.as_str(), 16).unwrap_or_default();
    let predicts_tokens = measured.cell.workload.predicts_tokens();
    let estimated = readings.into_iter().filter_map(|(metric, readings)| {
        let estimate = match example_count(metric, &readings) {
            // Wilson's interval requires independent examples, but the tokens of one passage are not.
            Some(_) if predicts_tokens => without_interval(median_estimate(metric, &readings, seed)?),
            Some(n) => share_estimate(&readings, n)?,
            None => median_estimate(metric, &readings, seed)?,
        };
        Some((metric, estimate))
    });
    estimated.collect()
}

/// Returns the smallest number of examples of any process, if the metric is a share of examples.
fn example_count(metric: MetricName, readings: &[Reading]) -> Option<u64> {
    let is_share = matches!(
        metric,
        MetricName::TestAccuracy | MetricName::ValidationAccuracy | MetricName::TrainAccuracy
    );
    let min_examples = readings.iter().map(|reading| reading.n).min()??;
    (is_share && min_examples > 1).then_some(min_examples)
}

/// Computes the median share over processes, with Wilson's interval for `n` examples.
fn share_estimate(readings: &[Reading], n: u64) -> Option<Estimate> {
    let value = Sample::new(readings.iter().map(|reading| reading.value))?.median();
    let correct = (value * n as f64).round() as u64;
    let estimate = wilson(correct, n)?;
    Some(Estimate {
        value,
        method: match readings.len() {
            1 => estimate.method,
            _ => "median over processes, Wilson",
        },
        ..estimate
    })
}

/// Computes the median over processes. As in the tables of reports, the median of a rate is the inverse of the median of the
/// corresponding times.
fn median_estimate(metric: MetricName, readings: &[Reading], seed: u64) -> Option<Estimate> {
    let inverted = is_rate(metric) && readings.iter().all(|reading| reading.value > 0.0);
    let invert = |value: f64| if inverted { 1.0 / value } else { value };
    let process = |reading: &Reading| Some(Process::new(&Sample::new([invert(reading.value)])?));
    let processes: Vec<Process> = readings.iter().map(process).collect::<Option<_>>()?;
    let estimate = median_over_processes(&processes, seed)?;
    let invert_ends = |interval: Interval| match inverted {
        true => Interval {
            low: invert(interval.high),
            high: invert(interval.low),
        },
        false => interval,
    };
    Some(Estimate {
        value: invert(estimate.value),
        interval: estimate.interval.map(invert_ends),
        ..match estimate.interval {
            Some(_) => estimate,
            None => without_interval(estimate),
        }
    })
}

fn without_interval(estimate: Estimate) -> Estimate {
    Estimate {
        interval: None,
        method: match estimate.n {
            1 => "one process",
            _ => "median over processes",
        },
        ..estimate
    }
}

fn is_rate(metric: MetricName) -> bool {
    matches!(
        metric.unit(),
        Unit::SamplesPerSecond
            | Unit::TokensPerSecond
            | Unit::FlopsPerSecond
            | Unit::ValuesPerSecond
            | Unit::BytesPerSecond
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readings(values: &[f64]) -> Vec<Reading> {
        let reading = |value: &f64| Reading {
            value: *value,
            n: Some(200),
        };
        values.iter().map(reading).collect()
    }

    #[test]
    fn rates_are_averaged_as_times() {
        let estimate = median_estimate(MetricName::FlopsPerSecond, &readings(&[1.0, 3.0]), 1).unwrap();
        assert!((estimate.value - 1.5).abs() < 1e-12 && estimate.interval.is_none());
        let estimate = median_estimate(MetricName::StepSeconds, &readings(&[1.0, 3.0]), 1).unwrap();
        assert_eq!(estimate.value, 2.0);
    }

    #[test]
    fn five_processes_have_an_interval_around_their_median() {
        let estimate = median_estimate(
            MetricName::FlopsPerSecond,
            &readings(&[1.0, 1.1, 1.2, 1.3, 1.4]),
            1,
        )
        .unwrap();
        let interval = estimate.interval.unwrap();
        assert!(interval.low < 1.2 && interval.contains(1.2) && interval.high <= 1.4);
    }

    #[test]
    fn shares_have_wilson_intervals_and_zero_rates_stay_zero() {
        let accuracy = readings(&[0.9, 0.9]);
        assert_eq!(example_count(MetricName::TestAccuracy, &accuracy), Some(200));
        assert_eq!(
            share_estimate(&accuracy, 200).unwrap().interval,
            wilson(180, 200).unwrap().interval
        );
        assert_eq!(
            median_estimate(MetricName::SamplesPerSecond, &readings(&[0.0]), 1)
                .unwrap()
                .value,
            0.0
        );
        assert_eq!(
            median_estimate(MetricName::StepSeconds, &readings(&[f64::NAN]), 1),
            None
        );
    }
}
