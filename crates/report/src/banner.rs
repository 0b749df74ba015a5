//! Warnings and notes that precede the results.

use mantissa_core::{Backend, ExecutedVerdict, TaskKind};
use serde::Serialize;

use crate::{Group, Reference, Run, units};

/// A warning or note above the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Banner {
    /// `warning` if the numbers are misleading without the text, or else `note`.
    pub level: &'static str,
    /// Short title.
    pub title: String,
    /// Explanation.
    pub text: String,
}

impl Banner {
    /// Creates a warning, without which the numbers would be misleading.
    pub(crate) fn warning(title: &str, text: String) -> Self {
        Self {
            level: "warning",
            title: title.to_owned(),
            text,
        }
    }

    /// Creates a note that helps to read the numbers.
    pub(crate) fn note(title: &str, text: String) -> Self {
        Self {
            level: "note",
            title: title.to_owned(),
            text,
        }
    }
}

/// Returns the banners of the whole run.
pub(crate) fn of_run(run: &Run) -> Vec<Banner> {
    let mut banners = Vec::new();
    let machine = &run.environment.fingerprint;
    if run.environment.backend == Backend::Flex {
        let cpu = machine.cpu.as_deref().unwrap_or(UNKNOWN_CPU);
        let text = format!(
            "Measured on {cpu}, {} cores. Errors and accuracies are properties of the number formats; speed-ups do not apply to \
             GPUs.",
            machine.cores
        );
        banners.push(Banner::warning("These are CPU times.", text));
    }
    if machine.build != "release" {
        let text = format!(
            "The binary was a `{}` build, so its times are not meaningful.",
            machine.build
        );
        banners.push(Banner::warning("Not a release build.", text));
    }
    if run.is_truncated {
        let text = "The last line of `records.jsonl` was truncated by a crash or a full disk. The record is skipped; \
                    `--resume` runs its cell again.";
        banners.push(Banner::warning("A record is truncated.", text.to_owned()));
    }
    if !run.missing_samples.is_empty() {
        let text = format!(
            "The samples of {} of {} records cannot be read, the first: {}. Their curves are missing; their metrics are \
             not.",
            run.missing_samples.len(),
            run.records.len(),
            run.missing_samples[0]
        );
        banners.push(Banner::note("Samples are missing.", text));
    }
    banners
}

/// Returns the banners of one suite.
pub(crate) fn of_suite(run: &Run, references: &[Reference], groups: &[Group<'_>]) -> Vec<Banner> {
    let mut banners = Vec::new();
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let not_run = rows().filter(|row| row.status.is_none()).count();
    if not_run > 0 {
        let text = format!(
            "{not_run} of {} cells were not run; `--resume` runs them.",
            rows().count()
        );
        banners.push(Banner::warning("The run is incomplete.", text));
    }
    let data = rows()
        .flat_map(|row| &row.records)
        .filter_map(|record| record.data.as_ref());
    if let Some(data) = data.into_iter().find(|data| data.synthetic) {
        let usage = match groups.iter().any(|group| group.kind == TaskKind::Train) {
            true => "Models were trained and tested on",
            false => "Models were tested on",
        };
        let text = format!(
            "{usage} {}, so accuracies compare settings, not models.",
            data.name
        );
        banners.push(Banner::warning("The data is synthetic.", text));
    }
    let with = |verdict| rows().filter(|row| row.verdict() == Some(verdict)).count();
    let (differs, unverified) = (with(ExecutedVerdict::Differs), with(ExecutedVerdict::Unverified));
    if differs > 0 {
        let text = format!(
            "{} executed another precision than requested; the table shows which.",
            cells(differs)
        );
        banners.push(Banner::warning(
            "Executed precision differs from requested.",
            text,
        ));
    }
    if unverified > 0 {
        let text = format!(
            "The executed precision of {} was not observed; the table shows “unverified”.",
            cells(unverified)
        );
        banners.push(Banner::note("Executed precision unverified.", text));
    }
    let here = this_machine(run);
    let trains = groups.iter().any(|group| group.kind == TaskKind::Train);
    for reference in references {
        if reference
            .device
            .as_ref()
            .is_some_and(|device| here.contains(device.as_str()))
        {
            continue;
        }
        let what = if trains {
            "ratios within a column"
        } else {
            "orders of magnitude"
        };
        let text = format!(
            "They were measured on {}, this run on {here}. Compare {what}, not times.",
            reference.hardware
        );
        let title = format!("Published rows ({}) are from another machine.", reference.name);
        banners.push(Banner::note(&title, text));
    }
    banners
}

fn cells(n: usize) -> String {
    match n {
        1 => "1 cell".to_owned(),
        n => format!("{} cells", units::count(n as u64)),
    }
}

/// Name of a CPU whose model was not recorded.
const UNKNOWN_CPU: &str = "a CPU of unknown model";

/// Returns the name of the device that the run used.
pub(crate) fn this_machine(run: &Run) -> String {
    let machine = &run.environment.fingerprint;
    match (&machine.gpu, run.environment.backend) {
        (Some(gpu), Backend::Cuda | Backend::Vulkan) => gpu.name.clone(),
        _ => machine.cpu.clone().unwrap_or_else(|| UNKNOWN_CPU.to_owned()),
    }
}

/// Returns the name of the device for a title, without trademark signs and generic words: `Intel Xeon (family 6, model 167)`.
pub(crate) fn short_machine(run: &Run) -> String {
    match this_machine(run) {
        unknown if unknown == UNKNOWN_CPU => unknown,
        name => [" Processor", " CPU", "(R)", "(TM)"]
            .iter()
            .fold(name, |name, noise| name.replace(noise, "")),
    }
}

/// Formats machine, backend, profile, start time and software versions in one line.
pub(crate) fn origin(run: &Run) -> String {
    let environment = &run.environment;
    format!(
        "{} · {} backend · profile {} · {} · mantissa {}, {}",
        this_machine(run),
        environment.backend,
        run.plan.profile,
        environment.started,
        environment.fingerprint.mantissa,
        environment.fingerprint.framework(),
    )
}

/// Joins the titles of the warnings, for a table without banners.
pub(crate) fn warnings<'b>(banners: impl IntoIterator<Item = &'b Banner>) -> String {
    let warnings = banners.into_iter().filter(|banner| banner.level == "warning");
    let titles: Vec<&str> = warnings.map(|banner| banner.title.as_str()).collect();
    titles.join(" ")
}
