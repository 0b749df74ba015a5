//! Planning: the product of workloads and axes as a list of cells.

use std::collections::{BTreeMap, HashSet};

use mantissa_core::{
    Attention, Axis, AxisValue, Backend, Cell, CellId, CellMaker, ConvolutionShape, DatasetKind,
    Distribution, Format, Gelu, Kernel, KernelKind, Model, Plan, PlannedCell, Precision, Profile, Setting,
    SuiteInfo, Task, TaskKind, UnknownName, ValueError, Workload,
};

use crate::{
    Suite,
    axes::{self, Sweep},
    suite::Resolved,
};

/// Options of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanOptions {
    /// Profile, which selects sizes and axes of the suites.
    pub profile: Profile,
    /// Backend of the suites that do not sweep `backend`; `auto` is already resolved.
    pub backend: Backend,
    /// Sweeps that replace those of the suites, parsed by [`crate::parse_override`].
    pub overrides: Vec<Sweep>,
    /// Kinds of data that the user provides. Any other kind is replaced by its synthetic generator.
    pub data: Vec<DatasetKind>,
    /// Workloads that start from given weights.
    pub weights: StartingWeights,
    /// User models by workload, whose sizes replace those of the suites. The empty name applies to all other workloads with a model.
    pub models: BTreeMap<String, Model>,
    /// Substring of the workload name or of the setting text (`precision=bf16-mixed matmul=high …`). Cells that do not match are dropped.
    pub filter: Option<String>,
}

/// Workloads that start from weights of the user.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum StartingWeights {
    /// No weights. Workloads that need weights are skipped.
    #[default]
    None,
    /// Random weights, by request. Only times and memory of such a run are meaningful.
    Random,
    /// All workloads.
    All,
    /// Workloads with these names.
    Of(Vec<String>),
}

impl StartingWeights {
    /// Returns true if a workload that needs weights can run.
    fn available_for(&self, workload: &str) -> bool {
        match self {
            Self::None => false,
            Self::Random | Self::All => true,
            Self::Of(names) => names.iter().any(|name| name == workload),
        }
    }
}

/// Maximum number of cells of a run.
const MOST_CELLS: u64 = 100_000;

/// Error of planning.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The override has no `=`.
    #[error(
        "`{given}` is not a valid axis override\n  hint: write `axis=value,value`, e.g. `accumulate=1,4`"
    )]
    NotAnOverride {
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
    NotTogether {
        /// Names of the axes.
        names: String,
        /// The invalid row.
        given: String,
        /// Expected notation of a row.
        wanted: String,
    },
    /// The override does not apply to any task of the suites.
    #[error("{}", axes::inapplicable(*.axis, .tasks))]
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
    SameName {
        /// The shared name.
        name: String,
    },
    /// The weights are for another model than the workload's.
    #[error(
        "workload `{workload}` has the model `{wanted}`, but its weights are for the model `{given}`\n  hint: pass weights to a single workload with `--weights WORKLOAD=PATH`"
    )]
    OtherModel {
        /// Name of the workload.
        workload: String,
        /// Model of the workload.
        wanted: &'static str,
        /// Model of the given weights.
        given: &'static str,
    },
    /// The plan has more than 100,000 cells.
    #[error(
        "with workload `{workload}` of suite `{suite}`, the run has more than {MOST_CELLS} cells\n  hint: every axis multiplies the number of cells; join axes that change together with `+`"
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

/// Computes the product of workloads and axes. Cells are ordered by suite, workload and axes; the last axis varies fastest. A cell that an
/// earlier suite already contains, with the same workload name, is not planned again and belongs to the earlier suite.
///
/// # Errors
/// Fails if an override or a filter matches nothing, if an axis is overridden twice, if two suites have the same name, if the weights are
/// for another model, or if there are too many cells.
pub fn plan(suites: &[Suite], options: &PlanOptions) -> Result<Plan, PlanError> {
    check(suites, options)?;
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
        } = suite.resolved(options.profile);
        let mut swept: Vec<Axis> = vec![];
        for workload in workloads {
            let sweeps = overridden(sweeps, workload, options);
            for axis in sweeps.iter().flat_map(|sweep| &sweep.axes) {
                if !swept.contains(axis) {
                    swept.push(*axis);
                }
            }
            let rows = sweeps.iter().map(|sweep| sweep.rows.len() as u64);
            let cells = rows.fold(1u64, u64::saturating_mul);
            if cells.saturating_add(plan.cells.len() as u64) > MOST_CELLS {
                return Err(PlanError::TooManyCells {
                    suite: info.name.clone(),
                    workload: workload.name.clone(),
                });
            }
            plan_workload(
                &mut plan,
                &info.name,
                with_dataset(with_model(workload, options)?, &options.data),
                &sweeps,
                options,
            );
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

fn plan_workload(plan: &mut Plan, suite: &str, workload: Workload, sweeps: &[Sweep], options: &PlanOptions) {
    // Settings within a workload are distinct, so only an equal workload of an earlier suite can contain the same cell.
    let earlier = plan
        .cells
        .iter()
        .map(|planned| &planned.cell)
        .filter(|cell| cell.workload == workload);
    let earlier: HashSet<CellId> = earlier.map(|cell| cell.id.clone()).collect();
    let kept = |setting: &Setting| match &options.filter {
        Some(filter) => workload.name.contains(filter) || setting.to_string().contains(filter),
        None => true,
    };
    let mut maker = CellMaker::new(suite, workload.clone());
    for (setting, seed) in Settings::new(sweeps, &workload, options.backend) {
        if kept(&setting) {
            let cell = maker.cell(setting, seed);
            if !earlier.contains(&cell.id) {
                let skip = skip_reason(&cell, &options.weights);
                plan.cells.push(PlannedCell { cell, skip });
            }
        }
    }
}

fn check(suites: &[Suite], options: &PlanOptions) -> Result<(), PlanError> {
    for (index, suite) in suites.iter().enumerate() {
        if suites[..index]
            .iter()
            .any(|earlier| earlier.name() == suite.name())
        {
            return Err(PlanError::SameName {
                name: suite.name().to_owned(),
            });
        }
    }
    let workloads = suites.iter().flat_map(|suite| suite.workloads(options.profile));
    let tasks: Vec<TaskKind> = workloads.map(Workload::kind).collect();
    let mut known: Vec<Axis> = vec![];
    for sweep in &options.overrides {
        if sweep.rows.is_empty() {
            return Err(PlanError::NotAnOverride {
                given: format!("{}=", sweep.names()),
            });
        }
        for (axis, value) in sweep.rows.iter().flat_map(|row| sweep.axes.iter().zip(row)) {
            axis.value(value.clone())?;
        }
        for &axis in &sweep.axes {
            if known.contains(&axis) {
                return Err(PlanError::OverriddenTwice { axis });
            }
            if !tasks.iter().any(|task| axis.applies_to(*task)) {
                return Err(PlanError::Inapplicable { axis, tasks });
            }
            known.push(axis);
        }
    }
    Ok(())
}

fn overridden(sweeps: &[Sweep], workload: &Workload, options: &PlanOptions) -> Vec<Sweep> {
    let mut sweeps = axes::applicable(sweeps, workload);
    for sweep in options
        .overrides
        .iter()
        .filter_map(|sweep| sweep.only(|axis| workload.concerns(axis)))
    {
        axes::replace(&mut sweeps, sweep);
    }
    sweeps
}

/// Replaces the model of a workload with the user's model, if there is one.
fn with_model(workload: &Workload, options: &PlanOptions) -> Result<Workload, PlanError> {
    let mut workload = workload.clone();
    let own = options.models.get(&workload.name);
    let given = own.or_else(|| options.models.get(""));
    let model = match &mut workload.task {
        Task::Train(task) => &mut task.model,
        Task::Evaluate(task) => &mut task.model,
        Task::Generate(task) => &mut task.model,
        Task::Kernel(_) => return Ok(workload),
    };
    if let Some(given) = given {
        if given.name() != model.name() {
            // Random weights do not have to match the model.
            if own.is_none() && options.weights == StartingWeights::Random {
                return Ok(workload);
            }
            return Err(PlanError::OtherModel {
                wanted: model.name(),
                given: given.name(),
                workload: workload.name,
            });
        }
        *model = given.clone();
    }
    Ok(workload)
}

fn with_dataset(mut workload: Workload, given: &[DatasetKind]) -> Workload {
    let dataset = match &mut workload.task {
        Task::Train(task) => &mut task.dataset,
        Task::Evaluate(task) => &mut task.dataset,
        Task::Generate(_) | Task::Kernel(_) => return workload,
    };
    if !given.contains(dataset) {
        *dataset = dataset.synthetic();
    }
    workload
}

fn skip_reason(cell: &Cell, weights: &StartingWeights) -> Option<String> {
    if let Some(reason) = cell.setting.skip_reason() {
        return Some(reason.to_string());
    }
    match &cell.workload.task {
        Task::Train(task) => model_skips(&task.model, &cell.setting, true),
        Task::Evaluate(_) if !weights.available_for(&cell.workload.name) => Some(format!(
            "no weights for `{0}`: pass `--weights {0}=PATH`, or `--init random` to measure only times and memory",
            cell.workload.name
        )),
        Task::Evaluate(task) if task.dataset.is_synthetic() && *weights != StartingWeights::Random => {
            Some(format!(
                "trained weights cannot be evaluated on `{}`: pass `--data PATH`, or `--init random` to measure only times and memory",
                task.dataset
            ))
        }
        Task::Evaluate(task) => model_skips(&task.model, &cell.setting, false),
        Task::Generate(task) => {
            let most = task.prompt_tokens.saturating_add(task.new_tokens);
            let longest = task.model.positions().filter(|longest| most > *longest)?;
            Some(format!(
                "the sum of `prompt_tokens` and `new_tokens` is {most}, but the model has {longest} positions"
            ))
        }
        Task::Kernel(task) => kernel_skips(&task.kernel, &cell.setting),
    }
}

fn model_skips(model: &Model, setting: &Setting, training: bool) -> Option<String> {
    let sequence = setting.sequence();
    if let Some(longest) = model.positions().filter(|longest| sequence > *longest) {
        return Some(format!(
            "`sequence={sequence}` is longer than the model's `max_position_embeddings` of {longest}"
        ));
    }
    let drops = training && model.attention_dropout().is_some_and(|share| share > 0.0);
    (drops && setting.attention() == Attention::Fused).then(|| {
        "fused attention does not support dropout: set the dropout of attention weights to 0 in `model_size`"
            .to_owned()
    })
}

fn kernel_skips(kernel: &Kernel, setting: &Setting) -> Option<String> {
    let (size, distribution) = (setting.size(), setting.distribution());
    if let Some(reason) = without_products(kernel.kind(), setting) {
        return Some(reason);
    }
    match kernel {
        Kernel::Matmul(_) => None,
        Kernel::Convolution(ConvolutionShape { edge, padding, .. })
            if u64::from(size) + 2 * u64::from(*padding) < u64::from(*edge) =>
        {
            Some(format!(
                "images of `size={size}` with a padding of {padding} are smaller than filters of {edge} × {edge}"
            ))
        }
        _ if distribution == Distribution::Cancellation => Some(format!(
            "`distribution={distribution}` applies only to the kernel `matmul`"
        )),
        _ => None,
    }
}

/// Returns the reason why a kernel without a matmul is skipped under a precision.
fn without_products(kind: KernelKind, setting: &Setting) -> Option<String> {
    let precision = setting.precision();
    let is_16_bit = matches!(precision.parameters(), Format::F16 | Format::Bf16);
    match kind {
        kind if kind.multiplies() => None,
        _ if precision == Precision::True64 => Some(
            "`64-true` cannot be compared with the float64 reference, which has the same precision"
                .to_owned(),
        ),
        KernelKind::Cast if !precision.is_mixed() => {
            Some(format!("`{precision}` has one format, so there is no cast"))
        }
        KernelKind::Cast => None,
        kind if precision.is_mixed() => Some(format!(
            "`{precision}` is the same as `32-true` for `{kind}`: it changes only the format of matmuls"
        )),
        KernelKind::Gelu if setting.gelu() == Gelu::TanhPacked && !is_16_bit => Some(format!(
            "`gelu={}` takes two 16-bit values at a time, but the values of `{precision}` are wider",
            Gelu::TanhPacked
        )),
        _ => None,
    }
}

/// Iterator over all combinations of the rows of sweeps, as resolved settings and seeds. The last sweep varies fastest.
struct Settings<'a> {
    sweeps: &'a [Sweep],
    /// Row index of each sweep; `None` at the end of the iteration.
    rows: Option<Vec<usize>>,
    /// Default setting for each of [`Backend::ALL`], because defaults can depend on the backend.
    defaults: Vec<Setting>,
    backend: Backend,
}

impl<'a> Settings<'a> {
    fn new(sweeps: &'a [Sweep], workload: &Workload, backend: Backend) -> Self {
        let defaults = Backend::ALL
            .iter()
            .map(|backend| Setting::of(workload, *backend))
            .collect();
        Self {
            sweeps,
            rows: Some(vec![0; sweeps.len()]),
            defaults,
            backend,
        }
    }

    fn resolve(&self, rows: &[usize]) -> (Setting, u64) {
        let chosen = || {
            let rows = self
                .sweeps
                .iter()
                .zip(rows)
                .map(|(sweep, row)| (&sweep.axes, &sweep.rows[*row]));
            rows.flat_map(|(axes, values)| axes.iter().copied().zip(values))
        };
        let backend = chosen().find_map(|(axis, value)| match (axis, value) {
            (Axis::Backend, AxisValue::Text(name)) => name.parse().ok(),
            _ => None,
        });
        let backend = backend.unwrap_or(self.backend);
        let mut setting = self.defaults[backend as usize].clone();
        let mut seed = Axis::Seed.default_value(backend);
        for (axis, value) in chosen() {
            if axis == Axis::Seed {
                seed = value.clone();
            } else {
                setting
                    .set(axis, value.clone())
                    .expect("values were checked when they were parsed");
            }
        }
        let AxisValue::Integer(seed) = seed else {
            unreachable!("seeds are integers")
        };
        (setting, seed)
    }

    fn advance(&self, mut rows: Vec<usize>) -> Option<Vec<usize>> {
        for (row, sweep) in rows.iter_mut().zip(self.sweeps).rev() {
            *row += 1;
            if *row < sweep.rows.len() {
                return Some(rows);
            }
            *row = 0;
        }
        None
    }
}

impl Iterator for Settings<'_> {
    type Item = (Setting, u64);

    fn next(&mut self) -> Option<Self::Item> {
        let rows = self.rows.take()?;
        let item = self.resolve(&rows);
        self.rows = self.advance(rows);
        Some(item)
    }
}

#[cfg(test)]
mod tests {
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
    fn the_last_axis_changes_fastest_and_each_task_gets_its_own_axes() {
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
    fn kernels_that_make_no_sense_are_skipped_with_the_reason() {
        let mut setting = Setting::defaults(TaskKind::Kernel, Backend::Flex);
        let set = |setting: &mut Setting, axis: Axis, value: &str| {
            setting.set(axis, axis.parse(value).unwrap()).unwrap();
        };
        let filters = Kernel::Convolution(ConvolutionShape {
            batch: 1,
            channels: 1,
            filters: 1,
            edge: 7,
            stride: 1,
            padding: 1,
        });
        set(&mut setting, Axis::Size, "5");
        assert_eq!(kernel_skips(&filters, &setting), None);
        set(&mut setting, Axis::Size, "4");
        let reason = kernel_skips(&filters, &setting).unwrap();
        assert_eq!(
            reason,
            "images of `size=4` with a padding of 1 are smaller than filters of 7 × 7"
        );
        set(&mut setting, Axis::Size, "64");
        set(&mut setting, Axis::Distribution, "cancellation");
        assert!(
            kernel_skips(&filters, &setting)
                .unwrap()
                .contains("applies only to the kernel `matmul`")
        );
    }

    #[test]
    fn a_kernel_without_products_runs_where_its_format_says_something() {
        let rows = mantissa_core::RowsShape { rows: None, width: 8 };
        let reason = |kernel: &Kernel, precision: &str, form: &str| {
            let mut setting = Setting::defaults(TaskKind::Kernel, Backend::Flex);
            for (axis, value) in [(Axis::Precision, precision), (Axis::Gelu, form)] {
                setting.set(axis, axis.parse(value).unwrap()).unwrap();
            }
            kernel_skips(kernel, &setting)
        };
        let (gelu, cast) = (Kernel::Gelu(rows), Kernel::Cast(rows));
        assert_eq!(reason(&gelu, "bf16-true", "tanh-packed"), None);
        assert!(
            reason(&gelu, "32-true", "tanh-packed")
                .unwrap()
                .contains("two 16-bit values")
        );
        assert!(reason(&gelu, "64-true", "exact").unwrap().contains("float64"));
        assert!(
            reason(&gelu, "16-mixed", "exact")
                .unwrap()
                .contains("the same as `32-true`")
        );
        assert_eq!(reason(&cast, "16-mixed", "exact"), None);
        assert!(reason(&cast, "16-true", "exact").unwrap().contains("one format"));
    }

    #[test]
    fn a_combination_without_a_meaning_is_a_skipped_cell_with_its_reason() {
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
    fn an_override_replaces_an_axis_or_adds_one() {
        let plan = planned(&["precision=bf16-mixed", "seed=1,2"]);
        assert_eq!(column(&plan, |cell| cell.seed), [1, 2].repeat(6));
        assert!(
            plan.runnable()
                .all(|cell| cell.setting.precision().name() == "bf16-mixed")
        );
        assert!(plan.suites[0].axes.contains(&Axis::Seed));
    }

    #[test]
    fn reviews_are_the_users_only_if_there_are_any() {
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
    fn fusion_defaults_to_what_the_backend_of_the_cell_has() {
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
    fn a_cell_that_two_suites_ask_for_stays_with_the_first() {
        let plan = plan(&[suite("a"), suite("b")], &options(&[])).unwrap();
        assert_eq!(plan.cells.len(), planned(&[]).cells.len());
        assert!(plan.cells.iter().all(|planned| planned.cell.suite == "a"));
        assert_eq!(plan.suites.len(), 2);
    }

    #[test]
    fn f64_is_planned_on_a_gpu_fused_or_not() {
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
    fn a_filter_keeps_the_cells_whose_name_or_setting_contains_it() {
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
    fn overrides_that_concern_nothing_and_ambiguous_requests_are_refused() {
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
