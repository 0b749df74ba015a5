//! Rate of work, computed from the median time.

use mantissa_analysis::median;
use mantissa_core::{Metric, MetricName};

use super::metric_map::Metrics;

/// Adds a rate: `done` divided by the median time. The description consists of `kind`, `condition` and `clock`.
pub(super) fn rate(
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
