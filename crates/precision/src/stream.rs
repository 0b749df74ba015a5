//! Execution on the thread of burn's fusion stream.

use std::{sync::Arc, thread};

use burn::{
    backend::{
        DeviceHandle, DeviceId, DeviceService, DeviceServiceStage, DispatchDevice, ServerUtilitiesHandle,
    },
    tensor::Device,
};

/// Number of threads that process an operation on a GPU: the caller's, and burn's threads for the stream and for the device.
const THREADS: usize = 3;

/// Runs work on the thread of a device's fusion stream, if the machine has fewer cores than burn has threads for a GPU.
///
/// The threads communicate through queues. A thread that finds a queue full spins for milliseconds before it yields. On two cores, the
/// third thread has to wait meanwhile. Work on the stream's thread does not use the queue to the stream.
pub fn run_on_stream_thread<R: Send>(device: &Device, work: impl FnOnce() -> R + Send) -> R {
    let has_few_cores = thread::available_parallelism().is_ok_and(|cores| cores.get() < THREADS);
    match stream_of(device).filter(|_| has_few_cores) {
        Some(device) => run_on_stream(device, work),
        None => work(),
    }
}

fn stream_of(device: &Device) -> Option<DeviceId> {
    match device.as_dispatch() {
        #[cfg(feature = "cubecl")]
        DispatchDevice::Cube(device) => Some(device.to_id()),
        _ => None,
    }
}

fn run_on_stream<R: Send>(device: DeviceId, work: impl FnOnce() -> R + Send) -> R {
    let handle = DeviceHandle::<StreamService>::new(device);
    handle.exclusive(work).unwrap_or_else(|error| error.resume())
}

/// Service on the stream's thread, used only to get a handle to that thread.
struct StreamService;

impl DeviceService for StreamService {
    fn init(_: DeviceId) -> Self {
        Self
    }

    fn utilities(&self) -> ServerUtilitiesHandle {
        Arc::new(())
    }

    /// Returns the stage of burn-fusion's streams.
    fn stage() -> DeviceServiceStage {
        DeviceServiceStage::Upstream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_runs_on_the_stream_thread_and_panics_are_propagated() {
        let device = DeviceId {
            type_id: 7,
            index_id: 3,
        };
        let name = || thread::current().name().map(str::to_owned);
        // The thread of burn-fusion's server has this name, too (`DSU`: the upstream stage of a device).
        assert_eq!(run_on_stream(device, name).as_deref(), Some("DSU-7-3"));
        let caught = std::panic::catch_unwind(|| run_on_stream(device, || panic!("on the stream")));
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&"on the stream"));
    }

    #[test]
    fn the_cpu_has_no_stream() {
        assert!(stream_of(&Device::flex()).is_none());
        let here = thread::current().id();
        assert_eq!(
            run_on_stream_thread(&Device::flex(), || thread::current().id()),
            here
        );
    }
}
