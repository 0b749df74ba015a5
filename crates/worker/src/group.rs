//! Group of the ranks of a cell.

use mantissa_collectives::{CollectiveError, Group, Single};
use mantissa_runner::Request;

/// Returns the group of a process that `mpirun` started as a rank, otherwise a group of one rank. MPI requires that the same thread
/// uses the group.
pub(crate) fn join_group(request: &Request, is_rank: bool) -> Result<Box<dyn Group>, CollectiveError> {
    if !is_rank {
        return Ok(Box::new(Single));
    }
    let (group, ranks) = (initialize()?, request.cell.setting.devices() as usize);
    // If the library does not find its launcher, each process is a group of its own.
    match group.size() == ranks {
        true => Ok(group),
        false => Err(failed(format!(
            "the group has {} ranks, expected {ranks}",
            group.size()
        ))),
    }
}

#[cfg(feature = "mpi")]
fn initialize() -> Result<Box<dyn Group>, CollectiveError> {
    Ok(Box::new(mantissa_collectives::MpiGroup::initialize()?))
}

#[cfg(not(feature = "mpi"))]
fn initialize() -> Result<Box<dyn Group>, CollectiveError> {
    Err(failed("this program was built without MPI".to_owned()))
}

fn failed(message: String) -> CollectiveError {
    CollectiveError::Mpi {
        function: "MPI_Init_thread",
        message,
    }
}
