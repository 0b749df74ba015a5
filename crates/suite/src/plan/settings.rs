//! Cartesian product of the sweeps of a workload, as settings and seeds.

use mantissa_core::{Axis, AxisValue, Backend, Setting, Workload};

use crate::axes::Sweep;

/// Iterator over all combinations of the rows of sweeps, as resolved settings and seeds. The last sweep varies fastest.
pub(super) struct Settings<'a> {
    sweeps: &'a [Sweep],
    /// Row index of each sweep; `None` at the end of the iteration.
    rows: Option<Vec<usize>>,
    /// Default setting for each of [`Backend::ALL`], because defaults can depend on the backend.
    defaults: Vec<Setting>,
    backend: Backend,
}

impl<'a> Settings<'a> {
    pub(super) fn new(sweeps: &'a [Sweep], workload: &Workload, backend: Backend) -> Self {
        let defaults = Backend::ALL
            .iter()
            .map(|backend| Setting::of(workload, *backend))
            .collect();
        Self {
            sweeps,
            rows: Some(vec![0; sweeps.len()]),
            defaults,
            backend,
        }
    }

    fn resolve(&self, rows: &[usize]) -> (Setting, u64) {
        let assignments = || {
            let rows = self
                .sweeps
                .iter()
                .zip(rows)
                .map(|(sweep, row)| (&sweep.axes, &sweep.rows[*row]));
            rows.flat_map(|(axes, values)| axes.iter().copied().zip(values))
        };
        let backend = assignments().find_map(|(axis, value)| match (axis, value) {
            (Axis::Backend, AxisValue::Text(name)) => name.parse().ok(),
            _ => None,
        });
        let backend = backend.unwrap_or(self.backend);
        let mut setting = self.defaults[backend as usize].clone();
        let mut seed = Axis::Seed.default_value(backend);
        for (axis, value) in assignments() {
            if axis == Axis::Seed {
                seed = value.clone();
            } else {
                setting
                    .set(axis, value.clone())
                    .expect("values were checked when they were parsed");
            }
        }
        let AxisValue::Integer(seed) = seed else {
            unreachable!("seeds are integers")
        };
        (setting, seed)
    }

    fn advance(&self, mut rows: Vec<usize>) -> Option<Vec<usize>> {
        for (row, sweep) in rows.iter_mut().zip(self.sweeps).rev() {
            *row += 1;
            if *row < sweep.rows.len() {
                return Some(rows);
            }
            *row = 0;
        }
        None
    }
}

impl Iterator for Settings<'_> {
    type Item = (Setting, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows.take()?;
        let item = self.resolve(&rows);
        self.rows = self.advance(rows);
        Some(item)
    }
}
