//! What happens before a cell on a GPU that NVML can be asked about.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use mantissa_core::Event;
use mantissa_telemetry::{GpuSource, Library, MIN_ENERGY_SECONDS, Sampler};

use crate::{
    Policy, RunError, Stop,
    company::{Company, company},
    rest::{LOOK, Look, rest},
};

/// Kind of the event that the sampler notes of a stranger, too.
const FOREIGN: &str = "foreign-process";

/// How long the power of an idle GPU is read, seconds: what an energy takes, and its first readings.
const IDLE_SECONDS: f64 = MIN_ENERGY_SECONDS + 0.5;

/// The GPUs of a run between their cells.
pub(crate) struct Between {
    library: Option<Library>,
    policy: Policy,
    stop: Stop,
    /// Every GPU before its first cell.
    before: BTreeMap<String, Look>,
    /// Strangers that were there before.
    known: BTreeSet<u32>,
    /// What every GPU drew before its first cell, watts, or why that is not known.
    idle: BTreeMap<String, Result<f64, String>>,
}

/// Something that a record should tell, and whom it concerns if that is a process.
pub(crate) struct Noted {
    event: Event,
    pid: Option<u32>,
}

impl Between {
    /// Asks the NVML of this machine, where there is one.
    pub(crate) fn of_this_machine(policy: Policy, stop: Stop) -> Self {
        Self {
            library: Library::of_this_machine().ok(),
            policy,
            stop,
            before: BTreeMap::new(),
            known: BTreeSet::new(),
            idle: BTreeMap::new(),
        }
    }

    /// What the GPU draws while nobody computes on it, watts: read once, before its first cell.
    ///
    /// # Errors
    /// Why that is not known.
    pub(crate) fn idle_watts(
        &mut self,
        gpu: Option<&str>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<f64, String> {
        let gpu = gpu.ok_or("no GPU is sampled")?;
        if self.policy.cool_down_seconds == 0.0 {
            return Err(
                "the power of the idle device was not read: `--cool-down 0` waits for nothing".into(),
            );
        }
        if let Some(known) = self.idle.get(gpu) {
            return known.clone();
        }
        let sampler = Sampler::start(vec![Box::new(GpuSource::open(gpu))]);
        let enough = |sampler: &Sampler| sampler.seconds() >= IDLE_SECONDS;
        while !enough(&sampler) && self.pause(LOOK, "the power of the idle GPU is read", tell) {}
        let end = sampler.seconds();
        let trace = sampler.stop();
        let idle = if trace.anybody_listed() {
            Err("somebody computed on the device before the first cell".to_owned())
        } else {
            trace.mean_power((IDLE_SECONDS - MIN_ENERGY_SECONDS).min(end)..end)
        };
        self.idle.insert(gpu.to_owned(), idle.clone());
        idle
    }

    /// Waits for others to go and for the GPU to cool down, as the policy says; `tell` hears what is waited for.
    ///
    /// # Errors
    /// [`RunError::Busy`].
    pub(crate) fn ready(
        &mut self,
        gpu: Option<&str>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Vec<Noted>, RunError> {
        let (Some(library), Some(gpu)) = (self.library, gpu) else {
            return Ok(vec![]);
        };
        let strangers = self.strangers(library, gpu, tell)?;
        let rested = self.rest(library, gpu, tell);
        Ok(strangers.into_iter().chain(rested).collect())
    }

    fn strangers(
        &mut self,
        library: Library,
        gpu: &str,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Vec<Noted>, RunError> {
        let look = || {
            let listed = library.processes(gpu, &[std::process::id()]).unwrap_or_default();
            let others = listed.into_iter().filter(|process| !process.own);
            others.map(|process| process.pid).collect()
        };
        let mut pause = |time| self.pause(time, "somebody else computes on the GPU", tell);
        match company(self.policy.busy, &self.known, look, &mut pause) {
            Company::Refused(pids) => Err(RunError::Busy {
                gpu: gpu.to_owned(),
                processes: pids
                    .iter()
                    .map(|pid| format!("process {pid}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
            Company::Tolerated(pids) => {
                let noted = |pid: &u32| Noted {
                    event: event(
                        FOREIGN,
                        None,
                        format!("process {pid} computed on the device before the cell"),
                    ),
                    pid: Some(*pid),
                };
                let all = pids.iter().map(noted).collect();
                self.known.extend(pids);
                Ok(all)
            }
        }
    }

    fn rest(&mut self, library: Library, gpu: &str, tell: &mut dyn FnMut(&str)) -> Option<Noted> {
        let limit = Duration::try_from_secs_f64(self.policy.cool_down_seconds).unwrap_or(Duration::MAX);
        if limit.is_zero() {
            return None;
        }
        let look = || {
            let devices = library.state().into_iter();
            let mut ours = devices.filter(|device| device.gpu.uuid.as_deref() == Some(gpu));
            ours.next().map(|device| Look {
                celsius: device.temperature_celsius,
                throttle: device.throttle,
            })
        };
        let Some(before) = self.before.get(gpu) else {
            self.before.extend(look().map(|before| (gpu.to_owned(), before)));
            return None;
        };
        let rest = rest(before, limit, look, |time| {
            self.pause(time, "the GPU cools down", tell)
        })?;
        Some(Noted {
            event: event("cool-down", Some(rest.seconds), rest.detail),
            pid: None,
        })
    }

    /// Whether there is more time to wait.
    fn pause(&self, time: Duration, why: &str, tell: &mut dyn FnMut(&str)) -> bool {
        tell(why);
        if self.stop.asked().is_none() {
            std::thread::sleep(time);
        }
        self.stop.asked().is_none()
    }
}

fn event(kind: &str, value: Option<f64>, detail: String) -> Event {
    Event {
        kind: kind.into(),
        step: None,
        value,
        detail,
    }
}

/// Puts what was noted before a cell in front of what its worker noted; a process that both saw is named once, by the
/// worker, who knows how long it was there.
pub(crate) fn merge(noted: Vec<Noted>, of_worker: Vec<Event>) -> Vec<Event> {
    let seen = |pid: u32| {
        let prefix = format!("process {pid} ");
        of_worker
            .iter()
            .any(|event| event.kind == FOREIGN && event.detail.starts_with(&prefix))
    };
    let kept = noted.into_iter().filter(|noted| !noted.pid.is_some_and(seen));
    let events: Vec<Event> = kept.map(|noted| noted.event).collect();
    events.into_iter().chain(of_worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stranger_that_the_worker_saw_too_is_named_once() {
        let noted = |pid: u32| Noted {
            event: event(
                FOREIGN,
                None,
                format!("process {pid} computed on the device before the cell"),
            ),
            pid: Some(pid),
        };
        let of_worker = event(
            FOREIGN,
            None,
            "process 71 computed on the device, seen from 0.0 s to 2.0 s".into(),
        );
        let merged = merge(vec![noted(7), noted(71)], vec![of_worker]);
        let details: Vec<&str> = merged.iter().map(|event| event.detail.as_str()).collect();
        assert_eq!(
            details,
            [
                "process 7 computed on the device before the cell",
                "process 71 computed on the device, seen from 0.0 s to 2.0 s"
            ]
        );
    }
}
