//! Worker process: reads a request, executes its job and reports to the parent.

use std::io;

use mantissa_core::Backend;
use mantissa_runner::{Request, WorkerExit};
use mantissa_telemetry::keep_freed_memory;
use mantissa_workloads::OwnModel;

use crate::{job::execute, messages::send, panic_hook::exit_on_panic, progress::start_heartbeat};

/// Runs the request on standard input. `own_model` is the model of the user's program. Prints only messages on standard output.
pub fn worker(own_model: Option<&OwnModel>) -> WorkerExit {
    exit_on_panic();
    // Set the process name, because Linux names a process that is started through a file descriptor after the descriptor's number. Ignore
    // an error: systems without `/proc/self/comm` set the correct name.
    let _ = std::fs::write("/proc/self/comm", "mantissa");
    let request: Request = match serde_json::from_reader(io::stdin().lock()) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("{error}");
            return WorkerExit::BadRequest;
        }
    };
    start_heartbeat();
    if request.cell.setting.backend() == Backend::Flex && request.peer.is_empty() {
        // Must run before other threads create arenas of `malloc`. If the C library rejects the setting, steps are only slower.
        keep_freed_memory();
    }
    // Use a new thread, because the parent can choose its stack size (`RUST_MIN_STACK`), but not that of the main thread.
    let own_model = own_model.cloned();
    let thread = std::thread::spawn(move || {
        join_thread_pool();
        match execute(&request, own_model.as_ref()) {
            Ok(message) => {
                send(&message);
                WorkerExit::Done
            }
            Err(error) => {
                eprintln!("`{}`: {error}", request.samples.display());
                WorkerExit::NotWritten
            }
        }
    });
    thread.join().unwrap_or(WorkerExit::Panicked)
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
