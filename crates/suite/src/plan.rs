//! Planning: the Cartesian product of workloads and axes as a list of cells.

mod error;
mod options;
mod settings;
mod skip_reason;

use std::collections::HashSet;

use mantissa_core::{
    Axis, Cell, CellId, CellMaker, DatasetKind, Plan, PlannedCell, Setting, SuiteInfo, Task, TaskKind,
    Workload,
};

pub use error::PlanError;
pub use options::{PlanOptions, StartingWeights};

use self::{error::MAX_CELLS, settings::Settings, skip_reason::skip_reason};
use crate::{
    Suite,
    axes::{self, Sweep},
    suite::Resolved,
};

/// Computes the Cartesian product of workloads and axes. Cells are ordered by suite, workload and axes; the last axis varies fastest. If
/// two suites contain the same cell under the same workload name, the cell is planned once, for the earlier suite.
///
/// # Errors
/// An override that does not apply to any workload, a filter that does not match any cell, an axis that is overridden twice, two suites
/// with the same name, two suites with different files for the same workload, weights for another model, or too many cells.
pub fn plan(suites: &[Suite], options: &PlanOptions) -> Result<Plan, PlanError> {
    check_options(suites, options)?;
    let mut plan = Plan {
        profile: options.profile,
        suites: vec![],
        cells: vec![],
    };
    for suite in suites {
        let Resolved {
            info,
            workloads,
            sweeps,
            ..
        } = suite.resolved(options.profile);
        let (data, weights) = options.provided(suite.inputs(options.profile));
        let mut swept: Vec<Axis> = vec![];
        for workload in workloads {
            let sweeps = apply_overrides(sweeps, workload, options);
            for axis in sweeps.iter().flat_map(|sweep| &sweep.axes) {
                if !swept.contains(axis) {
                    swept.push(*axis);
                }
            }
            let rows = sweeps.iter().map(|sweep| sweep.rows.len() as u64);
            let cells = rows.fold(1u64, u64::saturating_mul);
            if cells.saturating_add(plan.cells.len() as u64) > MAX_CELLS {
                return Err(PlanError::TooManyCells {
                    suite: info.name.clone(),
                    workload: workload.name.clone(),
                });
            }
            let workload = with_dataset(with_model(workload, options)?, &data);
            check_files(&plan, suite, &workload, suites, options)?;
            plan_workload(&mut plan, &info.name, workload, &sweeps, (options, &weights));
        }
        plan.suites.push(SuiteInfo {
            axes: swept,
            ..info.clone()
        });
    }
    match &options.filter {
        Some(filter) if plan.cells.is_empty() => {
            let names = suites.iter().flat_map(|suite| suite.workloads(options.profile));
            let workloads = names.map(|workload| format!("`{}`", workload.name)).collect();
            Err(PlanError::NothingMatches {
                filter: filter.clone(),
                workloads,
            })
        }
        _ => Ok(plan),
    }
}

/// Rejects a workload that an earlier suite has planned with other files, because a cell is identified by its workload and not by its files.
fn check_files(
    plan: &Plan,
    suite: &Suite,
    workload: &Workload,
    suites: &[Suite],
    options: &PlanOptions,
) -> Result<(), PlanError> {
    let cells = plan.cells.iter().map(|planned| &planned.cell);
    let mut earlier = cells.filter(|cell| options.suite_inputs && cell.workload == *workload);
    let files = suite.inputs(options.profile).read_by(workload);
    let has_other_files = |cell: &&Cell| {
        let mut suites = suites.iter();
        suites.any(|other| {
            other.name() == cell.suite && other.inputs(options.profile).read_by(workload) != files
        })
    };
    match earlier.find(has_other_files) {
        Some(cell) => Err(PlanError::OtherFiles {
            workload: workload.name.clone(),
            suite: suite.name().to_owned(),
            earlier: cell.suite.clone(),
        }),
        None => Ok(()),
    }
}

fn plan_workload(
    plan: &mut Plan,
    suite: &str,
    workload: Workload,
    sweeps: &[Sweep],
    (options, weights): (&PlanOptions, &StartingWeights),
) {
    // Skip a cell that is already planned: it differs from an earlier one only in axes without an effect, or an earlier suite has the same
    // workload and setting.
    let earlier = plan
        .cells
        .iter()
        .map(|planned| &planned.cell)
        .filter(|cell| cell.workload == workload);
    let mut planned: HashSet<CellId> = earlier.map(|cell| cell.id.clone()).collect();
    let matches_filter = |setting: &Setting| match &options.filter {
        Some(filter) => workload.name.contains(filter) || setting.to_string().contains(filter),
        None => true,
    };
    let mut maker = CellMaker::new(suite, workload.clone());
    for (setting, seed) in Settings::new(sweeps, &workload, options.backend) {
        let setting = setting.without_ineffective_axes();
        if !matches_filter(&setting) {
            continue;
        }
        let cell = maker.cell(setting, seed);
        if planned.insert(cell.id.clone()) {
            let skip = skip_reason(&cell, weights);
            plan.cells.push(PlannedCell { cell, skip });
        }
    }
}

fn check_options(suites: &[Suite], options: &PlanOptions) -> Result<(), PlanError> {
    for (index, suite) in suites.iter().enumerate() {
        if suites[..index]
            .iter()
            .any(|earlier| earlier.name() == suite.name())
        {
            return Err(PlanError::DuplicateSuite {
                name: suite.name().to_owned(),
            });
        }
    }
    let workloads = suites.iter().flat_map(|suite| suite.workloads(options.profile));
    let tasks: Vec<TaskKind> = workloads.map(Workload::kind).collect();
    let mut overridden: Vec<Axis> = vec![];
    for sweep in &options.overrides {
        if sweep.rows.is_empty() {
            return Err(PlanError::InvalidOverride {
                given: format!("{}=", sweep.names()),
            });
        }
        for (axis, value) in sweep.rows.iter().flat_map(|row| sweep.axes.iter().zip(row)) {
            axis.value(value.clone())?;
        }
        for &axis in &sweep.axes {
            if overridden.contains(&axis) {
                return Err(PlanError::OverriddenTwice { axis });
            }
            if !tasks.iter().any(|task| axis.applies_to(*task)) {
                return Err(PlanError::Inapplicable { axis, tasks });
            }
            overridden.push(axis);
        }
    }
    Ok(())
}

fn apply_overrides(sweeps: &[Sweep], workload: &Workload, options: &PlanOptions) -> Vec<Sweep> {
    let mut sweeps = axes::applicable(sweeps, workload);
    for sweep in options
        .overrides
        .iter()
        .filter_map(|sweep| sweep.project(|axis| workload.uses(axis)))
    {
        axes::replace(&mut sweeps, sweep);
    }
    sweeps
}

/// Replaces the model of a workload with the user's model for it, if there is one.
fn with_model(workload: &Workload, options: &PlanOptions) -> Result<Workload, PlanError> {
    let mut workload = workload.clone();
    let model_of_workload = options.models.get(&workload.name);
    let user_model = model_of_workload.or_else(|| options.models.get(""));
    let model = match &mut workload.task {
        Task::Train(task) => &mut task.model,
        Task::Evaluate(task) => &mut task.model,
        Task::Generate(task) => &mut task.model,
        Task::Kernel(_) => return Ok(workload),
    };
    if let Some(user_model) = user_model {
        if user_model.name() != model.name() {
            // With random weights, a user model that is not assigned to one workload replaces only models of the same architecture.
            if model_of_workload.is_none() && options.weights == StartingWeights::Random {
                return Ok(workload);
            }
            return Err(PlanError::WeightsOfOtherModel {
                wanted: model.name(),
                given: user_model.name(),
                workload: workload.name,
            });
        }
        *model = user_model.clone();
    }
    Ok(workload)
}

/// Replaces a dataset that the user does not provide with its synthetic counterpart.
fn with_dataset(mut workload: Workload, provided: &[DatasetKind]) -> Workload {
    let dataset = match &mut workload.task {
        Task::Train(task) => &mut task.dataset,
        Task::Evaluate(task) => &mut task.dataset,
        Task::Generate(_) | Task::Kernel(_) => return workload,
    };
    if !provided.contains(dataset) {
        *dataset = dataset.synthetic();
    }
    workload
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Backend, Profile};

    use super::*;

    const SUITE: &str = "
        title = 't'
        question = 'q'
        [axes]
        precision = ['32-true', '64-true']
        matmul = ['highest', 'high']
        'batch+accumulate' = [[8, 1], [4, 2]]
        size = [64]
        [[workload]]
        name = 'reviews'
        task = 'train'
        model = 'distilbert'
        dataset = 'reviews'
        epochs = 1
        learning_rate = 1e-3
        split.validation = 10
        [[workload]]
        name = 'product'
        task = 'kernel'
        kernel = 'matmul'
    ";

    fn suite(name: &str) -> Suite {
        crate::parse(name, "x.toml", SUITE).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn options(overrides: &[&str]) -> PlanOptions {
        PlanOptions {
            profile: Profile::Smoke,
            backend: Backend::Flex,
            overrides: overrides
                .iter()
                .map(|text| crate::parse_override(text).unwrap())
                .collect(),
            suite_inputs: false,
            data: vec![],
            weights: StartingWeights::None,
            models: Default::default(),
            filter: None,
        }
    }

    fn planned(overrides: &[&str]) -> Plan {
        plan(&[suite("a")], &options(overrides)).unwrap()
    }

    fn column<T>(plan: &Plan, value: impl Fn(&Cell) -> T) -> Vec<T> {
        plan.cells.iter().map(|planned| value(&planned.cell)).collect()
    }

    #[test]
    fn last_axis_varies_fastest() {
        let plan = planned(&["precision=32-true"]);
        let batches = column(&plan, |cell| {
            (
                cell.workload.name.clone(),
                cell.setting.matmul().name(),
                cell.setting.batch(),
            )
        });
        let expected = [
            ("reviews", "highest", 8),
            ("reviews", "highest", 4),
            ("reviews", "high", 8),
            ("reviews", "high", 4),
            ("product", "highest", 1), // a kernel has no batch
            ("product", "high", 1),
        ];
        assert_eq!(
            batches,
            expected.map(|(name, matmul, batch)| (name.to_owned(), matmul, batch))
        );
        use Axis::{Accumulate, Batch, Matmul, Precision, Size};
        assert_eq!(plan.suites[0].axes, [Precision, Matmul, Batch, Accumulate, Size]);
    }

    #[test]
    fn combinations_of_axes_without_an_effect_are_one_cell() {
        let algorithms = "reduce_algorithm=ring,tree";
        let one = planned(&[algorithms, "reduce_format=f32,bf16", "threads=all"]);
        assert_eq!(one.cells.len(), planned(&[]).cells.len());
        let ids = |plan: &Plan| {
            plan.cells
                .iter()
                .map(|planned| planned.cell.id.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(ids(&one), ids(&planned(&[])));
        let trainings = |plan: &Plan| {
            plan.cells
                .iter()
                .filter(|planned| planned.cell.workload.name == "reviews")
                .count()
        };
        let devices = planned(&[algorithms, "devices=1,2"]);
        assert_eq!(trainings(&devices), 3 * trainings(&planned(&[])));
    }

    #[test]
    fn undefined_combinations_are_skipped_with_a_reason() {
        let plan = planned(&[]);
        assert_eq!(plan.cells.len(), 2 * 2 * 2 + 2 * 2);
        let skipped: Vec<_> = plan
            .cells
            .iter()
            .filter_map(|planned| planned.skip.as_deref())
            .collect();
        let reason = "`matmul=high` is not defined under `64-true`: it concerns f32 operands only";
        assert_eq!(skipped, [reason; 3]);
        let plan = planned(&["sequence=512,513"]);
        let reason = "`sequence=513` is longer than the model's `max_position_embeddings` of 512";
        assert!(
            plan.cells
                .iter()
                .any(|planned| planned.skip.as_deref() == Some(reason))
        );
    }

    #[test]
    fn override_replaces_or_adds_an_axis() {
        let plan = planned(&["precision=bf16-mixed", "seed=1,2"]);
        assert_eq!(column(&plan, |cell| cell.seed), [1, 2].repeat(6));
        assert!(
            plan.runnable()
                .all(|cell| cell.setting.precision().name() == "bf16-mixed")
        );
        assert!(plan.suites[0].axes.contains(&Axis::Seed));
    }

    #[test]
    fn reviews_are_synthetic_unless_the_user_provides_them() {
        let dataset = |options: &PlanOptions| match &plan(&[suite("a")], options).unwrap().cells[0]
            .cell
            .workload
            .task
        {
            Task::Train(task) => task.dataset,
            _ => panic!("the first workload must be a training"),
        };
        assert_eq!(dataset(&options(&[])), DatasetKind::SyntheticReviews);
        let users = PlanOptions {
            data: vec![DatasetKind::Reviews],
            ..options(&[])
        };
        assert_eq!(dataset(&users), DatasetKind::Reviews);
    }

    #[test]
    fn files_of_a_suite_are_used_if_the_options_say_so() {
        let files =
            "\n[inputs]\ndata.reviews = 'a.tsv'\nweights.reviews = 'a.bin'\n[[workload]]\nname = 'product'";
        let text = SUITE.replace("[[workload]]\n        name = 'product'", files);
        let with_files = |name: &str, text: &str| crate::parse(name, "x.toml", text).unwrap();
        let dataset = |suite_inputs: bool| {
            let options = PlanOptions {
                suite_inputs,
                ..options(&[])
            };
            let plan = plan(&[with_files("a", &text)], &options).unwrap();
            match &plan.cells[0].cell.workload.task {
                Task::Train(task) => task.dataset,
                _ => panic!("the first workload must be a training"),
            }
        };
        assert_eq!(dataset(true), DatasetKind::Reviews);
        assert_eq!(dataset(false), DatasetKind::SyntheticReviews);

        let suites = [
            with_files("a", &text),
            with_files("b", &text.replace("a.tsv", "b.tsv")),
        ];
        let both = PlanOptions {
            suite_inputs: true,
            ..options(&[])
        };
        insta::assert_snapshot!(plan(&suites, &both).unwrap_err(), @r#"
            the suites `a` and `b` have the same workload `reviews`, but read different files
              hint: rename the workload in one of them, or run one suite at a time
            "#);
        assert!(plan(&suites, &options(&[])).is_ok());
    }

    #[test]
    fn default_of_fusion_depends_on_the_backend() {
        let plan = planned(&["backend=flex,cuda"]);
        assert!(
            plan.cells
                .iter()
                .any(|planned| planned.cell.setting.backend() == Backend::Cuda)
        );
        for planned in &plan.cells {
            let setting = &planned.cell.setting;
            assert_eq!(setting.fusion(), setting.backend() == Backend::Cuda);
        }
    }

    #[test]
    fn duplicate_cells_belong_to_the_first_suite() {
        let plan = plan(&[suite("a"), suite("b")], &options(&[])).unwrap();
        assert_eq!(plan.cells.len(), planned(&[]).cells.len());
        assert!(plan.cells.iter().all(|planned| planned.cell.suite == "a"));
        assert_eq!(plan.suites.len(), 2);
    }

    #[test]
    fn f64_is_planned_on_a_gpu_with_and_without_fusion() {
        let plan = planned(&[
            "backend=cuda",
            "fusion=on,off",
            "precision=64-true",
            "matmul=highest",
        ]);
        assert!(plan.cells.iter().any(|planned| planned.cell.setting.fusion()));
        assert!(plan.cells.iter().all(|planned| planned.skip.is_none()));
    }

    #[test]
    fn filter_matches_workload_names_and_settings() {
        let cells = |filter: &str| {
            let filter = Some(filter.to_owned());
            plan(
                &[suite("a")],
                &PlanOptions {
                    filter,
                    ..options(&[])
                },
            )
            .map(|plan| plan.cells.len())
        };
        assert_eq!(cells("prod"), Ok(4));
        assert_eq!(cells("precision=64-true"), Ok(6));
        insta::assert_snapshot!(cells("nothing").unwrap_err(), @r#"
            no cell matches `nothing`
              hint: a filter is a part of a workload name or of a setting such as `precision=16-mixed`; the workloads are `reviews`, `product`
            "#);
    }

    #[test]
    fn invalid_overrides_and_duplicate_suites_are_rejected() {
        let error = |suites: &[Suite], overrides: &[&str]| plan(suites, &options(overrides)).unwrap_err();
        insta::assert_snapshot!(error(&[suite("a")], &["batch=1", "batch=2"]), @r#"
            axis `batch` is overridden more than once
              hint: list all values in one override, `batch=value,value`
            "#);
        insta::assert_snapshot!(error(&[suite("a"), suite("a")], &[]), @r#"
            two suites have the name `a`
              hint: the name of a suite is its file name; rename one of the files
            "#);
        let (before, _) = SUITE
            .split_once("[[workload]]\n        name = 'product'")
            .unwrap();
        let trains = crate::parse("x", "x.toml", &before.replace("size = [64]", "")).unwrap();
        insta::assert_snapshot!(error(&[trains], &["size=4"]), @r#"
            axis `size` does not apply to task `train`
              hint: it applies to `kernel`
            "#);
    }
}
