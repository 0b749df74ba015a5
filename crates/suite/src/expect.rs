//! `[[expect]]`: expectations for the cells that match.

use std::collections::BTreeMap;

use mantissa_core::{Axis, AxisValue, Expectation, MetricName, Profile, TaskKind};

use crate::{
    axes,
    keys::{Key, expect},
    section::{Section, number},
};

/// Reads one expectation. Returns `None` if it is invalid or does not apply to `profile`.
pub(crate) fn read(section: &Section<'_>, profile: Profile, tasks: &[TaskKind]) -> Option<Expectation> {
    section.reject_unknown_keys(&[expect::KEYS]);
    if ![&expect::STATUS, &expect::AT_LEAST, &expect::AT_MOST]
        .iter()
        .any(|key| section.has(key))
    {
        section.sink.error(
            section.span(),
            "the expectation is empty\n  hint: add `status`, `at_least` or `at_most`",
        );
    }
    let matching = matching(section, tasks);
    let at_least = bounds(section, &expect::AT_LEAST);
    let at_most = bounds(section, &expect::AT_MOST);
    let expectation = Expectation {
        matching,
        status: section.names(&expect::STATUS),
        at_least,
        at_most,
    };
    let profiles = section.names::<Profile>(&expect::PROFILES);
    profiles
        .is_none_or(|profiles| profiles.contains(&profile))
        .then_some(expectation)
}

fn matching(section: &Section<'_>, tasks: &[TaskKind]) -> BTreeMap<Axis, AxisValue> {
    let mut values = BTreeMap::new();
    let Some(table) = section.table(&expect::MATCHING, "`matching`") else {
        return values;
    };
    axes::check_applicable(&table, tasks);
    for (name, span, node) in table.entries() {
        match table.parse_name::<Axis>(&span, name) {
            Some(Axis::Seed) => section.sink.error(
                &span,
                "an expectation cannot depend on `seed`; it applies to all seeds",
            ),
            Some(axis) => values.extend(axes::value(&table, axis, node).map(|value| (axis, value))),
            None => {}
        }
    }
    values
}

fn bounds(section: &Section<'_>, key: &Key) -> BTreeMap<MetricName, f64> {
    let mut bounds = BTreeMap::new();
    let Some(table) = section.table(key, key.name) else {
        return bounds;
    };
    for (name, span, node) in table.entries() {
        let metric = table.parse_name::<MetricName>(&span, name);
        let bound = number(node.get_ref());
        if bound.is_none() {
            let given = section.sink.snippet(&node.span());
            section.sink.error(
                &node.span(),
                format_args!("`{name}` takes a number, not `{given}`"),
            );
        }
        bounds.extend(metric.zip(bound));
    }
    bounds
}
