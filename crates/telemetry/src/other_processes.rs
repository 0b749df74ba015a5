//! Detection of other processes on the device.

use mantissa_core::{Event, EventKind};

use crate::Process;

/// Result of the detection of other processes on the device.
#[derive(Debug, Clone, PartialEq)]
pub enum OtherProcesses {
    /// The driver lists only own processes.
    None,
    /// Not known, for this reason.
    Unknown(String),
    /// These processes were detected.
    Seen(Vec<OtherProcess>),
}

/// Process on the device that belongs to another program.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherProcess {
    /// Process id.
    pub pid: u32,
    /// Peak device memory in bytes; absent if the driver hides it.
    pub bytes: Option<u64>,
    /// Time of the first reading that listed the process, in seconds since the start.
    pub first_seconds: f64,
    /// Time of the last reading that listed the process, in seconds since the start.
    pub last_seconds: f64,
}

/// Log of the process lists of all readings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log {
    others: Vec<OtherProcess>,
    own_listed: bool,
    /// Time of the first process list in seconds. It is read before the measured process uses the device.
    first_list: Option<f64>,
}

impl Log {
    pub(crate) fn push(&mut self, seconds: f64, processes: &[Process]) {
        self.first_list.get_or_insert(seconds);
        for process in processes {
            if process.own {
                self.own_listed = true;
                continue;
            }
            match self.others.iter_mut().find(|one| one.pid == process.pid) {
                Some(known) => {
                    known.last_seconds = seconds;
                    known.bytes = known.bytes.max(process.bytes);
                }
                None => self.others.push(OtherProcess {
                    pid: process.pid,
                    bytes: process.bytes,
                    first_seconds: seconds,
                    last_seconds: seconds,
                }),
            }
        }
    }

    /// Returns true if any list contained a process that is not an own process.
    pub(crate) fn lists_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// Returns only processes that certainly belong to other programs. In a container, the driver may list the measured
    /// process under another id. If no list contains an own process, a process that appears after the first list may be the
    /// measured one, so it is left out.
    pub(crate) fn result(&self) -> OtherProcesses {
        let Some(first) = self.first_list else {
            return OtherProcesses::Unknown("the driver lists no processes".into());
        };
        let certain = |one: &&OtherProcess| self.own_listed || one.first_seconds <= first;
        let others: Vec<OtherProcess> = self.others.iter().filter(certain).cloned().collect();
        if !others.is_empty() {
            return OtherProcesses::Seen(others);
        }
        match (self.own_listed, self.others.first()) {
            (true, _) => OtherProcesses::None,
            (false, Some(one)) => OtherProcesses::Unknown(format!(
                "the driver lists process {} but not this one; they may be the same, because a container has its own process ids",
                one.pid
            )),
            (false, None) => OtherProcesses::Unknown(
                "the driver does not list this process, so it may hide other processes".into(),
            ),
        }
    }

    /// Returns one event per other process.
    pub(crate) fn events(&self) -> Vec<Event> {
        let OtherProcesses::Seen(others) = self.result() else {
            return vec![];
        };
        let event = |one: OtherProcess| Event {
            kind: EventKind::ForeignProcess,
            step: None,
            value: one.bytes.map(|bytes| bytes as f64),
            detail: format!(
                "process {} computed on the device, seen from {:.1} s to {:.1} s",
                one.pid, one.first_seconds, one.last_seconds
            ),
        };
        others.into_iter().map(event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, own: bool) -> Process {
        Process {
            pid,
            bytes: Some(u64::from(pid)),
            own,
        }
    }

    fn log(lists: &[&[Process]]) -> Log {
        let mut log = Log::default();
        for (second, list) in lists.iter().enumerate() {
            log.push(second as f64, list);
        }
        log
    }

    #[test]
    fn only_own_processes_means_no_other_processes() {
        assert_eq!(log(&[&[], &[process(7, true)]]).result(), OtherProcesses::None);
    }

    #[test]
    fn another_process_is_reported_with_first_and_last_reading() {
        let alone = [process(7, true)];
        let both = [process(7, true), process(9, false)];
        let log = log(&[&alone, &both, &both, &alone]);
        let seen = OtherProcess {
            pid: 9,
            bytes: Some(9),
            first_seconds: 1.0,
            last_seconds: 2.0,
        };
        assert_eq!(log.result(), OtherProcesses::Seen(vec![seen]));
        assert_eq!(
            log.events()[0].detail,
            "process 9 computed on the device, seen from 1.0 s to 2.0 s"
        );
    }

    #[test]
    fn a_process_in_the_first_list_is_another_process() {
        let log = log(&[&[process(9, false)], &[process(9, false)]]);
        assert!(matches!(log.result(), OtherProcesses::Seen(seen) if seen[0].pid == 9));
    }

    #[test]
    fn an_unlisted_own_process_makes_new_pids_ambiguous() {
        let result = log(&[&[], &[process(4711, false)]]).result();
        assert!(matches!(result, OtherProcesses::Unknown(reason) if reason.contains("4711")));
    }

    #[test]
    fn an_empty_process_list_is_unknown() {
        assert!(matches!(log(&[&[], &[]]).result(), OtherProcesses::Unknown(_)));
        assert!(matches!(Log::default().result(), OtherProcesses::Unknown(_)));
        assert!(Log::default().events().is_empty());
    }
}
