//! Tests of the policy: allowances, and runs with too few processes.

use mantissa_core::MetricName;
use mantissa_gate::{ChangeVerdict, Gate, GateReport, Policy};

use crate::six_cells::{TODAY, compared, run, same};

#[test]
fn what_is_allowed_passes_until_its_day_and_fails_after_it() {
    let slower = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            0.8
        } else {
            1.0
        }
    };
    let judged = |policy: &str| {
        let policy = Policy::parse(policy).unwrap();
        GateReport::new(compared(run(1, same), run(2, slower)), &policy, TODAY, false)
    };
    let allowed =
        judged("[[allow]]\nmetric = \"flops_per_second\"\nuntil = 2026-06-15\nreason = \"new allocator\"");
    assert_eq!(allowed.gate(), Gate::Passed);
    assert_eq!(allowed.allowed.len(), 6);
    let expired = judged("[[allow]]\nuntil = 2026-06-14\nreason = \"new allocator\"");
    assert_eq!(expired.gate(), Gate::Failed);
    assert!(expired.allowed.iter().all(|allowed| allowed.expired));
    let another =
        judged("[[allow]]\nsetting = { precision = \"bf16-true\" }\nuntil = 2999-01-01\nreason = \"known\"");
    assert_eq!(another.failures.len(), 3);
}

#[test]
fn too_few_processes_decide_nothing_and_fail_only_where_that_is_asked_for() {
    let few = || {
        let mut run = run(1, |_, metric| {
            if metric == MetricName::FlopsPerSecond {
                0.5
            } else {
                1.0
            }
        });
        run.records.retain(|record| record.repeat < 4);
        run
    };
    let comparison = compared(run(1, same), few());
    assert!(comparison.any(ChangeVerdict::Inconclusive));
    assert!(!comparison.any(ChangeVerdict::Regressed));
    let strict = GateReport::new(comparison.clone(), &Policy::default(), TODAY, true);
    assert_eq!(strict.gate(), Gate::Undecided);
    assert_eq!(
        GateReport::new(comparison, &Policy::default(), TODAY, false).gate(),
        Gate::Passed
    );
}
