//! Repeated measurement of cells for which the gate was inconclusive.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use mantissa_core::CellId;
use mantissa_gate::{RunMeasurements, program_of, same_program};
use mantissa_runner::{ProgramInfo, Signal, Stop, again, start};
use mantissa_worker::Burn;

use crate::{args::GateArguments, printer::Printer, progress::Bar};

/// Programs that measure again, and their measurements so far.
pub(crate) struct Rerun<'a> {
    runs: &'a [PathBuf],
    against: Option<&'a Path>,
    /// Processes per cell on each side that are compared.
    processes: u32,
    /// Cells whose recorded processes are no longer used.
    forgotten: BTreeSet<CellId>,
    stop: Stop,
}

impl<'a> Rerun<'a> {
    /// Checks that the programs are those that measured the runs before measuring anything.
    pub fn new(
        arguments: &'a GateArguments,
        (baseline, candidate): (&RunMeasurements, &RunMeasurements),
        processes: u32,
    ) -> Result<Self> {
        is_program_of(candidate, ProgramInfo::this(), "this program")?;
        let against = arguments.against.as_deref();
        if let Some(program) = against {
            let Some(about) = ProgramInfo::of(program) else {
                bail!(
                    "cannot read the version of `{}`\n  hint: pass the program that measured the baseline to `--against`",
                    program.display()
                );
            };
            is_program_of(baseline, about, "the program of `--against`")?;
        }
        Ok(Self {
            runs: &arguments.runs,
            against,
            processes,
            forgotten: BTreeSet::new(),
            stop: Stop::on_signals()?,
        })
    }

    /// Measures cells again with twice as many processes, because the same number would leave most of the cells inconclusive. Returns the
    /// signal if one stopped the measurement.
    ///
    /// For these cells, only the new processes count: the recorded processes of a run ran at about the same time and are not independent. With
    /// `--against`, the processes of both programs alternate, to expose both to the same disturbances.
    pub fn measure(
        &mut self,
        cells: &BTreeSet<CellId>,
        (baseline, candidate): (&mut RunMeasurements, &mut RunMeasurements),
        printer: &Printer,
    ) -> Result<Option<Signal>> {
        printer.note(&format!("measuring {} inconclusive cells again", cells.len()));
        let mut left = cells.clone();
        let more = if self.forgotten.is_empty() { 2 } else { 1 } * self.processes;
        self.processes *= 2;
        for run in self.runs {
            let of_run = RunMeasurements::read(run)?.cells;
            let (here, others): (BTreeSet<CellId>, BTreeSet<CellId>) =
                left.into_iter().partition(|cell| of_run.contains_key(cell));
            left = others;
            if here.is_empty() {
                continue;
            }
            for _ in 0..more {
                let mut fresh = None;
                if let Some(program) = self.against {
                    match self.process(run, &here, Some(program), printer)? {
                        Err(signal) => return Ok(Some(signal)),
                        Ok(measured) => fresh = Some(measured),
                    }
                }
                let measured = match self.process(run, &here, None, printer)? {
                    Err(signal) => return Ok(Some(signal)),
                    Ok(measured) => measured,
                };
                measured.check_joins(candidate)?;
                let first: BTreeSet<CellId> = here.difference(&self.forgotten).cloned().collect();
                if let Some(fresh) = fresh {
                    fresh.check_joins(baseline)?;
                    baseline.forget(&first);
                    baseline.extend(fresh);
                }
                candidate.forget(&first);
                candidate.extend(measured);
                self.forgotten.extend(first);
            }
        }
        Ok(None)
    }

    /// Runs one process of each cell.
    fn process(
        &self,
        run: &Path,
        cells: &BTreeSet<CellId>,
        program: Option<&Path>,
        printer: &Printer,
    ) -> Result<Result<RunMeasurements, Signal>> {
        let side = match program {
            Some(_) => "baseline",
            None => "candidate",
        };
        let folder = rerun_folder(run);
        // A run from an untrusted source may contain this link.
        if folder.is_symlink() {
            bail!("cannot write to `{}`: it is a symbolic link", folder.display());
        }
        let out = (0..)
            .map(|number| folder.join(format!("{side}-{number}")))
            .find(|out| !out.exists())
            .expect("some number is unused");
        let mut bar = Bar::new(printer, false);
        let finish = start(
            &Burn,
            again(run, cells, program, out)?,
            self.stop.clone(),
            &mut bar,
        )?;
        match finish.stopped {
            Some(stopped) => Ok(Err(stopped.signal)),
            None => Ok(Ok(RunMeasurements::read(&finish.path)?)),
        }
    }
}

impl Drop for Rerun<'_> {
    fn drop(&mut self) {
        self.stop.give_up();
    }
}

/// Rejects a program other than the one that measured the run, because its results are not comparable.
fn is_program_of(measured: &RunMeasurements, about: ProgramInfo, who: &str) -> Result<()> {
    let of = &measured.fingerprint;
    let program = about.on(of.clone());
    if same_program(of, &program) && of.build == program.build {
        return Ok(());
    }
    bail!(
        "cannot measure `{}` again: it was measured by {}, but {who} is {}\n  hint: use the program that measured the run",
        measured.name,
        program_of(of),
        program_of(&program)
    );
}

/// Returns a separate folder for new records, because recorded data is never modified: `reports/change` → `reports/change.again`.
fn rerun_folder(run: &Path) -> PathBuf {
    let mut name = run.file_name().unwrap_or_default().to_owned();
    name.push(".again");
    run.with_file_name(name)
}
