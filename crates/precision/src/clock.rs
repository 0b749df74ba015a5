//! How long work takes on a device, and by which clock.

#[cfg(feature = "cuda")]
mod events;

use std::time::Instant;

use mantissa_core::Backend;

use crate::PrecisionBackend;

/// Times work from an idle device to an idle device.
///
/// burn's own profiling is no help: on CUDA it is a synchronised wall clock, and under fusion it gives zero.
pub struct Clock {
    #[cfg(feature = "cuda")]
    events: Option<events::Events>,
    why_none: Option<String>,
}

/// How long a stretch of work took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Seconds between the work's beginning and its end on the device, by the device's own clock; absent where there is
    /// none, or where it gave a time that cannot be.
    pub device: Option<f64>,
    /// Seconds from before the work was asked for to after the device was idle again.
    pub wall: f64,
}

impl Timed {
    /// With a time of the device's own clock, if it can be true.
    pub fn new(device: Option<f64>, wall: f64) -> Self {
        Self {
            device: device.and_then(|device| possible(device, wall)),
            wall,
        }
    }
}

impl Clock {
    /// The best clock of a backend's first device.
    pub fn of(backend: Backend) -> Self {
        #[cfg(feature = "cuda")]
        if backend == Backend::Cuda {
            let events = events::Events::new();
            return Self {
                why_none: events.as_ref().err().cloned(),
                events: events.ok(),
            };
        }
        Self {
            #[cfg(feature = "cuda")]
            events: None,
            why_none: (backend != Backend::Flex).then(|| "burn's Vulkan has no clock to ask".to_owned()),
        }
    }

    /// The wall clock, which is read around what is more than one stretch of work.
    pub fn of_the_wall() -> Self {
        Self {
            #[cfg(feature = "cuda")]
            events: None,
            why_none: None,
        }
    }

    /// Why a device has no clock of its own, if it has none. The CPU needs none.
    pub fn why_none(&self) -> Option<&str> {
        self.why_none.as_deref()
    }

    /// Whether the device has a clock of its own.
    pub fn is_devices(&self) -> bool {
        #[cfg(feature = "cuda")]
        return self.events.is_some();
        #[cfg(not(feature = "cuda"))]
        return false;
    }

    /// Times work on a device that is idle. Work is timed as it is asked for: where the device is faster than that, the gaps
    /// are part of the time.
    ///
    /// # Errors
    /// What the device reports.
    pub fn time<B: PrecisionBackend, T>(
        &self,
        device: &B::Device,
        work: impl FnOnce() -> T,
    ) -> Result<(T, Timed), String> {
        let sync = || B::sync(device).map_err(|error| format!("{error:?}"));
        #[cfg(feature = "cuda")]
        if let Some(events) = &self.events {
            let begun = Instant::now();
            events.start()?;
            let result = work();
            B::submit(device)?;
            events.stop()?;
            sync()?;
            let wall = begun.elapsed().as_secs_f64();
            return Ok((result, Timed::new(Some(events.seconds()?), wall)));
        }
        let begun = Instant::now();
        let result = work();
        sync()?;
        let wall = begun.elapsed().as_secs_f64();
        Ok((result, Timed { device: None, wall }))
    }
}

/// A time of the device's clock, if it can be true: the work lies within what the wall clock saw of it. An event ticks
/// every half microsecond (CUDA driver API, `cuEventElapsedTime`).
fn possible(device: f64, wall: f64) -> Option<f64> {
    const TICK: f64 = 0.5e-6;
    (device > 0.0 && device <= wall + TICK).then_some(device)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::Flex;

    #[test]
    fn the_wall_clock_holds_all_the_work() {
        let clock = Clock::of(Backend::Flex);
        let work = || {
            std::thread::sleep(Duration::from_millis(3));
            7
        };
        let (result, timed) = clock.time::<Flex, _>(&Default::default(), work).unwrap();
        assert_eq!(result, 7);
        assert!(timed.wall >= 0.003 && timed.device.is_none(), "{timed:?}");
        assert_eq!(clock.why_none(), None);
    }

    #[test]
    fn a_time_that_cannot_be_is_none() {
        let of = |device: f64| Timed::new(Some(device), 1e-3).device;
        assert_eq!([0.9e-3, 1.1e-3, 0.0].map(of), [Some(0.9e-3), None, None]);
        assert_eq!(Timed::new(None, 1e-3).device, None);
    }
}
