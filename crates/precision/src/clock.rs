//! Timing of work on a device.

use std::time::Instant;

#[cfg(feature = "cubecl")]
use burn::backend::DispatchDevice;
use burn::{
    backend::{Backend, Dispatch, ProfileOptions, ProfileToken, read_sync},
    tensor::Device,
};

/// Clock for work that starts on an idle device and ends when the device is idle again.
///
/// The device clock is that of burn's profiling windows: on CUDA, two events on the stream that executes the work. See
/// `docs/decisions/0023-profiling-windows.md`.
#[derive(Debug, Clone)]
pub struct Clock {
    uses_device_clock: bool,
    unavailable_reason: Option<String>,
}

/// Duration of work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timed {
    /// Seconds between start and end of the work on the device clock; absent if the device does not have a clock or the time is
    /// implausible.
    pub device: Option<f64>,
    /// Seconds from before the work was submitted until the device was idle again.
    pub wall: f64,
}

impl Timed {
    /// Creates a duration. Discards the time of the device clock if it is implausible.
    pub fn new(device: Option<f64>, wall: f64) -> Self {
        Self {
            device: device.and_then(|device| plausible(device, wall)),
            wall,
        }
    }
}

impl Clock {
    /// Returns the best clock of a device.
    pub fn of(device: &Device) -> Self {
        // A driver may report a clock but fail to read it. An empty window detects this before anything is timed.
        let clock = has_clock(device).and_then(|exists| {
            let window = if exists { Window::open(device)? } else { None };
            window.map(Window::close).transpose()?;
            Ok(exists)
        });
        Self {
            uses_device_clock: clock.as_ref().is_ok_and(|exists| *exists),
            unavailable_reason: clock.err(),
        }
    }

    /// Returns the wall clock, for durations that cover several pieces of work, such as training steps.
    pub fn wall() -> Self {
        Self {
            uses_device_clock: false,
            unavailable_reason: None,
        }
    }

    /// Returns the reason why the clock of a GPU cannot be used. Returns `None` if it can be used, and for the CPU, which does not need one.
    pub fn unavailable_reason(&self) -> Option<&str> {
        self.unavailable_reason.as_deref()
    }

    /// Returns true if times come from the clock of the device.
    pub fn uses_device_clock(&self) -> bool {
        self.uses_device_clock
    }

    /// Times work on an idle device. The time includes gaps in which the device waits for the host to submit work.
    ///
    /// # Errors
    /// Any error that the device reports.
    pub fn time<T>(&self, device: &Device, work: impl FnOnce() -> T) -> Result<(T, Timed), String> {
        let start = Instant::now();
        let window = match self.uses_device_clock {
            true => Window::open(device)?,
            false => None,
        };
        let result = work();
        let window = window.map(Window::close).transpose()?;
        device.sync().map_err(|error| format!("{error:?}"))?;
        let wall = start.elapsed().as_secs_f64();
        // The events are read once the device is idle, because reading takes time, too.
        let seconds = window.and_then(|window| read_sync(window.resolve()));
        let seconds = seconds.map(|ticks| ticks.duration().as_secs_f64());
        Ok((result, Timed::new(seconds, wall)))
    }
}

/// Returns true if a device has its own clock, or an error with the reason if a GPU does not have one.
fn has_clock(device: &Device) -> Result<bool, String> {
    #[cfg(feature = "cubecl")]
    if let DispatchDevice::Cube(device) = device.as_dispatch() {
        return match device.client().properties().timing_method {
            cubecl::profile::TimingMethod::Device => Ok(true),
            cubecl::profile::TimingMethod::System => {
                Err("the driver of this device reports no time stamps".to_owned())
            }
        };
    }
    let _ = device;
    Ok(false)
}

/// Timed section of a device's stream, abandoned if it is not closed.
pub(crate) struct Window<'a> {
    device: &'a Device,
    token: Option<ProfileToken>,
}

impl<'a> Window<'a> {
    /// Opens a window. Returns `None` if the device does not support it.
    pub(crate) fn open(device: &'a Device) -> Result<Option<Self>, String> {
        let token = Dispatch::profile_start(device.as_dispatch()).map_err(|error| format!("{error:?}"))?;
        Ok(token.map(|token| Self {
            device,
            token: Some(token),
        }))
    }

    /// Closes the window after all submitted work, including operations that fusion has queued.
    pub(crate) fn close(mut self) -> Result<burn::backend::ProfileDuration, String> {
        let token = self.token.take().expect("a window is closed once");
        let options = ProfileOptions::default().flush();
        Dispatch::profile_end(self.device.as_dispatch(), token, options).map_err(|error| format!("{error:?}"))
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if let Some(token) = self.token.take() {
            Dispatch::profile_abandon(self.device.as_dispatch(), token);
        }
    }
}

/// Returns the time of the device clock if it is plausible: above 0 and at most the wall time plus one tick. A tick is the resolution of
/// events, half a microsecond (CUDA driver API, `cuEventElapsedTime`).
fn plausible(device: f64, wall: f64) -> Option<f64> {
    const TICK: f64 = 0.5e-6;
    (device > 0.0 && device <= wall + TICK).then_some(device)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_wall_clock_includes_all_work() {
        let clock = Clock::of(&Device::flex());
        let work = || {
            std::thread::sleep(Duration::from_millis(3));
            7
        };
        let (result, timed) = clock.time(&Device::flex(), work).unwrap();
        assert_eq!(result, 7);
        assert!(timed.wall >= 0.003 && timed.device.is_none(), "{timed:?}");
        assert_eq!(clock.unavailable_reason(), None);
    }

    #[test]
    fn an_implausible_time_is_discarded() {
        let device_time = |device: f64| Timed::new(Some(device), 1e-3).device;
        assert_eq!([0.9e-3, 1.1e-3, 0.0].map(device_time), [Some(0.9e-3), None, None]);
        assert_eq!(Timed::new(None, 1e-3).device, None);
    }
}
