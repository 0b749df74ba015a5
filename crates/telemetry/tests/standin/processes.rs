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
fn a_single_own_process_means_no_other_processes() {
    let Some((trace, missing)) = trace("process self 4000 5") else {
        return;
    };
    assert_eq!(trace.other_processes(), OtherProcesses::None);
    assert_eq!(trace.process_peak_bytes(), Some(4000));
    assert_eq!(reason(&missing, "process memory"), None);
}

#[test]
fn another_process_is_reported_with_its_time_and_memory() {
    // Process lists are read ten times a second: the 31st list is read after 3 s.
    let Some((trace, _)) = trace("process self 4000\n process 4711 2000 31 61") else {
        return;
    };
    let OtherProcesses::Seen(others) = trace.other_processes() else {
        panic!("{:?}", trace.other_processes())
    };
    assert_eq!((others[0].pid, others[0].bytes), (4711, Some(2000)));
    assert!((others[0].first_seconds - 3.0).abs() < 0.5, "{others:?}");
    assert!((others[0].last_seconds - 6.0).abs() < 1.0, "{others:?}");
    let events = trace.events();
    assert_eq!((events.len(), events[0].kind), (1, EventKind::ForeignProcess));
}

#[test]
fn a_peer_process_counts_as_own() {
    let Some(machine) = Machine::new(&format!("{ONE} process self 1\n process 4711 2")) else {
        return;
    };
    let mut source = machine.source(UUID).of(4711);
    let trace = record(&mut source, 1);
    assert_eq!(trace.other_processes(), OtherProcesses::None);
    assert_eq!(trace.process_peak_bytes(), Some(2), "of what computes");
    let listed = machine.library().processes(UUID, &[4711]).unwrap();
    let own: Vec<bool> = listed.iter().map(|process| process.own).collect();
    assert_eq!(own, [false, true]);
}

#[test]
fn a_driver_that_hides_all_processes_is_unknown() {
    let Some((trace, missing)) = trace("process self 1\n process 4711 2\n no-processes") else {
        return;
    };
    assert!(matches!(trace.other_processes(), OtherProcesses::Unknown(_)));
    assert_eq!(trace.process_peak_bytes(), None);
    assert!(reason(&missing, "process memory").unwrap().contains("container"));
}

#[test]
fn a_process_with_another_id_may_be_the_own_process() {
    let Some((trace, _)) = trace("process 4711 2000 5") else {
        return;
    };
    assert!(matches!(trace.other_processes(), OtherProcesses::Unknown(reason) if reason.contains("4711")));
}

#[test]
fn a_process_with_hidden_memory_is_still_listed() {
    let Some((trace, missing)) = trace("process self hidden\n process 4711 hidden") else {
        return;
    };
    let OtherProcesses::Seen(others) = trace.other_processes() else {
        panic!("{:?}", trace.other_processes())
    };
    assert_eq!((others[0].pid, others[0].bytes), (4711, None));
    assert_eq!(reason(&missing, "process memory"), Some("the driver hides it"));
}

#[test]
fn an_unreadable_process_list_is_unknown() {
    let Some((trace, missing)) = trace("process self 1\n fail processes 1 4") else {
        return;
    };
    assert!(matches!(trace.other_processes(), OtherProcesses::Unknown(_)));
    assert!(reason(&missing, "processes").unwrap().contains("permission"));
    assert!(reason(&missing, "process memory").is_some());
}
