//! How long work takes on a device, and by which clock.

use std::time::Instant;

#[cfg(feature = "cubecl")]
use burn::backend::DispatchDevice;
use burn::{
    backend::{Backend, Dispatch, ProfileOptions, ProfileToken, read_sync},
    tensor::Device,
};

/// Times work from an idle device to an idle device.
///
/// The device's own clock is that of burn's profiling windows: on CUDA a pair of events on the stream that the work runs on.
/// See `docs/decisions/0023-profiling-windows.md`.
#[derive(Debug, Clone)]
pub struct Clock {
    is_devices: bool,
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
    /// The best clock of a device.
    pub fn of(device: &Device) -> Self {
        // A driver may have a clock and refuse to read it: a window around nothing finds out before anything is timed.
        let works = has_clock(device).and_then(|has| {
            let window = if has { Window::open(device)? } else { None };
            window.map(Window::close).transpose()?;
            Ok(has)
        });
        Self {
            is_devices: works.as_ref().is_ok_and(|has| *has),
            why_none: works.err(),
        }
    }

    /// The wall clock, which is read around what is more than one stretch of work.
    pub fn of_the_wall() -> Self {
        Self {
            is_devices: false,
            why_none: None,
        }
    }

    /// Why a device has no clock of its own, if it has none. The CPU needs none.
    pub fn why_none(&self) -> Option<&str> {
        self.why_none.as_deref()
    }

    /// Whether the device has a clock of its own.
    pub fn is_devices(&self) -> bool {
        self.is_devices
    }

    /// Times work on a device that is idle. Work is timed as it is asked for: where the device is faster than that, the gaps
    /// are part of the time.
    ///
    /// # Errors
    /// What the device reports.
    pub fn time<T>(&self, device: &Device, work: impl FnOnce() -> T) -> Result<(T, Timed), String> {
        let begun = Instant::now();
        let window = match self.is_devices {
            true => Window::open(device)?,
            false => None,
        };
        let result = work();
        let window = window.map(Window::close).transpose()?;
        device.sync().map_err(|error| format!("{error:?}"))?;
        let wall = begun.elapsed().as_secs_f64();
        // What the events say is asked for once the device is idle: asking takes time, too.
        let seconds = window.and_then(|window| read_sync(window.resolve()));
        let seconds = seconds.map(|ticks| ticks.duration().as_secs_f64());
        Ok((result, Timed::new(seconds, wall)))
    }
}

/// Whether a device has a clock of its own, or why it has none though it is no CPU.
fn has_clock(device: &Device) -> Result<bool, String> {
    #[cfg(feature = "cubecl")]
    if let DispatchDevice::Cube(device) = device.as_dispatch() {
        return match device.client().properties().timing_method {
            cubecl::profile::TimingMethod::Device => Ok(true),
            cubecl::profile::TimingMethod::System => {
                Err("the driver of this device gives no time stamps".to_owned())
            }
        };
    }
    let _ = device;
    Ok(false)
}

/// A stretch of a device's stream that is timed, abandoned if it is not closed.
pub(crate) struct Window<'a> {
    device: &'a Device,
    token: Option<ProfileToken>,
}

impl<'a> Window<'a> {
    /// Absent where the device opens none.
    pub(crate) fn open(device: &'a Device) -> Result<Option<Self>, String> {
        let token = Dispatch::profile_start(device.as_dispatch()).map_err(|error| format!("{error:?}"))?;
        Ok(token.map(|token| Self {
            device,
            token: Some(token),
        }))
    }

    /// Closes it behind all that has been asked for, also what fusion holds back.
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

    #[test]
    fn the_wall_clock_holds_all_the_work() {
        let clock = Clock::of(&Device::flex());
        let work = || {
            std::thread::sleep(Duration::from_millis(3));
            7
        };
        let (result, timed) = clock.time(&Device::flex(), work).unwrap();
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
