//! Group of the ranks of a cell.

use mantissa_collectives::{CollectiveError, Group, Single};
use mantissa_runner::Request;

/// Returns the group of this process: all ranks of the cell if `mpirun` started the process, otherwise this process alone. Only the calling
/// thread may use the group, because MPI requires it.
pub(crate) fn join_group(request: &Request, is_rank: bool) -> Result<Box<dyn Group>, CollectiveError> {
    if !is_rank {
        return Ok(Box::new(Single));
    }
    let (group, ranks) = (initialize()?, request.cell.setting.devices() as usize);
    // Without a connection to its launcher, the library creates a group that contains only this process.
    match group.size() == ranks {
        true => Ok(group),
        false => Err(failed(format!(
            "MPI reports {} ranks, but the cell has {ranks} devices; hint: check that `mpirun` belongs to the linked Open MPI",
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
