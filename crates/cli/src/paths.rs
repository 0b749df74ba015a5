//! The user's files: data by what they hold, weights by the workload that starts from them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Error, Result, bail};
use mantissa_core::{Cell, DatasetKind, Model, Plan, Task, nearest};
use mantissa_runner::{
    Inputs,
    data::{ColumnNames, kind_of},
    model_of,
};
use mantissa_suite::StartingWeights;

use crate::args::Selection;

/// Tokenised data and compiled kernels, by content hash; ignored by git.
pub(crate) const CACHE: &str = ".mantissa/cache";

/// Data and weights that were asked for.
pub(crate) fn inputs(selection: &Selection) -> Result<Inputs> {
    let mut inputs = Inputs {
        random: selection.init.is_some(),
        cache: PathBuf::from(CACHE),
        columns: selection.columns.names(),
        ..Inputs::default()
    };
    for path in &selection.data {
        there("--data", path)?;
        let kind = match kind_of(path)? {
            // Texts with a column that the user calls their label.
            DatasetKind::Text if inputs.columns.label.is_some() => DatasetKind::Reviews,
            kind => kind,
        };
        if let Some(other) = inputs.data.insert(kind, path.clone()) {
            bail!(
                "`--data {}` and `--data {}` both hold {kind}\n  hint: give one path for each kind of data",
                other.display(),
                path.display()
            );
        }
    }
    let weights = weights(selection)?;
    // With `--init random` they say how large the models are, and no more.
    if !inputs.random {
        inputs.weights = weights;
    }
    Ok(inputs)
}

/// Checkpoints by the workload that they are for; the empty name is that of every other.
fn weights(selection: &Selection) -> Result<BTreeMap<String, PathBuf>> {
    let mut weights = BTreeMap::new();
    for given in &selection.weights {
        // A path that is there is one, whatever it is named.
        let (workload, path) = match given.split_once('=') {
            Some((workload, path)) if !Path::new(given).exists() => (workload, path),
            _ => ("", given.as_str()),
        };
        there("--weights", Path::new(path))?;
        if weights.insert(workload.to_owned(), path.into()).is_some() {
            bail!("`--weights` is given twice for {}", named(workload));
        }
    }
    Ok(weights)
}

/// The models of checkpoints that say what they are.
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
fn by_kind<'a>(cells: impl Iterator<Item = &'a Cell>) -> BTreeMap<DatasetKind, BTreeSet<&'a str>> {
    let mut workloads: BTreeMap<DatasetKind, BTreeSet<&str>> = BTreeMap::new();
    for cell in cells {
        let workload = &cell.workload;
        let kind = match &workload.task {
            Task::Train(task) => task.dataset,
            Task::Evaluate(task) => task.dataset,
            Task::Generate(_) | Task::Kernel(_) => continue,
        };
        workloads.entry(kind).or_default().insert(&workload.name);
    }
    workloads
}

fn list(names: &BTreeSet<&str>) -> String {
    format!("`{}`", names.iter().copied().collect::<Vec<_>>().join("`, `"))
}

/// Formats which workloads read which data, one line for each kind of data.
pub(crate) fn reading(inputs: &Inputs, plan: &Plan) -> Vec<String> {
    let line = |(kind, names): (DatasetKind, BTreeSet<&str>)| match inputs.data_of(kind) {
        Some(path) => format!("{}: {kind} from `{}`", list(&names), path.display()),
        None => format!("{}: {kind}", list(&names)),
    };
    by_kind(all(plan)).into_iter().map(line).collect()
}

fn all(plan: &Plan) -> impl Iterator<Item = &Cell> {
    plan.cells.iter().map(|planned| &planned.cell)
}

/// Formats which workloads will read synthetic data, one entry for each kind.
pub(crate) fn synthetic(plan: &Plan) -> Vec<String> {
    let synthetic = by_kind(plan.runnable())
        .into_iter()
        .filter(|(kind, _)| kind.is_synthetic());
    synthetic
        .map(|(kind, names)| format!("{} {kind}", list(&names)))
        .collect()
}

/// Rejects weights if no workload has a model, data that no workload reads, and data in a plan where other workloads
/// would use synthetic data.
pub(crate) fn check_data(inputs: &Inputs, plan: &Plan) -> Result<()> {
    let has_models = plan
        .cells
        .iter()
        .any(|planned| planned.cell.workload.model().is_some());
    if let (false, Some(path)) = (has_models, inputs.weights.values().next()) {
        bail!(
            "`--weights {}` is not read: no workload here has a model",
            path.display()
        );
    }
    let workloads = by_kind(all(plan));
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
        let needed = match needs.is_empty() {
            true => "no workload here reads data".to_owned(),
            false => format!("the workloads need: {}", needs.join("; ")),
        };
        bail!(
            "`--data {}` holds {kind}, which no workload reads\n  hint: {needed}",
            path.display()
        );
    }
    if inputs.columns != ColumnNames::default() && !inputs.data.contains_key(&DatasetKind::Reviews) {
        bail!(
            "`--label-column` and `--text-column` are not read: there is no labelled text\n  hint: name it with `--data`"
        );
    }
    let synthetic = synthetic(plan);
    if let (false, Some(path)) = (synthetic.is_empty(), inputs.data.values().next()) {
        bail!(
            "`--data {}` is read by some workloads only; these would take synthetic data: {}\n  hint: give `--data` for them too, or \
             choose workloads with `--filter`",
            path.display(),
            synthetic.join("; ")
        );
    }
    Ok(())
}

/// Refuses a vocabulary that no workload reads.
pub(crate) fn check_vocabulary(inputs: &Inputs, plan: &Plan) -> Result<()> {
    let is_image = |kind: &DatasetKind| matches!(kind, DatasetKind::Images | DatasetKind::SyntheticImages);
    let reads_text = !by_kind(all(plan)).keys().all(is_image);
    match &inputs.vocabulary {
        Some(path) if !reads_text => {
            bail!(
                "`--vocabulary {}` is not read: no workload here reads text",
                path.display()
            )
        }
        _ => Ok(()),
    }
}

/// Refuses weights for a workload that there is not.
pub(crate) fn check(inputs: &Inputs, workloads: &[&str]) -> Result<()> {
    let unknown = |name: &&String| !name.is_empty() && !workloads.contains(&name.as_str());
    if let Some(name) = inputs.weights.keys().find(unknown) {
        let hint = match nearest(name, workloads.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are `{}`", workloads.join("`, `")),
        };
        bail!("`--weights {name}=…`: the suites have no workload `{name}`\n  hint: {hint}");
    }
    Ok(())
}

/// Refuses a path that is not there.
pub(crate) fn there(option: &str, path: &Path) -> Result<()> {
    if !path.exists() {
        bail!("`{option} {}` does not exist", path.display());
    }
    Ok(())
}

fn named(workload: &str) -> String {
    match workload {
        "" => "all workloads\n  hint: `--weights WORKLOAD=PATH` is for one".to_owned(),
        workload => format!("`{workload}`"),
    }
}

/// Which workloads can start from weights.
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
