//! Tests of the sampler on its own thread in real time.

use std::{thread, time::Duration};

use mantissa_core::EventKind;
use mantissa_telemetry::{HostMemory, PERIOD, Sampler};

use crate::machine::{Machine, ONE, UUID};

#[test]
fn the_sampler_reads_the_device_and_reports_its_rate() {
    let Some(machine) = Machine::new(&format!("{ONE} power 300000\n memory 7000*5 9000")) else {
        return;
    };
    let source = machine.source(UUID);
    let sampler = Sampler::start(vec![Box::new(HostMemory::default()), Box::new(source)]);
    while sampler.seconds() < 0.4 {
        thread::sleep(PERIOD);
    }
    let trace = sampler.stop();
    assert_eq!(trace.device_peak_bytes(), Some(2000), "above the first reading");
    let rate = trace.rate(0.0..0.4);
    // A busy machine may take fewer readings, but never more.
    assert!((2..=41).contains(&rate.readings), "{rate}");
    assert_eq!(rate.requested_seconds, 0.01);
    assert!(rate.coverage > 0.1 && rate.coverage <= 1.0, "{rate}");
    assert!(rate.reading_share.is_some_and(|share| share > 0.0), "{rate}");
}

#[test]
fn a_device_lost_while_sampling_does_not_end_the_run() {
    let Some(machine) = Machine::new(&format!("{ONE} power 300000\n fail any 60 15")) else {
        return;
    };
    let sampler = Sampler::start_every(Duration::from_millis(1), vec![Box::new(machine.source(UUID))]);
    while sampler.seconds() < 0.3 {
        thread::sleep(PERIOD);
    }
    let trace = sampler.stop();
    assert!(
        trace
            .events()
            .iter()
            .any(|event| event.kind == EventKind::DeviceLost),
        "{:?}",
        trace.events()
    );
    assert!(
        trace.missing()[0].starts_with("NVML: lost after "),
        "{:?}",
        trace.missing()
    );
}
