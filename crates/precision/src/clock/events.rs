//! CUDA events of our own.
//!
//! cubecl keeps its streams to itself, and they do not wait for the default stream, so that no event of that one says
//! anything about them. Since CUDA 12.5 an event can be recorded for a whole context (`cuCtxRecordEvent`): it stands for
//! everything that was submitted to any stream of it before. Drivers without that function have no device clock here.

#![expect(unsafe_code, reason = "the driver's own interface")]

use std::ffi::{c_int, c_uint, c_void};

use libloading::Library;

use crate::device::cuda;

type Handle = *mut c_void;

/// What the functions of the driver return when all is well.
const SUCCESS: c_int = 0;

/// Names of the driver's library, the one that drivers install first.
const DRIVER: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "libcuda.so"]
};

/// Two events around a stretch of work.
pub(super) struct Events {
    context: Handle,
    start: Handle,
    stop: Handle,
    record: unsafe extern "C" fn(Handle, Handle) -> c_int,
    elapsed: unsafe extern "C" fn(*mut f32, Handle, Handle) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    /// Keeps the functions loaded.
    driver: Library,
}

impl Events {
    pub(super) fn new() -> Result<Self, String> {
        // SAFETY: the driver is loaded by now, so that nothing is run; the signatures are those of `cuda.h`.
        unsafe {
            let found = DRIVER.iter().find_map(|name| Library::new(*name).ok());
            let driver = found.ok_or("the driver's library is not there")?;
            let missing =
                |_| "the driver is older than CUDA 12.5: it cannot time all streams at once".to_owned();
            let record = *driver.get(b"cuCtxRecordEvent").map_err(missing)?;
            let elapsed = *driver.get(b"cuEventElapsedTime").map_err(missing)?;
            let destroy = *driver.get(b"cuEventDestroy_v2").map_err(missing)?;
            let create: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int =
                *driver.get(b"cuEventCreate").map_err(missing)?;
            let context = cuda::context()?.cast();
            let mut events = Self {
                context,
                start: std::ptr::null_mut(),
                stop: std::ptr::null_mut(),
                record,
                elapsed,
                destroy,
                driver,
            };
            done(create(&mut events.start, 0), "create an event")?;
            done(create(&mut events.stop, 0), "create an event")?;
            // A driver may have the function and refuse it: better to know before anything is timed.
            let wait: unsafe extern "C" fn(Handle) -> c_int =
                *events.driver.get(b"cuEventSynchronize").map_err(missing)?;
            events.start()?;
            events.stop()?;
            done(wait(events.stop), "wait for an event")?;
            events.seconds()?;
            Ok(events)
        }
    }

    /// Marks the beginning: everything that has been submitted comes before it.
    pub(super) fn start(&self) -> Result<(), String> {
        // SAFETY: context and event live, and belong together.
        done(
            unsafe { (self.record)(self.context, self.start) },
            "record an event",
        )
    }

    /// Marks the end: behind everything that has been submitted.
    pub(super) fn stop(&self) -> Result<(), String> {
        // SAFETY: as above.
        done(
            unsafe { (self.record)(self.context, self.stop) },
            "record an event",
        )
    }

    /// Seconds between both, once the device is idle.
    pub(super) fn seconds(&self) -> Result<f64, String> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events live, and the driver writes one number.
        let code = unsafe { (self.elapsed)(&mut milliseconds, self.start, self.stop) };
        done(code, "read an event")?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for event in [self.start, self.stop]
            .into_iter()
            .filter(|event| !event.is_null())
        {
            // SAFETY: the event lives and is not used again. What the driver says changes nothing any more.
            let _ = unsafe { (self.destroy)(event) };
        }
    }
}

fn done(code: c_int, what: &str) -> Result<(), String> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(format!("the driver could not {what}: CUDA error {code}"))
    }
}
