//! Tests of the MPI engine. Each test starts its own program as the ranks of a group.

mod launch;
mod mpi;
