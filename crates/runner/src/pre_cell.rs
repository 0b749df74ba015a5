//! Steps before a cell on a GPU that NVML can query: check for other processes, cooldown, idle power.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use mantissa_core::{Event, EventKind};
use mantissa_telemetry::{GpuSource, Library, MIN_ENERGY_SECONDS, Sampler, Trace};

use crate::{
    Policy, RunError, Stop,
    cooldown::{GpuBaseline, GpuState, POLL_INTERVAL, cool_down},
    gpu_contention::{Contention, wait_for_free_gpu},
};

/// Duration of the measurement of the idle power, in seconds: the shortest window for which an energy is computed, plus
/// time for the first readings.
const IDLE_SECONDS: f64 = MIN_ENERGY_SECONDS + 0.5;

/// A GPU counts as idle if kernels, such as those of a desktop, run for at most this share of the time.
const MAX_IDLE_UTILISATION: f64 = 0.05;

/// Time limit for a call of NVML. A faulty driver can block a call forever.
const NVML_TIMEOUT: Duration = Duration::from_secs(5);

/// State of the GPUs of a run between its cells.
pub(crate) struct PreCell {
    library: Option<Library>,
    policy: Policy,
    stop: Stop,
    /// State of every GPU before its first cell, by UUID.
    devices: BTreeMap<String, GpuBaseline>,
    /// Other processes that were already detected.
    known_processes: BTreeSet<u32>,
}

/// Event for the record of the next cell, with the process that it concerns.
pub(crate) struct PreCellEvent {
    event: Event,
    pid: Option<u32>,
}

impl PreCell {
    /// Loads NVML, if available. `devices` contains the states that the run stored before it was resumed.
    pub(crate) fn of_this_machine(
        policy: Policy,
        stop: Stop,
        devices: BTreeMap<String, GpuBaseline>,
    ) -> Self {
        Self {
            library: Library::of_this_machine().ok(),
            policy,
            stop,
            devices,
            known_processes: BTreeSet::new(),
        }
    }

    /// Returns the state of every GPU before its first cell, by UUID.
    pub(crate) fn devices(&self) -> &BTreeMap<String, GpuBaseline> {
        &self.devices
    }

    /// Returns the idle power of the GPU in watts. Measures it before the first cell and stores the result for later
    /// cells. Repeats the measurement until the power is steady or the time limit of the cooldown is reached.
    ///
    /// # Errors
    /// The reason why the idle power is not known.
    pub(crate) fn idle_watts(
        &mut self,
        gpu: Option<&str>,
        on_wait: &mut dyn FnMut(&str),
    ) -> Result<f64, String> {
        let gpu = gpu.ok_or("no GPU is sampled")?;
        if self.policy.cool_down_seconds == 0.0 {
            return Err("the idle power was not measured because of `--cool-down 0`".into());
        }
        let baseline = self.devices.get(gpu).cloned().unwrap_or_default();
        if let Some(reason) = baseline.unknown_idle {
            return Err(reason);
        }
        if let Some(watts) = baseline.idle_watts {
            return Ok(watts);
        }
        let start = Instant::now();
        let idle = loop {
            let (trace, window) = self.sample_idle(gpu, on_wait);
            if trace.other_processes_listed() {
                break Err("another process computed on the device before the first cell".to_owned());
            }
            let read = match trace.max_utilisation() {
                // The utilisation reveals other processes even if the driver does not list processes.
                Some(share) if share > MAX_IDLE_UTILISATION => Err(format!(
                    "the device was {:.0} % busy before the first cell",
                    100.0 * share
                )),
                _ => trace.steady_power(window),
            };
            let is_power = |what: &String| what.starts_with("power") || what.starts_with("NVML");
            let never_readable = trace.missing().iter().any(is_power);
            let is_over = start.elapsed().as_secs_f64() >= self.policy.cool_down_seconds;
            if read.is_ok() || is_over || never_readable {
                break read;
            }
            if self.stop.signal().is_some() {
                return read;
            }
        };
        let device = self.devices.entry(gpu.to_owned()).or_default();
        match &idle {
            Ok(watts) => device.idle_watts = Some(*watts),
            Err(reason) => device.unknown_idle = Some(reason.clone()),
        }
        idle
    }

    /// Samples a GPU for [`IDLE_SECONDS`]. Returns the trace and its window in which the idle power is computed.
    fn sample_idle(&self, gpu: &str, on_wait: &mut dyn FnMut(&str)) -> (Trace, Range<f64>) {
        let sampler = Sampler::start(vec![Box::new(GpuSource::open(gpu))]);
        let enough = |sampler: &Sampler| sampler.seconds() >= IDLE_SECONDS;
        while !enough(&sampler) && self.pause(POLL_INTERVAL, "measuring the idle power of the GPU", on_wait) {
        }
        let end = sampler.seconds();
        (sampler.stop(), (IDLE_SECONDS - MIN_ENERGY_SECONDS).min(end)..end)
    }

    /// Waits for other processes to exit and for the GPU to cool down, as the policy requires. Calls `on_wait` with the
    /// reason for waiting. Returns events for the record of the cell.
    ///
    /// # Errors
    /// [`RunError::Busy`].
    pub(crate) fn wait_until_ready(
        &mut self,
        gpu: Option<&str>,
        on_wait: &mut dyn FnMut(&str),
    ) -> Result<Vec<PreCellEvent>, RunError> {
        let (Some(library), Some(gpu)) = (self.library, gpu) else {
            return Ok(vec![]);
        };
        let contention = self.check_contention(library, gpu, on_wait)?;
        let cooldown = self.cool_down(library, gpu, on_wait);
        Ok(contention.into_iter().chain(cooldown).collect())
    }

    fn check_contention(
        &mut self,
        library: Library,
        gpu: &str,
        on_wait: &mut dyn FnMut(&str),
    ) -> Result<Vec<PreCellEvent>, RunError> {
        let query = || {
            let id = gpu.to_owned();
            let listed = with_timeout(NVML_TIMEOUT, move || {
                library.processes(&id, &[std::process::id()])
            });
            let listed = listed.and_then(Result::ok).unwrap_or_default();
            let others = listed.into_iter().filter(|process| !process.own);
            others.map(|process| process.pid).collect()
        };
        let mut pause = |time| self.pause(time, "waiting for another process on the GPU", on_wait);
        match wait_for_free_gpu(self.policy.busy, &self.known_processes, query, &mut pause) {
            Contention::Refused(pids) => Err(RunError::Busy {
                gpu: gpu.to_owned(),
                processes: pids
                    .iter()
                    .map(|pid| format!("process {pid}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            }),
            Contention::Tolerated(pids) => {
                let event = |pid: &u32| PreCellEvent {
                    event: Event::new(
                        EventKind::ForeignProcess,
                        format!("process {pid} computed on the device before the cell"),
                    ),
                    pid: Some(*pid),
                };
                let all = pids.iter().map(event).collect();
                self.known_processes.extend(pids);
                Ok(all)
            }
        }
    }

    fn cool_down(
        &mut self,
        library: Library,
        gpu: &str,
        on_wait: &mut dyn FnMut(&str),
    ) -> Option<PreCellEvent> {
        let limit = Duration::try_from_secs_f64(self.policy.cool_down_seconds).unwrap_or(Duration::MAX);
        if limit.is_zero() {
            return None;
        }
        let query = || {
            let id = gpu.to_owned();
            let now = with_timeout(NVML_TIMEOUT, move || library.device(&id))?.ok()?;
            Some(GpuState {
                celsius: now.temperature_celsius,
                throttle: now.throttle,
            })
        };
        let Some(before) = self.devices.get(gpu) else {
            let baseline = |now: GpuState| GpuBaseline {
                celsius: now.celsius,
                ..GpuBaseline::default()
            };
            self.devices
                .extend(query().map(|now| (gpu.to_owned(), baseline(now))));
            return None;
        };
        let cooldown = cool_down(before.celsius, limit, query, |time| {
            self.pause(time, "waiting for the GPU to cool down", on_wait)
        })?;
        Some(PreCellEvent {
            event: Event {
                value: Some(cooldown.seconds),
                ..Event::new(EventKind::CoolDown, cooldown.detail)
            },
            pid: None,
        })
    }

    /// Sleeps unless the run is stopped. Returns false if the run was stopped.
    fn pause(&self, time: Duration, why: &str, on_wait: &mut dyn FnMut(&str)) -> bool {
        on_wait(why);
        if self.stop.signal().is_none() {
            thread::sleep(time);
        }
        self.stop.signal().is_none()
    }
}

/// Returns the result of a call that may block forever; `None` if it takes longer than `limit`.
fn with_timeout<T: Send + 'static>(limit: Duration, call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::channel();
    // The receiver may be gone when the call returns.
    let started = thread::Builder::new().spawn(move || drop(sender.send(call())));
    started.ok()?;
    receiver.recv_timeout(limit).ok()
}

/// Joins the events from before a cell and those of its worker. If both concern the same process, keeps only the event
/// of the worker, which contains the times at which the process was listed.
pub(crate) fn merge_events(pre_cell: Vec<PreCellEvent>, of_worker: Vec<Event>) -> Vec<Event> {
    let seen = |pid: u32| {
        let prefix = format!("process {pid} ");
        of_worker
            .iter()
            .any(|event| event.kind == EventKind::ForeignProcess && event.detail.starts_with(&prefix))
    };
    let kept = pre_cell.into_iter().filter(|event| !event.pid.is_some_and(seen));
    let events: Vec<Event> = kept.map(|event| event.event).collect();
    events.into_iter().chain(of_worker).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_return_times_out() {
        const HOUR: Duration = Duration::from_secs(3600);
        assert_eq!(with_timeout(HOUR, || 7), Some(7));
        let stuck = || thread::sleep(HOUR);
        assert_eq!(with_timeout(Duration::from_millis(20), stuck), None);
    }

    #[test]
    fn a_process_detected_twice_has_one_event() {
        let pre_cell = |pid: u32| PreCellEvent {
            event: Event::new(
                EventKind::ForeignProcess,
                format!("process {pid} computed on the device before the cell"),
            ),
            pid: Some(pid),
        };
        let of_worker = Event::new(
            EventKind::ForeignProcess,
            "process 71 computed on the device, seen from 0.0 s to 2.0 s".into(),
        );
        let merged = merge_events(vec![pre_cell(7), pre_cell(71)], vec![of_worker]);
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
