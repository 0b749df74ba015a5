//! Messages to the parent process or, from a rank, to the runner: one JSON line each.

use std::{
    io::{self, Write},
    sync::{Mutex, OnceLock, PoisonError},
};

use mantissa_runner::{Message, WorkerExit};

/// Connection of a rank to the runner. Without it, messages go to standard output.
static CONNECTION: OnceLock<Mutex<Box<dyn Write + Send>>> = OnceLock::new();

/// Sends all further messages to the runner of this rank.
pub(crate) fn use_connection(connection: Box<dyn Write + Send>) {
    // A process has at most one connection.
    let _ = CONNECTION.set(Mutex::new(connection));
}

/// Writes the message as one line. If that fails, the parent has exited, so this process exits too.
pub(crate) fn send(message: &Message) {
    let mut line = serde_json::to_vec(message).expect("messages are serializable");
    line.push(b'\n');
    if write(&line).is_err() {
        kill_process_group();
        std::process::exit(WorkerExit::Orphaned as i32);
    }
}

fn write(line: &[u8]) -> io::Result<()> {
    if let Some(connection) = CONNECTION.get() {
        let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
        return connection.write_all(line);
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(line)?;
    stdout.flush()
}

/// Kills the process group of this process, which contains the peer process. Does nothing unless this process leads the group, because the
/// group may then contain other processes.
fn kill_process_group() {
    #[cfg(unix)]
    {
        use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group};
        if getpgrp() == getpid() {
            let _ = kill_current_process_group(Signal::KILL);
        }
    }
}
