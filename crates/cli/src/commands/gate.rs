//! `mantissa compare` and `mantissa gate`: comparison of two runs.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use mantissa_core::write_whole;
use mantissa_gate::{
    BaselineInfo, Baselines, Comparison, Day, Fences, Gate, GateError, GateReport, History, Policy,
    RunMeasurements, compare as compare_measurements, render::terminal_tables,
};
use mantissa_report::ReportError;
use mantissa_run_folder::{ENVIRONMENT_FILE, PLAN_FILE, RECORDS_FILE, SETTINGS_FILE};

use crate::{
    args::{CompareArguments, ComparisonOptions, GateArguments},
    commands::{report::draw, rerun::Rerun},
    exit::Exit,
    printer::Printer,
};

/// Prints the differences between two runs. Succeeds even if the runs differ.
pub(crate) fn compare(arguments: &CompareArguments, printer: &Printer) -> Result<()> {
    let options = &arguments.comparison;
    let candidate = RunMeasurements::read(&arguments.candidate)?;
    let baseline = baseline(std::slice::from_ref(&arguments.baseline), &candidate, options)?;
    let policy = policy(options)?;
    let history = history(options, false)?;
    let comparison = compare_runs((&baseline, &candidate), &policy, &history, options)?;
    printer.data(&match arguments.json {
        true => serde_json::to_string_pretty(&comparison)?,
        false => terminal_text(&GateReport::new(comparison, &policy, today(), false)),
    });
    Ok(())
}

/// Checks a run against a baseline.
pub(crate) fn gate(arguments: &GateArguments, printer: &Printer) -> Result<Exit> {
    let options = &arguments.comparison;
    let mut policy = policy(options)?;
    policy.looks = 1 + arguments.rerun_inconclusive;
    let mut candidate = RunMeasurements::read_all(&arguments.runs)?;
    let mut baseline = baseline(&arguments.baseline, &candidate, options)?;
    let history = history(options, arguments.append)?;
    let evaluate = |baseline: &RunMeasurements, candidate: &RunMeasurements| -> Result<GateReport> {
        let comparison = compare_runs((baseline, candidate), &policy, &history, options)?;
        Ok(GateReport::new(comparison, &policy, today(), arguments.strict))
    };
    // Detect files that cannot be written before measuring or writing anything.
    if arguments.append {
        history.check(&candidate)?;
    }
    for output in &arguments.write {
        check_output(&output.path, arguments, history.path())?;
    }
    let mut rerun = match arguments.rerun_inconclusive {
        0 => None,
        _ => Some(Rerun::new(arguments, (&baseline, &candidate), policy.repeats)?),
    };
    let mut report = evaluate(&baseline, &candidate)?;
    for _ in 0..arguments.rerun_inconclusive {
        let cells: BTreeSet<_> = report.inconclusive_cells().cloned().collect();
        let Some(rerun) = rerun.as_mut().filter(|_| !cells.is_empty()) else {
            break;
        };
        let (mut new_baseline, mut new_candidate) = (baseline.clone(), candidate.clone());
        match rerun.measure(&cells, (&mut new_baseline, &mut new_candidate), printer) {
            Ok(None) => {
                report = evaluate(&new_baseline, &new_candidate)?;
                (baseline, candidate) = (new_baseline, new_candidate);
            }
            Ok(Some(signal)) => return Ok(Exit::Stopped(signal)),
            // Continue with the verdict and the data from before this repetition.
            Err(error) => {
                printer.warn(&format!("cannot measure inconclusive cells again: {error:#}"));
                break;
            }
        }
    }
    drop(rerun);
    if !report.has_verdict() {
        bail!(GateError::FewRepeats {
            repeats: policy.repeats
        });
    }
    // Report a file that cannot be written, but continue: a regression must still exit with 1.
    let mut is_written = true;
    let texts = arguments.write.iter().map(|output| {
        let text = output.format.render(&report, &candidate)?;
        Ok((&output.path, text))
    });
    for (path, text) in texts.collect::<Result<Vec<_>>>()? {
        match path.as_os_str() == "-" {
            true => printer.data(&text),
            false => {
                if let Err(error) = write(path, &text) {
                    printer.error(&error.into());
                    is_written = false;
                }
            }
        }
    }
    if arguments.append {
        let cells = History::append(history.path(), &candidate, report.gate())?;
        printer.note(&format!("{cells} cells appended to {}", history.path().display()));
    }
    match arguments.json {
        true => printer.data(&serde_json::to_string_pretty(&report)?),
        false => printer.data(&terminal_text(&report)),
    }
    Ok(match report.gate() {
        Gate::Failed => Exit::Regression,
        _ if !is_written => Exit::MissingRequirement,
        Gate::Passed => Exit::Success,
        Gate::Inconclusive => Exit::Inconclusive,
    })
}

/// Renders the tables in the width of the terminal, then the differences that `--allow-mismatch` accepts, and last the verdict.
fn terminal_text(report: &GateReport) -> String {
    /// Width of text that is not printed to a terminal.
    const WIDTH: u16 = 110;
    let width = comfy_table::Table::new().width().unwrap_or(WIDTH);
    let tables = terminal_tables(report, width.into());
    let mut parts: Vec<String> = tables.iter().map(draw).collect();
    let mismatches = report.comparison.mismatches.iter();
    let mismatches: Vec<String> = mismatches.map(ToString::to_string).collect();
    if !mismatches.is_empty() {
        parts.push(format!(
            "differences accepted by `--allow-mismatch`: {}",
            mismatches.join("; ")
        ));
    }
    parts.push(report.verdict());
    parts.join("\n\n")
}

/// Reads the baseline: folders of runs or of a baseline, or the name of a baseline for the candidate's machine.
fn baseline(
    names: &[String],
    candidate: &RunMeasurements,
    options: &ComparisonOptions,
) -> Result<RunMeasurements> {
    let folders: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
    if let ([name], [path]) = (names, folders.as_slice())
        && !path.join(RECORDS_FILE).is_file()
    {
        let may_differ = options.allow_mismatch.iter().copied().collect();
        return Ok(Baselines::new(&options.baselines).find(name, candidate, &may_differ)?);
    }
    Ok(RunMeasurements::read_all(&folders)?)
}

fn compare_runs(
    (baseline, candidate): (&RunMeasurements, &RunMeasurements),
    policy: &Policy,
    history: &History,
    options: &ComparisonOptions,
) -> Result<Comparison> {
    let allowed: BTreeSet<_> = options.allow_mismatch.iter().copied().collect();
    let fences: Fences = history.fences(candidate);
    Ok(compare_measurements(
        baseline, candidate, policy, &allowed, &fences,
    )?)
}

/// Names of the files in run folders and baselines.
const RECORDED_FILES: [&str; 9] = [
    RECORDS_FILE,
    ENVIRONMENT_FILE,
    PLAN_FILE,
    SETTINGS_FILE,
    BaselineInfo::FILE,
    "report.html",
    "index.html",
    "summary.md",
    "results.csv",
];

/// Rejects an output path that would overwrite recorded data: a file of a run or baseline, the history or the policy.
fn check_output(out: &Path, arguments: &GateArguments, history: &Path) -> Result<()> {
    let resolved = |path: &Path| path.canonicalize().ok();
    let is_recorded = out
        .parent()
        .is_some_and(|folder| folder.join(RECORDS_FILE).is_file())
        && out
            .file_name()
            .is_some_and(|name| RECORDED_FILES.iter().any(|file| name == *file));
    let default = arguments.comparison.baselines.join(Policy::FILE);
    let policy = arguments.comparison.policy.as_deref().unwrap_or(&default);
    let is_history_or_policy = [history, policy]
        .into_iter()
        .any(|input| resolved(input).is_some_and(|input| Some(input) == resolved(out)));
    if is_recorded || is_history_or_policy {
        bail!(
            "cannot overwrite `{}`: it is recorded data, the history or the policy\n  hint: choose another file",
            out.display()
        );
    }
    Ok(())
}

/// Returns the policy of `--policy`, else the one in the folder of baselines, else the default.
fn policy(options: &ComparisonOptions) -> Result<Policy> {
    let default = options.baselines.join(Policy::FILE);
    policy_of(
        options
            .policy
            .as_deref()
            .or(Some(default.as_path()).filter(|path| path.is_file())),
    )
}

/// Returns the policy in a file, else the default.
pub(crate) fn policy_of(path: Option<&Path>) -> Result<Policy> {
    Ok(path.map(Policy::read).transpose()?.unwrap_or_default())
}

/// Returns the history of `--history`, else the one in the folder of baselines, if it exists. Fails if the file of `--history` does not
/// exist and this run may not create it.
fn history(options: &ComparisonOptions, may_create: bool) -> Result<History> {
    let default = options.baselines.join(History::FILE);
    match &options.history {
        Some(path) if !may_create && !path.exists() => {
            bail!(
                "history `{}` does not exist\n  hint: `mantissa gate --append` creates it",
                path.display()
            )
        }
        path => Ok(History::read(path.as_ref().unwrap_or(&default))?),
    }
}

/// Returns the current date in UTC.
pub(crate) fn today() -> Day {
    // Clamp a clock that is beyond the year 9999.
    let now = jiff::Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(jiff::Timestamp::MAX);
    let date = now.to_zoned(jiff::tz::TimeZone::UTC).date();
    Day {
        year: u16::try_from(date.year()).unwrap_or_default(),
        month: date.month().unsigned_abs(),
        day: date.day().unsigned_abs(),
    }
}

/// Writes a result and creates its parent folders. Replaces a symbolic link instead of following it, because it may point to recorded data.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), ReportError> {
    write_whole(path, bytes.as_ref()).map_err(|source| ReportError::Write {
        path: path.to_owned(),
        source,
    })
}
