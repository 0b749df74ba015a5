//! Comparison of records with the expectations of their suite.

use std::collections::BTreeMap;

use mantissa_core::{CellId, Event, EventKind, MetricName, Plan, Record, Status};

/// Violated expectation of a record.
#[derive(Debug, Clone, PartialEq)]
pub struct Violation {
    /// Id of the cell.
    pub cell: CellId,
    /// Workload and setting of the cell as text.
    pub name: String,
    /// Description of the violation.
    pub what: String,
}

/// Returns the violated expectations of a record as text. A `failed` cell always violates the expectations, a `skipped`
/// cell never.
pub(crate) fn violated_expectations(plan: &Plan, record: &Record) -> Vec<String> {
    let Some(suite) = plan.suite(&record.cell.suite) else {
        return vec![];
    };
    match record.status {
        Status::Skipped => return vec![],
        Status::Failed => return vec![with_reason("ended `failed`", record)],
        status if !suite.allowed_statuses(&record.cell).contains(&status) => {
            return vec![with_reason(
                &format!("ended `{status}`, which its suite does not allow"),
                record,
            )];
        }
        Status::Ok => {}
        _ => return vec![],
    }
    let (mut minimums, mut maximums) = (BTreeMap::new(), BTreeMap::new());
    for expectation in suite.expectations_of(&record.cell) {
        minimums.extend(expectation.at_least.iter().map(|(name, bound)| (*name, *bound)));
        maximums.extend(expectation.at_most.iter().map(|(name, bound)| (*name, *bound)));
    }
    let value = |name: MetricName| record.metrics.get(&name).and_then(|metric| metric.value);
    let check =
        |name: MetricName, bound: f64, is_met: fn(f64, f64) -> bool, comparison: &str| match value(name) {
            Some(value) if is_met(value, bound) => None,
            Some(value) => Some(format!("`{name}` is {value}, expected {comparison} {bound}")),
            None => Some(format!("`{name}` is absent, expected {comparison} {bound}")),
        };
    let too_low = minimums
        .into_iter()
        .filter_map(|(name, bound)| check(name, bound, |v, b| v >= b, "at least"));
    let too_high = maximums
        .into_iter()
        .filter_map(|(name, bound)| check(name, bound, |v, b| v <= b, "at most"));
    too_low.chain(too_high).collect()
}

fn with_reason(what: &str, record: &Record) -> String {
    match &record.reason {
        Some(reason) => format!("{what}: {reason}"),
        None => what.to_owned(),
    }
}

/// Adds an event for each violated expectation to a record. The status does not change.
pub(crate) fn add_violation_events(plan: &Plan, record: &mut Record) {
    let event = |detail| Event::new(EventKind::Expectation, detail);
    let events: Vec<Event> = violated_expectations(plan, record)
        .into_iter()
        .map(event)
        .collect();
    record.events.extend(events);
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Axis, AxisValue, Expectation, Metric};

    use super::*;
    use crate::testing;

    fn record(status: Status, accuracy: Option<f64>) -> Record {
        let mut record = testing::record(status, 0);
        if let Some(value) = accuracy {
            let name = MetricName::TestAccuracy;
            record.metrics.insert(name, Metric::reading(name, value, "test"));
        }
        record
    }

    fn plan(expectations: Vec<Expectation>) -> Plan {
        let mut plan = testing::plan(1);
        plan.suites[0].expectations = expectations;
        plan
    }

    fn expectation(status: Option<Vec<Status>>, accuracy: Option<f64>) -> Expectation {
        Expectation {
            matching: BTreeMap::new(),
            status,
            at_least: accuracy
                .map(|bound| (MetricName::TestAccuracy, bound))
                .into_iter()
                .collect(),
            at_most: BTreeMap::new(),
        }
    }

    #[test]
    fn without_expectations_only_ok_and_skipped_are_expected() {
        let plan = plan(vec![]);
        assert!(violated_expectations(&plan, &record(Status::Ok, None)).is_empty());
        assert!(violated_expectations(&plan, &record(Status::Skipped, None)).is_empty());
        assert_eq!(violated_expectations(&plan, &record(Status::Oom, None)).len(), 1);
    }

    #[test]
    fn failed_is_a_violation_even_if_it_is_allowed() {
        let all = Some(vec![Status::Ok, Status::Diverged, Status::Failed]);
        let plan = plan(vec![expectation(all, None)]);
        assert!(violated_expectations(&plan, &record(Status::Diverged, None)).is_empty());
        assert_eq!(
            violated_expectations(&plan, &record(Status::Timeout, None)).len(),
            1
        );
        assert_eq!(
            violated_expectations(&plan, &record(Status::Failed, None)).len(),
            1
        );
    }

    #[test]
    fn the_last_matching_bound_applies_and_requires_a_value() {
        let strict = Expectation {
            matching: [(Axis::Size, AxisValue::Integer(9999))].into(),
            ..expectation(None, Some(0.99))
        };
        let plan = plan(vec![
            expectation(None, Some(0.5)),
            expectation(None, Some(0.75)),
            strict,
        ]);
        assert!(violated_expectations(&plan, &record(Status::Ok, Some(0.8))).is_empty());
        let low = violated_expectations(&plan, &record(Status::Ok, Some(0.6)));
        assert_eq!(low, ["`test_accuracy` is 0.6, expected at least 0.75"]);
        let absent = violated_expectations(&plan, &record(Status::Ok, None));
        assert_eq!(absent, ["`test_accuracy` is absent, expected at least 0.75"]);
    }
}
