//! Plans: the validated cells of all suites, including skipped cells with their reasons.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{Axis, AxisValue, Cell, Claim, MetricName, Status, name::named};

named! {
    /// Size of a run.
    pub enum Profile ("profile") {
        /// Minutes on a laptop, to check that everything works.
        Smoke = "smoke",
        /// Half an hour on a data-centre GPU.
        Standard = "standard",
        /// The size used in the articles.
        Full = "full",
    }
}

/// Maximum number of repeats of a cell.
pub const MAX_REPEATS: u32 = 10_000;

/// Cells that a run executes: the resolved suites, stored as `plan.json` in the run folder.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Profile from which the sizes were resolved.
    pub profile: Profile,
    /// Suites in the given order.
    pub suites: Vec<SuiteInfo>,
    /// All cells in suite order, including skipped cells.
    #[serde(deserialize_with = "deserialize_distinct_cells")]
    pub cells: Vec<PlannedCell>,
}

/// Deserializes the cells of a plan. Rejects a plan that contains a cell twice.
fn deserialize_distinct_cells<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<PlannedCell>, D::Error> {
    let cells = Vec::<PlannedCell>::deserialize(deserializer)?;
    let mut ids = HashSet::new();
    match cells.iter().find(|planned| !ids.insert(&planned.cell.id)) {
        None => Ok(cells),
        Some(duplicate) => Err(D::Error::custom(format!(
            "cell `{}` is in the plan twice",
            duplicate.cell.id
        ))),
    }
}

impl Plan {
    /// Returns the cells that are not skipped.
    pub fn runnable(&self) -> impl Iterator<Item = &Cell> {
        self.cells
            .iter()
            .filter(|planned| planned.skip.is_none())
            .map(|planned| &planned.cell)
    }

    /// Returns the suite with this name.
    pub fn suite(&self, name: &str) -> Option<&SuiteInfo> {
        self.suites.iter().find(|suite| suite.name == name)
    }
}

/// Cell of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCell {
    /// The cell: workload, setting and seed.
    pub cell: Cell,
    /// Reason for skipping the cell; absent if it runs.
    pub skip: Option<String>,
}

/// Description of a suite for reports, and expectations for its cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteInfo {
    /// Name: the file name without its extension.
    pub name: String,
    /// Title of the suite.
    pub title: String,
    /// Question that the suite investigates.
    pub question: String,
    /// Text for the report, in paragraphs.
    pub analysis: String,
    /// Names of published tables that the report shows next to the results (`references/<name>.toml`).
    pub references: Vec<String>,
    /// Axes that the suite sweeps, in the order of the suite.
    pub axes: Vec<Axis>,
    /// Time limit of a cell in seconds, after which its worker is killed.
    pub timeout_seconds: f64,
    /// Expectations for the cells.
    pub expectations: Vec<Expectation>,
    /// Claims of articles that the cells can test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// Expectation for the cells that match. For each status or metric, the last matching expectation applies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// Axis values that a cell must have; empty: matches all cells.
    pub matching: BTreeMap<Axis, AxisValue>,
    /// Statuses that count as a result rather than a failure.
    pub status: Option<Vec<Status>>,
    /// Lower bounds of metrics.
    pub at_least: BTreeMap<MetricName, f64>,
    /// Upper bounds of metrics.
    pub at_most: BTreeMap<MetricName, f64>,
}

impl SuiteInfo {
    /// Returns the expectations that match a cell.
    pub fn expectations_of<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Expectation> {
        self.expectations.iter().filter(|expectation| {
            expectation
                .matching
                .iter()
                .all(|(axis, value)| cell.setting.get(*axis).as_ref() == Some(value))
        })
    }

    /// Returns the allowed statuses of a cell: only `ok`, unless an expectation lists others. `skipped` is always
    /// allowed.
    pub fn allowed_statuses(&self, cell: &Cell) -> Vec<Status> {
        let listed = self
            .expectations_of(cell)
            .filter_map(|expectation| expectation.status.clone())
            .last();
        listed.unwrap_or_else(|| vec![Status::Ok])
    }
}
