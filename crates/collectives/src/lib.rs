//! Collective operations between the *ranks* of a cell: processes that train one model on parts of each batch.
//!
//! A [`Group`] connects a rank with the others. It sums gradients in their own number format and returns the same bits on
//! every rank. The crate does not implement algorithms of its own: the engine (MPI) does, and [`environment`] selects one
//! of its algorithms. The other modules predict and check what the engine does: [`expected_traffic`] computes the bytes
//! and messages of each rank, [`error_bound`] the maximum rounding error of a sum, and [`probe`] infers the format and
//! the order of the additions from sums of chosen numbers.
//!
//! The feature `mpi` links Open MPI. A program with this feature does not start on a machine without the library.

mod call;
mod environment;
mod error;
mod error_bound;
mod gradient;
mod group;
mod installation;
#[cfg(feature = "mpi")]
mod mpi_group;
mod order;
mod probe;
mod server;
mod single;
#[cfg(any(test, feature = "testing"))]
mod thread_group;
mod traffic;

pub use call::Call;
pub use environment::environment;
pub use error::CollectiveError;
pub use error_bound::error_bound;
pub use gradient::Gradient;
pub use group::Group;
pub use installation::{mpi_library, mpirun};
#[cfg(feature = "mpi")]
pub use mpi_group::MpiGroup;
pub use probe::{Observation, probe, probe_sum};
pub use server::sum_on_server;
pub use single::Single;
#[cfg(any(test, feature = "testing"))]
pub use thread_group::ThreadGroup;
pub use traffic::{Traffic, expected_traffic};
