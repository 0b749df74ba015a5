//! Messages to the parent process, one JSON line each.

use std::io::{self, Write};

use mantissa_runner::{Message, WorkerExit};

/// Writes the message as one line. If that fails, the parent has exited, so this process exits too.
pub(crate) fn send(message: &Message) {
    let mut line = serde_json::to_vec(message).expect("messages are serializable");
    line.push(b'\n');
    let mut stdout = io::stdout().lock();
    if stdout.write_all(&line).and_then(|()| stdout.flush()).is_err() {
        kill_process_group();
        std::process::exit(WorkerExit::Orphaned as i32);
    }
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
