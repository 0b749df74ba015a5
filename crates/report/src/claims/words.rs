//! Claims and what was found of them, in words.

use std::collections::BTreeMap;

use mantissa_analysis::{Evidence, Finding, Tested};
use mantissa_core::{Axis, AxisValue, Bounds, Claim, Claimed, Comparison, MetricName, Profile, Unit};

use crate::{Run, banner::this_machine, units};

/// Where and how the claims of a run were tested.
pub(crate) fn heading(run: &Run) -> String {
    let sizes = match run.plan.profile {
        Profile::Full => String::new(),
        profile => format!(", in the sizes of profile {profile}, which are not the articles'"),
    };
    format!(
        "On {}{sizes}. Confirmed: the whole 95 % interval lies within what is claimed; refuted: wholly beyond; inconclusive: \
         neither, or there is no interval. Where a claim has several pairs of settings, which differ in nothing but what it \
         names, they are one family of tests (Holm's correction).",
        this_machine(run)
    )
}

/// What a claim was tested as: `peak memory of bf16-mixed over that of 32-true: below 0.60×`.
pub(crate) fn tested_as(claim: &Claim) -> String {
    let of = setting(&claim.of);
    match &claim.claimed {
        Claimed::Status(statuses) => {
            let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
            format!("{of} ends as {}", names.join(" or "))
        }
        Claimed::Ratio(comparison) => format!(
            "{} of {of} over that of {}: {}",
            quantity(comparison),
            setting(&comparison.against),
            bounds(comparison.within, &|bound| units::times(bound))
        ),
        Claimed::Difference(comparison) => format!(
            "{} of {of} less that of {}: {}",
            quantity(comparison),
            setting(&comparison.against),
            bounds(comparison.within, &|bound| difference(first(comparison), bound))
        ),
    }
}

fn first(comparison: &Comparison) -> MetricName {
    let first = comparison.metrics.first().copied();
    first.unwrap_or(MetricName::TestAccuracy)
}

fn quantity(comparison: &Comparison) -> String {
    match comparison.metrics.as_slice() {
        [metric] => metric.name().replace('_', " "),
        _ => "peak memory".to_owned(),
    }
}

fn setting(values: &BTreeMap<Axis, AxisValue>) -> String {
    let word = |(axis, value): (&Axis, &AxisValue)| match axis {
        Axis::Precision | Axis::Optimizer | Axis::Backend | Axis::Gelu => value.to_string(),
        axis => format!("{} {value}", axis.name().replace('_', " ")),
    };
    values.iter().map(word).collect::<Vec<_>>().join(" · ")
}

fn bounds(within: Bounds, text: &dyn Fn(f64) -> String) -> String {
    let above = within.above.map(|bound| format!("above {}", text(bound)));
    let below = within.below.map(|bound| format!("below {}", text(bound)));
    above.into_iter().chain(below).collect::<Vec<_>>().join(" and ")
}

/// `+1.20 points`, `−0.0312`; zero is `0`.
fn difference(metric: MetricName, value: f64) -> String {
    signed(metric, value) + unit(metric)
}

fn signed(metric: MetricName, value: f64) -> String {
    let sign = match value {
        0.0 => return "0".to_owned(),
        value if value < 0.0 => "−",
        _ => "+",
    };
    match unit(metric) {
        "" => format!("{sign}{:.4}", value.abs()),
        _ => format!("{sign}{:.2}", 100.0 * value.abs()),
    }
}

fn unit(metric: MetricName) -> &'static str {
    match (metric.unit(), metric) {
        (_, MetricName::Perplexity) | (Unit::Nats, _) => "",
        _ => " points",
    }
}

/// What a pair shows: the number with its interval, what it rests on, and why it does not decide if it does not.
pub(crate) fn evidence(pair: &Evidence, metric: MetricName, tested: &Tested, family: usize) -> String {
    let shown = |value: f64| match metric.is_learned() {
        true => signed(metric, value),
        false => units::times(value),
    };
    let unit = if metric.is_learned() { unit(metric) } else { "" };
    let Some(estimate) = &tested.estimate else {
        return "no ratio: a value is 0, negative or absent".to_owned();
    };
    let interval = estimate
        .interval
        .map(|interval| format!(" ({} to {})", shown(interval.low), shown(interval.high)));
    let basis = basis(pair, estimate.interval.is_some());
    let doubt = match tested.finding {
        Finding::Inconclusive if tested.withheld => {
            format!("; not beyond chance among {family} pairs")
        }
        _ => String::new(),
    };
    format!(
        "{}{}{unit}, {basis}{doubt}",
        shown(estimate.value),
        interval.unwrap_or_default()
    )
}

/// What an estimate rests on.
fn basis(pair: &Evidence, has_interval: bool) -> String {
    /// The smallest samples that Mann and Whitney's test can tell apart, both of a size.
    const ENOUGH_PROCESSES: usize = 4;
    /// The fewest pairs that Wilcoxon's signed-rank test can tell apart.
    const ENOUGH_SEEDS: usize = 6;
    let few = |what: &str, enough: usize| match has_interval {
        true => String::new(),
        false => format!(": no interval below {enough} {what}"),
    };
    match pair {
        Evidence::Counted(_) => "counted, which takes one process".to_owned(),
        Evidence::Examples { examples, .. } => {
            format!("{} examples, one by one (McNemar)", units::count(*examples))
        }
        Evidence::Processes(of, against) => {
            let count = match of.len() == against.len() {
                true => format!("{} each", plural(of.len(), "process", "processes")),
                false => format!("{} and {} processes", of.len(), against.len()),
            };
            count + &few("each", ENOUGH_PROCESSES)
        }
        Evidence::Size(_) => {
            "the same weights on the same data; how sure that is has not been estimated".to_owned()
        }
        Evidence::Seeds(of, _) => plural(of.len(), "seed", "seeds") + &few("seeds", ENOUGH_SEEDS),
    }
}

fn plural(count: usize, one: &str, several: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {several}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_a_sign_and_shares_are_points() {
        assert_eq!(difference(MetricName::TestAccuracy, 0.0123), "+1.23 points");
        assert_eq!(difference(MetricName::Perplexity, -0.03), "−0.0300");
        assert_eq!(difference(MetricName::TestAccuracy, 0.0), "0 points");
    }
}
