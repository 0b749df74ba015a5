//! Unix socket to which the ranks of a cell connect.

use std::{
    fs::Permissions,
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::PathBuf,
    sync::{Arc, mpsc::Sender},
    thread,
};

use tempfile::TempDir;

use super::{
    super::output::{OutputLine, parse_line, send_lines},
    process::RankProcess,
};
use crate::message::{Hello, Request};

/// Maximum length of the path of a socket in bytes.
const MAX_PATH_BYTES: usize = 107;

/// Maximum length of a hello in bytes.
const MAX_HELLO_BYTES: u64 = 256;

/// Event of the ranks, as received by the reader threads.
pub(super) enum RankEvent {
    /// A rank connected.
    Connected(Hello, RankProcess),
    /// A process connected and sent something other than a hello.
    Malformed(Vec<u8>),
    /// A rank connected, but the runner cannot supervise it, for this reason.
    Unsupervised(String),
    /// A rank sent a line or closed its connection.
    Line(usize, OutputLine),
    /// `mpirun` or one of the ranks printed a line.
    Output(Vec<u8>),
}

/// Listening socket in a temporary folder of this user.
pub(super) struct Socket {
    folder: TempDir,
    listener: UnixListener,
    /// Line with the request of each rank.
    requests: Arc<[Vec<u8>]>,
}

impl Socket {
    pub(super) fn open(requests: &[Request]) -> io::Result<Self> {
        let line = |request: &Request| -> io::Result<Vec<u8>> {
            let mut line = serde_json::to_vec(request)?;
            line.push(b'\n');
            Ok(line)
        };
        let lines: io::Result<Vec<Vec<u8>>> = requests.iter().map(line).collect();
        let folder = folder()?;
        let path = path_in(&folder);
        let listener = UnixListener::bind(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display())))?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            folder,
            listener,
            requests: lines?.into(),
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        path_in(&self.folder)
    }

    /// Accepts the waiting connections. A thread of each connection sends its events.
    ///
    /// # Errors
    /// The system rejects a connection or cannot start a thread.
    pub(super) fn accept(&self, sender: &Sender<RankEvent>) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) =>
                {
                    continue;
                }
                Err(error) => {
                    let text = format!("cannot accept the connection of a rank: {error}");
                    return Err(io::Error::new(error.kind(), text));
                }
            };
            let (requests, sender) = (Arc::clone(&self.requests), sender.clone());
            // Errors mean that the rank or the receiver is gone.
            let serve = move || drop(serve(&stream, &requests, &sender, RankProcess::of_peer));
            thread::Builder::new().spawn(serve).map_err(|error| {
                let text = format!("cannot start a thread for the messages of a rank: {error}");
                io::Error::new(error.kind(), text)
            })?;
        }
    }

    /// Lets each call of [`accept`](Self::accept) fail.
    #[cfg(test)]
    pub(super) fn stop_listening(&mut self) {
        let (stream, _) = UnixStream::pair().unwrap();
        self.listener = std::os::fd::OwnedFd::from(stream).into();
    }
}

/// Creates a folder to which other users cannot connect: in the folder for temporary files, or in `/tmp` if the path would be too long.
fn folder() -> io::Result<TempDir> {
    let private = Permissions::from_mode(0o700);
    let mut builder = tempfile::Builder::new();
    let builder = builder.permissions(private);
    let folder = builder.tempdir()?;
    match path_in(&folder).as_os_str().len() <= MAX_PATH_BYTES {
        true => Ok(folder),
        false => builder.tempdir_in("/tmp"),
    }
}

fn path_in(folder: &TempDir) -> PathBuf {
    folder.path().join("ranks")
}

/// Reads the hello of a rank, sends it the request, and reads its messages. `open` returns the process at the other end of a socket, or
/// `None` if it has ended.
fn serve(
    mut stream: &UnixStream,
    requests: &[Vec<u8>],
    sender: &Sender<RankEvent>,
    open: impl Fn(&UnixStream) -> io::Result<Option<RankProcess>>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = vec![];
    reader
        .by_ref()
        .take(MAX_HELLO_BYTES)
        .read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(());
    }
    let Ok(hello) = serde_json::from_slice::<Hello>(&line) else {
        let _ = sender.send(RankEvent::Malformed(line));
        return Ok(());
    };
    let rank = hello.rank;
    let process = match open(stream) {
        Ok(Some(process)) => process,
        Ok(None) => return Ok(()),
        Err(error) => {
            let text = format!("cannot supervise rank {rank}: {error}");
            let _ = sender.send(RankEvent::Unsupervised(text));
            return Ok(());
        }
    };
    if sender.send(RankEvent::Connected(hello, process)).is_err() {
        return Ok(());
    }
    // The end of a rank that does not read its request is noticed below.
    let _ = requests.get(rank).map(|request| stream.write_all(request));
    let parse = |line| RankEvent::Line(rank, parse_line(line));
    let closed = RankEvent::Line(rank, OutputLine::Closed);
    send_lines(reader, sender, parse, Some(closed));
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::io::Errno;

    use super::*;

    /// Returns the events of a rank whose process is opened with this result.
    fn events(opened: fn() -> io::Result<Option<RankProcess>>) -> Vec<RankEvent> {
        let (stream, mut rank) = UnixStream::pair().unwrap();
        let hello = serde_json::to_vec(&Hello { rank: 1 }).unwrap();
        rank.write_all(&[&hello[..], b"\n"].concat()).unwrap();
        let (sender, receiver) = mpsc::channel();
        serve(&stream, &[], &sender, |_| opened()).unwrap();
        drop(sender);
        receiver.into_iter().collect()
    }

    #[test]
    fn a_rank_whose_process_cannot_be_opened_is_reported() {
        let events_of_error = events(|| Err(Errno::PERM.into()));
        assert!(matches!(&events_of_error[..], [RankEvent::Unsupervised(text)]
                if text == "cannot supervise rank 1: Operation not permitted (os error 1)"));
        // `mpirun` reports the end of the rank.
        assert!(events(|| Ok(None)).is_empty());
    }
}
