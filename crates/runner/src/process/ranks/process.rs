//! Process of a rank, which is not a child of this process.

use std::os::fd::{AsFd, OwnedFd};

use rustix::{
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, Signal, getpgid, kill_process_group, pidfd_open, pidfd_send_signal},
};

/// Process of a rank, which is killed when it is dropped.
pub(super) struct RankProcess {
    id: Pid,
    /// Handle that stays valid if the system reuses the process id.
    handle: OwnedFd,
    leads_group: bool,
}

impl RankProcess {
    /// Returns the process at the other end of a Unix socket.
    pub(super) fn of_peer(socket: impl AsFd) -> std::io::Result<Self> {
        let id = socket_peercred(socket)?.pid;
        Ok(Self {
            id,
            handle: pidfd_open(id, PidfdFlags::empty())?,
            leads_group: getpgid(Some(id))? == id,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.id.as_raw_nonzero().get().unsigned_abs()
    }

    /// Kills the process, and its process group if it leads one.
    pub(super) fn kill(&self) {
        // An error means that the process has already exited. Its id may then belong to another process.
        if pidfd_send_signal(&self.handle, Signal::KILL).is_ok() && self.leads_group {
            let _ = kill_process_group(self.id, Signal::KILL);
        }
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
