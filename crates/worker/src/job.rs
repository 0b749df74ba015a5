//! Executes the job of a request.

use std::io;

use mantissa_core::{CheckedOperation, Status, error_with_causes};
use mantissa_runner::{Finished, Job, Message, Request, is_out_of_memory, oom_kills};
use mantissa_telemetry::{GpuSource, HostMemory, Sampler, Source};
use mantissa_workloads::{
    OwnModel, WorkloadError,
    peer::{self, Peer},
};

use crate::{
    cell_result::finish,
    observer::Watch,
    progress::{SAMPLED, SO_FAR, memory_so_far, so_far},
};

/// Executes the job and returns the final message.
pub(crate) fn execute(request: &Request, own: Option<&OwnModel>) -> io::Result<Message> {
    match &request.job {
        Job::Measure => {}
        Job::Compile => return Ok(compile(request, own)),
        Job::Check {
            operation,
            candidate,
            compile_only,
        } => return Ok(check(request, (*operation, candidate), *compile_only)),
    }
    let kills_before = oom_kills();
    let peer = match request.peer.as_slice() {
        [] => None,
        command => match Peer::start(command) {
            Ok(peer) => Some(peer),
            Err(error) => return Ok(Message::Refused(error.to_string())),
        },
    };
    // Sample the process that computes.
    let peer_id = peer.as_ref().map(Peer::id);
    let mut sources: Vec<Box<dyn Source>> =
        vec![Box::new(peer_id.map_or_else(HostMemory::default, HostMemory::of))];
    if let Some(uuid) = &request.gpu {
        let gpu = GpuSource::open(uuid);
        sources.push(Box::new(match peer_id {
            Some(process) => gpu.of(process),
            None => gpu,
        }));
    }
    let sampler = Sampler::start(sources);
    // This cannot fail, because a process runs one cell.
    let _ = SAMPLED.set(sampler.handle());
    let mut watch = Watch::new(sampler, &SO_FAR);
    let result = match peer {
        Some(peer) => peer::run(&request.cell, &request.inputs, peer, &mut watch),
        None => mantissa_workloads::run(&request.cell, &request.inputs, own, &mut watch),
    };
    let watched = watch.end();
    let finished = match result {
        Ok(outcome) => finish(request, outcome, watched)?,
        Err(error @ (WorkloadError::Data(_) | WorkloadError::Weights(_))) => {
            return Ok(Message::Refused(error_with_causes(&error)));
        }
        Err(error @ WorkloadError::Unavailable(_)) => {
            Finished::without_result(Status::Skipped, &error_with_causes(&error))
        }
        Err(error @ WorkloadError::Device(_)) => {
            let reason = error_with_causes(&error);
            // The kernel does not report which of the two processes it killed. This process is still running, so it was the peer.
            let kills = kills_before.zip(oom_kills());
            let peer_was_killed = peer_id.is_some() && kills.is_some_and(|(before, now)| now > before);
            let status = if is_out_of_memory(&reason) || peer_was_killed {
                Status::Oom
            } else {
                Status::Failed
            };
            let taken = so_far().memory.and(memory_so_far(watched.trace.peaks()));
            Finished {
                events: watched.trace.events(),
                ..Finished::without_result(status, &reason).after(taken)
            }
        }
    };
    Ok(Message::Finished(Box::new(finished)))
}

/// Compiles the kernels of the request's cell.
fn compile(request: &Request, own: Option<&OwnModel>) -> Message {
    let finished = match mantissa_workloads::precompile(&request.cell, &request.inputs, own) {
        Ok(()) => Finished::without_result(Status::Ok, "compiled"),
        Err(error @ WorkloadError::Unavailable(_)) => {
            Finished::without_result(Status::Skipped, &error_with_causes(&error))
        }
        Err(error) => Finished::without_result(Status::Failed, &error_with_causes(&error)),
    };
    Message::Finished(Box::new(finished))
}

/// Checks a candidate kernel.
fn check(request: &Request, candidate: (CheckedOperation, &str), compile_only: bool) -> Message {
    let seen = mantissa_workloads::check_kernel(&request.cell, &request.inputs, candidate, compile_only);
    let finished = match seen {
        Ok(seen) => Finished {
            checked: Some(seen),
            ..Finished::without_result(Status::Ok, "checked")
        },
        Err(error @ WorkloadError::Unavailable(_)) => {
            Finished::without_result(Status::Skipped, &error_with_causes(&error))
        }
        Err(error) => Finished::without_result(Status::Failed, &error_with_causes(&error)),
    };
    Message::Finished(Box::new(finished))
}
