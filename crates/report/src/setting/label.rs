//! Labels of settings.

use mantissa_core::{Axis, MatmulPrecision};

use super::{SettingResult, WORK_AXES};
use crate::{Group, Row};

/// Sets the labels, which contain only axes that vary between the settings.
pub(super) fn set_labels(group: &Group<'_>, settings: &mut [SettingResult<'_, '_>]) {
    let varies = |axis: Axis| {
        settings
            .windows(2)
            .any(|pair| pair[0].row().axis(axis) != pair[1].row().axis(axis))
    };
    let left_out: Vec<Axis> = Axis::ALL
        .iter()
        .copied()
        .filter(|axis| *axis == Axis::Seed || !varies(*axis))
        .collect();
    for setting in settings {
        let label = group.label(setting.row(), &left_out);
        setting.label = match label.is_empty() {
            true => setting.row().cell.setting.precision().name().to_owned(),
            false => label,
        };
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
