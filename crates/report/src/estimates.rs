//! One estimate a metric from the processes of a cell. The process is the unit of replication.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Interval, Process, Sample, median_over_processes, wilson};
use mantissa_core::{MetricName, Record, Workload};

use crate::Digest;

/// A record with what is kept of its samples.
pub(crate) type Measured<'a> = (&'a Record, Option<&'a Digest>);

/// The metrics of one process as it recorded them, with intervals that hold within it. Of several processes the median;
/// its interval, from five processes on, is a hierarchical bootstrap over processes and the samples within each, and over
/// processes alone where each gives one value. The seed comes from the id of the cell.
///
/// Rates are averaged as the times that they come from, so that a rate is what its time says. Shares of examples keep
/// Wilson's interval: it is about the examples, which another process would see again. What is told of words keeps that of their
/// passages, for the same reason.
pub(crate) fn over_processes(measured: &[Measured<'_>]) -> BTreeMap<MetricName, Estimate> {
    let mut parts: BTreeMap<MetricName, Vec<(Estimate, Option<&Digest>)>> = BTreeMap::new();
    for (record, digest) in measured {
        for (name, metric) in &record.metrics {
            if let Some(estimate) =
                Estimate::from_metric(metric).filter(|estimate| estimate.value.is_finite())
            {
                parts.entry(*name).or_default().push((estimate, *digest));
            }
        }
    }
    let workload = measured.first().map(|(record, _)| &record.cell.workload);
    let of_words = |name| workload.is_some_and(|workload| is_of_words(workload, name));
    let id = measured.first().map(|(record, _)| record.cell.id.as_str());
    let seed = id
        .and_then(|id| u64::from_str_radix(id, 16).ok())
        .unwrap_or_default();
    let merged = parts.into_iter().filter_map(|(name, mut parts)| {
        let estimate = if parts.len() == 1 {
            parts.pop()?.0
        } else if of_words(name) {
            middle(&parts)?
        } else {
            merge(name, &parts, seed)?
        };
        Some((name, estimate))
    });
    merged.collect()
}

fn merge(name: MetricName, parts: &[(Estimate, Option<&Digest>)], seed: u64) -> Option<Estimate> {
    // What has no interval is no share of draws that could be counted together.
    let of_draws = parts.iter().all(|(estimate, _)| estimate.interval.is_some());
    match name {
        MetricName::TestAccuracy | MetricName::ValidationAccuracy | MetricName::TrainAccuracy if of_draws => {
            share(parts)
        }
        _ => {
            let inverted = is_rate(name) && parts.iter().all(|(estimate, _)| estimate.value > 0.0);
            let process = |(estimate, digest): &(Estimate, Option<&Digest>)| {
                let value = if inverted {
                    1.0 / estimate.value
                } else {
                    estimate.value
                };
                process(name, value, *digest)
            };
            let processes: Vec<Process> = parts.iter().map(process).collect::<Option<_>>()?;
            let estimate = median_over_processes(&processes, seed)?;
            Some(if inverted { inverse(&estimate) } else { estimate })
        }
    }
}

/// The samples of a process around the value that it recorded, where the metric is a median of samples; else the value.
fn process(name: MetricName, value: f64, digest: Option<&Digest>) -> Option<Process> {
    let sampled = matches!(
        name,
        MetricName::StepSeconds
            | MetricName::FlopsPerSecond
            | MetricName::ValuesPerSecond
            | MetricName::BytesPerSecond
    );
    let times = digest.and_then(|digest| digest.times.as_ref());
    match times.map(|times| &times.process) {
        Some(process) if sampled && process.median() > 0.0 => {
            // The record knows how much work a launch is; the samples know the spread.
            Some(process.clone().times(value / process.median()))
        }
        _ => Some(Process::new(&Sample::new([value])?)),
    }
}

fn is_rate(name: MetricName) -> bool {
    matches!(
        name,
        MetricName::SamplesPerSecond
            | MetricName::TokensPerSecond
            | MetricName::DecodeTokensPerSecond
            | MetricName::FlopsPerSecond
            | MetricName::ValuesPerSecond
            | MetricName::BytesPerSecond
            | MetricName::CopyBytesPerSecond
            | MetricName::CublasFlopsPerSecond
    )
}

fn inverse(estimate: &Estimate) -> Estimate {
    let turned = |interval: Interval| Interval {
        low: 1.0 / interval.high,
        high: 1.0 / interval.low,
    };
    Estimate {
        value: 1.0 / estimate.value,
        interval: estimate.interval.filter(|ends| ends.low > 0.0).map(turned),
        ..estimate.clone()
    }
}

/// Whether a metric of a workload is about words of running text, which come in passages.
pub(crate) fn is_of_words(workload: &Workload, name: MetricName) -> bool {
    let told_of_words = matches!(
        name,
        MetricName::TestAccuracy
            | MetricName::ValidationAccuracy
            | MetricName::TrainAccuracy
            | MetricName::Agreement
            | MetricName::TestLoss
            | MetricName::Perplexity
    );
    told_of_words && workload.predicts_words()
}

/// The median over processes of what they tell of the same passages, with the interval of the process in the middle: of two, from the
/// lower end of both to the upper. Nothing is counted together.
fn middle(parts: &[(Estimate, Option<&Digest>)]) -> Option<Estimate> {
    let mut estimates: Vec<&Estimate> = parts.iter().map(|(estimate, _)| estimate).collect();
    estimates.sort_by(|a, b| a.value.total_cmp(&b.value));
    let n = estimates.len();
    let (lower, upper) = (estimates.get(n.checked_sub(1)? / 2)?, estimates.get(n / 2)?);
    let ends = lower.interval.zip(upper.interval);
    Some(Estimate {
        value: f64::midpoint(lower.value, upper.value),
        interval: ends.map(|(a, b)| Interval {
            low: a.low.min(b.low),
            high: a.high.max(b.high),
        }),
        n: estimates.iter().map(|estimate| estimate.n).min()?,
        method: match ends {
            Some(_) => "median over processes, cluster bootstrap by passage",
            None => "median over processes",
        },
    })
}

/// The median over processes of a share of examples, with the interval of such a share of the same examples.
fn share(parts: &[(Estimate, Option<&Digest>)]) -> Option<Estimate> {
    let value = Sample::new(parts.iter().map(|(estimate, _)| estimate.value))?.median();
    let n = parts.iter().map(|(estimate, _)| estimate.n).min()?;
    let interval = wilson((value * n as f64).round() as u64, n)?.interval;
    Some(Estimate {
        value,
        interval,
        n,
        method: "median over processes, Wilson",
    })
}
