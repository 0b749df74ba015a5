//! The validated list of cells that suites expand to, with every skipped cell and why.

use std::collections::{BTreeMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use crate::{Axis, AxisValue, Cell, Claim, MetricName, Status, name::named};

named! {
    /// How much of a suite is run.
    pub enum Profile ("profile") {
        /// Minutes on a laptop: does everything work?
        Smoke = "smoke",
        /// Half an hour on a data-centre card.
        Standard = "standard",
        /// The articles' own size.
        Full = "full",
    }
}

/// What a run executes: `plan.json` of a run folder, the resolved suites.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The profile that resolved the sizes.
    pub profile: Profile,
    /// The suites, in the order given.
    pub suites: Vec<SuiteInfo>,
    /// Every cell, the skipped ones too, in suite order.
    #[serde(deserialize_with = "different_cells")]
    pub cells: Vec<PlannedCell>,
}

/// Rejects a plan that has a cell twice.
fn different_cells<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PlannedCell>, D::Error> {
    let cells = Vec::<PlannedCell>::deserialize(deserializer)?;
    let mut ids = HashSet::new();
    match cells.iter().find(|planned| !ids.insert(&planned.cell.id)) {
        None => Ok(cells),
        Some(twice) => Err(D::Error::custom(format!(
            "cell `{}` is in the plan twice",
            twice.cell.id
        ))),
    }
}

impl Plan {
    /// Cells that will run.
    pub fn runnable(&self) -> impl Iterator<Item = &Cell> {
        self.cells
            .iter()
            .filter(|planned| planned.skip.is_none())
            .map(|planned| &planned.cell)
    }

    /// The suite of this name.
    pub fn suite(&self, name: &str) -> Option<&SuiteInfo> {
        self.suites.iter().find(|suite| suite.name == name)
    }
}

/// A cell of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedCell {
    /// The cell.
    pub cell: Cell,
    /// Why it will not run, if so.
    pub skip: Option<String>,
}

/// What the report prints of a suite, and what must hold for its cells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteInfo {
    /// Name: the file's stem.
    pub name: String,
    /// Headline.
    pub title: String,
    /// The question that the suite answers.
    pub question: String,
    /// Prose for the report, in paragraphs.
    pub analysis: String,
    /// Names of published tables to show beside the results (`references/<name>.toml`).
    pub references: Vec<String>,
    /// Axes that the suite sweeps, in its order.
    pub axes: Vec<Axis>,
    /// Seconds after which a cell's worker is ended.
    pub timeout_seconds: f64,
    /// What must hold.
    pub expectations: Vec<Expectation>,
    /// What articles say that its cells can test.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

/// What must hold for the cells that match; the last matching statement about a thing wins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// Values that a cell's setting must have; empty matches all.
    pub matching: BTreeMap<Axis, AxisValue>,
    /// Statuses that are results rather than failures.
    pub status: Option<Vec<Status>>,
    /// Metrics that may not be smaller.
    pub at_least: BTreeMap<MetricName, f64>,
    /// Metrics that may not be larger.
    pub at_most: BTreeMap<MetricName, f64>,
}

impl SuiteInfo {
    /// The expectations that concern a cell.
    pub fn expectations_of<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = &'a Expectation> {
        self.expectations.iter().filter(|expectation| {
            expectation
                .matching
                .iter()
                .all(|(axis, value)| cell.setting.get(*axis) == Some(value))
        })
    }

    /// Statuses allowed for a cell: `ok` alone unless an expectation says otherwise. `skipped` is always allowed.
    pub fn allowed_statuses(&self, cell: &Cell) -> Vec<Status> {
        let stated = self
            .expectations_of(cell)
            .filter_map(|expectation| expectation.status.clone())
            .last();
        stated.unwrap_or_else(|| vec![Status::Ok])
    }
}
