//! Repetition of cells of an earlier run, with this program or another one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use mantissa_core::{CellId, MAX_SUITE_BYTES, read_text};

use crate::{
    RunError, Start,
    command::this_command,
    error::At,
    folder::{read_plan_and_settings, reject_link},
};

/// Returns the parameters of a run in the folder `out` that runs the given cells of an earlier run once each. Data,
/// policy and suites are those of the earlier run. The workers run `program`, or this program if it is absent. `mpirun` is the command that
/// starts ranks; if empty, `mpirun`.
///
/// # Errors
/// The folder is not a run folder, or has an invalid file.
pub fn prepare_rerun(
    earlier: &Path,
    cells: &BTreeSet<CellId>,
    program: Option<&Path>,
    mpirun: &[String],
    out: PathBuf,
) -> Result<Start, RunError> {
    let (mut plan, mut settings) = read_plan_and_settings(earlier)?;
    // The run folder may come from an untrusted source, and so may the command of the peer that it contains.
    if !settings.peer.is_empty() {
        return Err(RunError::Input(format!(
            "cannot measure `{}` again: its peer command comes from the run folder and is not trusted\n  hint: measure again with `run --peer`",
            earlier.display()
        )));
    }
    // The recorded command that starts ranks is not trusted either.
    settings.mpirun = mpirun.to_vec();
    plan.cells.retain(|planned| cells.contains(&planned.cell.id));
    settings.repeats = 1;
    settings.suite_repeats.clear();
    settings.save_weights = false;
    let mut suites = BTreeMap::new();
    for (name, path) in &mut settings.suites {
        *path = earlier.join("suites").join(format!("{name}.toml"));
        // A link could lead to a file that must stay private.
        let text = reject_link(path)
            .and_then(|()| read_text(path, MAX_SUITE_BYTES))
            .at(path)?;
        suites.insert(name.clone(), text);
    }
    Ok(Start {
        plan,
        settings,
        suites,
        out: Some(out),
        name: "again".to_owned(),
        command: this_command(),
        program: program.map(Path::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RunFolder, testing};

    #[test]
    fn the_recorded_command_that_starts_ranks_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = testing::settings();
        settings.mpirun = vec!["recorded".to_owned()];
        let suites = settings.suites.keys().map(|name| (name.clone(), String::new()));
        let (plan, suites) = (testing::plan(2), suites.collect());
        let folder = RunFolder::create(dir.path(), plan, settings, &suites, testing::environment());
        drop(folder.unwrap());
        let mpirun = |given: &[String]| {
            let start = prepare_rerun(dir.path(), &BTreeSet::new(), None, given, PathBuf::new());
            start.unwrap().settings.mpirun
        };
        assert!(mpirun(&[]).is_empty());
        let given = ["mpirun".to_owned(), "--oversubscribe".to_owned()];
        assert_eq!(mpirun(&given), given);
    }
}
