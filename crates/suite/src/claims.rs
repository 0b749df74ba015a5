//! `[[claim]]`: published statements that the cells of a suite can test.

use std::collections::BTreeMap;

use mantissa_core::{
    Axis, AxisValue, Bounds, Claim, ClaimSource, Claimed, Comparison, MetricName, Status, TaskKind, Workload,
    nearest,
};

use crate::{
    axes,
    keys::{Key, by_difference, by_ratio, by_status, claim, compared, difference, ratio, source, suite},
    section::Section,
};

/// Name in suites for the group of metrics [`MetricName::PEAK_MEMORY`].
const PEAK_MEMORY: &str = "peak_memory";

/// Keys of the three kinds of claims.
const CLAIM_KINDS: [&Key; 3] = [&by_ratio::RATIO, &by_difference::DIFFERENCE, &by_status::STATUS];

/// Reads all claims of a suite. An invalid claim is reported and skipped.
pub(crate) fn read(root: &Section<'_>, workloads: &[Workload], tasks: &[TaskKind]) -> Vec<Claim> {
    let tables = root.tables(&suite::CLAIM, "`[[claim]]`");
    let read: Vec<_> = tables
        .iter()
        .map(|section| read_claim(section, workloads, tasks))
        .collect();
    read.into_iter().flatten().collect()
}

fn read_claim(section: &Section<'_>, workloads: &[Workload], tasks: &[TaskKind]) -> Option<Claim> {
    let says = section.text(&claim::SAYS);
    let source = section
        .table(&claim::SOURCE, "`source`")
        .and_then(|table| read_source(&table));
    let workload = section.text(&claim::WORKLOAD);
    if let Some(given) = &workload {
        check_workload(section, given, workloads);
    }
    let of = read_setting(section, &claim::OF, tasks);
    let claimed = read_claimed(section, of.as_ref(), tasks);
    Some(Claim {
        says: says?,
        source: source?,
        workload,
        of: of?,
        claimed: claimed?,
    })
}

fn read_source(table: &Section<'_>) -> Option<ClaimSource> {
    table.reject_unknown_keys(&[source::KEYS]);
    let (title, url) = (table.text(&source::TITLE), table.text(&source::URL));
    let hardware = table.text(&source::HARDWARE);
    if let Some(given) = url
        .as_ref()
        .filter(|url| !url.starts_with("https://") && !url.starts_with("http://"))
    {
        table.report_at(
            &source::URL,
            format_args!(
                "`url` takes a link, not `{given}`\n  hint: a link begins with `https://` or `http://`"
            ),
        );
    }
    Some(ClaimSource {
        title: title?,
        url: url?,
        hardware,
    })
}

fn check_workload(section: &Section<'_>, given: &str, workloads: &[Workload]) {
    let names = || workloads.iter().map(|workload| workload.name.as_str());
    if workloads.is_empty() || names().any(|name| name == given) {
        return;
    }
    let valid = format!("valid: `{}`", names().collect::<Vec<_>>().join("`, `"));
    let hint = match nearest(given, names()) {
        Some(name) => format!("did you mean `{name}`? {valid}"),
        None => valid,
    };
    section.report_at(
        &claim::WORKLOAD,
        format_args!("unknown workload `{given}`\n  hint: {hint}"),
    );
}

/// Reads the axis values of a setting; there must be at least one.
fn read_setting(section: &Section<'_>, key: &Key, tasks: &[TaskKind]) -> Option<BTreeMap<Axis, AxisValue>> {
    let table = section.table(key, format!("`{}`", key.name))?;
    axes::check_applicable(&table, tasks);
    let mut values = BTreeMap::new();
    for (name, span, node) in table.entries() {
        match table.parse_name::<Axis>(&span, name) {
            Some(Axis::Seed) => section.sink.error(
                &span,
                "a claim cannot depend on `seed`; it is tested over all seeds",
            ),
            Some(axis) => values.extend(axes::value(&table, axis, node).map(|value| (axis, value))),
            None => {}
        }
    }
    if table.entries().is_empty() {
        section.report_at(
            key,
            format_args!(
                "`{}` does not contain an axis\n  hint: e.g. {{ precision = \"bf16-mixed\" }}",
                key.name
            ),
        );
    }
    Some(values)
}

fn read_claimed(
    section: &Section<'_>,
    of: Option<&BTreeMap<Axis, AxisValue>>,
    tasks: &[TaskKind],
) -> Option<Claimed> {
    let kinds: Vec<&Key> = CLAIM_KINDS.into_iter().filter(|kind| section.has(kind)).collect();
    let [kind] = kinds.as_slice() else {
        let (problem, hint) = match kinds.is_empty() {
            true => ("is empty", "add `ratio`, `difference` or `status`"),
            false => (
                "has more than one of `ratio`, `difference` and `status`",
                "split it into several claims",
            ),
        };
        section.reject_unknown_keys(&[
            claim::KEYS,
            compared::KEYS,
            by_ratio::KEYS,
            by_difference::KEYS,
            by_status::KEYS,
        ]);
        section.sink.error(
            section.span(),
            format_args!("the claim {problem}\n  hint: {hint}"),
        );
        return None;
    };
    if kind.name == by_status::STATUS.name {
        section.reject_unknown_keys(&[claim::KEYS, by_status::KEYS]);
        return statuses(section).map(Claimed::Status);
    }
    let is_ratio = kind.name == by_ratio::RATIO.name;
    section.reject_unknown_keys(&[
        claim::KEYS,
        compared::KEYS,
        if is_ratio {
            by_ratio::KEYS
        } else {
            by_difference::KEYS
        },
    ]);
    let against = read_setting(section, &compared::AGAINST, tasks);
    if against.is_some() && against.as_ref() == of {
        section.report_at(
            &compared::AGAINST,
            "the claim compares a setting with itself\n  hint: `of` and `against` must differ in at least one axis",
        );
    }
    let metrics = metrics(section, is_ratio);
    let within = if is_ratio {
        bounds(section, kind, ratio::KEYS, &ratio::ABOVE, &ratio::BELOW)
    } else {
        bounds(
            section,
            kind,
            difference::KEYS,
            &difference::ABOVE,
            &difference::BELOW,
        )
    };
    let comparison = Comparison {
        against: against?,
        metrics: metrics?,
        within: within?,
    };
    Some(if is_ratio {
        Claimed::Ratio(comparison)
    } else {
        Claimed::Difference(comparison)
    })
}

fn statuses(section: &Section<'_>) -> Option<Vec<Status>> {
    let statuses: Vec<Status> = section.names(&by_status::STATUS)?;
    if statuses.contains(&Status::Failed) {
        section.report_at(
            &by_status::STATUS,
            "a claim cannot contain the status `failed`, which is a fault of the program and not a property of the setting\n  hint: use `diverged` for \
             a loss that is not finite, and `oom` for exhausted memory",
        );
        return None;
    }
    Some(statuses)
}

/// Reads the compared metrics. Accuracies, losses and the perplexity must be compared by difference, all other metrics by ratio.
fn metrics(section: &Section<'_>, is_ratio: bool) -> Option<Vec<MetricName>> {
    let (span, given) = section.metric(&compared::METRIC)?;
    if given == PEAK_MEMORY && is_ratio {
        return Some(MetricName::PEAK_MEMORY.to_vec());
    }
    let metric = match given.as_str() {
        PEAK_MEMORY => MetricName::PEAK_MEMORY[0],
        name => section.parse_name::<MetricName>(&span, name)?,
    };
    if metric.is_learned() == is_ratio {
        let (wanted, other) = match is_ratio {
            true => ("difference", "ratio"),
            false => ("ratio", "difference"),
        };
        section.sink.error(
            &span,
            format_args!("`{given}` is compared by `{wanted}`, not by `{other}`"),
        );
    }
    Some(vec![metric])
}

fn bounds(section: &Section<'_>, kind: &Key, keys: &[Key], above: &Key, below: &Key) -> Option<Bounds> {
    let table = section.table(kind, format!("`{}`", kind.name))?;
    table.reject_unknown_keys(&[keys]);
    let bounds = Bounds {
        above: table.number(above),
        below: table.number(below),
    };
    let problem = match (bounds.above, bounds.below) {
        (None, None) if !table.has(above) && !table.has(below) => {
            format!("`{}` does not have bounds", kind.name)
        }
        (Some(low), Some(high)) if low >= high => {
            format!(
                "`above` is not less than `below` in `{}`, so no value satisfies both",
                kind.name
            )
        }
        _ => return Some(bounds),
    };
    section.report_at(
        kind,
        format_args!("{problem}\n  hint: set `above`, `below`, or both with `above` less than `below`"),
    );
    None
}
