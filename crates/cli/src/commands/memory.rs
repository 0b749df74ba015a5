//! `mantissa list --memory`: estimates the memory of the cells of suites without running them.

use std::{cmp::Reverse, collections::HashSet, slice};

use anyhow::Result;
use mantissa_core::{Axis, Plan, Profile, SuiteInfo};
use mantissa_report::{Align, Table};
use mantissa_runner::choose_backend;
use mantissa_worker::Burn;
use mantissa_workloads::{MemoryEstimate, estimate};

use crate::{
    args::{Init, Selection},
    commands::report::draw,
    paths::RunInputs,
    printer::Printer,
    progress::cell_label,
    suites::{self, SuiteFile},
};

/// Part of an estimate: title of its column, and function that returns its bytes.
type Part = (&'static str, fn(&MemoryEstimate) -> u64);

const PARTS: [Part; 7] = [
    ("weights", |estimate| estimate.weights),
    ("copies", |estimate| estimate.weight_copies),
    ("gradients", |estimate| estimate.gradients),
    ("optimizer", |estimate| estimate.optimizer),
    ("activations", |estimate| estimate.activations),
    ("keys and values", |estimate| estimate.keys_and_values),
    ("total", MemoryEstimate::total),
];

/// Prints a table for every suite and profile, or for one profile. Suites of kernels have no table.
pub(crate) fn list(found: &[SuiteFile], profile: Option<Profile>, printer: &Printer) -> Result<()> {
    let backend = choose_backend(&Burn, None)?;
    let profiles = profile.as_ref().map_or(Profile::ALL, slice::from_ref);
    // The size of a cell does not depend on the values of its weights.
    let selection = Selection {
        init: Some(Init::Random),
        ..Selection::default()
    };
    let mut tables = vec![];
    for suite in found {
        for &profile in profiles {
            let suite = slice::from_ref(suite);
            let inputs = RunInputs::new(&selection, None, (suite, profile))?;
            let plan = suites::expand(suite, (&selection, &inputs), profile, backend)?;
            tables.extend(tables_of_plan(&plan).iter().map(draw));
        }
    }
    printer.data(&tables.join("\n\n"));
    Ok(())
}

/// Returns a table for each suite with a model. Its rows are the cells that would run, without their seeds, the largest first.
fn tables_of_plan(plan: &Plan) -> Vec<Table> {
    let table_of_suite = |suite: &SuiteInfo| {
        let swept: Vec<Axis> = suite
            .axes
            .iter()
            .copied()
            .filter(|axis| *axis != Axis::Seed)
            .collect();
        let mut seen = HashSet::new();
        let cells = plan.runnable().filter(|cell| cell.suite == suite.name);
        let mut rows: Vec<(String, MemoryEstimate)> = cells
            .filter_map(|cell| Some((cell_label(cell, &swept), estimate(cell)?)))
            .filter(|(label, _)| seen.insert(label.clone()))
            .collect();
        rows.sort_by_key(|(_, estimate)| Reverse(estimate.total()));
        let title = format!("{}, profile {}: estimated memory", suite.name, plan.profile);
        (!rows.is_empty()).then(|| table(title, &rows))
    };
    plan.suites.iter().filter_map(table_of_suite).collect()
}

/// Renders the rows. Parts that are zero in all rows have no column.
fn table(title: String, rows: &[(String, MemoryEstimate)]) -> Table {
    let is_used = |(_, bytes): &Part| rows.iter().any(|(_, estimate)| bytes(estimate) > 0);
    let parts: Vec<Part> = PARTS.into_iter().filter(is_used).collect();
    let columns = parts.iter().map(|(name, _)| ((*name).to_owned(), Align::Right));
    let row = |(label, estimate): &(String, MemoryEstimate)| {
        let values = parts.iter().map(|(_, bytes)| format_bytes(bytes(estimate)));
        std::iter::once(label.clone()).chain(values).collect()
    };
    Table {
        title,
        header: std::iter::once(("cell".to_owned(), Align::Left))
            .chain(columns)
            .collect(),
        rows: rows.iter().map(row).collect(),
    }
}

/// Formats bytes in MB, or in GB from 1 GB on, as the report does.
fn format_bytes(bytes: u64) -> String {
    let (value, unit) = match bytes as f64 {
        0.0 => return "–".to_owned(),
        bytes if bytes >= 1e9 => (bytes / 1e9, "GB"),
        bytes => (bytes / 1e6, "MB"),
    };
    let decimals = if value >= 100.0 { 1 } else { 2 };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_formatted_in_mb_or_gb() {
        let all = [0, 4_200, 12_345_678, 999_900_000, 1_000_000_000, 107_500_000_000];
        assert_eq!(
            all.map(format_bytes),
            ["–", "0.00 MB", "12.35 MB", "999.9 MB", "1.00 GB", "107.5 GB"]
        );
    }

    #[test]
    fn parts_that_are_zero_in_all_cells_have_no_column() {
        let plain = MemoryEstimate {
            weights: 4_000_000,
            ..MemoryEstimate::default()
        };
        let mixed = MemoryEstimate {
            weight_copies: 2_000_000,
            ..plain
        };
        let table = table("memory".into(), &[("a".into(), mixed), ("b".into(), plain)]);
        let header: Vec<&str> = table.header.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(header, ["cell", "weights", "copies", "total"]);
        assert_eq!(
            table.rows,
            [
                ["a", "4.00 MB", "2.00 MB", "6.00 MB"],
                ["b", "4.00 MB", "–", "4.00 MB"]
            ]
        );
    }
}
