//! Labels of settings. A label lists the axes in which the cells of a workload differ.

use std::collections::{BTreeMap, BTreeSet};

use mantissa_core::Axis;

use crate::MeasuredCell;

/// Axes that the labels of the cells of each workload list.
pub(crate) struct SettingLabels {
    /// Axes of the labels, by suite and workload.
    axes: BTreeMap<(String, String), BTreeSet<Axis>>,
}

impl SettingLabels {
    /// Finds the axes in which the cells of each workload differ. Always includes the precision.
    pub fn of<'a>(cells: impl Iterator<Item = &'a MeasuredCell>) -> Self {
        let mut groups: BTreeMap<(String, String), (&MeasuredCell, BTreeSet<Axis>)> = BTreeMap::new();
        for measured in cells {
            let key = (measured.cell.suite.clone(), measured.cell.workload.name.clone());
            let (first, axes) = groups
                .entry(key)
                .or_insert_with(|| (measured, BTreeSet::from([Axis::Precision])));
            let differing = Axis::ALL
                .iter()
                .copied()
                .filter(|axis| measured.cell.setting.get(*axis) != first.cell.setting.get(*axis));
            axes.extend(differing);
            if measured.cell.seed != first.cell.seed {
                axes.insert(Axis::Seed);
            }
        }
        Self {
            axes: groups.into_iter().map(|(key, (_, axes))| (key, axes)).collect(),
        }
    }

    /// Returns a label such as `32-true · matmul high · batch 8`.
    pub fn label(&self, measured: &MeasuredCell) -> String {
        let cell = &measured.cell;
        let axes = self.axes.get(&(cell.suite.clone(), cell.workload.name.clone()));
        let labels = axes.into_iter().flatten().filter_map(|axis| match axis {
            Axis::Seed => Some(format!("seed {}", cell.seed)),
            Axis::Precision => Some(cell.setting.precision().to_string()),
            _ => Some(format!("{axis} {}", cell.setting.get(*axis)?)),
        });
        labels.collect::<Vec<_>>().join(" · ")
    }
}
