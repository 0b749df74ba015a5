//! Connection of a rank to the runner.

use std::{
    io::{self, Write},
    path::Path,
};

use crate::message::Request;

/// Environment variable in which Open MPI stores the number of a rank.
#[cfg(unix)]
const RANK: &str = "OMPI_COMM_WORLD_RANK";

/// Connects this process, which `mpirun` started, to the socket of the runner. Returns the request, and the stream for messages.
///
/// From this call on, the system kills the process when `mpirun` exits (Linux only).
///
/// # Errors
/// The process is not a rank, the runner is gone, or the request is malformed.
#[cfg(unix)]
pub fn connect_rank(socket: &Path) -> io::Result<(Request, Box<dyn Write + Send>)> {
    use std::{
        io::{BufRead as _, BufReader},
        os::unix::net::UnixStream,
    };

    use crate::message::Hello;
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let rank = std::env::var(RANK).ok().and_then(|rank| rank.parse().ok());
    let rank = rank.ok_or_else(|| io::Error::other(format!("`{RANK}` is not the number of a rank")))?;
    let mut stream = UnixStream::connect(socket).map_err(|error| {
        let path = socket.display();
        io::Error::new(
            error.kind(),
            format!("cannot connect to the runner at `{path}`: {error}"),
        )
    })?;
    let mut hello = serde_json::to_vec(&Hello { rank })?;
    hello.push(b'\n');
    stream.write_all(&hello)?;
    let mut request = vec![];
    BufReader::new(&stream).read_until(b'\n', &mut request)?;
    Ok((serde_json::from_slice(&request)?, Box::new(stream)))
}

/// Returns an error.
///
/// # Errors
/// Ranks exist only on Unix.
#[cfg(not(unix))]
pub fn connect_rank(_socket: &Path) -> io::Result<(Request, Box<dyn Write + Send>)> {
    Err(io::ErrorKind::Unsupported.into())
}
