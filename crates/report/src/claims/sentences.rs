//! Formats claims and findings.

use std::collections::BTreeMap;

use mantissa_analysis::{Estimate, Evidence, Finding, MIN_SEEDS, Tested, endings_missing};
use mantissa_core::{Axis, AxisValue, Bounds, Claim, Claimed, Comparison, MetricName, Profile, Unit};

use crate::{Run, banner::this_machine, claims::endings::Endings, units};

/// Describes the machine, the sizes and the tests of a run's claims.
pub(crate) fn note(run: &Run) -> String {
    let sizes = match run.plan.profile {
        Profile::Full => String::new(),
        profile => format!(", with the sizes of profile {profile}, which differ from those of the articles"),
    };
    format!(
        "On {}{sizes}. Confirmed: the whole 95 % interval lies within the claimed range. Refuted: the whole interval lies outside. \
         Inconclusive: neither, or there is no interval. The pairs of settings of a claim differ only in the axes that the claim \
         names; they are one family of tests (Holm's correction). A claim about how a setting ends concerns most of its trainings: \
         confirmed if the exact interval of their share lies above one half, refuted if it lies below.",
        this_machine(run)
    )
}

/// Formats the tested statement: `peak memory of bf16-mixed relative to 32-true: below 0.60×`.
pub(crate) fn tested_as(claim: &Claim) -> String {
    let of = setting(&claim.of);
    match &claim.claimed {
        Claimed::Status(statuses) => {
            let names: Vec<&str> = statuses.iter().map(|status| status.name()).collect();
            format!("{of} mostly ends as {}", names.join(" or "))
        }
        Claimed::Ratio(comparison) => format!(
            "{} of {of} relative to {}: {}",
            quantity(comparison),
            setting(&comparison.against),
            bounds(comparison.within, &|bound| units::times(bound))
        ),
        Claimed::Difference(comparison) => format!(
            "{} of {of} minus that of {}: {}",
            quantity(comparison),
            setting(&comparison.against),
            bounds(comparison.within, &|bound| difference(
                first_metric(comparison),
                bound
            ))
        ),
    }
}

fn first_metric(comparison: &Comparison) -> MetricName {
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
    let part = |(axis, value): (&Axis, &AxisValue)| match axis {
        Axis::Precision | Axis::Optimizer | Axis::Backend | Axis::Gelu => value.to_string(),
        axis => format!("{} {value}", axis.name().replace('_', " ")),
    };
    values.iter().map(part).collect::<Vec<_>>().join(" · ")
}

fn bounds(within: Bounds, text: &dyn Fn(f64) -> String) -> String {
    let above = within.above.map(|bound| format!("above {}", text(bound)));
    let below = within.below.map(|bound| format!("below {}", text(bound)));
    above.into_iter().chain(below).collect::<Vec<_>>().join(" and ")
}

/// Formats a difference with its sign and unit: `+1.20 points`, `−0.0312`, `0 points`.
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

/// Formats the evidence of a pair: the estimate with its interval, its basis, and the reason if it is inconclusive.
pub(crate) fn evidence(pair: &Evidence, metric: MetricName, tested: &Tested, family: usize) -> String {
    let shown = |value: f64| match metric.is_learned() {
        true => signed(metric, value),
        false => units::times(value),
    };
    let unit = if metric.is_learned() { unit(metric) } else { "" };
    let Some(estimate) = &tested.estimate else {
        return match metric.is_learned() {
            true => "no difference: a value is missing".to_owned(),
            false => "no ratio: a value is 0, negative or missing".to_owned(),
        };
    };
    let interval = estimate
        .interval
        .map(|interval| format!(" ({} to {})", shown(interval.low), shown(interval.high)));
    let basis = basis(pair, estimate.interval.is_some());
    let doubt = match tested.finding {
        Finding::Inconclusive if tested.withheld => {
            format!("; not significant among {family} pairs")
        }
        _ => String::new(),
    };
    format!(
        "{}{}{unit}, {basis}{doubt}",
        shown(estimate.value),
        interval.unwrap_or_default()
    )
}

/// Describes the data behind an estimate.
fn basis(pair: &Evidence, has_interval: bool) -> String {
    let unless = |text: String| if has_interval { String::new() } else { text };
    match pair {
        Evidence::Counted(_) => "counted exactly, so one process is enough".to_owned(),
        Evidence::Examples { examples, .. } => {
            format!("{} examples, compared one by one", units::count(*examples))
        }
        Evidence::Processes(seeds) => {
            let (of, against): (usize, usize) = (
                seeds.iter().map(|seed| seed.0.len()).sum(),
                seeds.iter().map(|seed| seed.1.len()).sum(),
            );
            let count = match of == against {
                true => format!("{} each", plural(of, "process", "processes")),
                false => format!("{of} and {against} processes"),
            };
            match seeds.len() {
                1 => count + &unless("; too few for an interval".to_owned()),
                seeds => format!(
                    "{count}, spread over {seeds} seeds and compared within each seed{}",
                    unless("; too few for an interval".to_owned())
                ),
            }
        }
        Evidence::Given(estimate) if has_interval => {
            format!("same weights and data, from the {}", estimate.method)
        }
        Evidence::Given(_) => "same weights and data; the uncertainty was not estimated".to_owned(),
        Evidence::Seeds {
            differences,
            same_examples,
        } => over_seeds(differences.len(), has_interval, *same_examples),
        Evidence::Ends { .. } => String::new(),
    }
}

fn over_seeds(seeds: usize, has_interval: bool, same_examples: bool) -> String {
    let basis = match (seeds, has_interval) {
        (MIN_SEEDS.., true) if same_examples => " on the same test examples".to_owned(),
        (MIN_SEEDS.., true) => String::new(),
        (MIN_SEEDS.., false) => "; the uncertainty from the test examples was not estimated".to_owned(),
        (1, true) => {
            format!(", so the interval covers its test examples only; a verdict needs {MIN_SEEDS} seeds")
        }
        _ => format!("; a verdict needs {MIN_SEEDS} seeds"),
    };
    plural(seeds, "seed", "seeds") + &basis
}

/// Formats the statuses of the cells of a setting, and the number of cells needed for a verdict.
pub(crate) fn endings(endings: &Endings, tested: &Tested, family: usize) -> String {
    let Endings {
        of_seeds,
        as_claimed,
        otherwise,
        torn,
        statuses,
    } = endings;
    let units = |count: u64| units_of(count, *of_seeds);
    let all = as_claimed + otherwise + torn;
    let processes: usize = statuses.iter().map(|(_, count)| count).sum();
    let of_all = plural(processes, "process", "processes");
    let counts = statuses
        .iter()
        .map(|(status, count)| format!("{status} in {count} of {of_all}"));
    let ends = tested.estimate.as_ref().and_then(|estimate| estimate.interval);
    let share = ends.map(|ends| {
        let (low, high) = (100.0 * ends.low, 100.0 * ends.high);
        format!(
            "; as claimed in {as_claimed} of {} (interval of the share: {low:.0} to {high:.0} %)",
            units(all)
        )
    });
    let missing = endings_missing(*as_claimed, *otherwise, *torn);
    let doubt = match tested.finding {
        Finding::Inconclusive if missing > 0 => {
            format!(
                "; a verdict needs {} if the additional ones end like the majority",
                units(all + missing)
            )
        }
        Finding::Inconclusive => format!("; not significant among {family} settings"),
        _ => String::new(),
    };
    format!(
        "ended as {}{}{doubt}",
        counts.collect::<Vec<_>>().join(", "),
        share.unwrap_or_default()
    )
}

/// Returns the name of the test behind a verdict.
pub(crate) fn test(evidence: &Evidence, within: Bounds, of_seeds: bool) -> String {
    match evidence {
        Evidence::Counted(_) => "exact count, no test".to_owned(),
        Evidence::Processes(seeds) if seeds.len() > 1 => "Mann–Whitney within seeds".to_owned(),
        Evidence::Processes(_) => "Mann–Whitney".to_owned(),
        Evidence::Examples { .. } if within.ends().all(|bound| bound == 0.0) => "exact McNemar".to_owned(),
        Evidence::Examples { .. } => "paired shares (Bonett–Price)".to_owned(),
        Evidence::Given(Estimate { interval: None, .. }) => "no test, no interval".to_owned(),
        Evidence::Given(estimate) => estimate.method.to_owned(),
        Evidence::Seeds { differences, .. } => {
            format!("signed ranks over {}", plural(differences.len(), "seed", "seeds"))
        }
        Evidence::Ends {
            as_claimed,
            otherwise,
            torn,
        } => format!(
            "exact binomial over {}",
            units_of(as_claimed + otherwise + torn, of_seeds)
        ),
    }
}

/// Formats a number of seeds or processes.
fn units_of(count: u64, of_seeds: bool) -> String {
    match of_seeds {
        true => plural(count as usize, "seed", "seeds"),
        false => plural(count as usize, "process", "processes"),
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
