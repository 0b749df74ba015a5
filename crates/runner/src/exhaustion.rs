//! Machines without threads or room for files: errors instead of panics and signals.

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

/// Makes a write beyond the limit of file sizes an error instead of the end of the process.
///
/// # Errors
/// The system refuses it.
pub fn survive_file_size_limit() -> io::Result<()> {
    #[cfg(unix)]
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Prepares the threads that share the work of reading files. On a machine without more threads, the calling thread works
/// alone.
pub fn prepare_threads() {
    static PREPARED: OnceLock<()> = OnceLock::new();
    PREPARED.get_or_init(|| {
        // The global pool cannot be built again after a failure, and panics when it is used. So another pool is built first.
        let _ = match can_start_threads() {
            true => ThreadPoolBuilder::new().build_global(),
            false => ThreadPoolBuilder::new()
                .num_threads(1)
                .use_current_thread()
                .build_global(),
        };
    });
}

/// Starts and ends as many threads as the global pool has.
fn can_start_threads() -> bool {
    /// Longest time to wait for their end.
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
