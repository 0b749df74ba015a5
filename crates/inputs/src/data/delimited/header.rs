//! Detects header lines.

use std::collections::{BTreeMap, BTreeSet};

use crate::data::{
    LineProblem,
    column_names::{LABEL_COLUMNS, TEXT_COLUMNS},
};

/// Returns true if the first record names a label column and a text column.
pub(super) fn has_header(sample: &[Vec<String>]) -> bool {
    let first = sample.first().map(Vec::as_slice).unwrap_or_default();
    column_named(first, &LABEL_COLUMNS).is_some() && column_named(first, &TEXT_COLUMNS).is_some()
}

/// Returns true if the first record is a header. For files whose label and text columns are both chosen by number.
///
/// # Errors
/// The record is ambiguous: the labels indicate a header, but the fields of the record do not look like names.
pub(super) fn is_header(sample: &[Vec<String>], label: usize) -> Result<bool, LineProblem> {
    match (
        looks_like_header(sample, label),
        begins_with_header(sample, label),
    ) {
        (false, true) => Err(LineProblem::UnclearHeader),
        (looks, _) => Ok(looks),
    }
}

/// Returns true if the labels indicate that the first record is a header:
/// - The label field of the first record is not a number, and it is not the label of another record.
/// - The labels of the other records are all numbers, or there are at least four other records and each of their labels occurs at least twice.
pub(super) fn begins_with_header(sample: &[Vec<String>], label: usize) -> bool {
    let [first, others @ ..] = sample else {
        return false;
    };
    let (Some(name), false) = (first.get(label), others.is_empty()) else {
        return false;
    };
    let labels = count_values(others, label);
    if labels.contains_key(name.as_str()) || is_number(name) {
        return false;
    }
    labels.keys().all(|label| is_number(label))
        || others.len() >= 4 && labels.values().all(|count| *count > 1)
}

/// Returns true if the fields of the first record look like names: distinct, short, without spaces, and not numbers. In addition, the label field
/// must not be a label of another record, and at least one column must contain several words in most of the other records.
pub(super) fn looks_like_header(sample: &[Vec<String>], label: usize) -> bool {
    const MAX_NAME_BYTES: usize = 32;
    let [first, others @ ..] = sample else {
        return false;
    };
    let has_space = |field: &str| field.trim().contains(char::is_whitespace);
    let is_name = |field: &String| {
        let is_short = !field.trim().is_empty() && field.len() <= MAX_NAME_BYTES;
        is_short && !has_space(field) && !is_number(field)
    };
    let distinct: BTreeSet<&String> = first.iter().collect();
    let are_names = first.iter().all(is_name) && distinct.len() == first.len();
    let is_label = |name: &String| count_values(others, label).contains_key(name.as_str());
    let is_text = |column: usize| {
        let texts = others
            .iter()
            .filter(|fields| fields.get(column).is_some_and(|field| has_space(field)));
        2 * texts.count() > others.len()
    };
    are_names && !first.get(label).is_some_and(is_label) && (0..first.len()).any(is_text)
}

/// Returns true if the names are equal, ignoring case and order.
pub(super) fn same_names(fields: &[&str], header: &[String]) -> bool {
    let normal = |name: &str| name.trim().to_lowercase();
    let (mut fields, mut header): (Vec<_>, Vec<_>) = (
        fields.iter().map(|field| normal(field)).collect(),
        header.iter().map(|field| normal(field)).collect(),
    );
    fields.sort();
    header.sort();
    fields == header
}

/// Returns the column of the first of `names` that occurs in the header line, ignoring case.
pub(super) fn column_named<S: AsRef<str>>(header: &[S], names: &[&str]) -> Option<usize> {
    let matches = |field: &S, name: &str| field.as_ref().trim().eq_ignore_ascii_case(name);
    names
        .iter()
        .find_map(|name| header.iter().position(|field| matches(field, name)))
}

/// Counts the occurrences of each value in a column.
pub(super) fn count_values(sample: &[Vec<String>], column: usize) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    for value in sample.iter().filter_map(|fields| fields.get(column)) {
        *counts.entry(value.as_str()).or_default() += 1;
    }
    counts
}

pub(super) fn is_number(text: &str) -> bool {
    text.trim().parse::<f64>().is_ok()
}
