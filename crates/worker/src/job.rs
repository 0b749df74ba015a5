//! Executes the job of a request.

use std::{fs, io};

use mantissa_collectives::Group;
use mantissa_core::{CheckedOperation, Status, error_with_causes};
use mantissa_runner::{Finished, Job, Message, Request, is_out_of_memory, oom_kills};
use mantissa_telemetry::{GpuSource, HostMemory, Sampler, Source};
use mantissa_workloads::{
    OwnModel, WorkloadError,
    peer::{self, Peer},
};

use crate::{
    cell_result::finish,
    observer::CellObserver,
    progress::{PROGRESS, TRACE_HANDLE, current_progress, peaks_so_far},
};

/// Name of the file of trained weights, next to the raw samples.
const WEIGHTS_FILE: &str = "weights.safetensors";

/// Executes the job and returns the final message. Only rank 0 of `group` writes files and returns measurements.
pub(crate) fn execute(
    request: &Request,
    own_model: Option<&OwnModel>,
    group: &mut dyn Group,
) -> io::Result<Message> {
    match &request.job {
        Job::Measure => {}
        Job::Compile => return Ok(compile(request, own_model)),
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
    // If a peer (the program of another framework) computes the cell, sample the peer's process instead of this one.
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
    // Setting the handle fails only if it is already set. It is not, because a process runs only one cell.
    let _ = TRACE_HANDLE.set(sampler.handle());
    let is_first = group.rank() == 0;
    let weights_file = (request.save_weights && is_first).then(|| request.samples.join(WEIGHTS_FILE));
    if weights_file.is_some() {
        fs::create_dir_all(&request.samples)?;
    }
    let mut observer = CellObserver::new(sampler, &PROGRESS, weights_file);
    let result = match peer {
        Some(peer) => peer::run(&request.cell, &request.inputs, peer, &mut observer),
        None => mantissa_workloads::run(&request.cell, &request.inputs, own_model, group, &mut observer),
    };
    let observations = observer.end();
    let finished = match result {
        Ok(outcome) if is_first => finish(request, outcome, observations)?,
        Ok(_) => Finished {
            reason: None,
            ..Finished::without_result(Status::Ok, "")
        },
        Err(error @ (WorkloadError::Data(_) | WorkloadError::Weights(_))) => {
            return Ok(Message::Refused(error_with_causes(&error)));
        }
        Err(error @ WorkloadError::Unavailable(_)) => {
            Finished::without_result(Status::Skipped, &error_with_causes(&error))
        }
        Err(error @ (WorkloadError::Device(_) | WorkloadError::Ranks(_))) => {
            let reason = error_with_causes(&error);
            // The operating system reports that it killed a process for lack of memory, but not which one. This process is still running, so
            // the killed process is assumed to be the peer.
            let kills = kills_before.zip(oom_kills());
            let peer_was_killed = peer_id.is_some() && kills.is_some_and(|(before, now)| now > before);
            let status = if is_out_of_memory(&reason) || peer_was_killed {
                Status::Oom
            } else {
                Status::Failed
            };
            let memory = current_progress()
                .memory
                .and(peaks_so_far(observations.trace.peaks()));
            Finished {
                events: observations.trace.events(),
                ..Finished::without_result(status, &reason).after(memory)
            }
        }
    };
    Ok(Message::Finished(Box::new(finished)))
}

/// Compiles the kernels of the request's cell.
fn compile(request: &Request, own_model: Option<&OwnModel>) -> Message {
    let finished = match mantissa_workloads::precompile(&request.cell, &request.inputs, own_model) {
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
    let result = mantissa_workloads::check_kernel(&request.cell, &request.inputs, candidate, compile_only);
    let finished = match result {
        Ok(checked) => Finished {
            checked: Some(checked),
            ..Finished::without_result(Status::Ok, "checked")
        },
        Err(error @ WorkloadError::Unavailable(_)) => {
            Finished::without_result(Status::Skipped, &error_with_causes(&error))
        }
        Err(error) => Finished::without_result(Status::Failed, &error_with_causes(&error)),
    };
    Message::Finished(Box::new(finished))
}
