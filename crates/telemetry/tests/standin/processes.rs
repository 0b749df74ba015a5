//! Tests of the detection of other processes.

use mantissa_core::EventKind;
use mantissa_telemetry::{OtherProcesses, Source, Trace};

use crate::machine::{Machine, ONE, UUID, reason, record};

fn trace(lines: &str) -> Option<(Trace, Vec<String>)> {
    let machine = Machine::new(&format!("{ONE}{lines}"))?;
    let mut source = machine.source(UUID);
    let trace = record(&mut source, 10);
    Some((trace, source.missing()))
}

#[test]
fn a_process_alone_on_the_device_is_alone() {
    let Some((trace, missing)) = trace("process self 4000 5") else {
        return;
    };
    assert_eq!(trace.foreign(), OtherProcesses::None);
    assert_eq!(trace.process_peak_bytes(), Some(4000));
    assert_eq!(reason(&missing, "process memory"), None);
}

#[test]
fn a_stranger_in_the_middle_is_named_with_its_time_and_memory() {
    // Process lists are read ten times a second: the 31st list is read after 3 s.
    let Some((trace, _)) = trace("process self 4000\n process 4711 2000 31 61") else {
        return;
    };
    let OtherProcesses::Seen(strangers) = trace.foreign() else {
        panic!("{:?}", trace.foreign())
    };
    assert_eq!((strangers[0].pid, strangers[0].bytes), (4711, Some(2000)));
    assert!((strangers[0].first_seconds - 3.0).abs() < 0.5, "{strangers:?}");
    assert!((strangers[0].last_seconds - 6.0).abs() < 1.0, "{strangers:?}");
    let events = trace.events();
    assert_eq!((events.len(), events[0].kind), (1, EventKind::ForeignProcess));
}

#[test]
fn a_process_of_ours_is_no_stranger() {
    let Some(machine) = Machine::new(&format!("{ONE} process self 1\n process 4711 2")) else {
        return;
    };
    let mut source = machine.source(UUID).of(4711);
    let trace = record(&mut source, 1);
    assert_eq!(trace.foreign(), OtherProcesses::None);
    assert_eq!(trace.process_peak_bytes(), Some(2), "of what computes");
    let listed = machine.library().processes(UUID, &[4711]).unwrap();
    let own: Vec<bool> = listed.iter().map(|process| process.own).collect();
    assert_eq!(own, [false, true]);
}

#[test]
fn a_driver_that_hides_every_process_is_unknown_and_not_nobody() {
    let Some((trace, missing)) = trace("process self 1\n process 4711 2\n no-processes") else {
        return;
    };
    assert!(matches!(trace.foreign(), OtherProcesses::Unknown(_)));
    assert_eq!(trace.process_peak_bytes(), None);
    assert!(reason(&missing, "process memory").unwrap().contains("container"));
}

#[test]
fn a_process_under_another_number_may_be_ours() {
    let Some((trace, _)) = trace("process 4711 2000 5") else {
        return;
    };
    assert!(matches!(trace.foreign(), OtherProcesses::Unknown(reason) if reason.contains("4711")));
}

#[test]
fn a_driver_that_hides_the_memory_of_a_process_still_lists_it() {
    let Some((trace, missing)) = trace("process self hidden\n process 4711 hidden") else {
        return;
    };
    let OtherProcesses::Seen(strangers) = trace.foreign() else {
        panic!("{:?}", trace.foreign())
    };
    assert_eq!((strangers[0].pid, strangers[0].bytes), (4711, None));
    assert_eq!(reason(&missing, "process memory"), Some("the driver hides it"));
}

#[test]
fn a_list_that_may_not_be_read_is_unknown() {
    let Some((trace, missing)) = trace("process self 1\n fail processes 1 4") else {
        return;
    };
    assert!(matches!(trace.foreign(), OtherProcesses::Unknown(_)));
    assert!(reason(&missing, "processes").unwrap().contains("permission"));
    assert!(reason(&missing, "process memory").is_some());
}
