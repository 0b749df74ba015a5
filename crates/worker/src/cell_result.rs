//! Result of a measured cell: raw samples, metrics, events and status.

use std::io;

use mantissa_core::{Event, EventKind, Status};
use mantissa_runner::{Finished, Request, write_samples};
use mantissa_workloads::{Outcome, TaskMeasurements};

use crate::{
    metrics::{Measurements, summarise},
    observer::Observations,
    throttle_marks::throttle_marks,
};

/// Writes the raw samples and returns the result with status, metrics and events.
pub(crate) fn finish(
    request: &Request,
    mut outcome: Outcome,
    observations: Observations,
) -> io::Result<Finished> {
    outcome
        .samples
        .series
        .extend(throttle_marks(&outcome.measured, &observations));
    outcome.samples.series.extend(observations.trace.series());
    outcome.samples.series.extend(observations.allocator_series);
    write_samples(&request.samples, &outcome.samples)?;
    let measured = Measurements {
        outcome: &outcome,
        trace: &observations.trace,
        window: observations.window.clone(),
        idle_watts: &request.idle_watts,
        peaks: observations.peaks,
        allocator: observations.allocator,
        by_peer: !request.peer.is_empty(),
    };
    let metrics = summarise(&request.cell.setting, &measured);
    outcome.events.extend(observations.trace.events());
    let rate = observations.trace.rate(observations.window);
    outcome.events.push(Event {
        kind: EventKind::Sampling,
        step: None,
        value: rate.period_seconds,
        detail: rate.to_string(),
    });
    let (status, reason) = match (untrained_reason(&outcome.measured), outcome.diverged) {
        (Some(reason), _) => (Status::Failed, Some(reason)),
        (None, Some(reason)) => (Status::Diverged, Some(reason)),
        (None, None) => (Status::Ok, None),
    };
    Ok(Finished {
        status,
        reason,
        executed: outcome.executed,
        metrics,
        events: outcome.events,
        data: outcome.data,
        checked: None,
    })
}

/// Returns the reason for a failure if a training skipped every optimizer step: its accuracy is then only that of the initial weights.
fn untrained_reason(measured: &TaskMeasurements) -> Option<String> {
    let TaskMeasurements::Train {
        skipped_steps,
        windows,
        ..
    } = measured
    else {
        return None;
    };
    let steps = windows.len() as u64;
    (steps > 0 && *skipped_steps == steps).then(|| {
        format!("every optimizer step was skipped: the scaled gradients overflowed in all {steps} steps")
    })
}
