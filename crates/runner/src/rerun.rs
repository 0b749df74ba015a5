//! Repetition of cells of an earlier run, with this program or another one.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use mantissa_core::{CellId, MAX_SUITE_BYTES, command_line, read_text};

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
    plan.cells.retain(|planned| cells.contains(&planned.cell.id));
    // The recorded command that starts ranks is not trusted either. With another one, the times would not be comparable.
    let several = plan
        .cells
        .iter()
        .any(|planned| planned.cell.setting.devices() > 1);
    if several && settings.mpirun != mpirun {
        let recorded = match settings.mpirun.is_empty() {
            true => "without `--mpirun`".to_owned(),
            false => format!(
                "with `{}`",
                command_line(&["--mpirun", &settings.mpirun.join(" ")])
            ),
        };
        return Err(RunError::Input(format!(
            "cannot measure `{}` again: it was started {recorded}\n  hint: if you trust this command, use it again",
            earlier.display()
        )));
    }
    settings.mpirun = mpirun.to_vec();
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
    use mantissa_core::{Axis, AxisValue, Backend, Cell, Setting, TaskKind};

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

    #[test]
    fn cells_of_several_devices_need_the_recorded_command() {
        let dir = tempfile::tempdir().unwrap();
        let mut setting = Setting::defaults(TaskKind::Train, Backend::Flex);
        setting.set(Axis::Devices, AxisValue::Integer(2)).unwrap();
        let cell = Cell::new("tiny", testing::cell(64).workload, setting, 123);
        let mut plan = testing::plan(1);
        plan.cells[0].cell = cell.clone();
        let mut settings = testing::settings();
        settings.mpirun = ["mpirun", "--oversubscribe"].map(str::to_owned).to_vec();
        let names = settings.suites.keys().map(|name| (name.clone(), String::new()));
        let suites = names.collect();
        let folder = RunFolder::create(dir.path(), plan, settings, &suites, testing::environment());
        drop(folder.unwrap());
        let rerun = |given: &[&str]| {
            let given: Vec<String> = given.iter().map(|word| (*word).to_owned()).collect();
            prepare_rerun(
                dir.path(),
                &[cell.id.clone()].into(),
                None,
                &given,
                PathBuf::new(),
            )
        };
        assert!(rerun(&["mpirun", "--oversubscribe"]).is_ok());
        for other in [&[][..], &["mpirun"]] {
            let error = rerun(other).err().unwrap().to_string();
            assert!(
                error.contains("it was started with `--mpirun 'mpirun --oversubscribe'`"),
                "{error}"
            );
        }
    }
}
