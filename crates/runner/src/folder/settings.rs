//! `run.json`: settings of a run that `plan.json` does not contain.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use mantissa_core::{Backend, MAX_REPEATS, Plan, check_file_name};
use mantissa_inputs::Inputs;
use mantissa_run_folder::{PLAN_FILE, RunReader, SETTINGS_FILE};
use serde::{Deserialize, Serialize};

use crate::{Policy, RunError};

/// Folder of the cache for tokenized data and compiled kernels, relative to the current directory. Entries are named by
/// content hash.
pub const CACHE: &str = ".mantissa/cache";

/// Content of `run.json`: everything besides the plan that is needed to resume a run and to print the command that
/// reproduces a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSettings {
    /// Backend, after `--backend auto` is resolved.
    pub backend: Backend,
    /// Paths of data, weights and vocabulary as on the command line.
    pub inputs: Inputs,
    /// Files of suites, by suite. They replace `inputs` for the cells of the suite. Empty if the command line names files.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suite_inputs: BTreeMap<String, Inputs>,
    /// True if the trained weights of every training cell are saved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub save_weights: bool,
    /// Base folder of relative paths. Absent in runs of earlier versions, whose paths are relative to the current
    /// directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Number of processes of each cell whose suite is not in [`Self::suite_repeats`].
    pub repeats: u32,
    /// Number of processes of the cells of a suite, by suite.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub suite_repeats: BTreeMap<String, u32>,
    /// Suite files by suite name, as on the command line.
    pub suites: BTreeMap<String, PathBuf>,
    /// Command of the peer, a program that computes with another framework. If empty, burn computes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer: Vec<String>,
    /// Command that starts the ranks of a cell with several devices. If empty, `mpirun`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mpirun: Vec<String>,
    /// Order, cooldown, retries and handling of a busy GPU.
    #[serde(default)]
    pub policy: Policy,
}

impl RunSettings {
    /// Checks that `run.json` can store every path.
    ///
    /// # Errors
    /// A path is not UTF-8.
    pub(crate) fn check_paths(&self) -> Result<(), RunError> {
        let inputs = self.suite_inputs.values().chain([&self.inputs]);
        let mut paths = inputs.flat_map(Inputs::paths).chain(self.suites.values());
        match paths.find(|path| path.to_str().is_none()) {
            None => Ok(()),
            Some(path) => Err(RunError::Input(format!(
                "the path `{}` is not UTF-8, so `{SETTINGS_FILE}` cannot store it\n  hint: rename the file",
                path.display()
            ))),
        }
    }

    /// Returns [`inputs`](Self::inputs) with relative paths resolved against [`directory`](Self::directory).
    pub fn resolved_inputs(&self) -> Inputs {
        self.resolved(&self.inputs)
    }

    /// Returns the inputs of the cells of a suite, with relative paths resolved against [`directory`](Self::directory).
    pub fn resolved_inputs_of(&self, suite: &str) -> Inputs {
        self.resolved(self.suite_inputs.get(suite).unwrap_or(&self.inputs))
    }

    /// Returns the number of processes of each cell of a suite.
    pub fn repeats_of(&self, suite: &str) -> u32 {
        self.suite_repeats.get(suite).copied().unwrap_or(self.repeats)
    }

    fn resolved(&self, inputs: &Inputs) -> Inputs {
        let mut inputs = inputs.clone();
        if let Some(directory) = &self.directory {
            inputs.paths_mut().for_each(|path| *path = directory.join(&path));
        }
        inputs
    }
}

/// Reads the plan and the settings of a run.
///
/// # Errors
/// The folder does not contain a run, or a file is malformed.
pub fn read_plan_and_settings(path: &Path) -> Result<(Plan, RunSettings), RunError> {
    let run = RunReader::new(path);
    Ok((read_plan(&run, path)?, read_settings(&run, path)?))
}

fn read_plan(run: &RunReader, path: &Path) -> Result<Plan, RunError> {
    let plan = run.plan()?;
    let suites = plan.suites.iter().map(|suite| &suite.name);
    let suites_of_cells = plan.cells.iter().map(|planned| &planned.cell.suite);
    check_names(suites.chain(suites_of_cells), &path.join(PLAN_FILE))?;
    Ok(plan)
}

fn read_settings(run: &RunReader, path: &Path) -> Result<RunSettings, RunError> {
    let mut settings: RunSettings = run.json(SETTINGS_FILE)?;
    let path = path.join(SETTINGS_FILE);
    let mut repeats = settings.suite_repeats.values().copied().chain([settings.repeats]);
    if let Some(repeats) = repeats.find(|repeats| !(1..=MAX_REPEATS).contains(repeats)) {
        return Err(RunError::Input(format!(
            "`{}` has {repeats} repeats, expected 1 to {MAX_REPEATS}",
            path.display()
        )));
    }
    let suites = settings.suites.keys().chain(settings.suite_inputs.keys());
    check_names(suites.chain(settings.suite_repeats.keys()), &path)?;
    // The run folder may come from an untrusted source, so do not use a cache that it names.
    for inputs in settings.suite_inputs.values_mut().chain([&mut settings.inputs]) {
        inputs.cache = CACHE.into();
    }
    Ok(settings)
}

/// Rejects names of suites that cannot be used as file names.
fn check_names<'a>(mut names: impl Iterator<Item = &'a String>, file: &Path) -> Result<(), RunError> {
    names.try_for_each(|name| {
        check_file_name(name).map_err(|problem| RunError::Input(format!("`{}`: {problem}", file.display())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn settings_without_a_policy_have_the_default_policy() {
        let mut settings = serde_json::to_value(testing::settings()).unwrap();
        settings.as_object_mut().unwrap().remove("policy");
        let read: RunSettings = serde_json::from_value(settings).unwrap();
        assert_eq!(read.policy, Policy::default());
    }
}
