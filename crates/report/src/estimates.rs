//! Estimates of a cell's metrics over its processes, which are its independent repetitions.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Interval, Process, Sample, median_over_processes, wilson};
use mantissa_core::{MetricName, Record, Workload};

use crate::Digest;

/// A record with the digest of its samples.
pub(crate) type RecordWithDigest<'a> = (&'a Record, Option<&'a Digest>);

/// Estimates the metrics of a cell. For a single process, the estimates are the recorded values and intervals. For several processes, they
/// are medians over the processes. With five or more, the interval of a median comes from a hierarchical bootstrap, which resamples the
/// processes and the samples of each. If each process has one value, it resamples only processes. The cell id seeds the bootstrap.
///
/// Rates are inverted to times before the median, so that a rate agrees with its time. Accuracies and the agreement have Wilson's interval for
/// the sampling error of the examples. All processes share the examples, so more processes do not reduce this error. Metrics over tokens keep
/// the recorded interval over passages of text, because all processes also share the passages.
pub(crate) fn over_processes(measured: &[RecordWithDigest<'_>]) -> BTreeMap<MetricName, Estimate> {
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
    let of_tokens = |name| workload.is_some_and(|workload| is_token_metric(workload, name));
    let id = measured.first().map(|(record, _)| record.cell.id.as_str());
    let seed = id
        .and_then(|id| u64::from_str_radix(id, 16).ok())
        .unwrap_or_default();
    let merged = parts.into_iter().filter_map(|(name, mut parts)| {
        let estimate = if parts.len() == 1 {
            parts.pop()?.0
        } else if of_tokens(name) {
            median_over_same_passages(&parts)?
        } else {
            merge(name, &parts, seed)?
        };
        Some((name, estimate))
    });
    merged.collect()
}

fn merge(name: MetricName, parts: &[(Estimate, Option<&Digest>)], seed: u64) -> Option<Estimate> {
    // An accuracy without an interval is not a share of independent examples, which Wilson's interval requires.
    let have_intervals = parts.iter().all(|(estimate, _)| estimate.interval.is_some());
    match name {
        MetricName::TestAccuracy
        | MetricName::ValidationAccuracy
        | MetricName::TrainAccuracy
        | MetricName::Agreement
            if have_intervals =>
        {
            median_share(parts)
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

/// Returns the values of a process for the bootstrap. If the metric is a median of samples, these are the samples, scaled so that their
/// median is `value`. Otherwise, returns only `value`.
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
            // For a rate, `value` is the time per operation, element or byte, but the samples are times per launch. Therefore only the
            // relative spread of the samples is used.
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
    let inverted = |interval: Interval| Interval {
        low: 1.0 / interval.high,
        high: 1.0 / interval.low,
    };
    Estimate {
        value: 1.0 / estimate.value,
        interval: estimate.interval.filter(|ends| ends.low > 0.0).map(inverted),
        ..estimate.clone()
    }
}

/// Returns `true` if a metric of a workload is computed over tokens of running text. Tokens of a passage are not independent.
pub(crate) fn is_token_metric(workload: &Workload, name: MetricName) -> bool {
    let is_token_metric = matches!(
        name,
        MetricName::TestAccuracy
            | MetricName::ValidationAccuracy
            | MetricName::TrainAccuracy
            | MetricName::Agreement
            | MetricName::TestLoss
            | MetricName::Perplexity
    );
    is_token_metric && workload.predicts_tokens()
}

/// Returns the median over processes that predicted the same passages, with the interval of the process that has the median value. With an
/// even number of processes, the interval spans those of the two middle processes.
fn median_over_same_passages(parts: &[(Estimate, Option<&Digest>)]) -> Option<Estimate> {
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

/// Returns the median accuracy or agreement over processes, with Wilson's interval for that share of the test examples.
fn median_share(parts: &[(Estimate, Option<&Digest>)]) -> Option<Estimate> {
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
