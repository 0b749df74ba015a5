//! Matches the rows of several runs by setting.

use std::collections::HashMap;

use mantissa_core::{Axis, AxisValue, Setting, SuiteInfo};

use crate::{Group, Report, Row};

/// Axes whose defaults depend on the backend.
const BACKEND_AXES: [Axis; 2] = [Axis::Backend, Axis::Fusion];

/// A setting and its row in each run.
#[derive(Debug)]
pub(super) struct Line<'r, 'a> {
    /// Row of each run, in the order of the runs.
    pub rows: Vec<Option<&'r Row<'a>>>,
}

impl<'r, 'a> Line<'r, 'a> {
    /// Returns the first row that exists.
    pub fn first_row(&self) -> Option<&'r Row<'a>> {
        self.rows.iter().flatten().next().copied()
    }

    /// Returns the number of runs that attempted the setting.
    pub fn attempts(&self) -> usize {
        self.rows.iter().flatten().filter(|row| is_attempted(row)).count()
    }
}

/// Returns `true` if the run attempted the cell: the row has a status other than `skipped`.
pub(super) fn is_attempted(row: &Row<'_>) -> bool {
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
        let mut indices: HashMap<(&str, &str), usize> = HashMap::new();
        for (run, report) in reports.iter().enumerate() {
            for suite in &report.suites {
                for group in &suite.groups {
                    let index = *indices
                        .entry((&suite.info.name, group.workload))
                        .or_insert_with(|| {
                            all.push(Self {
                                suite: suite.info,
                                groups: vec![None; reports.len()],
                            });
                            all.len() - 1
                        });
                    all[index].groups[run] = Some(group);
                }
            }
        }
        all
    }

    /// Returns the [`BACKEND_AXES`] that no run sweeps. They are ignored when settings are matched.
    pub fn backend_axes(&self) -> Vec<Axis> {
        let swept = |axis: &Axis| self.groups.iter().flatten().any(|group| group.varies(*axis));
        BACKEND_AXES.into_iter().filter(|axis| !swept(axis)).collect()
    }

    /// Returns the settings, in the order in which the runs list them.
    ///
    /// Rows are not matched by cell id, because the id depends on the backend, on the workload's sizes in the profile, and on workload fields that
    /// did not exist in earlier versions. Instead, rows match if their seeds and the values of all axes are equal; an absent axis has its default.
    /// The backend is ignored unless a run sweeps it, and so is fusion, whose default depends on the backend.
    pub fn lines(&self) -> Vec<Line<'r, 'a>> {
        let left_out = self.backend_axes();
        let mut lines: Vec<Line<'r, 'a>> = Vec::new();
        let mut indices: HashMap<(String, u64, usize), usize> = HashMap::new();
        for (run, group) in self.groups.iter().enumerate() {
            let mut seen: HashMap<(String, u64), usize> = HashMap::new();
            for row in group.iter().flat_map(|group| &group.rows) {
                let (key, seed) = (setting_key(&row.cell.setting, &left_out), row.cell.seed);
                // Two cells of a run have the same setting and seed only if their workloads differ despite the same name. Each gets a line.
                let nth = seen.entry((key.clone(), seed)).or_default();
                let index = *indices.entry((key, seed, *nth)).or_insert_with(|| {
                    lines.push(Line {
                        rows: vec![None; self.groups.len()],
                    });
                    lines.len() - 1
                });
                *nth += 1;
                lines[index].rows[run] = Some(row);
            }
        }
        lines
    }
}

/// Formats a setting as a key, without the axes `left_out` and without axes that have their default value. A run that was recorded before an
/// axis existed thus has the same key as a newer run with the default of this axis. [`BACKEND_AXES`] are kept even with their default value,
/// because it differs between backends.
fn setting_key(setting: &Setting, left_out: &[Axis]) -> String {
    let is_default = |(axis, value): &(Axis, AxisValue)| {
        !BACKEND_AXES.contains(axis) && *value == axis.default_value(setting.backend())
    };
    let axes = setting.iter().filter(|(axis, _)| !left_out.contains(axis));
    let chosen = axes.filter(|pair| !is_default(pair));
    chosen.map(|(axis, value)| format!("{axis}={value} ")).collect()
}

/// Returns the letter that identifies a run.
pub(super) fn letter(run: usize) -> char {
    let letters = u8::try_from(run).ok().and_then(|run| b'A'.checked_add(run));
    letters.map_or('?', char::from)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mantissa_core::{Backend, TaskKind};

    use super::*;

    #[test]
    fn an_absent_axis_matches_its_default() {
        let new = Setting::defaults(TaskKind::Train, Backend::Flex);
        let recorded = new.iter().filter(|(axis, _)| *axis != Axis::Checkpointing);
        let old = Setting::try_from(recorded.collect::<BTreeMap<_, _>>()).unwrap();
        assert_ne!(old, new);
        assert_eq!(setting_key(&old, &[]), setting_key(&new, &[]));
        let mut changed = new;
        let on = Axis::Checkpointing.parse("on").unwrap();
        changed.set(Axis::Checkpointing, on).unwrap();
        assert_ne!(setting_key(&old, &[]), setting_key(&changed, &[]));
    }

    #[test]
    fn keys_of_two_backends_differ_only_in_the_backend_axes() {
        let [flex, cuda] =
            [Backend::Flex, Backend::Cuda].map(|backend| Setting::defaults(TaskKind::Kernel, backend));
        assert_ne!(setting_key(&flex, &[]), setting_key(&cuda, &[]));
        assert_eq!(
            setting_key(&flex, &BACKEND_AXES),
            setting_key(&cuda, &BACKEND_AXES)
        );
    }
}
