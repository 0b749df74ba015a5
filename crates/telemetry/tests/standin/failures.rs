//! Tests of calls that start to fail, and of a lost device.

use mantissa_core::{EventKind, SeriesName};
use mantissa_telemetry::Source;

use crate::machine::{HERTZ, Machine, ONE, UUID, at, reason, record};

const READS: &str = "
    memory 5000
    power 300000
    energy 1000+3000
    clock 1410
    memory-clock 1593
    temperature 55
    throttle 0
    utilisation 87
    ecc 0
    process self 4000
";

fn machine(lines: &str) -> Option<Machine> {
    Machine::new(&format!("{ONE}{READS}{lines}"))
}

#[test]
fn one_failing_quantity_does_not_affect_the_others() {
    let Some(machine) = machine(&format!("fail temperature {} 999", 3 * HERTZ + 1)) else {
        return;
    };
    let mut source = machine.source(UUID);
    let trace = record(&mut source, 10);
    let series = trace.series();
    let of = |name: SeriesName| series.iter().find(|series| series.name == name).unwrap();
    let temperature = of(SeriesName::TemperatureCelsius);
    assert_eq!(temperature.values().count(), 300);
    assert_eq!(temperature.y.len(), 1001);
    assert!(temperature.y[300..].iter().all(Option::is_none), "and never 0 °C");
    assert_eq!(of(SeriesName::SmClockHz).values().count(), 1001);
    assert_eq!(
        source.missing(),
        ["temperature: unavailable since 3.00 s: an internal driver error occurred"]
    );
    assert_eq!(
        source.events()[0].detail,
        "temperature could not be read from 3.00 s on: an internal driver error occurred"
    );
}

#[test]
fn the_memory_peak_is_absent_once_memory_cannot_be_read() {
    let Some(machine) = machine(&format!("fail memory {} 999", 3 * HERTZ)) else {
        return;
    };
    let mut source = machine.source(UUID);
    let trace = record(&mut source, 10);
    assert_eq!(trace.device_peak_bytes(), None, "it may have risen since");
    assert_eq!(trace.process_peak_bytes(), Some(4000));
    assert!(
        reason(&source.missing(), "device memory")
            .unwrap()
            .starts_with("unavailable since 2.99 s")
    );
}

#[test]
fn a_lost_device_is_an_event_and_keeps_earlier_readings() {
    // Every call from the 4000th on fails.
    let Some(machine) = machine("fail any 4000 15") else {
        return;
    };
    let mut source = machine.source(UUID);
    let trace = record(&mut source, 20);
    let events = source.events();
    let lost: Vec<_> = events
        .iter()
        .filter(|event| event.kind == EventKind::DeviceLost)
        .collect();
    assert_eq!(lost.len(), 1, "{events:?}");
    let when = lost[0].value.unwrap();
    assert!((4.0..7.0).contains(&when), "{when}");
    assert!(lost[0].detail.contains("fell off the bus"));
    assert!(source.missing()[0].starts_with("NVML: lost after "));

    assert!(trace.energy(0.5..3.5).counter_joules.is_ok(), "before it");
    let across = trace.energy(1.0..19.0);
    assert!(across.counter_joules.is_err() && across.integral_joules.is_err());
    assert_eq!(
        (trace.device_peak_bytes(), trace.process_peak_bytes()),
        (None, None)
    );
    let throttling = trace.throttled(when + 1.0, when + 2.0);
    assert_eq!(throttling, mantissa_telemetry::Throttling::Unknown);
}

#[test]
fn a_device_lost_during_the_first_reading_reads_nothing() {
    let Some(machine) = machine("fail any 3 15") else {
        return;
    };
    let mut source = machine.source(UUID);
    at(&mut source, 0.0);
    let reading = at(&mut source, 0.01);
    assert_eq!((reading.power_watts, reading.device_bytes), (None, None));
    assert!(
        source
            .events()
            .iter()
            .any(|event| event.kind == EventKind::DeviceLost)
    );
}

#[test]
fn every_unsupported_quantity_has_a_reason() {
    let Some(machine) = Machine::new(ONE) else { return };
    let mut source = machine.source(UUID);
    let trace = record(&mut source, 1);
    let missing = source.missing();
    for what in [
        "device memory",
        "power",
        "energy counter",
        "clock",
        "temperature",
        "throttle reasons",
    ] {
        let reason = reason(&missing, what).unwrap();
        assert!(reason.contains("not available"), "{what}: {reason}");
    }
    assert_eq!(trace.device_peak_bytes(), None);
    assert!(trace.events().is_empty() && source.events().is_empty());
    let names: Vec<SeriesName> = trace.series().into_iter().map(|series| series.name).collect();
    assert_eq!(names, [SeriesName::Processes], "an empty list is a list");
}

#[test]
fn ecc_errors_during_the_run_are_an_event() {
    let Some(machine) = Machine::new(&format!("{ONE} ecc 2*30 5")) else {
        return;
    };
    let trace = record(&mut machine.source(UUID), 10);
    assert_eq!(
        trace.events()[0].detail,
        "3 memory errors that ECC could not correct"
    );
}
