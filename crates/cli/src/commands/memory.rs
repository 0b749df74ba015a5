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
    printer::Printer,
    progress::label,
    suites::{self, Found},
};

/// Part of an estimate: its column and its bytes.
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
pub(crate) fn list(found: &[Found], profile: Option<Profile>, printer: &Printer) -> Result<()> {
    let backend = choose_backend(&Burn, None)?;
    let profiles = profile.as_ref().map_or(Profile::ALL, slice::from_ref);
    // The size of a cell does not depend on the values of its weights.
    let selection = Selection {
        init: Some(Init::Random),
        ..Selection::default()
    };
    let mut tables = vec![];
    for one in found {
        for &profile in profiles {
            let plan = suites::expand(slice::from_ref(one), &selection, profile, backend)?;
            tables.extend(of_plan(&plan).iter().map(draw));
        }
    }
    printer.data(&tables.join("\n\n"));
    Ok(())
}

/// Returns a table for each suite with a model. Its rows are the cells that would run, without their seeds, the largest first.
fn of_plan(plan: &Plan) -> Vec<Table> {
    let of_suite = |suite: &SuiteInfo| {
        let swept: Vec<Axis> = suite
            .axes
            .iter()
            .copied()
            .filter(|axis| *axis != Axis::Seed)
            .collect();
        let mut seen = HashSet::new();
        let cells = plan.runnable().filter(|cell| cell.suite == suite.name);
        let mut rows: Vec<(String, MemoryEstimate)> = cells
            .filter_map(|cell| Some((label(cell, &swept), estimate(cell)?)))
            .filter(|(label, _)| seen.insert(label.clone()))
            .collect();
        rows.sort_by_key(|(_, estimate)| Reverse(estimate.total()));
        let title = format!("{}, profile {}: estimated memory", suite.name, plan.profile);
        (!rows.is_empty()).then(|| table(title, &rows))
    };
    plan.suites.iter().filter_map(of_suite).collect()
}

/// Formats the rows, without the parts that are zero in all of them.
fn table(title: String, rows: &[(String, MemoryEstimate)]) -> Table {
    let is_used = |(_, bytes): &Part| rows.iter().any(|(_, estimate)| bytes(estimate) > 0);
    let parts: Vec<Part> = PARTS.into_iter().filter(is_used).collect();
    let columns = parts.iter().map(|(name, _)| ((*name).to_owned(), Align::Right));
    let row = |(label, estimate): &(String, MemoryEstimate)| {
        let shown = parts.iter().map(|(_, bytes)| shown(bytes(estimate)));
        std::iter::once(label.clone()).chain(shown).collect()
    };
    Table {
        title,
        header: std::iter::once(("cell".to_owned(), Align::Left))
            .chain(columns)
            .collect(),
        rows: rows.iter().map(row).collect(),
    }
}

/// Formats bytes in MB, or in GB from 1 GB on, as in the report.
fn shown(bytes: u64) -> String {
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
    fn bytes_have_a_unit_that_people_read() {
        let all = [0, 4_200, 12_345_678, 999_900_000, 1_000_000_000, 107_500_000_000];
        assert_eq!(
            all.map(shown),
            ["–", "0.00 MB", "12.35 MB", "999.9 MB", "1.00 GB", "107.5 GB"]
        );
    }

    #[test]
    fn parts_that_no_cell_has_are_no_column() {
        let tested = MemoryEstimate {
            weights: 4_000_000,
            ..MemoryEstimate::default()
        };
        let mixed = MemoryEstimate {
            weight_copies: 2_000_000,
            ..tested
        };
        let table = table("memory".into(), &[("a".into(), mixed), ("b".into(), tested)]);
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
