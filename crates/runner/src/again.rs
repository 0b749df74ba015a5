//! Some cells of an earlier run once more, by this program or another.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use mantissa_core::{CellId, LARGEST_SUITE, read_text};

use crate::{
    RunError, Start,
    command::this_command,
    error::At,
    folder::{recorded, refuse_link},
};

/// The run of one process of each of these cells of an earlier run, to be started into the folder `out`. `program`: whose workers
/// measure; absent, this one's. Data, policy and suites are those of the earlier run.
///
/// # Errors
/// A folder that is no run, or is not what a run writes.
pub fn again(
    earlier: &Path,
    cells: &BTreeSet<CellId>,
    program: Option<&Path>,
    out: PathBuf,
) -> Result<Start, RunError> {
    let (mut plan, mut settings) = recorded(earlier)?;
    // The folder may come from other people, and so may the command.
    if !settings.peer.is_empty() {
        return Err(RunError::Input(format!(
            "`{}` was measured by a peer, which is not started from a folder\n  hint: measure it again with `run --peer`",
            earlier.display()
        )));
    }
    plan.cells.retain(|planned| cells.contains(&planned.cell.id));
    settings.repeats = 1;
    let mut suites = BTreeMap::new();
    for (name, path) in &mut settings.suites {
        *path = earlier.join("suites").join(format!("{name}.toml"));
        // A link might lead to a file that other people must not see.
        let text = refuse_link(path)
            .and_then(|()| read_text(path, LARGEST_SUITE))
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
