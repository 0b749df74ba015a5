//! Finding and reading suite files.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Result, anyhow, bail};
use mantissa_core::{Backend, Plan, Profile, nearest};
use mantissa_suite::{PlanOptions, Suite, Sweep, load, parse_override, plan};

use crate::{args::Selection, paths};

/// Where suites lie.
const FOLDER: &str = "suites";

/// A suite and its file.
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    pub(crate) suite: Suite,
}

/// Every suite file under `suites/`, sorted by path.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    if let Err(error) = collect(Path::new(FOLDER), &mut BTreeSet::new(), &mut files) {
        bail!(
            "cannot read `{FOLDER}`: {error}\n  hint: start from the repository's root, or name a suite file"
        );
    }
    files.sort();
    Ok(files)
}

/// Collects the suite files below a folder. A folder that links lead to again is read once.
fn collect(folder: &Path, seen: &mut BTreeSet<PathBuf>, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !seen.insert(folder.canonicalize()?) {
        return Ok(());
    }
    let entries = fs::read_dir(folder)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<Vec<_>>>()?;
    // A folder has its own path rather than that of a link.
    paths.sort_by_key(|path| (path.is_symlink(), path.clone()));
    for path in paths {
        if path.is_dir() {
            collect(&path, seen, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(path);
        }
    }
    Ok(())
}

/// Reads every suite; what is wrong with any of them is reported at once.
pub(crate) fn read(files: Vec<PathBuf>) -> Result<Vec<Found>> {
    let (mut found, mut wrong) = (vec![], vec![]);
    for path in files {
        match load(&path) {
            Ok(suite) => found.push(Found { path, suite }),
            Err(errors) => wrong.push(errors.to_string()),
        }
    }
    if wrong.is_empty() {
        Ok(found)
    } else {
        bail!("{}", wrong.join("\n"))
    }
}

/// The suites that were asked for.
pub(crate) fn selected(selection: &Selection) -> Result<Vec<Found>> {
    if selection.all {
        return read(files()?);
    }
    if selection.suites.is_empty() {
        bail!("no suite given\n  hint: name suite files, or `--all`; `mantissa list` shows what there is");
    }
    read(
        selection
            .suites
            .iter()
            .map(|given| resolve(given))
            .collect::<Result<_>>()?,
    )
}

/// A file, or the one that has this stem under `suites/`.
fn resolve(given: &Path) -> Result<PathBuf> {
    if given.exists() {
        return Ok(given.to_owned());
    }
    let files = files().unwrap_or_default();
    let stem = |path: &Path| {
        path.file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    if let Some(path) = files.iter().find(|path| given.as_os_str() == stem(path).as_str()) {
        return Ok(path.clone());
    }
    let stems: Vec<String> = files.iter().map(|path| stem(path)).collect();
    let hint = match nearest(&stem(given), stems.iter().map(String::as_str)) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "`mantissa list` shows what there is".to_owned(),
    };
    bail!("there is no suite `{}`\n  hint: {hint}", given.display())
}

/// Expands suites as the command line asks.
pub(crate) fn expand(
    found: &[Found],
    selection: &Selection,
    profile: Profile,
    backend: Backend,
) -> Result<Plan> {
    let overrides: Vec<Sweep> = selection
        .overrides
        .iter()
        .map(|text| parse_override(text))
        .collect::<Result<_, _>>()?;
    let inputs = paths::inputs(selection)?;
    let options = PlanOptions {
        profile,
        backend,
        overrides,
        data: inputs.data.keys().copied().collect(),
        weights: paths::starting_weights(&inputs),
        models: paths::models(selection)?,
        filter: selection.filter.clone(),
    };
    let suites: Vec<Suite> = found.iter().map(|found| found.suite.clone()).collect();
    let workloads = suites.iter().flat_map(|suite| suite.workloads(profile));
    paths::check(
        &inputs,
        &workloads
            .map(|workload| workload.name.as_str())
            .collect::<Vec<_>>(),
    )?;
    // A wrong name would end the report after everything was measured.
    for info in suites.iter().map(|suite| suite.info(profile)) {
        for name in &info.references {
            mantissa_report::reference(name).map_err(|error| anyhow!("`{}`: {error}", info.name))?;
        }
    }
    let plan = plan(&suites, &options)?;
    paths::check_data(&inputs, &plan)?;
    Ok(plan)
}

/// The profile that is used unless one is named: real sizes need a real card.
pub(crate) fn profile(selection: &Selection, backend: Backend) -> Profile {
    selection.profile.unwrap_or(match backend {
        Backend::Cuda => Profile::Standard,
        Backend::Vulkan | Backend::Flex => Profile::Smoke,
    })
}
