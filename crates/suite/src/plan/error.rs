//! Errors of planning and of axis overrides.

use mantissa_core::{Axis, TaskKind, UnknownName, ValueError};

use crate::axes;

/// Maximum number of cells of a run.
pub(super) const MAX_CELLS: u64 = 100_000;

/// Error of planning.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The override has no `=`.
    #[error(
        "`{given}` is not a valid axis override\n  hint: write `axis=value,value`, e.g. `accumulate=1,4`"
    )]
    InvalidOverride {
        /// The rejected text.
        given: String,
    },
    /// The overridden axis does not exist.
    #[error(transparent)]
    UnknownAxis(#[from] UnknownName),
    /// The axis does not accept the value.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// Two overrides name the same axis.
    #[error(
        "axis `{axis}` is overridden more than once\n  hint: list all values in one override, `{axis}=value,value`"
    )]
    OverriddenTwice {
        /// The axis.
        axis: Axis,
    },
    /// A row of axes that change together has too few or too many values.
    #[error("`{names}` takes `{wanted}`, not `{given}`")]
    InvalidRow {
        /// Names of the axes.
        names: String,
        /// The invalid row.
        given: String,
        /// Expected notation of a row.
        wanted: String,
    },
    /// The override does not apply to any task of the suites.
    #[error("{}", axes::inapplicable_message(*.axis, .tasks))]
    Inapplicable {
        /// The axis.
        axis: Axis,
        /// Tasks of the suites.
        tasks: Vec<TaskKind>,
    },
    /// Two suites have the same name.
    #[error(
        "two suites have the name `{name}`\n  hint: the name of a suite is its file name; rename one of the files"
    )]
    DuplicateSuite {
        /// The shared name.
        name: String,
    },
    /// Two suites have the same workload, but different files for it.
    #[error(
        "the suites `{earlier}` and `{suite}` have the same workload `{workload}`, but read different files\n  hint: rename the workload in one of them, or run one suite at a time"
    )]
    OtherFiles {
        /// Name of the workload.
        workload: String,
        /// The later suite.
        suite: String,
        /// The earlier suite.
        earlier: String,
    },
    /// The weights are for another model than the workload's.
    #[error(
        "workload `{workload}` has the model `{wanted}`, but its weights are for the model `{given}`\n  hint: pass weights to a single workload with `--weights WORKLOAD=PATH`"
    )]
    WeightsOfOtherModel {
        /// Name of the workload.
        workload: String,
        /// Model of the workload.
        wanted: &'static str,
        /// Model of the given weights.
        given: &'static str,
    },
    /// The plan has more than 100,000 cells.
    #[error(
        "with workload `{workload}` of suite `{suite}`, the run has more than {MAX_CELLS} cells\n  hint: every axis multiplies the number of cells; join axes that change together with `+`"
    )]
    TooManyCells {
        /// Name of the suite.
        suite: String,
        /// Name of the workload.
        workload: String,
    },
    /// The filter matches no cell.
    #[error("no cell matches `{filter}`\n  hint: a filter is a part of a workload name or of a setting such as `precision=16-mixed`; the workloads are {}", .workloads.join(", "))]
    NothingMatches {
        /// The filter.
        filter: String,
        /// Names of the existing workloads.
        workloads: Vec<String>,
    },
}
