//! Labels of settings.

use mantissa_core::{Axis, MatmulPrecision};

use super::{SettingResult, WORK_AXES};
use crate::{Group, Row, units};

impl SettingResult<'_, '_> {
    /// Returns the label of the baseline's precision setting, or `the baseline` if this setting has the same.
    pub fn baseline_label(&self) -> String {
        let Some((row, base)) = self.pairs().next() else {
            return units::ABSENT.to_owned();
        };
        match precision_label(base) {
            same if same == precision_label(row) => "the baseline".to_owned(),
            label => label,
        }
    }
}

/// Returns the label that distinguishes a row's setting from others that do the same work, or its precision if no axis varies.
pub(crate) fn label_within_work(group: &Group<'_>, row: &Row<'_>) -> String {
    let left_out = [&WORK_AXES[..], &[Axis::Seed]].concat();
    match group.axes.iter().all(|axis| left_out.contains(axis)) {
        true => precision_label(row),
        false => group.label(row, &left_out),
    }
}

/// Returns the label of a row's precision setting: `bf16-mixed · high`, or `bf16-true` if the precision allows only `highest`.
pub(crate) fn precision_label(row: &Row<'_>) -> String {
    let (setting, precision) = (&row.cell.setting, row.cell.setting.precision());
    match setting.get(Axis::Matmul) {
        Some(matmul)
            if precision.allows(MatmulPrecision::High) || setting.matmul() != MatmulPrecision::Highest =>
        {
            format!("{precision} · {matmul}")
        }
        _ => precision.name().to_owned(),
    }
}
