//! Handling of system limits on threads and file size. By default, reaching such a limit causes a panic or a signal.

use std::{
    io,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rayon::ThreadPoolBuilder;

/// Turns a write beyond the file size limit (`ulimit -f`) into an error. By default, the signal SIGXFSZ ends the process.
///
/// # Errors
/// The system rejects the signal handler.
pub fn survive_file_size_limit() -> io::Result<()> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Creates rayon's global thread pool, which reads files. If the system cannot start threads, the pool consists of the
/// calling thread.
pub fn prepare_threads() {
    static PREPARED: OnceLock<()> = OnceLock::new();
    PREPARED.get_or_init(|| {
        // The global pool cannot be rebuilt after a failure and panics when it is used. Therefore, test with another
        // pool first.
        let _ = match can_start_threads() {
            true => ThreadPoolBuilder::new().build_global(),
            false => ThreadPoolBuilder::new()
                .num_threads(1)
                .use_current_thread()
                .build_global(),
        };
    });
}

/// Returns true if as many threads as in the global pool can be started. Ends these threads before it returns.
fn can_start_threads() -> bool {
    /// Time limit for the end of the threads.
    const PATIENCE: Duration = Duration::from_secs(1);
    let left = Arc::new(AtomicUsize::new(0));
    let [started, ended] = [(); 2].map(|()| Arc::clone(&left));
    let pool = ThreadPoolBuilder::new()
        .start_handler(move |_| {
            started.fetch_add(1, Ordering::Relaxed);
        })
        .exit_handler(move |_| {
            ended.fetch_sub(1, Ordering::Relaxed);
        })
        .build();
    let Ok(pool) = pool else { return false };
    pool.broadcast(|_| ());
    drop(pool);
    let begun = Instant::now();
    while left.load(Ordering::Relaxed) > 0 && begun.elapsed() < PATIENCE {
        thread::sleep(Duration::from_micros(100));
    }
    true
}
