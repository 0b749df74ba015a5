//! Metrics of an evaluation.

use mantissa_analysis::{Interval, wilson};
use mantissa_core::{Metric, MetricName, SeriesName};
use mantissa_workloads::{Outcome, Share, TaskMeasurements};

use super::{
    checkpoint::checkpoint_cost,
    metric_map::Metrics,
    passage_interval::{passage_interval, token_share, with_interval},
    samples::unthrottled_times,
    throughput::rate,
};

/// Adds the metrics of an evaluation.
pub(super) fn evaluate(metrics: &mut Metrics, outcome: &Outcome) {
    let TaskMeasurements::Evaluate {
        weights,
        examples,
        full_batches,
        tokens,
        loss,
        predicts_tokens,
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
        *full_batches as usize,
    );
    let mut insert_rate = |name, count: u64| {
        rate(
            metrics,
            name,
            count as f64,
            batches.clone(),
            ("micro-batch", condition),
            "wall clock",
        )
    };
    insert_rate(MetricName::SamplesPerSecond, *examples);
    if let Some(tokens) = tokens {
        insert_rate(MetricName::TokensPerSecond, *tokens);
    }
    let random = "the weights are random";
    let mut insert_share = |name, share: &Share, passages: &[Share]| {
        let metric = match weights {
            Some(_) if *predicts_tokens => token_share(name, share, passages),
            Some(_) => wilson(share.hits, share.n)
                .map_or_else(|| Metric::absent(name, "no examples"), |share| share.metric(name)),
            None => Metric::absent(name, random),
        };
        metrics.insert(name, metric);
    };
    insert_share(MetricName::TestAccuracy, test, tested_passages);
    if let Some(agreement) = agreement {
        insert_share(MetricName::Agreement, agreement, agreeing_passages);
    }
    let mut insert_loss = |name, value, interval, method: &str| {
        let metric = match weights {
            Some(_) => with_interval(name, (value, interval), test.n, method),
            None => Metric::absent(name, random),
        };
        metrics.insert(name, metric);
    };
    if *predicts_tokens {
        let tokens = tested_passages.iter().map(|passage| passage.n);
        let (interval, how) = passage_interval(passage_losses.iter().copied().zip(tokens));
        let mean = format!("mean over the tokens; {how}");
        insert_loss(MetricName::TestLoss, *loss, interval, &mean);
        let perplexity = interval.map(|ends| Interval {
            low: ends.low.exp(),
            high: ends.high.exp(),
        });
        let method = format!("exponential of the {mean}");
        insert_loss(MetricName::Perplexity, loss.exp(), perplexity, &method);
    } else {
        insert_loss(MetricName::TestLoss, *loss, None, "mean over the test examples");
    }
    checkpoint_cost(metrics, weights.as_ref());
}

#[cfg(test)]
mod tests {
    use mantissa_core::TaskKind;
    use mantissa_workloads::ReadWeights;

    use super::*;
    use crate::metrics::testing::{metrics, outcome};

    /// Returns the outcome of an evaluation on passages of ten tokens each, of which four to six are predicted correctly.
    fn evaluation_outcome(passages: u64) -> Outcome {
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
            full_batches: 0,
            tokens: Some(10),
            loss: passage_losses.iter().sum::<f64>() / n as f64,
            predicts_tokens: true,
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
    fn token_metrics_have_intervals_by_passage() {
        let metrics = metrics(TaskKind::Evaluate, &evaluation_outcome(48));
        let metric = |name: MetricName| &metrics[&name];
        let accuracy = metric(MetricName::TestAccuracy);
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
        let (loss, perplexity) = (metric(MetricName::TestLoss), metric(MetricName::Perplexity));
        assert!(loss.low < loss.value && loss.value < loss.high, "{loss:?}");
        assert_eq!(perplexity.value, loss.value.map(f64::exp));
        assert_eq!(perplexity.low, loss.low.map(f64::exp));
        assert_eq!(perplexity.high, loss.high.map(f64::exp));
        // Every passage agrees with f32, so resampling passages cannot estimate the rate of disagreements.
        let agreement = metric(MetricName::Agreement);
        assert_eq!((agreement.value, agreement.low), (Some(1.0), None));
    }

    #[test]
    fn few_passages_yield_no_interval() {
        let metrics = metrics(TaskKind::Evaluate, &evaluation_outcome(5));
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
}
