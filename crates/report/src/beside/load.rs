//! Which folders can stand side by side.

use std::path::PathBuf;

use crate::{ReportError, Run, load};

/// More runs than these are more columns than anybody reads, and more colours than can be told apart.
pub const MOST_RUNS: usize = 8;

/// Reads the folders of several runs, in the order given.
///
/// # Errors
/// If there are fewer than two or more than [`MOST_RUNS`], if a folder is given twice (by whichever path), and if one of
/// them cannot be read.
pub fn load_beside(folders: &[PathBuf]) -> Result<Vec<Run>, ReportError> {
    match folders {
        [] | [_] => return Err(ReportError::OneRun),
        _ if folders.len() > MOST_RUNS => {
            return Err(ReportError::ManyRuns { given: folders.len() });
        }
        _ => {}
    }
    let mut seen: Vec<PathBuf> = Vec::with_capacity(folders.len());
    for folder in folders {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        if seen.contains(&real) {
            return Err(ReportError::SameRun { path: folder.clone() });
        }
        seen.push(real);
    }
    folders.iter().map(|folder| load(folder)).collect()
}
