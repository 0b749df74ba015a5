//! Files of the user: data by kind, and weights by workload.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Formatter},
    path::{Path, PathBuf},
};

use anyhow::{Error, Result, bail};
use mantissa_core::{Cell, DatasetKind, Model, Plan, Profile, Task, command_line, nearest};
use mantissa_inputs::{
    Inputs,
    data::{ColumnNames, detect_kind},
    weights::model_of,
};
use mantissa_runner::{CACHE, read_plan_and_settings};
use mantissa_suite::StartingWeights;

use serde_json::{Value, json};

use crate::{
    args::{RunArguments, Selection},
    suites::SuiteFile,
};

/// Files that the workloads of a run read.
#[derive(Debug)]
pub(crate) struct RunInputs {
    /// Files of the command line.
    pub(crate) given: Inputs,
    /// Files of suites, by suite. Empty if the command line names any data, weights, vocabulary or initialisation.
    pub(crate) by_suite: BTreeMap<String, Inputs>,
}

impl RunInputs {
    /// Returns the files of the command line, or those of the suites if it names none.
    pub(crate) fn new(
        selection: &Selection,
        vocabulary: Option<&Path>,
        (found, profile): (&[SuiteFile], Profile),
    ) -> Result<Self> {
        if let Some(path) = vocabulary {
            check_exists("--vocabulary", path)?;
        }
        let given = Inputs {
            vocabulary: vocabulary.map(Path::to_owned),
            ..inputs(selection)?
        };
        let names_files = given.random || !selection.weights.is_empty() || given.paths().next().is_some();
        let mut by_suite = BTreeMap::new();
        for file in found.iter().filter(|_| !names_files) {
            let files = file.suite.inputs(profile);
            if files.is_empty() {
                continue;
            }
            let inputs = Inputs {
                data: files.data.clone(),
                vocabulary: files.vocabulary.clone(),
                weights: files.weights.clone(),
                ..given.clone()
            };
            by_suite.insert(file.suite.name().to_owned(), inputs);
        }
        Ok(Self { given, by_suite })
    }

    /// Rejects missing files of the suites in a plan, and weights whose configuration is that of another model.
    pub(crate) fn check_suite_files(&self, plan: &Plan) -> Result<()> {
        for (suite, inputs) in &self.by_suite {
            let mut cells = all_cells(plan).filter(|cell| cell.suite == *suite).peekable();
            if cells.peek().is_none() {
                continue;
            }
            if let Some(path) = inputs.paths().find(|path| !path.exists()) {
                bail!(
                    "cannot read `{}` of the suite `{suite}`: it does not exist\n  hint: restore the file, or pass `--data` or `--weights`",
                    path.display()
                );
            }
            for cell in cells {
                let workload = &cell.workload;
                let Some(path) = inputs.weights_of(&workload.name) else {
                    continue;
                };
                let described = model_of(path).map_err(Error::msg)?;
                if described.is_some_and(|model| Some(&model) != workload.model()) {
                    bail!(
                        "the suite `{suite}` and its weights `{}` describe different models for `{}`\n  hint: set `model_size` to the values \
                         of the weights",
                        path.display(),
                        workload.name
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns the files that the cells of a suite read.
    pub(crate) fn of(&self, suite: &str) -> &Inputs {
        self.by_suite.get(suite).unwrap_or(&self.given)
    }
}

/// Returns the data and weights of the command line.
fn inputs(selection: &Selection) -> Result<Inputs> {
    let mut inputs = Inputs {
        random: selection.init.is_some(),
        cache: PathBuf::from(CACHE),
        columns: selection.columns.names(),
        ..Inputs::default()
    };
    for path in &selection.data {
        check_exists("--data", path)?;
        let kind = match detect_kind(path)? {
            // Texts are reviews if the user names their label column.
            DatasetKind::Text if inputs.columns.label.is_some() => DatasetKind::Reviews,
            kind => kind,
        };
        if let Some(other) = inputs.data.insert(kind, path.clone()) {
            bail!(
                "`--data {}` and `--data {}` both contain {kind}\n  hint: pass one path for each kind of data",
                other.display(),
                path.display()
            );
        }
    }
    let weights = weights(selection)?;
    // With `--init random`, checkpoints only set the size of the models.
    if !inputs.random {
        inputs.weights = weights;
    }
    Ok(inputs)
}

/// Returns the checkpoints by workload. The empty name applies to every other workload.
fn weights(selection: &Selection) -> Result<BTreeMap<String, PathBuf>> {
    let mut weights = BTreeMap::new();
    for argument in &selection.weights {
        // An existing path is a path, even if it contains `=`.
        let (workload, path) = match argument.split_once('=') {
            Some((workload, path)) if !Path::new(argument).exists() => (workload, path),
            _ => ("", argument.as_str()),
        };
        check_exists("--weights", Path::new(path))?;
        if weights.insert(workload.to_owned(), path.into()).is_some() {
            bail!("`--weights` is given twice for {}", describe_workload(workload));
        }
    }
    Ok(weights)
}

/// Returns the models that checkpoints describe in their configuration.
pub(crate) fn models(selection: &Selection) -> Result<BTreeMap<String, Model>> {
    let mut models = BTreeMap::new();
    for (workload, path) in weights(selection)? {
        if let Some(model) = model_of(&path).map_err(Error::msg)? {
            models.insert(workload, model);
        }
    }
    Ok(models)
}

/// Groups the workloads of some cells by the kind of data that they read.
fn workloads_by_kind<'a>(cells: impl Iterator<Item = &'a Cell>) -> BTreeMap<DatasetKind, BTreeSet<&'a str>> {
    let mut workloads: BTreeMap<DatasetKind, BTreeSet<&str>> = BTreeMap::new();
    for cell in cells {
        if let Some(kind) = dataset_of(cell) {
            workloads.entry(kind).or_default().insert(&cell.workload.name);
        }
    }
    workloads
}

/// Returns the kind of data that a cell reads.
fn dataset_of(cell: &Cell) -> Option<DatasetKind> {
    match &cell.workload.task {
        Task::Train(task) => Some(task.dataset),
        Task::Evaluate(task) => Some(task.dataset),
        Task::Generate(_) | Task::Kernel(_) => None,
    }
}

fn list(names: &BTreeSet<&str>) -> String {
    format!("`{}`", names.iter().copied().collect::<Vec<_>>().join("`, `"))
}

/// Data that workloads read.
pub(crate) struct DataRead {
    workloads: Vec<String>,
    kind: DatasetKind,
    /// Path of the data, absent for synthetic data.
    path: Option<PathBuf>,
}

impl DataRead {
    pub(crate) fn json(&self) -> Value {
        json!({ "workloads": self.workloads, "kind": self.kind, "path": self.path })
    }
}

impl Display for DataRead {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}", self.workloads.join("`, `"), self.kind)?;
        match &self.path {
            Some(path) => write!(f, " from `{}`", path.display()),
            None => Ok(()),
        }
    }
}

/// Lists the workloads that read each kind of data and path, one entry per kind and path.
pub(crate) fn data_read(inputs: &RunInputs, plan: &Plan) -> Vec<DataRead> {
    let mut workloads: BTreeMap<(DatasetKind, Option<&Path>), BTreeSet<&str>> = BTreeMap::new();
    for cell in all_cells(plan) {
        if let Some(kind) = dataset_of(cell) {
            let path = inputs.of(&cell.suite).data_of(kind);
            workloads
                .entry((kind, path))
                .or_default()
                .insert(&cell.workload.name);
        }
    }
    let read = |((kind, path), names): ((DatasetKind, Option<&Path>), BTreeSet<&str>)| DataRead {
        workloads: names.into_iter().map(str::to_owned).collect(),
        kind,
        path: path.map(Path::to_owned),
    };
    workloads.into_iter().map(read).collect()
}

/// Rejects a resumed run unless `option` repeats the recorded command, because the folder may come from an untrusted source.
fn check_command(folder: &Path, option: &str, recorded: &[String], given: Option<&str>) -> Result<()> {
    let given: Vec<&str> = given.unwrap_or_default().split_whitespace().collect();
    if given == recorded {
        return Ok(());
    }
    let (folder, given, command) = (folder.display(), given.join(" "), recorded.join(" "));
    let hint = || {
        let repeated = command_line(&[option, &command]);
        format!("\n  hint: if you trust the recorded command, pass `{repeated}`")
    };
    match (command.is_empty(), given.is_empty()) {
        (true, _) => bail!("cannot use `{option}`: `{folder}` was started without it"),
        (false, true) => bail!(
            "`{folder}` was started with `{option}`, so resuming would run this command: {command}{}",
            hint()
        ),
        (false, false) => bail!(
            "cannot use `{}`: `{folder}` was started with another command: {command}{}, or start a new run",
            command_line(&[option, &given]),
            hint()
        ),
    }
}

/// Rejects options of a resumed run that differ from its original options, because a resumed run completes the original plan.
pub(crate) fn check_resumed(folder: &Path, arguments: &RunArguments) -> Result<()> {
    let selection = &arguments.selection;
    let (plan, settings) = read_plan_and_settings(folder)?;
    let differs = |option: String, original: String| {
        bail!(
            "cannot use {option}: `{}` was started with {original}\n  hint: leave out the option or its environment variable, or start a new run",
            folder.display()
        )
    };
    if let Some(profile) = selection.profile.filter(|profile| *profile != plan.profile) {
        return differs(format!("`--profile {profile}`"), format!("`{}`", plan.profile));
    }
    if let Some(backend) = selection
        .named_backend()
        .filter(|backend| *backend != settings.backend)
    {
        return differs(
            format!("`--backend {backend}`"),
            format!("`{}`", settings.backend),
        );
    }
    check_command(folder, "--peer", &settings.peer, arguments.peer.as_deref())?;
    // A run without this command stores the one of the command line.
    if !settings.mpirun.is_empty() {
        check_command(folder, "--mpirun", &settings.mpirun, arguments.mpirun.as_deref())?;
    }
    let columns = selection.columns.names();
    if columns != ColumnNames::default() && columns != settings.inputs.columns {
        return differs(
            "`--label-column` or `--text-column`".to_owned(),
            "other columns".to_owned(),
        );
    }
    let original = settings.resolved_inputs();
    let named = |paths: &BTreeMap<String, PathBuf>| {
        let pairs = paths.iter().map(|(name, path)| (name.clone(), path.clone()));
        pairs.collect::<Vec<_>>()
    };
    let unnamed = |paths: &mut dyn Iterator<Item = &PathBuf>| {
        let pairs = paths.map(|path| (String::new(), path.clone()));
        pairs.collect::<Vec<_>>()
    };
    let inputs = [
        (
            "--data",
            unnamed(&mut selection.data.iter()),
            unnamed(&mut original.data.values()),
        ),
        ("--weights", named(&weights(selection)?), named(&original.weights)),
        (
            "--vocabulary",
            unnamed(&mut arguments.vocabulary.iter()),
            unnamed(&mut original.vocabulary.iter()),
        ),
    ];
    for (option, paths, original) in inputs {
        for (name, path) in paths {
            check_exists(option, &path)?;
            let same = |(other, original): &(String, PathBuf)| {
                *other == name && original.canonicalize().ok() == path.canonicalize().ok()
            };
            if !original.iter().any(same) {
                let original: Vec<String> = original
                    .iter()
                    .map(|(_, path)| format!("`{}`", path.display()))
                    .collect();
                let original = match original.is_empty() {
                    true => format!("no `{option}`"),
                    false => original.join(", "),
                };
                return differs(format!("`{option} {}`", path.display()), original);
            }
        }
    }
    Ok(())
}

fn all_cells(plan: &Plan) -> impl Iterator<Item = &Cell> {
    plan.cells.iter().map(|planned| &planned.cell)
}

/// Lists the workloads that will use synthetic data, one entry per kind.
pub(crate) fn synthetic_workloads(plan: &Plan) -> Vec<String> {
    let synthetic = workloads_by_kind(plan.runnable())
        .into_iter()
        .filter(|(kind, _)| kind.is_synthetic());
    synthetic
        .map(|(kind, names)| format!("{} {kind}", list(&names)))
        .collect()
}

/// Rejects weights, data and options that no workload uses. Also rejects data if some workloads of the plan would still use synthetic data.
pub(crate) fn check_data(inputs: &Inputs, plan: &Plan) -> Result<()> {
    let has_models = plan
        .cells
        .iter()
        .any(|planned| planned.cell.workload.model().is_some());
    if let (false, Some(path)) = (has_models, inputs.weights.values().next()) {
        bail!(
            "cannot use `--weights {}`: no selected workload has a model",
            path.display()
        );
    }
    for (name, path) in &inputs.weights {
        let reads = |cell: &Cell| {
            let workload = &cell.workload;
            let applies = match name.as_str() {
                "" => !inputs.weights.contains_key(&workload.name),
                name => workload.name == name,
            };
            workload.model().is_some() && applies
        };
        if !all_cells(plan).any(reads) {
            let prefix = if name.is_empty() {
                String::new()
            } else {
                format!("{name}=")
            };
            bail!(
                "cannot use `--weights {prefix}{}`: no workload of this run starts from these weights",
                path.display()
            );
        }
    }
    let workloads = workloads_by_kind(all_cells(plan));
    let needs: Vec<String> = workloads
        .iter()
        .map(|(kind, names)| {
            format!(
                "{} {}",
                list(names),
                kind.to_string().trim_start_matches("synthetic-")
            )
        })
        .collect();
    for (kind, path) in &inputs.data {
        if workloads.contains_key(kind) {
            continue;
        }
        let needed = if needs.is_empty() {
            "no selected workload reads data".to_owned()
        } else if let Some(names) = workloads.get(&kind.synthetic()) {
            format!(
                "the suite uses synthetic data for {}; set `dataset = \"{kind}\"` to read files",
                list(names)
            )
        } else {
            format!("the workloads need: {}", needs.join("; "))
        };
        bail!(
            "cannot use `--data {}`: no workload reads {kind}\n  hint: {needed}",
            path.display()
        );
    }
    let has = |kind| inputs.data.contains_key(&kind);
    if inputs.columns.label.is_some() && !has(DatasetKind::Reviews) {
        bail!("cannot use `--label-column`: no labelled text is given\n  hint: pass one with `--data`");
    }
    if inputs.columns.text.is_some() && !has(DatasetKind::Reviews) && !has(DatasetKind::Text) {
        bail!("cannot use `--text-column`: no text is given\n  hint: pass one with `--data`");
    }
    if inputs.random && !has_models {
        bail!("cannot use `--init random`: no selected workload has a model");
    }
    let synthetic = synthetic_workloads(plan);
    if let (false, Some(path)) = (synthetic.is_empty(), inputs.data.values().next()) {
        bail!(
            "`--data {}` applies to some workloads only; these would use synthetic data: {}\n  hint: pass `--data` for them too, or \
             select workloads with `--filter`",
            path.display(),
            synthetic.join("; ")
        );
    }
    Ok(())
}

/// Rejects `--save-weights` without a training.
pub(crate) fn check_save_weights(plan: &Plan) -> Result<()> {
    let trains = |cell: &Cell| matches!(cell.workload.task, Task::Train(_));
    if !all_cells(plan).any(trains) {
        bail!("cannot use `--save-weights`: no selected workload trains a model");
    }
    Ok(())
}

/// Rejects a vocabulary that no workload reads.
pub(crate) fn check_vocabulary(inputs: &Inputs, plan: &Plan) -> Result<()> {
    let is_image = |kind: &DatasetKind| matches!(kind, DatasetKind::Images | DatasetKind::SyntheticImages);
    let reads_text = !workloads_by_kind(all_cells(plan)).keys().all(is_image);
    match &inputs.vocabulary {
        Some(path) if !reads_text => {
            bail!(
                "cannot use `--vocabulary {}`: no selected workload reads text",
                path.display()
            )
        }
        _ => Ok(()),
    }
}

/// Rejects weights for an unknown workload.
pub(crate) fn check_weights(inputs: &Inputs, workloads: &[&str]) -> Result<()> {
    let unknown = |name: &&String| !name.is_empty() && !workloads.contains(&name.as_str());
    if let Some(name) = inputs.weights.keys().find(unknown) {
        let hint = match nearest(name, workloads.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("valid: `{}`", workloads.join("`, `")),
        };
        bail!("cannot use `--weights {name}=…`: the suites have no workload `{name}`\n  hint: {hint}");
    }
    Ok(())
}

/// Rejects a path that does not exist.
pub(crate) fn check_exists(option: &str, path: &Path) -> Result<()> {
    if !path.exists() {
        bail!("`{option} {}` does not exist", path.display());
    }
    Ok(())
}

fn describe_workload(workload: &str) -> String {
    match workload {
        "" => "all workloads\n  hint: pass `--weights WORKLOAD=PATH` for a single workload".to_owned(),
        workload => format!("`{workload}`"),
    }
}

/// Returns the workloads that can start from weights.
pub(crate) fn starting_weights(inputs: &Inputs) -> StartingWeights {
    let weights: &BTreeMap<String, PathBuf> = &inputs.weights;
    if inputs.random {
        StartingWeights::Random
    } else if weights.contains_key("") {
        StartingWeights::All
    } else if weights.is_empty() {
        StartingWeights::None
    } else {
        StartingWeights::Of(weights.keys().cloned().collect())
    }
}
