//! Table of the advice of `mantissa advise` on a page.

use serde::Serialize;

use crate::{
    Budget, Group, Report, Suite,
    advise::{Choice, evidence_table, outside_budget, workload_advice},
    figures::shown_of,
    table::Align,
};

/// Maximum number of settings in a table. `mantissa advise` prints all of them.
const MAX_ROWS: usize = 100;

/// Advice within the default budget about settings that do the same work.
#[derive(Serialize)]
pub(super) struct WorkAdvicePage {
    /// Label of the work; empty if all settings do the same work.
    work: String,
    headings: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    /// Number of rows shown out of all rows, if some are left out.
    capped: Option<String>,
    /// Settings outside the budget, with the reasons.
    outside: Vec<String>,
}

/// Returns the advice about a workload from the choices within the default budget, for each kind of work with several settings.
pub(super) fn advice<'r, 'a>(
    report: &'r Report<'a>,
    suite: &Suite<'a>,
    group: &'r Group<'a>,
    choices: &[Choice<'r, 'a>],
) -> Vec<WorkAdvicePage> {
    let advice = workload_advice(report, suite, group, &Budget::default(), choices);
    let several = advice.choices.iter().filter(|work| work.evidence.len() > 1);
    let page = |work| {
        let table = evidence_table(&advice, work);
        let all = table.rows.len();
        let mut outside = outside_budget(work);
        outside.truncate(MAX_ROWS);
        WorkAdvicePage {
            work: work.work.clone(),
            headings: table.header,
            capped: shown_of(all.min(MAX_ROWS), all),
            rows: table.rows.into_iter().take(MAX_ROWS).collect(),
            outside,
        }
    };
    several.map(page).collect()
}
