//! Tests of the policy: allowances, and runs with too few processes.

use mantissa_core::MetricName;
use mantissa_gate::{ChangeVerdict, Gate, GateReport, Policy};

use crate::six_cells::{TODAY, compare_runs, run, unchanged};

#[test]
fn allowances_apply_until_their_last_day() {
    let slower = |_, metric| {
        if metric == MetricName::FlopsPerSecond {
            0.8
        } else {
            1.0
        }
    };
    let gate_with = |policy: &str| {
        let policy = Policy::parse(policy).unwrap();
        GateReport::new(
            compare_runs(run(1, unchanged), run(2, slower)),
            &policy,
            TODAY,
            false,
        )
    };
    let allowed =
        gate_with("[[allow]]\nmetric = \"flops_per_second\"\nuntil = 2026-06-15\nreason = \"new allocator\"");
    assert_eq!(allowed.gate(), Gate::Passed);
    assert_eq!(allowed.allowed.len(), 6);
    let expired = gate_with("[[allow]]\nuntil = 2026-06-14\nreason = \"new allocator\"");
    assert_eq!(expired.gate(), Gate::Failed);
    assert!(expired.allowed.iter().all(|allowed| allowed.expired));
    let allowed_half = gate_with(
        "[[allow]]\nsetting = { precision = \"bf16-true\" }\nuntil = 2999-01-01\nreason = \"known\"",
    );
    assert_eq!(allowed_half.failures.len(), 3);
}

#[test]
fn too_few_processes_fail_only_the_strict_gate() {
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
    let comparison = compare_runs(run(1, unchanged), few());
    assert!(comparison.any(ChangeVerdict::Inconclusive));
    assert!(!comparison.any(ChangeVerdict::Regressed));
    let strict = GateReport::new(comparison.clone(), &Policy::default(), TODAY, true);
    assert_eq!(strict.gate(), Gate::Inconclusive);
    assert_eq!(
        GateReport::new(comparison, &Policy::default(), TODAY, false).gate(),
        Gate::Passed
    );
}
