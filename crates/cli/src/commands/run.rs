//! `mantissa run`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use mantissa_runner::{
    Busy, Finish, Order, Policy, Precompiled, Progress as _, ProgressEvent, ResumeChanges, RunSettings,
    Start, Stop, choose_backend, default_repeats, planned, precompile, prepare_threads, resume, start,
    this_command,
};
use mantissa_worker::Burn;

use crate::{
    args::{BusyChoice, OrderChoice, Precompile, RunArguments},
    commands::{plan, report},
    exit::Exit,
    paths::{self, RunInputs},
    printer::Printer,
    progress::Bar,
    suites::{self, SuiteFile},
};

/// Maximum length of the name of a run folder without its time, in bytes. File systems allow names of 255 bytes.
const MAX_FOLDER_NAME: usize = 220;

pub(crate) fn run(arguments: RunArguments, printer: &Printer) -> Result<Exit> {
    prepare_threads();
    let mut bar = Bar::new(printer, arguments.json);
    let stop;
    let finish = if let Some(folder) = &arguments.resume {
        paths::check_resumed(folder, &arguments)?;
        let changes = ResumeChanges {
            repeats: arguments.repeats,
            mpirun: mpirun_words(arguments.mpirun.as_deref())?,
        };
        stop = Stop::on_signals()?;
        resume(&Burn, folder, &changes, stop.clone(), &mut bar, &mut || {
            printer.warn("the last record is incomplete: removing it and running its cell again");
        })?
    } else {
        let Some(prepared) = prepare(&arguments, printer)? else {
            return Ok(Exit::Success);
        };
        stop = Stop::on_signals()?;
        if let Some(when) = arguments.precompile {
            let compiled = precompile(&Burn, &prepared.plan, &prepared.settings, &stop, &mut bar)?;
            warn_about_failures(&compiled, printer);
            if when == Precompile::Only {
                bar.on_event(ProgressEvent::Ended);
                return Ok(report_precompiled(&compiled, printer));
            }
        }
        start(&Burn, prepared, stop.clone(), &mut bar)?
    };
    stop.restore_default_signals();
    let exit = conclude(&finish, &arguments, printer)?;
    // `--all` includes suites for hardware that this machine lacks. A suite selected by name is expected to run.
    let selected_by_name = arguments.resume.is_none() && !arguments.selection.all;
    Ok(skipped_suites(&finish, selected_by_name, printer).unwrap_or(exit))
}

/// Warns about cells whose kernels could not be compiled.
fn warn_about_failures(compiled: &Precompiled, printer: &Printer) {
    for (reason, cells) in &compiled.failed {
        printer.warn(&format!("cannot compile the kernels of {cells} tasks: {reason}"));
    }
}

/// Prints the number of compiled tasks (cells and kernel checks), and returns the exit code.
fn report_precompiled(compiled: &Precompiled, printer: &Printer) -> Exit {
    let Precompiled {
        compiled: done,
        skipped,
        failed,
    } = compiled;
    printer.data(&format!(
        "kernels compiled: {done} tasks, {skipped} skipped, {} failed",
        failed.values().sum::<usize>()
    ));
    match (failed.is_empty(), *done) {
        (false, _) => Exit::Unexpected,
        (true, 0) => Exit::MissingRequirement,
        (true, _) => Exit::Success,
    }
}

/// Warns about suites whose cells were all skipped and returns the exit code for them. Returns `None` if there are no such
/// suites, if the run was stopped or has violations, or if other suites ran and the suites were not selected by name.
fn skipped_suites(finish: &Finish, selected_by_name: bool, printer: &Printer) -> Option<Exit> {
    if finish.stopped.is_some() || !finish.violations.is_empty() || finish.skipped_suites.is_empty() {
        return None;
    }
    if !(selected_by_name || finish.ran_nothing) {
        return None;
    }
    for skipped in &finish.skipped_suites {
        let reasons = skipped
            .reasons
            .iter()
            .map(|(reason, cells)| format!("\n  {cells} × {reason}"));
        printer.warn(&format!(
            "all cells of `{}` were skipped:{}",
            skipped.suite,
            reasons.collect::<String>()
        ));
    }
    Some(
        match finish.skipped_suites.iter().any(|skipped| skipped.machine_lacks) {
            true => Exit::MissingRequirement,
            false => Exit::Usage,
        },
    )
}

/// Prepares a run. Returns `None` for a dry run, which prints the plan.
pub(crate) fn prepare(arguments: &RunArguments, printer: &Printer) -> Result<Option<Start>> {
    let selection = &arguments.selection;
    let found = suites::select(selection)?;
    let backend = choose_backend(&Burn, selection.named_backend())?;
    let profile = suites::profile(selection, backend);
    let inputs = RunInputs::new(selection, arguments.vocabulary.as_deref(), (&found, profile))?;
    let plan = planned(
        &Burn,
        suites::expand(&found, (selection, &inputs), profile, backend)?,
    );
    paths::check_vocabulary(&inputs.given, &plan)?;
    inputs.check_suite_files(&plan)?;
    if arguments.save_weights {
        paths::check_save_weights(&plan)?;
    }
    if arguments.dry_run {
        plan::print(&plan, &inputs, arguments.json, printer)?;
        return Ok(None);
    }
    let synthetic = paths::synthetic_workloads(&plan);
    if !synthetic.is_empty() {
        printer.note(&format!(
            "using synthetic data: {}\n  hint: pass `--data PATH` to use your own data",
            synthetic.join("; ")
        ));
    }
    let repeats_of_suite = |found: &SuiteFile| {
        let repeats = found.suite.repeats(profile)?;
        Some((found.suite.name().to_owned(), repeats))
    };
    let settings = RunSettings {
        peer: words_of("--peer", "python3 -m mantissa_torch", arguments.peer.as_deref())?,
        mpirun: mpirun_words(arguments.mpirun.as_deref())?,
        backend,
        inputs: inputs.given,
        suite_inputs: inputs.by_suite,
        save_weights: arguments.save_weights,
        directory: std::env::current_dir()
            .ok()
            .filter(|path| path.to_str().is_some()),
        repeats: arguments.repeats.unwrap_or_else(|| default_repeats(profile)),
        suite_repeats: match arguments.repeats {
            Some(_) => BTreeMap::new(),
            None => found.iter().filter_map(repeats_of_suite).collect(),
        },
        suites: found
            .iter()
            .map(|found| (found.suite.name().to_owned(), found.path.clone()))
            .collect(),
        policy: policy(arguments),
    };
    let suites = found.iter().map(|found| &found.suite);
    Ok(Some(Start {
        plan,
        settings,
        suites: suites
            .map(|suite| (suite.name().to_owned(), suite.text().to_owned()))
            .collect(),
        out: arguments.out.clone(),
        name: folder_name(&found, selection.all),
        command: this_command(),
        program: None,
    }))
}

/// Splits the command of `--mpirun` into words. Returns an empty list without the option.
pub(crate) fn mpirun_words(command: Option<&str>) -> Result<Vec<String>> {
    words_of("--mpirun", "mpirun --oversubscribe", command)
}

/// Splits the command of an option into words. Returns an empty list without the option.
fn words_of(option: &str, example: &str, command: Option<&str>) -> Result<Vec<String>> {
    let words = |command: &str| command.split_whitespace().map(str::to_owned).collect();
    let words: Option<Vec<String>> = command.map(words);
    if words.as_ref().is_some_and(Vec::is_empty) {
        bail!("`{option}` is empty\n  hint: pass a command, e.g. `{option} '{example}'`");
    }
    Ok(words.unwrap_or_default())
}

fn policy(arguments: &RunArguments) -> Policy {
    let default = Policy::default();
    Policy {
        order: match arguments.order {
            None => default.order,
            Some(OrderChoice::Rounds) => Order::Rounds,
            Some(OrderChoice::Sorted) => Order::Sorted,
        },
        cool_down_seconds: arguments.cool_down.unwrap_or(default.cool_down_seconds),
        busy: match arguments.busy {
            None => default.busy,
            Some(BusyChoice::Warn) => Busy::Warn,
            Some(BusyChoice::Wait) => Busy::Wait,
            Some(BusyChoice::Fail) => Busy::Fail,
        },
        retries: arguments.retries.unwrap_or(default.retries),
    }
}

/// Returns the name of the run folder, without its time.
fn folder_name(found: &[SuiteFile], all: bool) -> String {
    if all {
        return "all".to_owned();
    }
    let names: Vec<&str> = found.iter().map(|found| found.suite.name()).collect();
    let joined = names.join("+");
    match names.as_slice() {
        [first, rest @ ..] if joined.len() > MAX_FOLDER_NAME => format!("{first}+{}", rest.len()),
        _ => joined,
    }
}

/// Writes the report and prints its overview or tables, violations, hints for the next step, and the path of the page as the last line.
pub(crate) fn conclude(finish: &Finish, arguments: &RunArguments, printer: &Printer) -> Result<Exit> {
    if let Some(stopped) = &finish.stopped {
        printer.warn(&format!(
            "stopped: {} cells did not run\n  hint: run them with `mantissa run --resume {}`",
            stopped.left,
            finish.path.display()
        ));
        if stopped.is_immediate {
            return Ok(Exit::Stopped(stopped.signal));
        }
    }
    let rendered = report::render(&finish.path, &finish.path, arguments.rendering)?;
    if !arguments.json {
        printer.data(&rendered.text);
    }
    for violation in &finish.violations {
        printer.warn(&format!(
            "not as expected: {}: {}",
            violation.name, violation.what
        ));
    }
    let page = rendered.page.display().to_string();
    if arguments.json {
        printer.note(&page);
    } else {
        printer.data(&page);
    }
    Ok(match finish.stopped {
        Some(stopped) => Exit::Stopped(stopped.signal),
        None if finish.violations.is_empty() => Exit::Success,
        None => Exit::Unexpected,
    })
}
