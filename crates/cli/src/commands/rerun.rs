//! What the gate could not decide, measured again.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use mantissa_core::CellId;
use mantissa_gate::{Gated, Measured};
use mantissa_runner::{Stop, again, start};

use crate::{args::GateArguments, printer::Printer, progress::Bar};

/// Measures the undecided cells again, as many processes of each as the policy asks for, and adds them to what is known of the candidate.
///
/// With the program that measured the baseline, both take turns, process by process, and for these cells the fresh processes are all that
/// counts: whatever else the machine does befalls both.
pub(crate) fn measure_again(
    gated: &Gated,
    (baseline, candidate): (&mut Measured, &mut Measured),
    arguments: &GateArguments,
    (round, processes): (u32, u32),
    printer: &Printer,
) -> Result<()> {
    let cells: BTreeSet<CellId> = gated.undecided_cells().cloned().collect();
    printer.note(&format!("{} undecided cells are measured again", cells.len()));
    let stop = Stop::on_signals()?;
    // All of them have the same cells.
    let Some(run) = arguments.runs.first() else {
        return Ok(());
    };
    let folder = beside(run);
    let measure = |program: Option<&Path>, name: String| -> Result<Measured> {
        let out = folder.join(name);
        let mut bar = Bar::new(printer, false);
        let finish = start(again(run, &cells, program, out)?, stop.clone(), &mut bar)?;
        match finish.stopped {
            Some(_) => bail!("stopped before what is undecided was measured again"),
            None => Ok(Measured::read(&finish.path)?),
        }
    };
    if arguments.against.is_some() && round == 0 {
        baseline.forget(&cells);
        candidate.forget(&cells);
    }
    for process in 0..processes {
        let name = |side: &str| format!("{side}-{round}-{process}");
        if let Some(program) = &arguments.against {
            baseline.extend(measure(Some(program), name("baseline"))?);
        }
        candidate.extend(measure(None, name("candidate"))?);
    }
    stop.give_up();
    Ok(())
}

/// `reports/change` → `reports/change.again`: what was recorded is never touched.
fn beside(run: &Path) -> PathBuf {
    let mut name = run.file_name().unwrap_or_default().to_owned();
    name.push(".again");
    run.with_file_name(name)
}
