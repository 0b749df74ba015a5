//! Report of a run: everything that the renderers show, computed once.

use std::collections::{HashMap, HashSet};

use mantissa_core::{CellId, Record, SuiteInfo};

use crate::{
    Banner, ClaimVerdict, Group, Reference, ReportError, Row, Run, banner, claims, headline, peak, reference,
    table_notes,
};

/// Report of a run.
#[derive(Debug)]
pub struct Report<'a> {
    /// The run.
    pub run: &'a Run,
    /// Warnings and notes that precede all numbers.
    pub banners: Vec<Banner>,
    /// The suites, in plan order; those without cells are left out.
    pub suites: Vec<Suite<'a>>,
}

/// A suite of the plan.
#[derive(Debug)]
pub struct Suite<'a> {
    /// Title, question and other information from the suite file.
    pub info: &'a SuiteInfo,
    /// Published tables named by the suite.
    pub references: Vec<Reference>,
    /// Workloads, in plan order.
    pub groups: Vec<Group<'a>>,
    /// Warnings and notes that precede the numbers of the suite.
    pub banners: Vec<Banner>,
    /// Claims of articles, tested on the cells of the suite.
    pub claims: Vec<ClaimVerdict<'a>>,
}

impl<'a> Report<'a> {
    /// Computes the report of a run.
    pub fn new(run: &'a Run) -> Result<Self, ReportError> {
        let mut by_cell: HashMap<&CellId, Vec<&Record>> = HashMap::new();
        for record in &run.records {
            by_cell.entry(&record.cell.id).or_default().push(record);
        }
        let mut rows: HashMap<&str, Vec<Row<'a>>> = HashMap::new();
        let mut planned = HashSet::new();
        for entry in &run.plan.cells {
            planned.insert(&entry.cell.id);
            let records = by_cell.get(&entry.cell.id).cloned().unwrap_or_default();
            let row = Row::new(run, &entry.cell, entry.skip.clone(), records);
            rows.entry(&entry.cell.suite).or_default().push(row);
        }
        // Also show records whose cell is not in the plan, as in a folder that was put together by hand.
        let mut seen = HashSet::new();
        for cell in run
            .records
            .iter()
            .map(|record| &record.cell)
            .filter(|cell| !planned.contains(&cell.id))
        {
            if seen.insert(&cell.id) {
                let records = by_cell.get(&cell.id).cloned().unwrap_or_default();
                rows.entry(&cell.suite)
                    .or_default()
                    .push(Row::new(run, cell, None, records));
            }
        }
        let mut suites = Vec::new();
        for info in &run.plan.suites {
            if let Some(rows) = rows.remove(info.name.as_str()) {
                suites.push(Suite::new(run, info, rows)?);
            }
        }
        let groups = suites.iter_mut().flat_map(|suite| &mut suite.groups);
        peak::set_peak_shares(&mut groups.flat_map(|group| &mut group.rows).collect::<Vec<_>>());
        Ok(Self {
            run,
            banners: banner::of_run(run),
            suites,
        })
    }

    /// Returns the maximum number of rows per table, which keeps a page small enough for a browser.
    pub(crate) fn rows_shown(&self) -> usize {
        let groups = self.suites.iter().flat_map(|suite| &suite.groups);
        max_rows_per_table(&groups.map(|group| group.rows.len()).collect::<Vec<_>>())
    }

    /// Iterates over all rows with their groups.
    pub fn rows(&self) -> impl Iterator<Item = (&Group<'a>, &Row<'a>)> {
        let groups = self.suites.iter().flat_map(|suite| &suite.groups);
        groups.flat_map(|group| group.rows.iter().map(move |row| (group, row)))
    }
}

/// Returns the maximum number of rows shown per table, given the number of rows of each table.
pub(crate) fn max_rows_per_table(tables: &[usize]) -> usize {
    /// Maximum number of rows of all tables together.
    const MAX_ROWS: usize = 2_000;
    /// Minimum number of rows per table.
    const MIN_ROWS: usize = 5;
    if tables.iter().sum::<usize>() <= MAX_ROWS {
        return MAX_ROWS;
    }
    (MAX_ROWS / tables.len()).max(MIN_ROWS)
}

impl<'a> Suite<'a> {
    fn new(run: &Run, info: &'a SuiteInfo, rows: Vec<Row<'a>>) -> Result<Self, ReportError> {
        let references = info
            .references
            .iter()
            .map(|name| reference(name))
            .collect::<Result<Vec<_>, _>>()?;
        let mut groups: Vec<(&'a str, Vec<Row<'a>>)> = Vec::new();
        for row in rows {
            let workload = row.cell.workload.name.as_str();
            match groups.iter_mut().find(|(name, _)| *name == workload) {
                Some((_, rows)) => rows.push(row),
                None => groups.push((workload, vec![row])),
            }
        }
        let groups: Vec<_> = groups
            .into_iter()
            .map(|(name, rows)| {
                let mut group = Group::new(name, rows);
                group.answer = headline::answer(&group);
                group.notes = table_notes::of_group(&group);
                group
            })
            .collect();
        check_distinct(info, &groups)?;
        let banners = banner::of_suite(run, &references, &groups);
        let tested = info.claims.iter().map(|claim| claims::test(run, claim, &groups));
        let claims = tested.collect();
        Ok(Self {
            claims,
            info,
            references,
            groups,
            banners,
        })
    }
}

/// Rejects two cells of a setting with the same seed. Their values would be merged as if they were of two seeds.
fn check_distinct(info: &SuiteInfo, groups: &[Group<'_>]) -> Result<(), ReportError> {
    for group in groups {
        for comparison in &group.comparisons {
            let mut seeds = HashMap::new();
            for cell in comparison.rows.iter().map(|row| group.rows[*row].cell) {
                if let Some(other) = seeds.insert(cell.seed, &cell.id) {
                    return Err(ReportError::SameSetting {
                        suite: info.name.clone(),
                        workload: group.workload.to_owned(),
                        cells: [other.clone(), cell.id.clone()],
                    });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_table_among_many_short_ones_is_shown_in_full() {
        let tables: Vec<usize> = std::iter::once(96).chain([8; 30]).collect();
        assert!(max_rows_per_table(&tables) >= 96);
        // Too many rows together: every table gets an equal share, but at least 5 rows.
        assert_eq!(max_rows_per_table(&[10_000, 10, 10, 10]), 500);
        assert_eq!(max_rows_per_table(&[100; 1_000]), 5);
        assert!(max_rows_per_table(&[]) > 0);
    }
}
