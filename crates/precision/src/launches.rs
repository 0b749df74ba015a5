//! Counting and timing the kernel launches of a step.

use burn::tensor::Device;

/// Kernel launches of some work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Launches {
    /// Number of launches.
    pub count: u64,
    /// Seconds from the first launch to the last one, on the host. The host waits while the queue of the device is full.
    pub issue_seconds: f64,
    /// Seconds in which the device executes kernels: the sum over all launches. Absent if the device does not time every launch.
    pub busy_seconds: Option<f64>,
}

/// Runs work three times on a GPU and returns its launches. The first run is a warm-up, the second run counts the launches, and the third
/// run times each launch on the device, which slows the host down. Returns `None` on the CPU, without running the work.
///
/// # Errors
/// The errors of the work.
pub fn observe_launches<E>(
    device: &Device,
    work: impl FnMut() -> Result<(), E>,
) -> Result<Option<Launches>, E> {
    #[cfg(feature = "cubecl")]
    if let burn::backend::DispatchDevice::Cube(_) = device.as_dispatch() {
        return gpu::observe(work).map(Some);
    }
    let _ = (device, work);
    Ok(None)
}

#[cfg(feature = "cubecl")]
mod gpu {
    use std::{
        sync::{Arc, Mutex, MutexGuard, PoisonError},
        time::Instant,
    };

    use burn::backend::read_sync;
    use cubecl::logging::{
        Duration, LaunchObservation, LaunchObserver, ProfileDuration, TimingMethod, TimingRequest,
    };

    use super::Launches;

    pub(super) fn observe<E>(mut work: impl FnMut() -> Result<(), E>) -> Result<Launches, E> {
        work()?;
        let counted = observe_run(TimingRequest::None, &mut work)?;
        let timed = observe_run(TimingRequest::Deferred, &mut work)?;
        let (count, issue_seconds) = (counted.count, counted.issue_seconds());
        let busy: Option<Vec<f64>> = timed.profiles.into_iter().map(seconds).collect();
        Ok(Launches {
            count,
            issue_seconds,
            // The sum would be too small if a launch had no time.
            busy_seconds: busy
                .filter(|busy| busy.len() as u64 == timed.count)
                .map(|busy| busy.iter().sum()),
        })
    }

    /// Runs work and returns the launches that were observed.
    fn observe_run<E>(timing: TimingRequest, work: impl FnOnce() -> Result<(), E>) -> Result<Observed, E> {
        let observer = Arc::new(Observer {
            timing,
            observed: Mutex::default(),
        });
        let observation = LaunchObservation::new(observer.clone());
        let result = work();
        drop(observation);
        result.map(|()| std::mem::take(&mut *observer.observed()))
    }

    /// Returns the seconds of a launch on the clock of the device.
    fn seconds(profile: ProfileDuration) -> Option<f64> {
        let has_device_clock = profile.timing_method() == TimingMethod::Device;
        let ticks = has_device_clock.then(|| read_sync(profile.resolve())).flatten()?;
        Some(ticks.duration().as_secs_f64())
    }

    #[derive(Default)]
    struct Observed {
        count: u64,
        span: Option<[Instant; 2]>,
        profiles: Vec<ProfileDuration>,
    }

    impl Observed {
        fn issue_seconds(&self) -> f64 {
            self.span
                .map_or(0.0, |[first, last]| (last - first).as_secs_f64())
        }
    }

    struct Observer {
        timing: TimingRequest,
        observed: Mutex<Observed>,
    }

    impl Observer {
        fn observed(&self) -> MutexGuard<'_, Observed> {
            self.observed.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl LaunchObserver for Observer {
        fn launched(&self, _kernel: &'static str) {
            let (mut observed, now) = (self.observed(), Instant::now());
            observed.count += 1;
            let [first, _] = observed.span.unwrap_or([now; 2]);
            observed.span = Some([first, now]);
        }

        fn timing(&self) -> TimingRequest {
            self.timing
        }

        fn profiled(&self, _kernel: &'static str, profile: ProfileDuration) {
            self.observed().profiles.push(profile);
        }

        /// Called instead of `profiled` while cubecl's own profiling is on, which makes the host wait for each kernel. The time is
        /// not used.
        fn timed(&self, _kernel: &'static str, _duration: Duration, _method: TimingMethod) {}
    }
}
