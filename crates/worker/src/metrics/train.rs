//! Metrics of a training.

use mantissa_analysis::{median, wilson};
use mantissa_core::{Metric, MetricName, SeriesName, Setting};
use mantissa_workloads::{Communication, Outcome, Share, TaskMeasurements};

use super::{
    memory_breakdown::{memory_estimates, memory_parts},
    metric_map::{Metrics, insert_estimate, insert_reading},
    passage_interval::token_share,
    samples::series,
    tensor_ranges::tensor_ranges,
};

/// The final loss is averaged over the last `1 / FINAL_FRACTION` of the steps.
const FINAL_FRACTION: usize = 10;

/// Adds the metrics of a training.
pub(super) fn train(metrics: &mut Metrics, setting: &Setting, outcome: &Outcome) {
    let TaskMeasurements::Train {
        train_seconds,
        examples,
        tokens,
        predicts_tokens,
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
        communication,
        estimated,
        ..
    } = &outcome.measured
    else {
        return;
    };
    insert_reading(
        metrics,
        MetricName::TrainSeconds,
        *train_seconds,
        "wall clock, validation included",
    );
    if setting.is_asynchronous() {
        // Gradients of several workers can arrive at the same time, so the median time between two steps can be far below the mean.
        let steps = series(outcome, SeriesName::StepSeconds).len();
        let mean = stepping_seconds / steps as f64;
        insert_reading(
            metrics,
            MetricName::StepSeconds,
            mean,
            "mean over the optimizer steps",
        );
    } else {
        let steps = median(series(outcome, SeriesName::StepSeconds));
        insert_estimate(metrics, MetricName::StepSeconds, steps, "no steps");
    }
    let mut rate = |name, count: u64| {
        insert_reading(
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
    let mut insert_accuracy = |name, share: &Share, passages: &[Share]| match predicts_tokens {
        true => drop(metrics.insert(name, token_share(name, share, passages))),
        false => insert_estimate(metrics, name, wilson(share.hits, share.n), "no examples"),
    };
    insert_accuracy(MetricName::TrainAccuracy, train, &[]);
    insert_accuracy(MetricName::ValidationAccuracy, validation, validated_passages);
    insert_accuracy(MetricName::TestAccuracy, test, tested_passages);
    metrics.insert(MetricName::FinalLoss, final_loss(outcome));
    if setting.precision().scales_loss() {
        insert_reading(metrics, MetricName::SkippedSteps, *skipped_steps as f64, "count");
    }
    insert_reading(
        metrics,
        MetricName::NonFiniteSteps,
        *non_finite_steps as f64,
        "count",
    );
    if let Some(clipped) = clipped_steps {
        insert_reading(metrics, MetricName::ClippedSteps, *clipped as f64, "count");
    }
    if let Some(communication) = communication {
        insert_communication(metrics, communication, *stepping_seconds);
    }
    insert_staleness(metrics, &outcome.samples.staleness);
    memory_parts(metrics, memory.as_ref());
    memory_estimates(metrics, estimated.as_ref());
    tensor_ranges(metrics, &outcome.samples.ranges);
}

/// Adds the metrics of the communication with other devices.
fn insert_communication(metrics: &mut Metrics, communication: &Communication, stepping_seconds: f64) {
    let per_step = |total: f64| total / communication.reductions as f64;
    let mut insert = |name, value, method: &str| insert_reading(metrics, name, value, method);
    let method = "mean over the optimizer steps";
    insert(
        MetricName::CommunicationSeconds,
        per_step(communication.seconds),
        method,
    );
    insert(
        MetricName::CommunicationShare,
        communication.seconds / communication.worker_seconds.unwrap_or(stepping_seconds),
        method,
    );
    if let Some(traffic) = communication.traffic {
        insert(MetricName::BytesSent, per_step(traffic.bytes as f64), method);
        insert(MetricName::Messages, per_step(traffic.messages as f64), method);
    }
    if let Some(accuracy) = communication.accuracy {
        let method = format!("of {} reductions", accuracy.repeats);
        insert(MetricName::EqualReductions, accuracy.equal.into(), &method);
        let name = MetricName::GradientError;
        match accuracy.relative_error.is_finite() {
            true => insert(name, accuracy.relative_error, "first step, against float64"),
            false => drop(metrics.insert(name, Metric::absent(name, "a sum is not finite"))),
        }
    }
}

/// Adds the mean staleness of the gradients that an asynchronous parameter server applied.
fn insert_staleness(metrics: &mut Metrics, histogram: &[u64]) {
    let gradients: u64 = histogram.iter().sum();
    if gradients > 0 {
        let steps = (0..)
            .zip(histogram)
            .map(|(staleness, count): (u64, _)| staleness * count);
        let mean = steps.sum::<u64>() as f64 / gradients as f64;
        let method = format!("mean over {gradients} gradients");
        insert_reading(metrics, MetricName::MeanStaleness, mean, &method);
    }
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
    let last = &losses[losses.len() - losses.len().div_ceil(FINAL_FRACTION)..];
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

#[cfg(test)]
mod tests {
    use mantissa_collectives::Traffic;
    use mantissa_core::{Axis, Backend, TaskKind};
    use mantissa_workloads::ReductionAccuracy;

    use super::*;
    use crate::metrics::testing::{metrics, metrics_with, training_outcome};

    #[test]
    fn training_metrics_are_times_rates_and_accuracies() {
        let metrics = metrics(TaskKind::Train, &training_outcome(&[0.7, 0.6, 0.5]));
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

    #[test]
    fn communication_is_recorded_per_optimizer_step() {
        let with_error = |relative_error| {
            let mut outcome = training_outcome(&[0.7, 0.6]);
            let TaskMeasurements::Train { communication, .. } = &mut outcome.measured else {
                unreachable!("`training_outcome` is a training")
            };
            *communication = Some(Communication {
                seconds: 2.5,
                worker_seconds: None,
                reductions: 5,
                traffic: Some(Traffic {
                    messages: 10,
                    bytes: 2000,
                }),
                accuracy: Some(ReductionAccuracy {
                    relative_error,
                    equal: 29,
                    repeats: 30,
                }),
            });
            metrics(TaskKind::Train, &outcome)
        };
        let finite = with_error(1e-3);
        let value = |name| finite[&name].value;
        assert_eq!(value(MetricName::CommunicationSeconds), Some(0.5));
        // The steps took 10 s.
        assert_eq!(value(MetricName::CommunicationShare), Some(0.25));
        assert_eq!(value(MetricName::BytesSent), Some(400.0));
        assert_eq!(value(MetricName::Messages), Some(2.0));
        assert_eq!(value(MetricName::EqualReductions), Some(29.0));
        assert_eq!(value(MetricName::GradientError), Some(1e-3));
        let overflowed = &with_error(f64::INFINITY)[&MetricName::GradientError];
        assert_eq!(
            (overflowed.value, overflowed.method.as_str()),
            (None, "a sum is not finite")
        );
    }

    #[test]
    fn an_asynchronous_server_has_mean_times_and_the_communication_of_its_workers() {
        let mut setting = Setting::defaults(TaskKind::Train, Backend::Flex);
        for (axis, value) in [(Axis::Devices, "3"), (Axis::Reduce, "parameter-server-async")] {
            setting.set(axis, axis.parse(value).unwrap()).unwrap();
        }
        let mut outcome = training_outcome(&[0.7, 0.6, 0.5]);
        outcome.samples.staleness = vec![1, 0, 2];
        let TaskMeasurements::Train { communication, .. } = &mut outcome.measured else {
            unreachable!("`training_outcome` is a training")
        };
        *communication = Some(Communication {
            seconds: 3.0,
            worker_seconds: Some(12.0),
            reductions: 3,
            traffic: None,
            accuracy: None,
        });
        let metrics = metrics_with(&setting, &outcome);
        let value = |name| metrics[&name].value;
        // Three steps in 10 s, although two of them took 1 s and 2 s.
        assert_eq!(value(MetricName::StepSeconds), Some(10.0 / 3.0));
        assert_eq!(value(MetricName::CommunicationSeconds), Some(1.0));
        assert_eq!(value(MetricName::CommunicationShare), Some(0.25));
        assert_eq!(value(MetricName::MeanStaleness), Some(4.0 / 3.0));
    }

    #[test]
    fn final_loss_is_the_mean_of_the_last_tenth_of_the_steps() {
        let losses: Vec<f64> = (0..11).map(f64::from).collect();
        let metric = &metrics(TaskKind::Train, &training_outcome(&losses))[&MetricName::FinalLoss];
        assert_eq!((metric.value, metric.n), (Some(9.5), Some(2)));
    }

    #[test]
    fn a_nonfinite_final_loss_is_absent_with_a_reason() {
        let metric = &metrics(TaskKind::Train, &training_outcome(&[0.7, f64::NAN]))[&MetricName::FinalLoss];
        assert_eq!(metric.value, None);
        assert_eq!(metric.method, "the loss is not finite at the end");
    }
}
