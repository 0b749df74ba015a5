//! Process of a rank, which is not a child of this process.

use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::sockopt::socket_peercred,
    process::{Pid, PidfdFlags, Signal, getpgid, kill_process_group, pidfd_open, pidfd_send_signal},
};

use super::super::child::host_peak;

/// Process of a rank, which is killed when it is dropped.
pub(super) struct RankProcess(OpenProcess);

/// Process with a handle.
struct OpenProcess {
    id: Pid,
    /// Handle that stays valid if the system reuses the process id.
    handle: OwnedFd,
    leads_group: bool,
}

impl RankProcess {
    /// Returns the process at the other end of a Unix socket, or `None` if it has ended.
    ///
    /// # Errors
    /// The system cannot open the process.
    pub(super) fn of_peer(socket: &UnixStream) -> io::Result<Option<Self>> {
        Ok(OpenProcess::of_peer(socket)?.map(Self))
    }

    /// Returns the peak host memory in bytes, or `None` if the process has ended.
    pub(super) fn host_peak(&self) -> Option<u64> {
        let id = self.0.id.as_raw_nonzero().get().unsigned_abs();
        // Read first: until the process ends, its id does not belong to another process.
        host_peak(id).filter(|_| !self.0.has_ended())
    }

    /// Kills the process, and its process group if it leads one.
    pub(super) fn kill(&self) {
        let OpenProcess {
            id,
            handle,
            leads_group,
        } = &self.0;
        // Errors mean that the process has already ended.
        if *leads_group && !self.0.has_ended() {
            let _ = kill_process_group(*id, Signal::KILL);
        }
        let _ = pidfd_send_signal(handle, Signal::KILL);
    }
}

impl Drop for RankProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

impl OpenProcess {
    fn of_peer(socket: &UnixStream) -> io::Result<Option<Self>> {
        let process = Self::open(socket_peercred(socket)?.pid)?;
        // The system may have reused the id of an ended process before `open`. The connection of an ended process is closed.
        let is_closed = ready(socket, PollFlags::empty())?.contains(PollFlags::HUP);
        Ok(process.filter(|_| !is_closed))
    }

    fn open(id: Pid) -> io::Result<Option<Self>> {
        let handle = match pidfd_open(id, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(None),
            opened => opened.map_err(|error| failed("pidfd_open", error))?,
        };
        let group = match getpgid(Some(id)) {
            Err(Errno::SRCH) => return Ok(None),
            group => group.map_err(|error| failed("getpgid", error))?,
        };
        Ok(Some(Self {
            id,
            handle,
            leads_group: group == id,
        }))
    }

    /// Returns true if the process has ended. Its id may then belong to another process.
    fn has_ended(&self) -> bool {
        !ready(&self.handle, PollFlags::IN).is_ok_and(|events| events.is_empty())
    }
}

/// Returns the events of a file that have occurred, without waiting.
fn ready(file: impl AsFd, events: PollFlags) -> io::Result<PollFlags> {
    const NOW: Timespec = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut files = [PollFd::new(&file, events)];
    poll(&mut files, Some(&NOW))?;
    Ok(files[0].revents())
}

fn failed(call: &str, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{call} failed: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt,
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// Starts a process in a process group of its own.
    fn sleep() -> (Child, Pid) {
        let mut command = Command::new("sleep");
        // A test that fails must not leave a process that keeps its output open.
        let command = command
            .arg("60")
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().unwrap();
        let id = Pid::from_child(&child);
        (child, id)
    }

    #[test]
    fn a_process_with_the_id_of_an_ended_rank_is_neither_killed_nor_measured() {
        let (mut child, id) = sleep();
        let rank = RankProcess(OpenProcess::open(id).unwrap().unwrap());
        assert!(rank.0.leads_group && rank.host_peak().is_some());
        rank.kill();
        child.wait().unwrap();
        assert!(rank.0.has_ended() && OpenProcess::open(id).unwrap().is_none());
        let (mut other, other_id) = sleep();
        let reused = RankProcess(OpenProcess {
            id: other_id,
            handle: rank.0.handle.try_clone().unwrap(),
            leads_group: true,
        });
        assert_eq!(reused.host_peak(), None);
        drop(reused);
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert!(
            other.try_wait().unwrap().is_none(),
            "the other process was killed"
        );
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn a_closed_connection_has_no_process() {
        let (socket, peer) = UnixStream::pair().unwrap();
        let of_peer = || OpenProcess::of_peer(&socket).unwrap();
        assert!(of_peer().is_some());
        // Unread data does not keep a connection open.
        io::Write::write_all(&mut &peer, b"data").unwrap();
        drop(peer);
        assert!(of_peer().is_none());
    }
}
