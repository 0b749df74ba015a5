//! Test helpers: outcomes of workloads and their metrics.

use mantissa_core::{Backend, Executed, Samples, Series, SeriesName, Setting, TaskKind};
use mantissa_telemetry::{Peaks, Trace};
use mantissa_workloads::{MemoryEstimate, Outcome, Share, TaskMeasurements};

use super::{Measurements, metric_map::Metrics, summarise};

/// Returns an outcome with these measurements and series.
pub(super) fn outcome(measured: TaskMeasurements, series: Vec<Series>) -> Outcome {
    Outcome {
        samples: Samples {
            series,
            test_correct: None,
            ranges: vec![],
            trials: vec![],
            staleness: vec![],
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

/// Returns a series with these values.
pub(super) fn values(name: SeriesName, values: &[f64]) -> Series {
    let mut series = Series::new(name);
    values
        .iter()
        .enumerate()
        .for_each(|(index, value)| series.push(index as f64 + 1.0, *value));
    series
}

/// Returns the metrics of an outcome on the CPU.
pub(super) fn metrics(task: TaskKind, outcome: &Outcome) -> Metrics {
    metrics_with(&Setting::defaults(task, Backend::Flex), outcome)
}

/// Returns the metrics of an outcome under a setting.
pub(super) fn metrics_with(setting: &Setting, outcome: &Outcome) -> Metrics {
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
    summarise(setting, &measured)
}

/// Returns the outcome of a training with these losses and a median step time of 2 s.
pub(super) fn training_outcome(losses: &[f64]) -> Outcome {
    let share = |hits| Share { hits, n: 100 };
    let measured = TaskMeasurements::Train {
        train_seconds: 12.0,
        examples: 80,
        tokens: Some(800),
        predicts_tokens: false,
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
        communication: None,
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
