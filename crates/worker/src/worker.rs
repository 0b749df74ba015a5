//! Worker process: reads a request, executes its job and reports to the parent.

use std::io;

use mantissa_core::Backend;
use mantissa_runner::{Request, WorkerExit};
use mantissa_telemetry::keep_freed_memory;
use mantissa_workloads::OwnModel;

use crate::{job::execute, messages::send, panic_hook::exit_on_panic, progress::beat};

/// Runs the request on standard input, with the program's `own` model if requested. Prints nothing but messages on standard output.
pub fn worker(own: Option<&OwnModel>) -> WorkerExit {
    exit_on_panic();
    // A process that was started through a file descriptor is named after its number. On systems without this file, the name is correct.
    let _ = std::fs::write("/proc/self/comm", "mantissa");
    let request: Request = match serde_json::from_reader(io::stdin().lock()) {
        Ok(request) => request,
        Err(error) => {
            eprintln!("{error}");
            return WorkerExit::BadRequest;
        }
    };
    beat();
    if request.cell.setting.backend() == Backend::Flex && request.peer.is_empty() {
        // Must run before other threads create their own arenas. If the C library rejects the setting, steps are slower.
        keep_freed_memory();
    }
    // Use a new thread, because the parent cannot choose the stack size of the main thread.
    let own = own.cloned();
    let working = std::thread::spawn(move || {
        join_thread_pool();
        match execute(&request, own.as_ref()) {
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
    working.join().unwrap_or(WorkerExit::Panicked)
}

/// Adds this thread to the pool that computes operations on the CPU. Handing a small operation over to another thread and waiting for it takes
/// longer than computing it.
fn join_thread_pool() {
    let one = std::env::var("RAYON_NUM_THREADS").is_ok_and(|threads| threads == "1");
    let several = std::thread::available_parallelism().is_ok_and(|threads| threads.get() > 1);
    // With a single thread, other code of the user's program that uses the same pool would wait for this thread.
    if several && !one {
        // The pool is not in use yet in this process. If it were, its existing threads would suffice.
        let _ = rayon::ThreadPoolBuilder::new()
            .use_current_thread()
            .build_global();
    }
}
