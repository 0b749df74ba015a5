//! Loads the run folders of a comparison.

use std::path::PathBuf;

use crate::{ReportError, Run, load};

/// Maximum number of runs, limited by the width of the table and the number of distinguishable colours.
pub const MAX_RUNS: usize = 8;

/// Reads the folders of several runs, in the given order.
///
/// # Errors
/// Fails if there are fewer than two or more than [`MAX_RUNS`] folders, if a folder is given twice (even by different paths), or if one of
/// them cannot be read.
pub fn load_side_by_side(folders: &[PathBuf]) -> Result<Vec<Run>, ReportError> {
    match folders {
        [] | [_] => return Err(ReportError::OneRun),
        _ if folders.len() > MAX_RUNS => {
            return Err(ReportError::ManyRuns {
                given: folders.len(),
                limit: MAX_RUNS,
            });
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
