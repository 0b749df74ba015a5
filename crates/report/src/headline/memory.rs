//! The setting with the least memory.

use super::speed::ratio;
use crate::{Group, Row};

pub(super) fn least_memory(group: &Group<'_>, rivals: &[&Row<'_>]) -> Option<String> {
    let row = leanest(rivals)?;
    Some(format!(
        "{} needs the least memory: {} of the baseline's.",
        group.label(row, &[]),
        ratio(row.memory_ratio.as_ref())
    ))
}

/// Returns the row with the least memory if it needs clearly less than the baseline.
pub(super) fn leanest<'r, 'a>(rows: &[&'r Row<'a>]) -> Option<&'r Row<'a>> {
    /// Memory ratio below which a saving is reported.
    const MAX_REPORTED_RATIO: f64 = 0.95;
    let ratio = |row: &Row<'_>| row.memory_ratio.as_ref().map_or(f64::INFINITY, |e| e.value);
    rows.iter()
        .copied()
        .min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
        .filter(|row| ratio(row) < MAX_REPORTED_RATIO)
}
