//! Finding and reading suite files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use mantissa_collectives::mpi_library;
use mantissa_core::{Backend, Plan, Profile, nearest};
use mantissa_suite::{PlanOptions, Suite, Sweep, load, parse_override, plan};

use crate::{
    args::Selection,
    paths::{self, RunInputs},
};

/// Folder of the suites.
const FOLDER: &str = "suites";
/// Folder of the suites about several devices, which need MPI.
const PARALLEL: &str = "suites/parallel";

/// A suite and its file.
pub(crate) struct SuiteFile {
    pub(crate) path: PathBuf,
    pub(crate) suite: Suite,
}

/// Returns every suite file under `suites/`, sorted by path.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    if let Err(error) = collect_files(Path::new(FOLDER), &mut BTreeSet::new(), &mut files) {
        bail!(
            "cannot read `{FOLDER}`: {error}\n  hint: run in the root of the repository, or pass a suite file"
        );
    }
    files.sort();
    Ok(files)
}

/// Collects the suite files below a folder. Reads a folder once, even if symbolic links lead to it again.
fn collect_files(
    folder: &Path,
    seen: &mut BTreeSet<PathBuf>,
    files: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    if !seen.insert(folder.canonicalize()?) {
        return Ok(());
    }
    let entries = fs::read_dir(folder)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    // Sort links last, so that a folder is listed under its own path.
    paths.sort_by_key(|path| (path.is_symlink(), path.clone()));
    for path in paths {
        if path.is_dir() {
            collect_files(&path, seen, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads every suite and reports the errors of all of them at once.
pub(crate) fn read(files: Vec<PathBuf>) -> Result<Vec<SuiteFile>> {
    let (mut found, mut invalid) = (vec![], vec![]);
    for path in files {
        match load(&path) {
            Ok(suite) => found.push(SuiteFile { path, suite }),
            Err(errors) => invalid.push(errors.to_string()),
        }
    }
    if invalid.is_empty() {
        Ok(found)
    } else {
        bail!("{}", invalid.join("\n"))
    }
}

/// Returns the suites that the command line selects.
pub(crate) fn select(selection: &Selection) -> Result<Vec<SuiteFile>> {
    if selection.all {
        let mut files = files()?;
        if mpi_library().is_none() {
            files.retain(|file| !file.starts_with(PARALLEL));
        }
        return read(files);
    }
    if selection.suites.is_empty() {
        bail!("no suite given\n  hint: pass suite files or `--all`; `mantissa list` lists the suites");
    }
    read(
        selection
            .suites
            .iter()
            .map(|path| resolve(path))
            .collect::<Result<_>>()?,
    )
}

/// Returns the requested path if it exists, else the suite with this file stem under `suites/`.
fn resolve(requested: &Path) -> Result<PathBuf> {
    if requested.exists() {
        return Ok(requested.to_owned());
    }
    let files = files().unwrap_or_default();
    let stem = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    if let Some(path) = files
        .iter()
        .find(|path| requested.as_os_str() == stem(path).as_str())
    {
        return Ok(path.clone());
    }
    let stems: Vec<String> = files.iter().map(|path| stem(path)).collect();
    let hint = match nearest(&stem(requested), stems.iter().map(String::as_str)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "`mantissa list` lists the suites".to_owned(),
    };
    bail!("suite `{}` not found\n  hint: {hint}", requested.display())
}

/// Expands suites with the options of the command line.
pub(crate) fn expand(
    found: &[SuiteFile],
    (selection, run_inputs): (&Selection, &RunInputs),
    profile: Profile,
    backend: Backend,
) -> Result<Plan> {
    let overrides: Vec<Sweep> = selection
        .overrides
        .iter()
        .map(|text| parse_override(text))
        .collect::<Result<_, _>>()?;
    let inputs = &run_inputs.given;
    let options = PlanOptions {
        profile,
        backend,
        overrides,
        suite_inputs: !run_inputs.by_suite.is_empty(),
        data: inputs.data.keys().copied().collect(),
        weights: paths::starting_weights(inputs),
        models: paths::models(selection)?,
        filter: selection.filter.clone(),
    };
    let suites: Vec<Suite> = found.iter().map(|found| found.suite.clone()).collect();
    let workloads = suites.iter().flat_map(|suite| suite.workloads(profile));
    paths::check_weights(
        inputs,
        &workloads
            .map(|workload| workload.name.as_str())
            .collect::<Vec<_>>(),
    )?;
    // Detect unknown names before the run, because the report would fail after measuring.
    for info in suites.iter().map(|suite| suite.info(profile)) {
        for name in &info.references {
            mantissa_report::reference(name).map_err(|error| anyhow!("`{}`: {error}", info.name))?;
        }
    }
    let plan = plan(&suites, &options)?;
    paths::check_data(inputs, &plan)?;
    Ok(plan)
}

/// Returns the selected profile, else the default for the backend. Realistic sizes need a real GPU.
pub(crate) fn profile(selection: &Selection, backend: Backend) -> Profile {
    selection.profile.unwrap_or(match backend {
        Backend::Cuda => Profile::Standard,
        Backend::Vulkan | Backend::Flex => Profile::Smoke,
    })
}
