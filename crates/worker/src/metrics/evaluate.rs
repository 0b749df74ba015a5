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
            Some(_) if *words => token_share(name, share, passages),
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
            Some(_) => with_interval(name, (value, interval), test.n, method),
            None => Metric::absent(name, random),
        };
        metrics.insert(name, metric);
    };
    if *words {
        let tokens = tested_passages.iter().map(|passage| passage.n);
        let (interval, how) = passage_interval(passage_losses.iter().copied().zip(tokens));
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
    checkpoint_cost(metrics, weights.as_ref());
}

#[cfg(test)]
mod tests {
    use mantissa_core::TaskKind;
    use mantissa_workloads::ReadWeights;

    use super::*;
    use crate::metrics::testing::{metrics, outcome};

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
}
