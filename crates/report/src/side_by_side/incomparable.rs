//! Differences that make rows of the same setting incomparable: other work, other data, other arithmetic.

use mantissa_core::{InputFile, Record, Status, Workload, input_difference};
use serde_json::Value;

use crate::{Row, facts::data_text, row::operands};

/// Returns the reason if two rows cannot be compared because their work or data differ. `here` and `there` are the letters of their runs.
pub(super) fn other_work(row: &Row<'_>, first: &Row<'_>, (here, there): (char, char)) -> Option<String> {
    let changes = changes(&first.cell.workload, &row.cell.workload);
    if let Some((name, theirs, mine)) = changes.first() {
        let more = match changes.len() {
            1 => String::new(),
            all => format!(" and {} more", all - 1),
        };
        return Some(format!(
            "different work: `{name}` is {theirs} in {there}, {mine} in {here}{more}"
        ));
    }
    if let Some(differs) = input_difference(inputs(first), inputs(row)) {
        return Some(format!("different files: {differs} ({there} against {here})"));
    }
    match (data(first), data(row)) {
        (Some(theirs), Some(mine)) if theirs.hash != mine.hash => Some(format!(
            "different data: {} in {there}, {} in {here}",
            data_text(theirs),
            data_text(mine)
        )),
        // A skipped row has no recorded data. It has no ratio either, so it may be reported as incomparable.
        (Some(known), None) | (None, Some(known)) => {
            let (one, other) = if data(first).is_some() {
                (there, here)
            } else {
                (here, there)
            };
            Some(format!(
                "different data: {} in {one}, not recorded in {other}",
                data_text(known)
            ))
        }
        (Some(_), Some(_)) | (None, None) => None,
    }
}

fn inputs<'a>(row: &Row<'a>) -> Option<&'a [InputFile]> {
    row.records.iter().find_map(|record| record.inputs.as_deref())
}

fn data<'a>(row: &Row<'a>) -> Option<&'a mantissa_core::DataSource> {
    row.records.iter().find_map(|record| record.data.as_ref())
}

/// Describes the difference between the executed precisions of two rows, if both were observed.
pub(super) fn other_arithmetic(
    row: &Row<'_>,
    first: &Row<'_>,
    (here, there): (char, char),
) -> Option<String> {
    let (mine, theirs) = (observed(row)?, observed(first)?);
    (mine != theirs).then(|| format!("{here} executed {mine}, {there} {theirs}"))
}

/// Formats operands and accumulator if all were observed.
fn observed(row: &Row<'_>) -> Option<String> {
    let ran = |record: &&&Record| record.status != Status::Skipped;
    let executed = &row.records.iter().find(ran)?.executed;
    let (significand, exponent) = (executed.operand_bits?, executed.exponent_bits?);
    let sums = executed.accumulator.as_deref()?;
    Some(operands(Some(significand), Some(exponent), Some(sums)))
}

/// Returns the leaf values in which two workloads differ, sorted by name: name, value in `there`, value in `here`.
fn changes(there: &Workload, here: &Workload) -> Vec<(String, String, String)> {
    let mut found = Vec::new();
    if there != here {
        let json = |workload: &Workload| serde_json::to_value(&workload.task).unwrap_or_default();
        collect_differences("", &json(there), &json(here), &mut found);
    }
    found.sort();
    found
}

fn collect_differences(name: &str, there: &Value, here: &Value, found: &mut Vec<(String, String, String)>) {
    if let (Value::Object(theirs), Value::Object(mine)) = (there, here) {
        let only_mine = mine.keys().filter(|key| !theirs.contains_key(*key));
        for key in theirs.keys().chain(only_mine) {
            let child = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
            collect_differences(key, &child(theirs), &child(mine), found);
        }
    } else if there != here {
        let text = |value: &Value| match value {
            Value::Null => "absent".to_owned(),
            Value::Object(_) => "present".to_owned(),
            other => other.to_string().replace('"', ""),
        };
        found.push((name.to_owned(), text(there), text(here)));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_that_differ_are_named_with_both_values() {
        let mut found = vec![];
        let there = json!({ "train": { "epochs": 3, "split": { "test": 2000, "seed": 1 } } });
        let here = json!({ "train": { "epochs": 1, "split": { "test": null, "seed": 1 }, "momentum": 0.9 } });
        collect_differences("", &there, &here, &mut found);
        found.sort();
        let texts = |(name, a, b): &(String, String, String)| format!("{name} {a} {b}");
        assert_eq!(
            found.iter().map(texts).collect::<Vec<_>>(),
            ["epochs 3 1", "momentum absent 0.9", "test 2000 absent"]
        );
    }
}
