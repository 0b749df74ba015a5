//! Installed software: the MPI library and its launcher.

use std::path::PathBuf;

/// Returns the name and the version of the linked MPI library; `None` without the feature `mpi`.
pub fn mpi_library() -> Option<String> {
    #[cfg(feature = "mpi")]
    return mpi::environment::library_version()
        .ok()
        .map(|version| version.trim_end_matches(['\0', '\n', ' ']).to_owned());
    #[cfg(not(feature = "mpi"))]
    None
}

/// Returns the path of the launcher `mpirun` in a folder of `PATH`, or `None` if it is not installed.
pub fn mpirun() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let mut programs = std::env::split_paths(&folders).map(|folder| folder.join("mpirun"));
    programs.find(|program| program.is_file())
}
