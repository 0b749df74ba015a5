//! Tests of the lookup and the description of devices.

use mantissa_telemetry::Source;

use crate::machine::{Machine, ONE, UUID, at, once, reason};

/// Two devices in the order of NVML. The second one is faster, so CUDA lists it first.
const TWO: &str = "
    driver 550.54.15
    device GPU-aaaa 00000000:17:00.0 Stand-in slow
    power 100000
    clock 1000
    device GPU-bbbb 00000000:65:00.0 Stand-in fast
    power 600000
    clock 1980
";

#[test]
fn devices_are_found_by_uuid_or_pci_bus_id() {
    let Some(machine) = Machine::new(TWO) else { return };
    let watts = |id: &str| at(&mut machine.source(id), 0.0).power_watts;
    assert_eq!(watts("GPU-bbbb"), Some(600.0));
    assert_eq!(watts("GPU-aaaa"), Some(100.0));
    assert_eq!(watts("00000000:65:00.0"), Some(600.0));
    assert_eq!(watts("0000:65:00.0"), Some(600.0), "as CUDA writes it");
}

#[test]
fn an_unknown_device_is_an_error() {
    let Some(machine) = Machine::new(TWO) else { return };
    for id in ["GPU-cccc", "0000:99:00.0", "0", ""] {
        let mut source = machine.source(id);
        assert_eq!(at(&mut source, 0.0).power_watts, None, "{id}");
        let missing = source.missing();
        assert!(
            missing[0].starts_with(&format!("NVML: device `{id}`: ")),
            "{missing:?}"
        );
    }
    let several = machine.library().only_gpu().unwrap_err();
    assert!(several.contains("GPU-aaaa, GPU-bbbb"), "{several}");
    let Some(one) = Machine::new(ONE) else { return };
    assert_eq!(one.library().only_gpu().unwrap().uuid.as_deref(), Some(UUID));
}

#[test]
fn an_unresponsive_device_keeps_its_position() {
    let Some(machine) = Machine::new(&TWO.replacen("power", "fail open 1 15\n power", 1)) else {
        return;
    };
    let gpus = machine.library().gpus();
    assert_eq!(gpus.len(), 2);
    assert!(gpus[0].name.contains("fell off the bus"), "{}", gpus[0].name);
    assert_eq!(
        (gpus[0].uuid.as_deref(), gpus[1].uuid.as_deref()),
        (None, Some("GPU-bbbb"))
    );
}

#[test]
fn the_state_of_a_device_contains_its_settings() {
    let lines = "
        total 80000000000
        memory 1000
        limit 700000
        power 90000
        clock 345
        max-clock 1980
        memory-clock 2619
        throttle 3
        ecc-mode 1
        ecc 2
        persistence 1
        mig 0
    ";
    let Some(machine) = Machine::new(&format!("{ONE}{lines}")) else {
        return;
    };
    let state = machine.library().state().remove(0);
    assert_eq!(state.gpu.name, "Stand-in A");
    assert_eq!(state.gpu.driver.as_deref(), Some("550.54.15"));
    assert_eq!(state.gpu.memory_bytes, Some(80_000_000_000));
    assert_eq!(state.pci_bus_id.as_deref(), Some("00000000:17:00.0"));
    assert_eq!(
        (state.power_watts, state.gpu.power_limit_watts),
        (Some(90.0), Some(700.0))
    );
    assert_eq!(
        (state.sm_clock_hz, state.gpu.sm_clock_max_hz),
        (Some(345e6), Some(1980e6))
    );
    assert_eq!(state.memory_clock_hz, Some(2619e6));
    assert_eq!((state.gpu.ecc, state.ecc_uncorrected), (Some(true), Some(2)));
    assert_eq!((state.gpu.persistence, state.mig), (Some(true), Some(false)));
    assert!(state.throttle.is_empty(), "idle, and clocks of a setting");
    let Some(bare) = Machine::new(ONE) else { return };
    let state = bare.library().state().remove(0);
    assert_eq!(
        (state.gpu.ecc, state.gpu.persistence, state.mig),
        (None, None, None)
    );
}

#[test]
fn a_reading_contains_every_quantity_of_the_device() {
    let lines = "
        memory 5000
        power 300000
        energy 7500
        clock 1410
        memory-clock 1593
        temperature 55
        throttle 4
        utilisation 87
        ecc 0
        process self 4000
    ";
    let Some((reading, missing)) = once(lines) else {
        return;
    };
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(
        (reading.device_bytes, reading.process_bytes),
        (Some(5000), Some(4000))
    );
    assert_eq!(
        (reading.power_watts, reading.energy_joules),
        (Some(300.0), Some(7.5))
    );
    assert_eq!(
        (reading.sm_clock_hz, reading.memory_clock_hz),
        (Some(1410e6), Some(1593e6))
    );
    assert_eq!(
        (reading.temperature_celsius, reading.throttle),
        (Some(55.0), Some(4))
    );
    assert_eq!(
        (reading.utilisation, reading.ecc_uncorrected),
        (Some(0.87), Some(0))
    );
}

/// A GPU with two MIG slices; this process computes on the second one.
const SLICED: &str = "
    device GPU-whole 00000000:17:00.0 Stand-in A
    mig 1
    memory 40000
    power 400000
    energy 1000 2000
    clock 1410
    temperature 60
    throttle 0
    utilisation 50
    process 4711 30000
    slice MIG-one Stand-in A slice
    memory 30000
    process 4711 30000
    slice MIG-two Stand-in A slice
    memory 10000
    process self 9000
";

#[test]
fn a_mig_slice_has_memory_and_clocks_but_no_power() {
    let Some(machine) = Machine::new(SLICED) else {
        return;
    };
    let mut source = machine.source("MIG-two");
    let reading = at(&mut source, 0.0);
    assert_eq!(
        (reading.device_bytes, reading.process_bytes),
        (Some(10_000), Some(9000))
    );
    assert_eq!((reading.sm_clock_hz, reading.throttle), (Some(1410e6), Some(0)));
    assert_eq!(reading.temperature_celsius, Some(60.0));
    assert_eq!((reading.power_watts, reading.energy_joules), (None, None));
    assert_eq!(reading.utilisation, None);
    for what in ["power", "energy counter", "utilisation"] {
        let missing = source.missing();
        let reason = reason(&missing, what).unwrap();
        assert!(reason.contains("MIG slice"), "{what}: {reason}");
    }
    assert_eq!(
        reading.processes.unwrap().len(),
        1,
        "the other slice's is not here"
    );
}

#[test]
fn a_gpu_with_mig_has_no_power_or_memory_readings() {
    let Some(machine) = Machine::new(SLICED) else {
        return;
    };
    let mut source = machine.source("0000:17:00.0");
    let reading = at(&mut source, 0.0);
    assert_eq!((reading.power_watts, reading.energy_joules), (None, None));
    assert_eq!((reading.device_bytes, reading.processes), (None, None));
    assert_eq!(reading.sm_clock_hz, Some(1410e6));
    let missing = source.missing();
    assert!(reason(&missing, "device memory").unwrap().contains("MIG is on"));
    assert!(reason(&missing, "power").unwrap().contains("MIG is on"));
}

#[test]
fn an_unloaded_driver_is_a_reason() {
    let Some(machine) = Machine::new("init 9") else {
        return;
    };
    let mut source = machine.source(UUID);
    at(&mut source, 0.0);
    assert_eq!(source.missing(), ["NVML: NVIDIA driver is not loaded"]);
}
