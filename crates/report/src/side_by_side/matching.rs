//! Matches the rows of several runs by setting.

use std::collections::HashMap;

use mantissa_core::{Axis, SuiteInfo};

use crate::{Group, Report, Row};

/// A setting and its row in each run.
#[derive(Debug)]
pub(super) struct Line<'r, 'a> {
    /// Row of each run, in the order of the runs.
    pub rows: Vec<Option<&'r Row<'a>>>,
}

impl<'r, 'a> Line<'r, 'a> {
    /// Returns the first row that exists.
    pub fn any(&self) -> Option<&'r Row<'a>> {
        self.rows.iter().flatten().next().copied()
    }

    /// Returns the number of runs that tried the setting.
    pub fn tried(&self) -> usize {
        self.rows.iter().flatten().filter(|row| is_tried(row)).count()
    }
}

/// Returns `true` if the run tried the cell, which means that it has a status other than `skipped`.
pub(super) fn is_tried(row: &Row<'_>) -> bool {
    row.status
        .is_some_and(|status| status != mantissa_core::Status::Skipped)
}

/// A workload of a suite and its group in each run.
#[derive(Debug)]
pub(super) struct Matched<'r, 'a> {
    pub suite: &'r SuiteInfo,
    pub groups: Vec<Option<&'r Group<'a>>>,
}

impl<'r, 'a> Matched<'r, 'a> {
    /// Matches workloads by suite and workload name, in the order in which the runs list them.
    pub fn of(reports: &'r [Report<'a>]) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let mut place: HashMap<(&str, &str), usize> = HashMap::new();
        for (run, report) in reports.iter().enumerate() {
            for suite in &report.suites {
                for group in &suite.groups {
                    let at = *place
                        .entry((&suite.info.name, group.workload))
                        .or_insert_with(|| {
                            all.push(Self {
                                suite: suite.info,
                                groups: vec![None; reports.len()],
                            });
                            all.len() - 1
                        });
                    all[at].groups[run] = Some(group);
                }
            }
        }
        all
    }

    /// Returns the axes that depend on the backend instead of the work, without those that a run sweeps.
    pub fn of_backend(&self) -> Vec<Axis> {
        let swept = |axis: &Axis| self.groups.iter().flatten().any(|group| group.varies(*axis));
        let axes = [Axis::Backend, Axis::Fusion].into_iter();
        axes.filter(|axis| !swept(axis)).collect()
    }

    /// Returns the settings, in the order in which the runs list them.
    ///
    /// Cell ids cannot be compared, because they contain the backend, the sizes that a profile resolved to, and workload fields that an
    /// earlier version lacked. Rows match if all axes and the seed agree. The backend is ignored unless a run sweeps it, and so is fusion,
    /// which follows from the backend.
    pub fn lines(&self) -> Vec<Line<'r, 'a>> {
        let of_backend = self.of_backend();
        let mut lines: Vec<Line<'r, 'a>> = Vec::new();
        let mut place: HashMap<(String, usize), usize> = HashMap::new();
        for (run, group) in self.groups.iter().enumerate() {
            let mut seen: HashMap<String, usize> = HashMap::new();
            for row in group.iter().flat_map(|group| &group.rows) {
                let key = key(row, &of_backend);
                // A second cell of a run with the same setting belongs to a different workload of the same name and gets its own line.
                let nth = seen.entry(key.clone()).or_default();
                let at = *place.entry((key, *nth)).or_insert_with(|| {
                    lines.push(Line {
                        rows: vec![None; self.groups.len()],
                    });
                    lines.len() - 1
                });
                *nth += 1;
                lines[at].rows[run] = Some(row);
            }
        }
        lines
    }
}

fn key(row: &Row<'_>, left_out: &[Axis]) -> String {
    let kept = row
        .cell
        .setting
        .iter()
        .filter(|(axis, _)| !left_out.contains(axis));
    let values = kept.map(|(axis, value)| format!("{axis}={value} "));
    values.chain([row.cell.seed.to_string()]).collect()
}

/// Returns the letter that identifies a run.
pub(super) fn letter(run: usize) -> char {
    let letters = u8::try_from(run).ok().and_then(|run| b'A'.checked_add(run));
    letters.map_or('?', char::from)
}
