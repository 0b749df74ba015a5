//! Measurements of a cell on both sides of a comparison.

use crate::MeasuredCell;

/// Cell that at least one side tried.
pub(crate) struct Pair<'a> {
    pub before: Option<&'a MeasuredCell>,
    pub after: Option<&'a MeasuredCell>,
    /// Reason why the candidate skipped the cell.
    pub skipped: Option<&'a str>,
}

impl<'a> Pair<'a> {
    /// Returns the candidate's measurements if it tried the cell, otherwise the baseline's.
    pub fn either(&self) -> &'a MeasuredCell {
        self.after
            .or(self.before)
            .expect("at least one side ran the cell")
    }
}
