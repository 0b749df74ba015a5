//! Progress of the cell, and the heartbeat that sends it to the parent.

use std::{
    sync::{Mutex, OnceLock, PoisonError},
    time::Duration,
};

use mantissa_core::{Event, Phase};
use mantissa_runner::{Advance, MemorySoFar, Message};
use mantissa_telemetry::{Peaks, TraceHandle};

use crate::messages::send;

/// Time between two heartbeats.
const HEARTBEAT: Duration = Duration::from_millis(200);

/// Progress of the cell. Each heartbeat sends it to the parent, and so does the panic hook.
pub(crate) static PROGRESS: Mutex<Advance> = Mutex::new(Advance {
    phase: Phase::Prepare,
    done: 0,
    total: 0,
    memory: MemorySoFar {
        host: None,
        device: None,
        process: None,
        reserved: None,
        in_use: None,
    },
});

/// Handle to the samples taken so far.
pub(crate) static TRACE_HANDLE: OnceLock<TraceHandle> = OnceLock::new();

/// Starts a thread that sends the progress and new device events to the parent. If the parent has exited, the worker exits.
pub(crate) fn start_heartbeat() {
    std::thread::spawn(move || {
        let mut sent = vec![];
        loop {
            std::thread::sleep(HEARTBEAT);
            send(&Message::Progress(current_progress()));
            if let Some(events) = device_events().filter(|events| *events != sent) {
                send(&Message::Happened(events.clone()));
                sent = events;
            }
        }
    });
}

/// Returns the device events so far, or `None` if another thread has locked the trace (this function does not wait).
pub(crate) fn device_events() -> Option<Vec<Event>> {
    TRACE_HANDLE.get().and_then(TraceHandle::events)
}

/// Returns the progress of the cell with the memory peaks sampled so far.
pub(crate) fn current_progress() -> Advance {
    let mut advance = *PROGRESS.lock().unwrap_or_else(PoisonError::into_inner);
    let peaks = TRACE_HANDLE
        .get()
        .and_then(TraceHandle::peaks)
        .unwrap_or_default();
    advance.memory = advance.memory.and(peaks_so_far(peaks));
    advance
}

/// Converts the memory peaks of the sampler for a message.
pub(crate) fn peaks_so_far(peaks: Peaks) -> MemorySoFar {
    MemorySoFar {
        host: peaks.host,
        device: peaks.device,
        process: peaks.process,
        ..MemorySoFar::default()
    }
}
