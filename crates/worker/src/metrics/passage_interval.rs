//! Confidence intervals of text metrics, from a bootstrap that resamples passages.

use mantissa_analysis::{Cluster, Interval, MIN_CLUSTERS, cluster_interval};
use mantissa_core::{Metric, MetricName};
use mantissa_workloads::Share;

/// Seed of the passage bootstrap. All settings and metrics resample the same passages.
const PASSAGE_SEED: u64 = 0;

/// Returns a metric for a share of tokens. Tokens of a passage depend on each other, so the interval resamples passages and not tokens.
pub(super) fn token_share(name: MetricName, share: &Share, passages: &[Share]) -> Metric {
    let (interval, how) = match passages {
        [] => (None, "no interval, because they are not independent".to_owned()),
        // If all tokens are correct, or all are wrong, every resample has the same share, so there would not be an interval.
        _ if share.hits == 0 || share.hits == share.n => {
            (None, "no interval, because all passages are equal".to_owned())
        }
        _ => passage_interval(passages.iter().map(|passage| (passage.hits as f64, passage.n))),
    };
    let method = format!("share of the tokens; {how}");
    with_interval(name, (share.rate(), interval), share.n, &method)
}

/// Returns the interval of a ratio of sums over passages, and a description. The interval ignores that passages of the same document are
/// dependent.
pub(super) fn passage_interval(passages: impl Iterator<Item = (f64, u64)>) -> (Option<Interval>, String) {
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
pub(super) fn with_interval(
    name: MetricName,
    (value, interval): (f64, Option<Interval>),
    n: u64,
    method: &str,
) -> Metric {
    match interval {
        Some(ends) => Metric::estimate(name, value, (ends.low, ends.high), n, method),
        None => Metric {
            n: Some(n),
            ..Metric::reading(name, value, method)
        },
    }
}
