//! Measurements of one run, for programs that store the results of many runs: an estimate over processes per cell and metric.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Interval, Process, Sample, median_over_processes, wilson};
use mantissa_core::{Axis, Cell, MetricName, Setting, Unit};

use crate::{MeasuredCell, Reading, RunMeasurements, render::escape::plain};

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
    /// Computes the estimates of a run: the median over processes, with a confidence interval if there are at least five. Shares of examples
    /// have Wilson's interval.
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

    /// Maximum length of a name before the identity of the cell, in bytes.
    const LONGEST_NAME: usize = 900;

    /// Returns a name that is stable across runs, in at most 1,024 bytes: `smoke/matmul · bf16-true · size 512 [547d2bc4619f9cff]`. The
    /// name lists the axes that differ from their defaults, and does not depend on the other cells of the run. The identity distinguishes
    /// cells that differ in sizes, such as those of another profile.
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
        let mut name = plain(&name);
        if name.len() > Self::LONGEST_NAME {
            let end = (0..=Self::LONGEST_NAME)
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
        let estimate = match examples(metric, &readings) {
            // The tokens of one passage are not independent.
            Some(_) if predicts_tokens => without_interval(middle(metric, &readings, seed)?),
            Some(n) => share(&readings, n)?,
            None => middle(metric, &readings, seed)?,
        };
        Some((metric, estimate))
    });
    estimated.collect()
}

/// Returns the number of examples behind a share.
fn examples(metric: MetricName, readings: &[Reading]) -> Option<u64> {
    let of_examples = matches!(
        metric,
        MetricName::TestAccuracy | MetricName::ValidationAccuracy | MetricName::TrainAccuracy
    );
    let fewest = readings.iter().map(|reading| reading.n).min()??;
    (of_examples && fewest > 1).then_some(fewest)
}

fn share(readings: &[Reading], n: u64) -> Option<Estimate> {
    let value = Sample::new(readings.iter().map(|reading| reading.value))?.median();
    let right = (value * n as f64).round() as u64;
    let estimate = wilson(right, n)?;
    Some(Estimate {
        value,
        method: match readings.len() {
            1 => estimate.method,
            _ => "median over processes, Wilson",
        },
        ..estimate
    })
}

/// Computes the median over processes. Rates are averaged as times, as in the tables.
fn middle(metric: MetricName, readings: &[Reading], seed: u64) -> Option<Estimate> {
    let inverted = is_rate(metric) && readings.iter().all(|reading| reading.value > 0.0);
    let turned = |value: f64| if inverted { 1.0 / value } else { value };
    let process = |reading: &Reading| Some(Process::new(&Sample::new([turned(reading.value)])?));
    let processes: Vec<Process> = readings.iter().map(process).collect::<Option<_>>()?;
    let estimate = median_over_processes(&processes, seed)?;
    let ends = |interval: Interval| match inverted {
        true => Interval {
            low: turned(interval.high),
            high: turned(interval.low),
        },
        false => interval,
    };
    Some(Estimate {
        value: turned(estimate.value),
        interval: estimate.interval.map(ends),
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
    fn a_rate_of_two_processes_is_what_the_mean_of_their_times_says() {
        let estimate = middle(MetricName::FlopsPerSecond, &readings(&[1.0, 3.0]), 1).unwrap();
        assert!((estimate.value - 1.5).abs() < 1e-12 && estimate.interval.is_none());
        let estimate = middle(MetricName::StepSeconds, &readings(&[1.0, 3.0]), 1).unwrap();
        assert_eq!(estimate.value, 2.0);
    }

    #[test]
    fn five_processes_have_an_interval_around_their_median() {
        let estimate = middle(
            MetricName::FlopsPerSecond,
            &readings(&[1.0, 1.1, 1.2, 1.3, 1.4]),
            1,
        )
        .unwrap();
        let interval = estimate.interval.unwrap();
        assert!(interval.low < 1.2 && interval.contains(1.2) && interval.high <= 1.4);
    }

    #[test]
    fn a_share_of_examples_has_wilsons_interval_and_a_zero_stays_a_zero() {
        let accuracy = readings(&[0.9, 0.9]);
        assert_eq!(examples(MetricName::TestAccuracy, &accuracy), Some(200));
        assert_eq!(
            share(&accuracy, 200).unwrap().interval,
            wilson(180, 200).unwrap().interval
        );
        assert_eq!(
            middle(MetricName::SamplesPerSecond, &readings(&[0.0]), 1)
                .unwrap()
                .value,
            0.0
        );
        assert_eq!(middle(MetricName::StepSeconds, &readings(&[f64::NAN]), 1), None);
    }
}
