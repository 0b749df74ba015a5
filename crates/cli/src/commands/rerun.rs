//! Repeated measurement of cells for which the gate was inconclusive.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use mantissa_core::CellId;
use mantissa_gate::{RunMeasurements, describe_program, same_program};
use mantissa_runner::{ProgramInfo, Signal, Stop, prepare_rerun, start};
use mantissa_worker::Burn;

use crate::{args::GateArguments, commands::run::mpirun_words, printer::Printer, progress::Bar};

/// Repeated measurement of a run, and of its baseline if `--against` is given.
pub(crate) struct Rerun<'a> {
    runs: &'a [PathBuf],
    against: Option<&'a Path>,
    /// Command that starts ranks. If empty, `mpirun`.
    mpirun: Vec<String>,
    /// Number of processes per cell that the gate compares, on each side.
    processes: u32,
    /// Cells whose recorded processes were replaced by new ones.
    replaced_cells: BTreeSet<CellId>,
    stop: Stop,
}

impl<'a> Rerun<'a> {
    /// Rejects programs other than those that measured the runs.
    pub fn new(
        arguments: &'a GateArguments,
        (baseline, candidate): (&RunMeasurements, &RunMeasurements),
        processes: u32,
    ) -> Result<Self> {
        check_program(candidate, ProgramInfo::this(), "this program")?;
        let against = arguments.against.as_deref();
        if let Some(program) = against {
            let Some(about) = ProgramInfo::of(program) else {
                bail!(
                    "cannot read the version of `{}`\n  hint: pass the program that measured the baseline to `--against`",
                    program.display()
                );
            };
            check_program(baseline, about, "the program of `--against`")?;
        }
        Ok(Self {
            runs: &arguments.runs,
            against,
            mpirun: mpirun_words(arguments.mpirun.as_deref())?,
            processes,
            replaced_cells: BTreeSet::new(),
            stop: Stop::on_signals()?,
        })
    }

    /// Measures cells again until they have twice as many processes as before; with the same number, most cells would remain inconclusive.
    /// Returns the signal if one stopped the measurement.
    ///
    /// The new processes replace the recorded ones, because all recorded processes of a cell ran at about the same time and are not
    /// independent of each other. With `--against`, the processes of both programs alternate, so that disturbances affect both.
    pub fn measure(
        &mut self,
        cells: &BTreeSet<CellId>,
        (baseline, candidate): (&mut RunMeasurements, &mut RunMeasurements),
        printer: &Printer,
    ) -> Result<Option<Signal>> {
        printer.note(&format!("measuring {} inconclusive cells again", cells.len()));
        let mut remaining = cells.clone();
        let rounds = if self.replaced_cells.is_empty() { 2 } else { 1 } * self.processes;
        self.processes *= 2;
        for run in self.runs {
            let run_cells = RunMeasurements::read(run)?.cells;
            let (cells_of_run, others): (BTreeSet<CellId>, BTreeSet<CellId>) = remaining
                .into_iter()
                .partition(|cell| run_cells.contains_key(cell));
            remaining = others;
            if cells_of_run.is_empty() {
                continue;
            }
            for _ in 0..rounds {
                let mut fresh = None;
                if let Some(program) = self.against {
                    match self.measure_once(run, &cells_of_run, Some(program), printer)? {
                        Err(signal) => return Ok(Some(signal)),
                        Ok(measured) => fresh = Some(measured),
                    }
                }
                let measured = match self.measure_once(run, &cells_of_run, None, printer)? {
                    Err(signal) => return Ok(Some(signal)),
                    Ok(measured) => measured,
                };
                measured.check_joins(candidate)?;
                let first: BTreeSet<CellId> =
                    cells_of_run.difference(&self.replaced_cells).cloned().collect();
                if let Some(fresh) = fresh {
                    fresh.check_joins(baseline)?;
                    baseline.clear_processes(&first);
                    baseline.extend(fresh);
                }
                candidate.clear_processes(&first);
                candidate.extend(measured);
                self.replaced_cells.extend(first);
            }
        }
        Ok(None)
    }

    /// Runs one process of each cell. The inner error is the signal that stopped the run.
    fn measure_once(
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
            prepare_rerun(run, cells, program, &self.mpirun, out)?,
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
        self.stop.restore_default_signals();
    }
}

/// Rejects a program other than the one that measured the run, because the results of two programs are not comparable.
fn check_program(measured: &RunMeasurements, about: ProgramInfo, name: &str) -> Result<()> {
    let recorded = &measured.fingerprint;
    let program = about.on(recorded.clone());
    if same_program(recorded, &program) && recorded.build == program.build {
        return Ok(());
    }
    bail!(
        "cannot measure `{}` again: it was measured by {}, but {name} is {}\n  hint: use the program that measured the run",
        measured.name,
        describe_program(recorded),
        describe_program(&program)
    );
}

/// Returns a separate folder for new records, because recorded data is never modified: `reports/change` → `reports/change.again`.
fn rerun_folder(run: &Path) -> PathBuf {
    let mut name = run.file_name().unwrap_or_default().to_owned();
    name.push(".again");
    run.with_file_name(name)
}
