//! Worker process: reads a request, executes its job and reports to the parent.

use std::{
    io::{self, Write},
    path::Path,
};

use mantissa_core::{Backend, Status};
use mantissa_runner::{Finished, Message, Request, WorkerExit, connect_rank};
use mantissa_telemetry::keep_freed_memory;
use mantissa_workloads::OwnModel;

use crate::{
    group::join_group,
    job::execute,
    messages::{send, use_connection},
    panic_hook::exit_on_panic,
    progress::{current_progress, start_heartbeat},
};

/// Runs the request on standard input, and prints only messages on standard output. As a rank, reads the request from the socket `group` and
/// sends the messages to it. `own_model` is the model of the user's program.
pub fn worker(own_model: Option<&OwnModel>, group: Option<&Path>) -> WorkerExit {
    exit_on_panic();
    // Set the process name, because Linux names a process that is started through a file descriptor after the descriptor's number. Ignore
    // an error: systems without `/proc/self/comm` set the correct name.
    let _ = std::fs::write("/proc/self/comm", "mantissa");
    let request = match read_request(group) {
        Ok((request, connection)) => {
            connection.into_iter().for_each(use_connection);
            request
        }
        Err(error) => {
            eprintln!("{error}");
            return WorkerExit::BadRequest;
        }
    };
    if let Some(gpu) = &request.own_gpu {
        show_only(gpu);
    }
    start_heartbeat();
    if request.cell.setting.backend() == Backend::Flex && request.peer.is_empty() {
        // Must run before other threads create arenas of `malloc`. If the C library rejects the setting, steps are only slower.
        keep_freed_memory();
    }
    // Use a new thread, because the parent can choose its stack size (`RUST_MIN_STACK`), but not that of the main thread.
    let (own_model, is_rank) = (own_model.cloned(), group.is_some());
    let thread = std::thread::spawn(move || {
        join_thread_pool();
        let message = match run(&request, own_model.as_ref(), is_rank) {
            Ok(message) => message,
            Err(error) => {
                eprintln!("`{}`: {error}", request.samples.display());
                return WorkerExit::NotWritten;
            }
        };
        let rank_failed = is_rank && !has_result(&message);
        if rank_failed {
            // The reason of the cell contains the phase and the step.
            send(&Message::Progress(current_progress()));
        }
        send(&message);
        match rank_failed {
            // `mpirun` ends the other ranks, which may wait for this one.
            true => WorkerExit::RankFailed,
            false => WorkerExit::Done,
        }
    });
    thread.join().unwrap_or(WorkerExit::Panicked)
}

/// Hides all other GPUs from this process. Call it before the first use of a GPU and before the start of other threads.
#[expect(
    unsafe_code,
    reason = "another thread could read the environment at the same time"
)]
fn show_only(gpu: &str) {
    // SAFETY: Mantissa has not started a thread yet, and programs with own models call `worker` first.
    unsafe { std::env::set_var("CUDA_VISIBLE_DEVICES", gpu) };
}

/// Connection to the runner, for messages.
type Connection = Box<dyn Write + Send>;

fn read_request(group: Option<&Path>) -> io::Result<(Request, Option<Connection>)> {
    match group {
        None => Ok((serde_json::from_reader(io::stdin().lock())?, None)),
        Some(socket) => connect_rank(socket).map(|(request, connection)| (request, Some(connection))),
    }
}

/// Runs the request and returns the final message.
fn run(request: &Request, own_model: Option<&OwnModel>, is_rank: bool) -> io::Result<Message> {
    let failed = |reason: &str| {
        let finished = Finished::without_result(Status::Failed, reason);
        Message::Finished(Box::new(finished))
    };
    let mut group = match join_group(request, is_rank) {
        Ok(group) => group,
        Err(error) => return Ok(failed(&error.to_string())),
    };
    let message = execute(request, own_model, &mut *group)?;
    // `finish` waits for all ranks, so a rank that failed must not call it.
    if has_result(&message)
        && let Err(error) = group.finish()
    {
        return Ok(failed(&error.to_string()));
    }
    Ok(message)
}

/// Returns true if a final message contains a result.
fn has_result(message: &Message) -> bool {
    matches!(message, Message::Finished(finished) if matches!(finished.status, Status::Ok | Status::Diverged))
}

/// Adds this thread to the pool that computes operations on the CPU. Passing a small operation to another thread and waiting for it takes
/// longer than computing it.
fn join_thread_pool() {
    let pool_is_single_threaded = std::env::var("RAYON_NUM_THREADS").is_ok_and(|threads| threads == "1");
    let has_several_cores = std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1);
    // If this thread were the only one in the pool, other code of the user's program that uses the pool would wait for it.
    if has_several_cores && !pool_is_single_threaded {
        // This fails only if the pool already exists. Its threads then suffice.
        let _ = rayon::ThreadPoolBuilder::new()
            .use_current_thread()
            .build_global();
    }
}
