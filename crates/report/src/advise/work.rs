//! Settings that do the same work.

use crate::{
    Group, Row,
    setting::{SettingResult, WORK_AXES, label_within_work},
};

/// Settings that do the same work: they agree in the [`WORK_AXES`] (size, sequence length and distribution of the input values).
#[derive(Debug)]
pub(crate) struct Work<'r, 'a> {
    /// Label that distinguishes this work from other work of the group, such as `size 1024 · distribution normal`. Empty if all
    /// settings do the same work.
    pub label: String,
    /// Settings in plan order, without those that were not run or were skipped. Labels leave out the axes of the work.
    pub candidates: Vec<SettingResult<'r, 'a>>,
}

/// Splits the settings of a group by the work they do.
pub(crate) fn works<'r, 'a>(group: &'r Group<'a>) -> Vec<Work<'r, 'a>> {
    let mut works: Vec<(usize, Work<'r, 'a>)> = Vec::new();
    for mut setting in SettingResult::all(group, Row::ran) {
        setting.label = label_within_work(group, setting.row());
        let number = setting.work();
        match works.iter_mut().find(|(known, _)| *known == number) {
            Some((_, work)) => work.candidates.push(setting),
            None => works.push((
                number,
                Work {
                    label: label(group, setting.row()),
                    candidates: vec![setting],
                },
            )),
        }
    }
    works.into_iter().map(|(_, work)| work).collect()
}

/// Returns the label that distinguishes the work of a row from other work of the group.
fn label(group: &Group<'_>, row: &Row<'_>) -> String {
    let varying = WORK_AXES.iter().filter(|axis| group.varies(**axis));
    let parts: Vec<String> = varying
        .map(|axis| format!("{axis} {}", row.axis(*axis)))
        .collect();
    parts.join(" · ")
}
