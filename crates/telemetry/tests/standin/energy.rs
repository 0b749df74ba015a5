//! Tests of the energy with a known true value.

use mantissa_telemetry::Source;

use crate::machine::{HERTZ, Machine, ONE, UUID, once, record};

/// Records 30 s of a device with these lines in its script. Returns the energy of a window.
fn energy(lines: &str, window: std::ops::Range<f64>) -> Option<mantissa_telemetry::Energy> {
    let machine = Machine::new(&format!("{ONE}{lines}"))?;
    Some(record(&mut machine.source(UUID), 30).energy(window))
}

fn near(joules: &Result<f64, String>, expected: f64) -> bool {
    joules
        .as_ref()
        .is_ok_and(|joules| (joules - expected).abs() < 1e-6 * expected)
}

#[test]
fn constant_power_has_the_same_energy_by_both_methods() {
    // 300 W are 3 J in 10 ms.
    let Some(energy) = energy("instant 300000\n energy 123456000+3000", 5.0..15.0) else {
        return;
    };
    assert!(near(&energy.integral_joules, 3000.0), "{energy:?}");
    assert!(near(&energy.counter_joules, 3000.0), "{energy:?}");
    assert!((energy.coverage - 1.0).abs() < 1e-9);
    assert_eq!(energy.averaged_seconds, Some(0.1));
    let above = energy.above_idle(100.0);
    assert!(near(&above.integral_joules, 2000.0) && near(&above.counter_joules, 2000.0));
}

#[test]
fn rising_power_is_integrated_exactly() {
    // The power rises from 100 W by 10 W per second; the mean over 10 s to 20 s is 250 W.
    let Some(energy) = energy("instant 100000+100", 10.0..20.0) else {
        return;
    };
    assert!(near(&energy.integral_joules, 2500.0), "{energy:?}");
}

#[test]
fn idle_power_is_measured_in_a_window_before_the_work() {
    // 5 s at 60 W, then 500 W.
    let Some(machine) = Machine::new(&format!("{ONE} instant 60000*500 500000")) else {
        return;
    };
    let trace = record(&mut machine.source(UUID), 30);
    let idle = trace.steady_power(0.0..4.9).unwrap();
    assert!((idle - 60.0).abs() < 1e-9);
    let above = trace.energy(10.0..20.0).above_idle(idle);
    assert!(near(&above.integral_joules, 4400.0), "{above:?}");
    assert!(trace.steady_power(0.0..0.5).unwrap_err().contains("too short"));
    // 60 W in the first two of the three seconds, and 500 W in the last one.
    let why = trace.steady_power(3.0..6.0).unwrap_err();
    assert!(
        why.contains("not steady: 60.0 W, and 354.8 W 1.5 s later"),
        "{why}"
    );
}

#[test]
fn falling_power_is_not_steady() {
    // The power falls from 200 W by 10 W per second.
    let Some(machine) = Machine::new(&format!("{ONE} instant 200000-100")) else {
        return;
    };
    let trace = record(&mut machine.source(UUID), 10);
    let why = trace.steady_power(2.0..4.0).unwrap_err();
    assert!(why.contains("175.0 W, and 165.0 W 1.0 s later"), "{why}");
}

#[test]
fn a_counter_reset_does_not_affect_the_integral() {
    // The counter is reset after 10 s.
    let lines = "instant 300000\n energy 5000000+3000*1000 0+3000";
    let Some(energy) = energy(lines, 5.0..15.0) else {
        return;
    };
    assert!(near(&energy.integral_joules, 3000.0));
    let reason = energy.counter_joules.unwrap_err();
    assert!(reason.contains("fell from 7997 J to 0 J at 10.0 s"), "{reason}");
    let after = self::energy(lines, 12.0..22.0).unwrap();
    assert!(near(&after.counter_joules, 3000.0), "{after:?}");
}

#[test]
fn a_constant_counter_has_no_energy() {
    let Some(energy) = energy("energy 123456789", 5.0..15.0) else {
        return;
    };
    assert!(energy.counter_joules.unwrap_err().contains("did not move"));
}

#[test]
fn without_a_power_sensor_only_the_counter_is_available() {
    let Some(energy) = energy("energy 1000+3000", 5.0..15.0) else {
        return;
    };
    assert!(near(&energy.counter_joules, 3000.0));
    assert_eq!(
        energy.integral_joules,
        Err("the device does not report its power".into())
    );
    let (reading, missing) = once("energy 1000").unwrap();
    assert_eq!(reading.power_watts, None, "and not 0 W");
    assert_eq!(
        missing.iter().filter(|line| line.starts_with("power: ")).count(),
        1,
        "{missing:?}"
    );
}

#[test]
fn instantaneous_power_is_preferred() {
    let Some((reading, _)) = once("instant 250000\n power 111000") else {
        return;
    };
    assert_eq!(reading.power_watts, Some(250.0));
    assert_eq!(reading.power_averaged_seconds, Some(0.1));
}

#[test]
fn averaged_power_requires_a_longer_window() {
    let Some(short) = energy("power 300000", 5.0..15.0) else {
        return;
    };
    assert!(short.integral_joules.unwrap_err().contains("needs 20 s"));
    let long = energy("power 300000", 5.0..28.0).unwrap();
    assert!(near(&long.integral_joules, 6900.0), "{long:?}");
}

#[test]
fn a_temporary_sensor_failure_only_lowers_the_coverage() {
    let lines = format!(
        "instant 300000\n fail instant {} 999 {}",
        10 * HERTZ + 1,
        10 * HERTZ + 30
    );
    let Some(machine) = Machine::new(&format!("{ONE}{lines}")) else {
        return;
    };
    let mut source = machine.source(UUID);
    let trace = record(&mut source, 30);
    let energy = trace.energy(5.0..15.0);
    assert!(near(&energy.integral_joules, 3000.0), "{energy:?}");
    assert!((energy.coverage - 0.969).abs() < 1e-9, "{energy:?}");
    assert!(
        source.events()[0]
            .detail
            .starts_with("power could not be read 30 times, first after 10.00 s: "),
        "{:?}",
        source.events()
    );
}
