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

/// Progress of the cell of this process. It is sent with every heartbeat, and once more before a panic ends the process.
pub(crate) static SO_FAR: Mutex<Advance> = Mutex::new(Advance {
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

/// Current samples of the sampler.
pub(crate) static SAMPLED: OnceLock<TraceHandle> = OnceLock::new();

/// Sends heartbeats with the progress to the parent. If the parent has exited, the worker exits.
pub(crate) fn beat() {
    std::thread::spawn(move || {
        let mut sent = vec![];
        loop {
            std::thread::sleep(HEARTBEAT);
            send(&Message::Progress(so_far()));
            if let Some(events) = device_events().filter(|events| *events != sent) {
                send(&Message::Happened(events.clone()));
                sent = events;
            }
        }
    });
}

/// Returns the events of the device so far, without waiting for the device.
pub(crate) fn device_events() -> Option<Vec<Event>> {
    SAMPLED.get().and_then(TraceHandle::events)
}

/// Returns the progress of the cell with the memory peaks sampled so far.
pub(crate) fn so_far() -> Advance {
    let mut advance = *SO_FAR.lock().unwrap_or_else(PoisonError::into_inner);
    let peaks = SAMPLED.get().and_then(TraceHandle::peaks).unwrap_or_default();
    advance.memory = advance.memory.and(memory_so_far(peaks));
    advance
}

/// Converts the peaks of the sampler for a message.
pub(crate) fn memory_so_far(peaks: Peaks) -> MemorySoFar {
    MemorySoFar {
        host: peaks.host,
        device: peaks.device,
        process: peaks.process,
        ..MemorySoFar::default()
    }
}
