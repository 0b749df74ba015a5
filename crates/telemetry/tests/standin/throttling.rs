//! Tests of the detection of throttling.

use mantissa_core::EventKind;
use mantissa_telemetry::Throttling;

use crate::machine::{Machine, ONE, UUID, record};

#[test]
fn only_windows_that_overlap_throttling_are_marked() {
    // Nine seconds with a hardware thermal slowdown in the fourth to sixth second.
    let Some(machine) = Machine::new(&format!("{ONE} throttle 1*300 0x48*300 0")) else {
        return;
    };
    let trace = record(&mut machine.source(UUID), 9);
    assert_eq!(trace.throttled(0.5, 2.9), Throttling::No);
    assert_eq!(trace.throttled(6.1, 8.9), Throttling::No);
    let heat = Throttling::Yes(vec!["hardware slowdown", "hardware thermal slowdown"]);
    assert_eq!(trace.throttled(4.0, 4.01), heat);
    assert_eq!(trace.throttled(2.0, 3.5), heat, "half in it");
    assert_eq!(trace.throttled(0.0, 9.0), heat);

    let intervals = trace.throttle_intervals();
    assert_eq!(intervals.len(), 2, "one a reason");
    for interval in &intervals {
        assert!((interval.window.start - 2.99).abs() < 1e-9, "{interval:?}");
        assert!((interval.window.end - 6.0).abs() < 1e-9, "{interval:?}");
    }
    let events = trace.events();
    assert!(
        events.iter().all(|event| event.kind == EventKind::Throttled),
        "{events:?}"
    );
    assert!((events[0].value.unwrap() - 1.0 / 3.0).abs() < 0.01);
}

#[test]
fn idle_and_application_clocks_are_not_throttling() {
    // The bits of 0x113: idle, application clocks, sync boost, display clocks.
    let Some(machine) = Machine::new(&format!("{ONE} throttle 0x113")) else {
        return;
    };
    let trace = record(&mut machine.source(UUID), 3);
    assert_eq!(trace.throttled(0.5, 2.5), Throttling::No);
    assert!(trace.throttle_intervals().is_empty());
    assert!(
        trace
            .events()
            .iter()
            .all(|event| event.kind == EventKind::ClocksHeld)
    );
}

#[test]
fn without_throttle_reasons_throttling_is_unknown() {
    let Some(machine) = Machine::new(ONE) else { return };
    let trace = record(&mut machine.source(UUID), 3);
    assert_eq!(trace.throttled(0.5, 2.5), Throttling::Unknown);
}
