//! Computes the metrics of a record from the measurements of a worker. It is a pure function.

use std::{collections::BTreeMap, ops::Range};

use mantissa_analysis::{Cluster, Estimate, Interval, MIN_CLUSTERS, cluster_interval, median, wilson};
use mantissa_core::{
    Backend, Metric, MetricName, RangeCounts, SeriesName, Setting, TensorClass, TensorRange,
};
use mantissa_telemetry::{Peaks, Trace};
use mantissa_workloads::{
    AllocatorBytes, MemoryEstimate, MemoryParts, NumericError, Outcome, ReadWeights, Share, TaskMeasurements,
};

/// Part of the steps over which the final loss is averaged: the last tenth.
const FINAL_PART: usize = 10;

/// Seed of the passage bootstrap: the same draws of passages for every setting and metric.
const PASSAGE_SEED: u64 = 0;

/// Measurements around the workload.
#[derive(Debug)]
pub struct Measurements<'a> {
    /// Measurements of the workload itself.
    pub outcome: &'a Outcome,
    /// Samples taken while the workload ran.
    pub trace: &'a Trace,
    /// The measured phase, in seconds of the trace.
    pub window: Range<f64>,
    /// Idle power of the device in watts, or why it is unknown.
    pub idle_watts: &'a Result<f64, String>,
    /// Memory peaks of the work itself, as far as they can be separated.
    pub peaks: Peaks,
    /// Peaks of the device allocator, if it reports them.
    pub allocator: Option<AllocatorBytes>,
    /// True if another framework computed; its allocator has its own statistics.
    pub by_peer: bool,
}

type Metrics = BTreeMap<MetricName, Metric>;

/// Computes every metric that applies to the cell. A metric that could not be measured is present without a value and contains the reason.
pub fn summarise(setting: &Setting, measured: &Measurements<'_>) -> Metrics {
    let mut metrics = Metrics::new();
    let outcome = measured.outcome;
    reading(
        &mut metrics,
        MetricName::LoadSeconds,
        outcome.load_seconds,
        "wall clock",
    );
    reading(
        &mut metrics,
        MetricName::WarmupSeconds,
        outcome.warmup_seconds,
        "wall clock",
    );
    match &outcome.measured {
        TaskMeasurements::Train { .. } => train(&mut metrics, setting, outcome),
        TaskMeasurements::Evaluate { .. } => evaluate(&mut metrics, outcome),
        TaskMeasurements::Generate { .. } => generate(&mut metrics, outcome),
        TaskMeasurements::Kernel { .. } => kernel(&mut metrics, outcome),
    }
    launches(&mut metrics, outcome);
    memory(&mut metrics, setting.backend(), measured);
    energy(&mut metrics, setting.backend(), measured);
    metrics
}

/// Computes the launches per unit of work and the share of its time in which the device is idle.
fn launches(metrics: &mut Metrics, outcome: &Outcome) {
    let Some(launches) = outcome.launches else {
        return;
    };
    let middle = |name| median(series(outcome, name)).map(|estimate| estimate.value);
    // Seconds of the work with the counted launches, and its number of units.
    let (seconds, units) = match &outcome.measured {
        TaskMeasurements::Train { .. } => (middle(SeriesName::StepSeconds), 1),
        TaskMeasurements::Evaluate { .. } => (middle(SeriesName::BatchSeconds), 1),
        TaskMeasurements::Generate { decoded, .. } => {
            let both = middle(SeriesName::FirstTokenSeconds).zip(middle(SeriesName::DecodeSeconds));
            (both.map(|(first, rest)| first + rest), decoded + 1)
        }
        TaskMeasurements::Kernel { .. } => return,
    };
    let count = launches.count as f64;
    let method = "launches of one unit of work after the warm-up";
    reading(metrics, MetricName::LaunchesPerStep, count / units as f64, method);
    if launches.count > 1 {
        let each = launches.issue_seconds / (count - 1.0);
        let method = "wall clock from the first launch to the last, including waits for a full device queue";
        reading(metrics, MetricName::HostSecondsPerLaunch, each, method);
    }
    let name = MetricName::DeviceIdleShare;
    let idle = match (launches.busy_seconds, seconds) {
        (Some(busy), Some(seconds)) => {
            let method = "1 minus the ratio of the summed kernel times (device events) to the median time";
            Metric::reading(name, (1.0 - busy / seconds).max(0.0), method)
        }
        _ => Metric::absent(name, "the device did not time every launch"),
    };
    metrics.insert(name, idle);
}

fn reading(metrics: &mut Metrics, name: MetricName, value: f64, method: &str) {
    metrics.insert(name, Metric::reading(name, value, method));
}

fn estimate(metrics: &mut Metrics, name: MetricName, estimate: Option<Estimate>, otherwise: &str) {
    let metric = estimate.map_or_else(
        || Metric::absent(name, otherwise),
        |estimate| estimate.metric(name),
    );
    metrics.insert(name, metric);
}

fn series(outcome: &Outcome, name: SeriesName) -> Vec<f64> {
    outcome
        .samples
        .get(name)
        .map(|series| series.values().collect())
        .unwrap_or_default()
}

fn train(metrics: &mut Metrics, setting: &Setting, outcome: &Outcome) {
    let TaskMeasurements::Train {
        train_seconds,
        examples,
        tokens,
        words,
        stepping_seconds,
        train,
        validation,
        test,
        validated_passages,
        tested_passages,
        skipped_steps,
        non_finite_steps,
        clipped_steps,
        memory,
        estimated,
        ..
    } = &outcome.measured
    else {
        return;
    };
    reading(
        metrics,
        MetricName::TrainSeconds,
        *train_seconds,
        "wall clock, validation included",
    );
    let steps = median(series(outcome, SeriesName::StepSeconds));
    estimate(metrics, MetricName::StepSeconds, steps, "no steps");
    let mut rate = |name, count: u64| {
        reading(
            metrics,
            name,
            count as f64 / stepping_seconds,
            "count over stepping time",
        )
    };
    rate(MetricName::SamplesPerSecond, *examples);
    if let Some(tokens) = tokens {
        rate(MetricName::TokensPerSecond, *tokens);
    }
    let mut accuracy = |name, share: &Share, passages: &[Share]| match words {
        true => drop(metrics.insert(name, of_tokens(name, share, passages))),
        false => estimate(metrics, name, wilson(share.hits, share.n), "no examples"),
    };
    accuracy(MetricName::TrainAccuracy, train, &[]);
    accuracy(MetricName::ValidationAccuracy, validation, validated_passages);
    accuracy(MetricName::TestAccuracy, test, tested_passages);
    metrics.insert(MetricName::FinalLoss, final_loss(outcome));
    if setting.precision().scales_loss() {
        reading(metrics, MetricName::SkippedSteps, *skipped_steps as f64, "count");
    }
    reading(
        metrics,
        MetricName::NonFiniteSteps,
        *non_finite_steps as f64,
        "count",
    );
    if let Some(clipped) = clipped_steps {
        reading(metrics, MetricName::ClippedSteps, *clipped as f64, "count");
    }
    parts(metrics, memory.as_ref());
    estimates(metrics, estimated.as_ref());
    ranges(metrics, &outcome.samples.ranges);
}

fn evaluate(metrics: &mut Metrics, outcome: &Outcome) {
    let TaskMeasurements::Evaluate {
        weights,
        examples,
        full,
        tokens,
        loss,
        words,
        test,
        agreement,
        tested_passages,
        passage_losses,
        agreeing_passages,
        ..
    } = &outcome.measured
    else {
        return;
    };
    // Exclude a short last micro-batch, because it is less work.
    let (batches, condition) = unthrottled_times(
        outcome,
        SeriesName::BatchSeconds,
        SeriesName::Throttled,
        *full as usize,
    );
    let mut rates = |name, count: u64| {
        rate(
            metrics,
            name,
            count as f64,
            batches.clone(),
            ("micro-batch", condition),
            "wall clock",
        )
    };
    rates(MetricName::SamplesPerSecond, *examples);
    if let Some(tokens) = tokens {
        rates(MetricName::TokensPerSecond, *tokens);
    }
    let random = "the weights are random";
    let mut of_weights = |name, share: &Share, passages: &[Share]| {
        let metric = match weights {
            Some(_) if *words => of_tokens(name, share, passages),
            Some(_) => wilson(share.hits, share.n)
                .map_or_else(|| Metric::absent(name, "no examples"), |share| share.metric(name)),
            None => Metric::absent(name, random),
        };
        metrics.insert(name, metric);
    };
    of_weights(MetricName::TestAccuracy, test, tested_passages);
    if let Some(agreement) = agreement {
        of_weights(MetricName::Agreement, agreement, agreeing_passages);
    }
    let mut of_loss = |name, value, interval, method: &str| {
        let metric = match weights {
            Some(_) => around(name, (value, interval), test.n, method),
            None => Metric::absent(name, random),
        };
        metrics.insert(name, metric);
    };
    if *words {
        let tokens = tested_passages.iter().map(|passage| passage.n);
        let (interval, how) = by_passage(passage_losses.iter().copied().zip(tokens));
        let mean = format!("mean over the tokens; {how}");
        of_loss(MetricName::TestLoss, *loss, interval, &mean);
        let perplexity = interval.map(|ends| Interval {
            low: ends.low.exp(),
            high: ends.high.exp(),
        });
        let method = format!("exponential of the {mean}");
        of_loss(MetricName::Perplexity, loss.exp(), perplexity, &method);
    } else {
        of_loss(MetricName::TestLoss, *loss, None, "mean over the test examples");
    }
    of_checkpoint(metrics, weights.as_ref());
}

/// Returns a share of tokens. Tokens of a passage depend on each other, so an interval must not treat them as independent draws.
fn of_tokens(name: MetricName, share: &Share, passages: &[Share]) -> Metric {
    let (interval, how) = match passages {
        [] => (None, "no interval, because they are not independent".to_owned()),
        // Resampling equal passages yields no interval.
        _ if share.hits == 0 || share.hits == share.n => {
            (None, "no interval, because all passages are equal".to_owned())
        }
        _ => by_passage(passages.iter().map(|passage| (passage.hits as f64, passage.n))),
    };
    let method = format!("share of the tokens; {how}");
    around(name, (share.rate(), interval), share.n, &method)
}

/// Returns the interval of a ratio of sums over passages, and a description. Passages of one document depend on each other as well; the interval
/// ignores this.
fn by_passage(passages: impl Iterator<Item = (f64, u64)>) -> (Option<Interval>, String) {
    let cluster = |(numerator, tokens): (f64, u64)| Cluster {
        numerator,
        denominator: tokens as f64,
    };
    let clusters: Vec<Cluster> = passages.map(cluster).collect();
    let n = clusters.len();
    let interval = cluster_interval(&clusters, PASSAGE_SEED);
    let how = match interval {
        Some(_) => format!("cluster bootstrap by passage, {n} passages, taken as independent"),
        None if n < MIN_CLUSTERS => format!("passages: {n}, too few for an interval"),
        None => "no interval by passage".to_owned(),
    };
    (interval, how)
}

/// Returns a metric with its interval, if there is one.
fn around(name: MetricName, (value, interval): (f64, Option<Interval>), n: u64, method: &str) -> Metric {
    match interval {
        Some(ends) => Metric::estimate(name, value, (ends.low, ends.high), n, method),
        None => Metric {
            n: Some(n),
            ..Metric::reading(name, value, method)
        },
    }
}

/// Adds the cost of reading the weights, if weights were read.
fn of_checkpoint(metrics: &mut Metrics, weights: Option<&ReadWeights>) {
    let Some(&ReadWeights::Here { bytes, seconds }) = weights else {
        return;
    };
    reading(metrics, MetricName::WeightsSeconds, seconds, "wall clock");
    reading(
        metrics,
        MetricName::LoadedBytes,
        bytes as f64,
        "as stored in the file",
    );
}

fn generate(metrics: &mut Metrics, outcome: &Outcome) {
    let TaskMeasurements::Generate {
        weights,
        texts,
        decoded,
        ..
    } = &outcome.measured
    else {
        return;
    };
    let times = |name| unthrottled_times(outcome, name, SeriesName::Throttled, usize::MAX);
    let name = MetricName::FirstTokenSeconds;
    let (first, _) = times(SeriesName::FirstTokenSeconds);
    estimate(metrics, name, median(first), "no texts");
    let (decoding, condition) = times(SeriesName::DecodeSeconds);
    let each = decoding.iter().map(|seconds| seconds / *decoded as f64);
    estimate(metrics, MetricName::TokenSeconds, median(each), "no texts");
    rate(
        metrics,
        MetricName::DecodeTokensPerSecond,
        (texts * decoded) as f64,
        decoding,
        ("text", condition),
        "wall clock",
    );
    of_checkpoint(metrics, weights.as_ref());
}

/// Adds shares of all observed values, if values were observed.
fn ranges(metrics: &mut Metrics, ranges: &[TensorRange]) {
    if ranges.is_empty() {
        return;
    }
    let update = |range: &&TensorRange| range.class == TensorClass::WeightUpdate;
    // Underflow is visible only in comparison with a wider format.
    let wider = || ranges.iter().filter(|range| range.format != range.beside);
    let alike = ranges.iter().all(|range| range.format == range.beside);
    let (updates, vanishing): (Vec<&TensorRange>, Vec<_>) = wider().partition(update);
    let others: Vec<&TensorRange> = ranges.iter().filter(|range| !update(range)).collect();
    let every: Vec<&TensorRange> = ranges.iter().collect();
    type Count = fn(&RangeCounts) -> u64;
    let mut share = |name, ranges: &[&TensorRange], count: Count, all: Count, of: &str| {
        let sum = |count: Count| ranges.iter().map(|range| count(&range.counts)).sum::<u64>();
        let (some, all) = (sum(count), sum(all));
        let metric = match all {
            0 if alike => Metric::absent(name, "there is no wider format to compare with"),
            0 => Metric::absent(name, "no step was observed"),
            all => Metric {
                n: Some(all),
                ..Metric::reading(name, some as f64 / all as f64, of)
            },
        };
        metrics.insert(name, metric);
    };
    let elements: Count = |counts| counts.elements;
    share(
        MetricName::OverflowShare,
        &every,
        |counts| counts.overflow,
        elements,
        "layer outputs, gradients, optimizer state and weight updates of the observed steps",
    );
    let values = "layer outputs, gradients and optimizer state of the observed steps";
    share(
        MetricName::UnderflowShare,
        &vanishing,
        |counts| counts.underflow,
        elements,
        values,
    );
    share(
        MetricName::SubnormalShare,
        &others,
        |counts| counts.subnormal,
        elements,
        values,
    );
    // An element whose value does not change in the wider format either has not lost an update.
    share(
        MetricName::LostUpdateShare,
        &updates,
        |counts| counts.underflow,
        |counts| counts.exponents.iter().sum(),
        "elements of parameters that the observed steps would change in a wider format",
    );
}

fn parts(metrics: &mut Metrics, memory: Option<&MemoryParts>) {
    let mut part = |name, bytes: fn(&MemoryParts) -> u64| {
        let metric = match memory {
            Some(memory) => Metric::reading(name, bytes(memory) as f64, memory.source),
            None => Metric::absent(name, "no allocator could be queried"),
        };
        metrics.insert(name, metric);
    };
    part(MetricName::WeightsBytes, |memory| memory.weights);
    part(MetricName::WeightCopiesBytes, |memory| memory.weight_copies);
    part(MetricName::ActivationsBytes, |memory| memory.activations);
    part(MetricName::GradientsBytes, |memory| memory.gradients);
    part(MetricName::OptimizerBytes, |memory| memory.optimizer);
}

/// Adds the estimates of the memory parts: computed from shapes, without the rounding and bookkeeping of an allocator.
fn estimates(metrics: &mut Metrics, estimated: Option<&MemoryEstimate>) {
    let mut part = |name, bytes: fn(&MemoryEstimate) -> u64| {
        let metric = match estimated {
            Some(estimated) => Metric {
                n: None,
                ..Metric::reading(
                    name,
                    bytes(estimated) as f64,
                    "estimated from shapes, not measured",
                )
            },
            None => Metric::absent(name, "the operations of the model are not known"),
        };
        metrics.insert(name, metric);
    };
    part(MetricName::EstimatedWeightsBytes, |bytes| bytes.weights);
    part(MetricName::EstimatedWeightCopiesBytes, |bytes| {
        bytes.weight_copies
    });
    part(MetricName::EstimatedActivationsBytes, |bytes| bytes.activations);
    part(MetricName::EstimatedGradientsBytes, |bytes| bytes.gradients);
    part(MetricName::EstimatedOptimizerBytes, |bytes| bytes.optimizer);
}

fn final_loss(outcome: &Outcome) -> Metric {
    let name = MetricName::FinalLoss;
    let Some(losses) = outcome
        .samples
        .get(SeriesName::TrainLoss)
        .map(|series| &series.y)
        .filter(|y| !y.is_empty())
    else {
        return Metric::absent(name, "no steps");
    };
    let last = &losses[losses.len() - losses.len().div_ceil(FINAL_PART)..];
    let sum: Option<f64> = last.iter().copied().sum();
    match sum {
        Some(sum) => Metric {
            n: Some(last.len() as u64),
            ..Metric::reading(
                name,
                sum / last.len() as f64,
                "mean of the last tenth of the steps",
            )
        },
        None => Metric::absent(name, "the loss is not finite at the end"),
    }
}

fn kernel(metrics: &mut Metrics, outcome: &Outcome) {
    let TaskMeasurements::Kernel {
        flops,
        traffic,
        cublas,
        error,
        clock,
        ..
    } = &outcome.measured
    else {
        return;
    };
    let (launches, condition) = unthrottled_times(
        outcome,
        SeriesName::LaunchSeconds,
        SeriesName::Throttled,
        usize::MAX,
    );
    let mut rate = |name, done: f64, launches: Vec<f64>, condition: &str, clock: &str| {
        rate(metrics, name, done, launches, ("launch", condition), clock)
    };
    if let Some(flops) = flops {
        rate(
            MetricName::FlopsPerSecond,
            *flops,
            launches.clone(),
            condition,
            clock,
        );
    }
    if let (Some(flops), Some(Ok(cublas))) = (flops, cublas) {
        let (launches, condition) = unthrottled_times(
            outcome,
            SeriesName::CublasSeconds,
            SeriesName::CublasThrottled,
            usize::MAX,
        );
        let of_cublas = format!(" of cuBLASLt in the same process{condition}");
        rate(
            MetricName::CublasFlopsPerSecond,
            *flops,
            launches,
            &of_cublas,
            cublas.clock,
        );
    }
    if let Some(traffic) = traffic {
        rate(
            MetricName::ValuesPerSecond,
            traffic.values as f64,
            launches.clone(),
            condition,
            clock,
        );
        rate(
            MetricName::BytesPerSecond,
            traffic.moved as f64,
            launches,
            condition,
            clock,
        );
        let (copies, condition) = unthrottled_times(
            outcome,
            SeriesName::CopySeconds,
            SeriesName::CopyThrottled,
            usize::MAX,
        );
        let of_copy = format!(" of a copy in the same process{condition}");
        rate(
            MetricName::CopyBytesPerSecond,
            traffic.copied as f64,
            copies,
            &of_copy,
            traffic.clock,
        );
    }
    if let Some(Err(reason)) = cublas {
        let name = MetricName::CublasFlopsPerSecond;
        metrics.insert(name, Metric::absent(name, reason));
    }
    let mut insert = |name, pick: fn(&NumericError) -> f64| {
        let metric = error.as_ref().map_or_else(
            || Metric::absent(name, "the result is not finite"),
            |error| Metric::reading(name, pick(error), "against float64 on the same quantised inputs"),
        );
        metrics.insert(name, metric);
    };
    insert(MetricName::RelativeError, |error| error.relative);
    insert(MetricName::QuantisationError, |error| error.quantisation);
    insert(MetricName::AccumulationError, |error| error.accumulation);
    insert(MetricName::RoundingError, |error| error.rounding);
    insert(MetricName::MagnitudeBias, |error| error.bias);
    insert(MetricName::MaxUlp, |error| error.max_ulp);
}

/// Adds a rate: `done` divided by the median time. `kind` and `condition` describe the times.
fn rate(
    metrics: &mut Metrics,
    name: MetricName,
    done: f64,
    times: Vec<f64>,
    (kind, condition): (&str, &str),
    clock: &str,
) {
    let metric = match median(times) {
        None => Metric::absent(name, &format!("no {kind}")),
        Some(seconds) => {
            let at_median = Metric::reading(
                name,
                done / seconds.value,
                &format!("from the median {kind}{condition}; {clock}"),
            );
            let interval = seconds
                .interval
                .map(|interval| (done / interval.high, done / interval.low));
            let method = format!("from the {kind} time{condition}: {}; {clock}", seconds.method);
            interval.map_or(at_median, |interval| {
                Metric::estimate(name, done / seconds.value, interval, seconds.n, &method)
            })
        }
    };
    metrics.insert(name, metric);
}

/// Returns the times among the `first` in which the clock was not throttled, and a description. If these are too few for an interval, returns
/// all of the `first`.
fn unthrottled_times(
    outcome: &Outcome,
    times: SeriesName,
    marks: SeriesName,
    first: usize,
) -> (Vec<f64>, &'static str) {
    let mut launches = series(outcome, times);
    launches.truncate(first);
    let marks = series(outcome, marks);
    if marks.is_empty() {
        return (launches, "");
    }
    let free = launches.iter().zip(&marks).filter(|(_, mark)| **mark == 0.0);
    let free: Vec<f64> = free.map(|(seconds, _)| *seconds).collect();
    if median(free.iter().copied()).is_some_and(|median| median.interval.is_some()) {
        (free, ", while the clock was not throttled")
    } else {
        (launches, ", while the clock was throttled")
    }
}

const NO_DEVICE_MEMORY: &str = "the CPU backend has no device memory";
const NVML_CUDA_ONLY: &str = "NVML is queried for the cuda backend only";

/// Returns the reason why NVML does not report a quantity, or stopped reporting it.
fn why_missing<'a>(trace: &'a Trace, what: &str) -> Option<&'a str> {
    let mut reasons = trace.missing().iter();
    let reason = reasons.find(|reason| reason.starts_with(what) || reason.starts_with("NVML"));
    reason.map(String::as_str)
}

fn memory(metrics: &mut Metrics, backend: Backend, measured: &Measurements<'_>) {
    let mut bytes = |name, bytes: Option<u64>, method: &str, otherwise: &str| {
        let metric = bytes.map_or_else(
            || Metric::absent(name, otherwise),
            |bytes| Metric::reading(name, bytes as f64, method),
        );
        metrics.insert(name, metric);
    };
    let trace = measured.trace;
    let missing = |what: &str| match backend {
        Backend::Flex => NO_DEVICE_MEMORY,
        Backend::Vulkan => NVML_CUDA_ONLY,
        Backend::Cuda => why_missing(trace, what).unwrap_or("not read"),
    };
    bytes(
        MetricName::HostPeakBytes,
        measured.peaks.host,
        trace.host_peak_method(),
        "the system does not report it",
    );
    bytes(
        MetricName::DevicePeakBytes,
        measured.peaks.device,
        "NVML, sampled",
        missing("device memory"),
    );
    bytes(
        MetricName::ProcessPeakBytes,
        measured.peaks.process,
        "NVML, sampled",
        missing("process memory"),
    );
    let (reserved, in_use) = (
        measured.allocator.map(|a| a.reserved),
        measured.allocator.map(|a| a.in_use),
    );
    let counted = match measured.by_peer {
        true => "allocator, peak since the cell was read",
        false => "allocator, queried after every step and after parts of a step",
    };
    let otherwise = if backend == Backend::Flex {
        NO_DEVICE_MEMORY
    } else {
        "the allocator was not queried"
    };
    bytes(
        MetricName::AllocatorReservedPeakBytes,
        reserved,
        counted,
        otherwise,
    );
    bytes(MetricName::AllocatorInUsePeakBytes, in_use, counted, otherwise);
}

fn energy(metrics: &mut Metrics, backend: Backend, measured: &Measurements<'_>) {
    let mut reading = |name, value: Result<f64, String>, method: &str| {
        let metric = match value {
            Ok(value) => Metric::reading(name, value, method),
            Err(reason) => Metric::absent(name, &reason),
        };
        metrics.insert(name, metric);
    };
    if backend != Backend::Cuda {
        let reason = if backend == Backend::Flex {
            "no power sensor is read on the CPU"
        } else {
            NVML_CUDA_ONLY
        };
        reading(MetricName::EnergyCounterJoules, Err(reason.into()), "");
        reading(MetricName::EnergyIntegralJoules, Err(reason.into()), "");
        reading(MetricName::EnergyAboveIdleJoules, Err(reason.into()), "");
        reading(MetricName::IdleWatts, Err(reason.into()), "");
        return;
    }
    let energy = measured.trace.energy(measured.window.clone());
    let sampled = format!(
        "trapezoid over sampled power, {:.0} % covered",
        100.0 * energy.coverage
    );
    let or_why = |joules: Result<f64, String>, what| {
        joules.map_err(|reason| why_missing(measured.trace, what).map_or(reason, str::to_owned))
    };
    let above = measured.idle_watts.clone().and_then(|watts| {
        let above = energy.clone().above_idle(watts);
        let (joules, by) = match energy.counter_joules {
            Ok(_) => (above.counter_joules?, "counter of the device"),
            Err(_) => (or_why(above.integral_joules, "power")?, sampled.as_str()),
        };
        Ok((joules, format!("{by}, minus {watts:.1} W of the idle device")))
    });
    let method = above.as_ref().map_or(String::new(), |(_, method)| method.clone());
    reading(
        MetricName::EnergyAboveIdleJoules,
        above.map(|(joules, _)| joules),
        &method,
    );
    reading(
        MetricName::IdleWatts,
        measured.idle_watts.clone(),
        "mean of sampled power before the first cell",
    );
    reading(
        MetricName::EnergyCounterJoules,
        or_why(energy.counter_joules, "energy counter"),
        "counter of the device",
    );
    reading(
        MetricName::EnergyIntegralJoules,
        or_why(energy.integral_joules, "power"),
        &sampled,
    );
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Executed, Format, Samples, Series, TaskKind};
    use mantissa_workloads::{Launches, Traffic};

    use super::*;

    fn outcome(measured: TaskMeasurements, series: Vec<Series>) -> Outcome {
        Outcome {
            samples: Samples {
                series,
                test_correct: None,
                ranges: vec![],
                trials: vec![],
            },
            events: vec![],
            diverged: None,
            data: None,
            executed: Executed::unverified(),
            load_seconds: 0.5,
            warmup_seconds: 0.25,
            launches: None,
            measured,
        }
    }

    fn values(name: SeriesName, values: &[f64]) -> Series {
        let mut series = Series::new(name);
        values
            .iter()
            .enumerate()
            .for_each(|(index, value)| series.push(index as f64 + 1.0, *value));
        series
    }

    fn metrics(task: TaskKind, outcome: &Outcome) -> Metrics {
        let trace = Trace::default();
        let measured = Measurements {
            outcome,
            trace: &trace,
            window: 0.0..1.0,
            idle_watts: &Err(String::new()),
            peaks: Peaks::default(),
            allocator: None,
            by_peer: false,
        };
        summarise(&Setting::defaults(task, Backend::Flex), &measured)
    }

    #[test]
    fn launches_are_those_of_a_step_and_the_device_waits_for_the_rest_of_its_time() {
        let observed = |busy_seconds| {
            // The median step takes 2 s.
            let mut trained = trained(&[1.0; 3]);
            trained.launches = Some(Launches {
                count: 101,
                issue_seconds: 0.15,
                busy_seconds,
            });
            metrics(TaskKind::Train, &trained)
        };
        let metrics = observed(Some(0.5));
        assert_eq!(metrics[&MetricName::LaunchesPerStep].value, Some(101.0));
        assert_eq!(metrics[&MetricName::HostSecondsPerLaunch].value, Some(0.0015));
        assert_eq!(metrics[&MetricName::DeviceIdleShare].value, Some(0.75));
        // Timing on the device makes each launch a little longer.
        assert_eq!(observed(Some(2.1))[&MetricName::DeviceIdleShare].value, Some(0.0));
        let unknown = &observed(None)[&MetricName::DeviceIdleShare];
        assert_eq!(unknown.value, None);
        assert_eq!(unknown.method, "the device did not time every launch");
    }

    #[test]
    fn launches_of_texts_are_those_of_a_token() {
        let measured = TaskMeasurements::Generate {
            weights: None,
            texts: 2,
            prompt_tokens: 5,
            decoded: 9,
            windows: vec![],
        };
        let series = vec![
            values(SeriesName::FirstTokenSeconds, &[0.1]),
            values(SeriesName::DecodeSeconds, &[0.9]),
        ];
        let written = Outcome {
            launches: Some(Launches {
                count: 200,
                issue_seconds: 0.5,
                busy_seconds: Some(0.25),
            }),
            ..outcome(measured, series)
        };
        let metrics = metrics(TaskKind::Generate, &written);
        assert_eq!(metrics[&MetricName::LaunchesPerStep].value, Some(20.0));
        assert_eq!(metrics[&MetricName::DeviceIdleShare].value, Some(0.75));
    }

    fn trained(losses: &[f64]) -> Outcome {
        let share = |hits| Share { hits, n: 100 };
        let measured = TaskMeasurements::Train {
            train_seconds: 12.0,
            examples: 80,
            tokens: Some(800),
            words: false,
            stepping_seconds: 10.0,
            train: share(60),
            validation: share(70),
            test: share(80),
            validated_passages: vec![],
            tested_passages: vec![],
            skipped_steps: 0,
            non_finite_steps: 0,
            clipped_steps: None,
            memory: None,
            estimated: Some(MemoryEstimate {
                weights: 40,
                optimizer: 80,
                ..MemoryEstimate::default()
            }),
            windows: vec![],
        };
        outcome(
            measured,
            vec![
                values(SeriesName::StepSeconds, &[1.0, 2.0, 9.0]),
                values(SeriesName::TrainLoss, losses),
            ],
        )
    }

    #[test]
    fn a_training_becomes_times_rates_and_accuracies() {
        let metrics = metrics(TaskKind::Train, &trained(&[0.7, 0.6, 0.5]));
        let value = |name| metrics[&name].value;
        assert_eq!(value(MetricName::TrainSeconds), Some(12.0));
        assert_eq!(value(MetricName::StepSeconds), Some(2.0));
        assert_eq!(value(MetricName::SamplesPerSecond), Some(8.0));
        assert_eq!(value(MetricName::TokensPerSecond), Some(80.0));
        assert_eq!(value(MetricName::TestAccuracy), Some(0.8));
        assert_eq!(metrics[&MetricName::TestAccuracy].n, Some(100));
        assert_eq!(value(MetricName::FinalLoss), Some(0.5));
        assert!(
            !metrics.contains_key(&MetricName::SkippedSteps),
            "32-true does not scale the loss"
        );
    }

    /// Returns an evaluation on so many passages of ten tokens, of which four to six are correct.
    fn evaluated(passages: u64) -> Outcome {
        let share = |hits: u64| Share { hits, n: 10 };
        let tested_passages: Vec<Share> = (0..passages).map(|i| share(4 + i % 3)).collect();
        let passage_losses: Vec<f64> = (0..passages).map(|i| 10.0 + (i % 4) as f64).collect();
        let n = 10 * passages;
        let measured = TaskMeasurements::Evaluate {
            weights: Some(ReadWeights::Here {
                bytes: 1,
                seconds: 1.0,
            }),
            examples: 1,
            full: 0,
            tokens: Some(10),
            loss: passage_losses.iter().sum::<f64>() / n as f64,
            words: true,
            test: Share {
                hits: tested_passages.iter().map(|passage| passage.hits).sum(),
                n,
            },
            agreement: Some(Share { hits: n, n }),
            agreeing_passages: vec![share(10); passages as usize],
            tested_passages,
            passage_losses,
            windows: vec![],
        };
        outcome(measured, vec![])
    }

    #[test]
    fn words_have_an_interval_by_passage_and_perplexity_that_of_its_loss() {
        let metrics = metrics(TaskKind::Evaluate, &evaluated(48));
        let of = |name: MetricName| &metrics[&name];
        let accuracy = of(MetricName::TestAccuracy);
        assert_eq!((accuracy.value, accuracy.n), (Some(0.5), Some(480)));
        assert!(
            accuracy.low < Some(0.5) && accuracy.high > Some(0.5),
            "{accuracy:?}"
        );
        assert!(
            accuracy
                .method
                .contains("cluster bootstrap by passage, 48 passages, taken as independent"),
            "{}",
            accuracy.method
        );
        let (loss, perplexity) = (of(MetricName::TestLoss), of(MetricName::Perplexity));
        assert!(loss.low < loss.value && loss.value < loss.high, "{loss:?}");
        assert_eq!(perplexity.value, loss.value.map(f64::exp));
        assert_eq!(perplexity.low, loss.low.map(f64::exp));
        assert_eq!(perplexity.high, loss.high.map(f64::exp));
        // Every passage agrees with f32, so draws of passages cannot estimate how rare a disagreement is.
        let agreement = of(MetricName::Agreement);
        assert_eq!((agreement.value, agreement.low), (Some(1.0), None));
    }

    #[test]
    fn few_passages_have_no_interval_and_say_so() {
        let metrics = metrics(TaskKind::Evaluate, &evaluated(5));
        for name in [MetricName::TestAccuracy, MetricName::Perplexity] {
            let metric = &metrics[&name];
            assert!(metric.value.is_some() && metric.low.is_none() && metric.n == Some(50));
            assert!(
                metric.method.contains("passages: 5, too few"),
                "{}",
                metric.method
            );
        }
    }

    #[test]
    fn an_estimate_is_told_where_nothing_could_be_measured_and_says_what_it_is() {
        let metrics = metrics(TaskKind::Train, &trained(&[0.7]));
        let weights = &metrics[&MetricName::EstimatedWeightsBytes];
        assert_eq!((weights.value, weights.n), (Some(40.0), None));
        assert!(weights.method.contains("not measured"), "{}", weights.method);
        assert_eq!(metrics[&MetricName::EstimatedOptimizerBytes].value, Some(80.0));
        assert_eq!(metrics[&MetricName::EstimatedWeightCopiesBytes].value, Some(0.0));
        assert_eq!(metrics[&MetricName::WeightsBytes].value, None);
    }

    #[test]
    fn the_final_loss_is_the_mean_of_the_last_tenth_rounded_up() {
        let losses: Vec<f64> = (0..11).map(f64::from).collect();
        let metric = &metrics(TaskKind::Train, &trained(&losses))[&MetricName::FinalLoss];
        assert_eq!((metric.value, metric.n), (Some(9.5), Some(2)));
    }

    #[test]
    fn a_loss_that_is_not_finite_at_the_end_is_absent_and_says_so() {
        let metric = &metrics(TaskKind::Train, &trained(&[0.7, f64::NAN]))[&MetricName::FinalLoss];
        assert_eq!(metric.value, None);
        assert_eq!(metric.method, "the loss is not finite at the end");
    }

    #[test]
    fn beside_its_own_format_nothing_is_said_to_vanish() {
        let of = |format: Format, beside: Format| {
            let range = |class| TensorRange {
                step: 1,
                layer: "a".into(),
                class,
                format,
                beside,
                counts: RangeCounts {
                    elements: 4,
                    underflow: 1,
                    exponents: vec![2],
                    ..RangeCounts::default()
                },
            };
            let mut metrics = Metrics::default();
            ranges(
                &mut metrics,
                &[TensorClass::Gradient, TensorClass::WeightUpdate].map(range),
            );
            [
                MetricName::OverflowShare,
                MetricName::UnderflowShare,
                MetricName::LostUpdateShare,
            ]
            .map(|name| metrics[&name].value)
        };
        assert_eq!(of(Format::F16, Format::F32), [Some(0.0), Some(0.25), Some(0.5)]);
        assert_eq!(of(Format::F32, Format::F32), [Some(0.0), None, None]);
    }

    #[test]
    fn throughput_comes_from_the_median_launch_and_turns_its_interval_round() {
        let measured = TaskMeasurements::Kernel {
            flops: Some(6.0),
            traffic: None,
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: Some(NumericError {
                relative: 1e-3,
                quantisation: 6e-4,
                accumulation: 8e-4,
                rounding: 0.0,
                bias: -1e-5,
                max_ulp: 3.0,
            }),
        };
        let launches = [1.0, 2.0, 3.0, 2.0, 2.0, 1.0, 3.0];
        let metrics = metrics(
            TaskKind::Kernel,
            &outcome(measured, vec![values(SeriesName::LaunchSeconds, &launches)]),
        );
        let rate = &metrics[&MetricName::FlopsPerSecond];
        assert_eq!((rate.value, rate.n), (Some(3.0), Some(7)));
        assert!(rate.low < rate.value && rate.value <= rate.high, "{rate:?}");
        assert_eq!(metrics[&MetricName::RelativeError].value, Some(1e-3));
        assert_eq!(metrics[&MetricName::MaxUlp].value, Some(3.0));
        assert_eq!(metrics[&MetricName::MagnitudeBias].value, Some(-1e-5));
    }

    #[test]
    fn bytes_and_those_of_the_copy_come_from_their_own_times() {
        let measured = TaskMeasurements::Kernel {
            flops: None,
            traffic: Some(Traffic {
                values: 2,
                moved: 12,
                copied: 16,
                clock: "a clock",
                windows: vec![],
            }),
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: None,
        };
        let series = vec![
            values(SeriesName::LaunchSeconds, &[4.0; 7]),
            // The clock was throttled during the slow copies.
            values(
                SeriesName::CopySeconds,
                &[2.0, 2.0, 8.0, 2.0, 2.0, 2.0, 8.0, 8.0, 2.0, 8.0, 8.0],
            ),
            values(
                SeriesName::CopyThrottled,
                &[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0],
            ),
        ];
        let metrics = metrics(TaskKind::Kernel, &outcome(measured, series));
        assert!(!metrics.contains_key(&MetricName::FlopsPerSecond));
        assert_eq!(metrics[&MetricName::ValuesPerSecond].value, Some(0.5));
        assert_eq!(metrics[&MetricName::BytesPerSecond].value, Some(3.0));
        assert_eq!(metrics[&MetricName::CopyBytesPerSecond].value, Some(8.0));
    }

    #[test]
    fn throttled_launches_count_only_where_there_are_no_others() {
        let measured = || TaskMeasurements::Kernel {
            flops: Some(6.0),
            traffic: None,
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: None,
        };
        let rate = |launches: &[f64], marks: &[f64]| {
            let series = vec![
                values(SeriesName::LaunchSeconds, launches),
                values(SeriesName::Throttled, marks),
            ];
            metrics(TaskKind::Kernel, &outcome(measured(), series))[&MetricName::FlopsPerSecond].clone()
        };
        let some = rate(
            &[2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 6.0, 6.0],
            &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0],
        );
        assert_eq!((some.value, some.n), (Some(3.0), Some(6)));
        assert!(some.method.contains("not throttled"), "{}", some.method);
        let all = rate(&[6.0; 8], &[1.0; 8]);
        assert_eq!((all.value, all.n), (Some(1.0), Some(8)));
        assert!(
            all.method.contains("while the clock was throttled"),
            "{}",
            all.method
        );
    }

    #[test]
    fn the_error_of_a_result_that_is_not_finite_is_absent_and_says_so() {
        let measured = TaskMeasurements::Kernel {
            flops: Some(6.0),
            traffic: None,
            cublas: None,
            clock: "a clock",
            windows: vec![],
            error: None,
        };
        let metric = &metrics(TaskKind::Kernel, &outcome(measured, vec![]))[&MetricName::RelativeError];
        assert_eq!(
            (metric.value, metric.method.as_str()),
            (None, "the result is not finite")
        );
    }

    #[test]
    fn what_the_cpu_does_not_have_is_absent_with_a_reason() {
        let metrics = metrics(TaskKind::Train, &trained(&[0.7]));
        assert_eq!(metrics[&MetricName::DevicePeakBytes].value, None);
        assert_eq!(metrics[&MetricName::DevicePeakBytes].method, NO_DEVICE_MEMORY);
        assert_eq!(metrics[&MetricName::EnergyCounterJoules].value, None);
    }
}
