//! `[axes]`: sweeps over one axis, or over several axes together.

use std::{collections::HashSet, ops::Range};

use mantissa_core::{Axis, AxisValue, TaskKind, ValueError, Workload};
use toml::de::DeValue;

use crate::section::{Node, Section, integer};

/// Separator of the names of axes that are swept together: `"batch+accumulate" = [[32, 1], [8, 4]]`.
pub(crate) const AXIS_SEPARATOR: char = '+';

/// Axes that change together. Most sweeps have a single axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Sweep {
    /// At least one axis, without duplicates.
    pub axes: Vec<Axis>,
    /// At least one row, without duplicates. Each row has one value for each axis.
    pub rows: Vec<Vec<AxisValue>>,
}

impl Sweep {
    /// Creates a sweep over several axes. Repeated rows are kept once.
    pub(crate) fn new(axes: Vec<Axis>, rows: Vec<Vec<AxisValue>>) -> Self {
        Self {
            axes,
            rows: remove_duplicates(rows.into_iter()),
        }
    }

    /// Creates a sweep over one axis. Repeated values are kept once.
    #[cfg(test)]
    pub(crate) fn single(axis: Axis, values: Vec<AxisValue>) -> Self {
        Self::new(vec![axis], values.into_iter().map(|value| vec![value]).collect())
    }

    /// Returns the names of the axes in the notation of suite files.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.axes.iter().map(|axis| axis.name()).collect();
        names.join(&AXIS_SEPARATOR.to_string())
    }

    /// Returns the sweep with only the wanted axes and without duplicate rows. Returns `None` if no axis is left.
    pub(crate) fn project(&self, wanted: impl Fn(Axis) -> bool) -> Option<Self> {
        let kept: Vec<usize> = (0..self.axes.len())
            .filter(|&column| wanted(self.axes[column]))
            .collect();
        if kept.is_empty() {
            return None;
        }
        let project_row = |row: &Vec<AxisValue>| kept.iter().map(|&column| row[column].clone()).collect();
        Some(Self {
            axes: kept.iter().map(|&column| self.axes[column]).collect(),
            rows: remove_duplicates(self.rows.iter().map(project_row)),
        })
    }
}

fn remove_duplicates(rows: impl Iterator<Item = Vec<AxisValue>>) -> Vec<Vec<AxisValue>> {
    let mut seen = HashSet::new();
    rows.filter(|row| seen.insert(row_key(row))).collect()
}

/// Returns a key that identifies a row in its sweep. All values of an axis have the same type, so different values have different texts.
fn row_key(row: &[AxisValue]) -> Vec<String> {
    row.iter().map(ToString::to_string).collect()
}

/// Returns the sweeps over axes that apply to a workload.
pub(crate) fn applicable(sweeps: &[Sweep], workload: &Workload) -> Vec<Sweep> {
    sweeps
        .iter()
        .filter_map(|sweep| sweep.project(|axis| workload.uses(axis)))
        .collect()
}

/// Removes the axes of `replacement` from all sweeps. Inserts `replacement` in front of the first sweep that contained one of these axes, or
/// at the end if none did. A sweep keeps its other axes, without duplicate rows.
pub(crate) fn replace(sweeps: &mut Vec<Sweep>, replacement: Sweep) {
    let is_replaced = |axis: Axis| replacement.axes.contains(&axis);
    let position = sweeps
        .iter()
        .position(|sweep| sweep.axes.iter().any(|&axis| is_replaced(axis)));
    let mut result = vec![];
    for (index, sweep) in sweeps.iter().enumerate() {
        if Some(index) == position {
            result.push(replacement.clone());
        }
        result.extend(sweep.project(|axis| !is_replaced(axis)));
    }
    if position.is_none() {
        result.push(replacement);
    }
    *sweeps = result;
}

/// Reads a table of axes, in the order of the file.
pub(crate) fn read(section: &Section<'_>) -> Vec<Sweep> {
    let mut sweeps: Vec<Sweep> = vec![];
    for (key, span, node) in section.entries() {
        let axes: Option<Vec<Axis>> = key
            .split(AXIS_SEPARATOR)
            .map(|name| section.parse_name(&span, name.trim()))
            .collect();
        let Some(axes) = axes else { continue };
        let earlier = |axis: &&Axis| sweeps.iter().any(|sweep| sweep.axes.contains(axis));
        let repeated = (1..axes.len())
            .find(|&i| axes[..i].contains(&axes[i]))
            .map(|i| &axes[i]);
        if let Some(axis) = axes.iter().find(earlier).or(repeated) {
            section
                .sink
                .error(&span, format_args!("axis `{axis}` is swept more than once"));
            continue;
        }
        if let Some(rows) = rows(section, key, &axes, node) {
            sweeps.push(Sweep { axes, rows });
        }
    }
    sweeps
}

/// Reports axes that do not apply to any of the tasks.
pub(crate) fn check_applicable(section: &Section<'_>, tasks: &[TaskKind]) {
    for (key, span, _) in section.entries() {
        for axis in key
            .split(AXIS_SEPARATOR)
            .filter_map(|name| name.trim().parse::<Axis>().ok())
        {
            if !tasks.is_empty() && !tasks.iter().any(|task| axis.applies_to(*task)) {
                section.sink.error(&span, inapplicable_message(axis, tasks));
            }
        }
    }
}

/// Returns the error message for an axis that does not apply to any of the tasks.
pub(crate) fn inapplicable_message(axis: Axis, tasks: &[TaskKind]) -> String {
    let names = |keep: &dyn Fn(&TaskKind) -> bool| {
        let kept: Vec<&str> = TaskKind::ALL
            .iter()
            .filter(|task| keep(task))
            .map(|task| task.name())
            .collect();
        kept.join("`, `")
    };
    let suite_tasks = names(&|task| tasks.contains(task));
    let axis_tasks = names(&|task| axis.applies_to(*task));
    format!("axis `{axis}` does not apply to task `{suite_tasks}`\n  hint: it applies to `{axis_tasks}`")
}

fn rows(section: &Section<'_>, key: &str, axes: &[Axis], node: &Node<'_>) -> Option<Vec<Vec<AxisValue>>> {
    let sink = section.sink;
    let Some(items) = node.get_ref().as_array().filter(|items| !items.is_empty()) else {
        let given = sink.snippet(&node.span());
        let hint = if axes.len() == 1 && node.get_ref().as_array().is_none() {
            format!("\n  hint: write `{key} = [{given}]`")
        } else {
            String::new()
        };
        sink.error(
            &node.span(),
            format_args!("axis `{key}` takes a list of values, not `{given}`{hint}"),
        );
        return None;
    };
    let mut rows: Vec<Vec<AxisValue>> = vec![];
    let mut seen = HashSet::new();
    let mut valid = true;
    for item in items {
        match row(section, key, axes, item) {
            Some(row) if !seen.insert(row_key(&row)) => {
                let given = sink.snippet(&item.span());
                sink.error(
                    &item.span(),
                    format_args!("axis `{key}` has the value `{given}` more than once"),
                );
                valid = false;
            }
            Some(row) => rows.push(row),
            None => valid = false,
        }
    }
    valid.then_some(rows)
}

fn row(section: &Section<'_>, key: &str, axes: &[Axis], item: &Node<'_>) -> Option<Vec<AxisValue>> {
    if let [axis] = axes {
        return Some(vec![value(section, *axis, item)?]);
    }
    let Some(parts) = item
        .get_ref()
        .as_array()
        .filter(|parts| parts.len() == axes.len())
    else {
        let (given, n) = (section.sink.snippet(&item.span()), axes.len());
        section.sink.error(
            &item.span(),
            format_args!("`{key}` takes lists of {n} values, not `{given}`"),
        );
        return None;
    };
    let values: Vec<_> = axes
        .iter()
        .zip(parts)
        .map(|(axis, part)| value(section, *axis, part))
        .collect();
    values.into_iter().collect()
}

/// Reads one value of an axis.
pub(crate) fn value(section: &Section<'_>, axis: Axis, node: &Node<'_>) -> Option<AxisValue> {
    let span: Range<usize> = node.span();
    let given = section.sink.snippet(&span);
    // If no axis accepts the TOML type, pass the value as text, so that the axis rejects it with its usual error.
    let value = axis_value(node.get_ref()).unwrap_or_else(|| AxisValue::Text(given.clone()));
    let checked = axis.value(value).map_err(|error| match error {
        ValueError::Kind { axis, takes, .. } => ValueError::Kind { axis, takes, given },
        unknown @ ValueError::Unknown(_) => unknown,
    });
    checked.map_err(|error| section.sink.error(&span, error)).ok()
}

fn axis_value(value: &DeValue<'_>) -> Option<AxisValue> {
    match value {
        DeValue::Integer(_) => Some(AxisValue::Integer(integer(value)?.try_into().ok()?)),
        DeValue::Float(digits) => Some(AxisValue::Number(digits.as_str().parse().ok()?)),
        DeValue::String(text) => Some(AxisValue::Text(text.to_string())),
        DeValue::Array(items) => {
            let texts = items
                .iter()
                .map(|item| item.get_ref().as_str().map(str::to_owned));
            Some(AxisValue::List(texts.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Kernel, KernelTask, MatmulShape, Task};

    use super::*;

    fn integers(values: &[u64]) -> Vec<AxisValue> {
        values.iter().copied().map(AxisValue::Integer).collect()
    }

    fn pairs() -> Sweep {
        let rows = [[32, 1], [8, 4], [8, 1]]
            .iter()
            .map(|pair| integers(pair))
            .collect();
        Sweep {
            axes: vec![Axis::Batch, Axis::Accumulate],
            rows,
        }
    }

    #[test]
    fn replacement_takes_the_position_of_the_sweep() {
        let seed = Sweep::single(Axis::Seed, integers(&[1]));
        let mut sweeps = vec![Sweep::single(Axis::Batch, integers(&[1, 2])), seed.clone()];
        replace(&mut sweeps, pairs());
        assert_eq!(sweeps, [pairs(), seed]);
    }

    #[test]
    fn replacing_one_axis_keeps_the_values_of_the_other() {
        let mut sweeps = vec![pairs()];
        replace(&mut sweeps, Sweep::single(Axis::Batch, integers(&[2])));
        let kept = Sweep::single(Axis::Accumulate, integers(&[1, 4]));
        assert_eq!(sweeps, [Sweep::single(Axis::Batch, integers(&[2])), kept]);
    }

    #[test]
    fn new_axis_is_appended() {
        let mut sweeps = vec![pairs()];
        replace(&mut sweeps, Sweep::single(Axis::Seed, integers(&[1, 1, 2])));
        assert_eq!(sweeps, [pairs(), Sweep::single(Axis::Seed, integers(&[1, 2]))]);
    }

    #[test]
    fn inapplicable_axes_are_removed() {
        let kernel = |kernel| Workload {
            name: "w".into(),
            task: Task::Kernel(KernelTask {
                kernel,
                min_samples: 1,
                max_samples: 1,
                max_seconds: 1.0,
                max_noise: 0.01,
                cache: mantissa_core::CacheState::Cold,
            }),
        };
        let square = kernel(Kernel::Matmul(MatmulShape::SQUARE));
        let fixed = MatmulShape {
            m: Some(1),
            n: Some(1),
            k: Some(1),
            ..MatmulShape::SQUARE
        };
        assert_eq!(applicable(&[pairs()], &square), []);
        let sizes = Sweep::single(Axis::Size, integers(&[64, 128]));
        assert_eq!(
            applicable(std::slice::from_ref(&sizes), &square),
            std::slice::from_ref(&sizes)
        );
        assert_eq!(applicable(&[sizes], &kernel(Kernel::Matmul(fixed))), []);
    }
}
