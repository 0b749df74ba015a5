//! Suite files: loading and validation.

use std::path::Path;

use mantissa_core::{MAX_SUITE_BYTES, Profile, SuiteInfo, TaskKind, Workload, check_file_name, read_text};
use toml::de::DeTable;

use crate::{
    axes::{self, Sweep},
    claims,
    diagnostic::{Sink, SuiteErrors},
    expect,
    inputs::{self, SuiteInputs},
    keys::{profile, suite},
    section::Section,
    workload,
};

const SECONDS_PER_MINUTE: f64 = 60.0;

/// Valid suite, resolved for each profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Ordered like [`Profile::ALL`].
    resolved: Vec<Resolved>,
    /// Ordered like [`Profile::ALL`].
    inputs: Vec<SuiteInputs>,
    /// Content of the file.
    text: String,
}

/// Suite as resolved for one profile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resolved {
    pub(crate) info: SuiteInfo,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) sweeps: Vec<Sweep>,
    repeats: Option<u32>,
}

impl Suite {
    /// Returns the content of the file. The file is read only once because a pipe cannot be read twice.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the stem of the file name.
    pub fn name(&self) -> &str {
        &self.resolved[0].info.name
    }

    /// Returns the files that the workloads read in a profile unless the user names others. [`load`] resolves their paths against the folder of
    /// the suite.
    pub fn inputs(&self, profile: Profile) -> &SuiteInputs {
        &self.inputs[profile as usize]
    }

    /// Returns the information for the report, with the axes, the time-out and the expectations of a profile.
    pub fn info(&self, profile: Profile) -> &SuiteInfo {
        &self.resolved(profile).info
    }

    /// Returns the workloads, in the sizes of a profile.
    pub fn workloads(&self, profile: Profile) -> &[Workload] {
        &self.resolved(profile).workloads
    }

    /// Returns the number of processes of each cell in a profile, if the suite sets it.
    pub fn repeats(&self, profile: Profile) -> Option<u32> {
        self.resolved(profile).repeats
    }

    pub(crate) fn resolved(&self, profile: Profile) -> &Resolved {
        &self.resolved[profile as usize]
    }
}

/// Reads and checks a suite file. The suite is named after the file's stem.
///
/// # Errors
/// All errors of the file, or the reason why it could not be read.
pub fn load(path: &Path) -> Result<Suite, SuiteErrors> {
    let label = path.display().to_string();
    let text =
        read_text(path, MAX_SUITE_BYTES).map_err(|error| SuiteErrors::unreadable(label.clone(), &error))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let mut suite = parse(&name, &label, &text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    suite.inputs.iter_mut().for_each(|files| files.resolve(folder));
    Ok(suite)
}

/// Validates the text of a suite. `file_label`: the name of the file in errors.
///
/// # Errors
/// All errors of the text, each with its line and column. If the text is not valid TOML, only syntax errors are reported.
pub fn parse(name: &str, file_label: &str, text: &str) -> Result<Suite, SuiteErrors> {
    let sink = Sink::new(file_label, text);
    let (table, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        sink.error(&error.span().unwrap_or(0..0), error.message().replace('\n', ", "));
    }
    if let Err(problem) = check_file_name(name) {
        sink.error(
            &(0..0),
            format!("the suite is named after its file, but the file name is invalid: {problem}"),
        );
    }
    let suite = if syntax_errors.is_empty() {
        let root = Section::root(&sink, table.get_ref());
        root.reject_unknown_keys(&[suite::KEYS]);
        let resolved: Vec<_> = Profile::ALL
            .iter()
            .map(|profile| resolve(name, &root, *profile))
            .collect();
        let resolved: Option<Vec<Resolved>> = resolved.into_iter().collect();
        let inputs = inputs_by_profile(&root, resolved.as_deref().unwrap_or_default());
        resolved.map(|resolved| Suite {
            resolved,
            inputs,
            text: text.to_owned(),
        })
    } else {
        None
    };
    sink.finish(suite)
}

fn resolve(name: &str, root: &Section<'_>, profile: Profile) -> Option<Resolved> {
    let overrides = profile_section(root, profile);
    let timeout_minutes = match &overrides {
        Some(overrides) if overrides.has(&profile::TIMEOUT) => overrides.number(&profile::TIMEOUT),
        _ => root.number(&suite::TIMEOUT),
    };
    let repeats = match overrides
        .as_ref()
        .filter(|overrides| overrides.has(&profile::REPEATS))
    {
        Some(overrides) => overrides.whole(&profile::REPEATS).map(Some),
        None => Some(None),
    };
    let tables = root.tables(&suite::WORKLOAD, "`[[workload]]`");
    if root.has(&suite::WORKLOAD) && tables.is_empty() {
        root.report_at(&suite::WORKLOAD, "the suite does not have a workload");
    }
    let workloads: Option<Vec<Workload>> = {
        let read: Vec<_> = tables
            .iter()
            .map(|table| workload::read(table, profile))
            .collect();
        read.into_iter().collect()
    };
    let tasks: Vec<TaskKind> = workloads.iter().flatten().map(Workload::kind).collect();
    report_duplicate_names(&tables, workloads.as_deref().unwrap_or_default());

    let sweeps = sweeps(root, overrides.as_ref(), &tasks);
    let expectations = root.tables(&suite::EXPECT, "`[[expect]]`");
    let claims = claims::read(root, workloads.as_deref().unwrap_or_default(), &tasks);
    let title = root.text(&suite::TITLE);
    let question = root.text(&suite::QUESTION);
    let analysis = root.text(&suite::ANALYSIS);
    let references = root.texts(&suite::REFERENCES);
    let info = SuiteInfo {
        name: name.to_owned(),
        axes: sweeps.iter().flat_map(|sweep| sweep.axes.clone()).collect(),
        expectations: expectations
            .iter()
            .filter_map(|table| expect::read(table, profile, &tasks))
            .collect(),
        claims,
        title: title?,
        question: question?,
        analysis: analysis?,
        references: references?,
        timeout_seconds: (timeout_minutes? * SECONDS_PER_MINUTE).min(f64::MAX),
    };
    Some(Resolved {
        info,
        workloads: workloads?,
        sweeps,
        repeats: repeats?,
    })
}

/// Returns the files of each profile: those of `[inputs]`, replaced by those of `[profile.<name>.inputs]`. `resolved` is empty if a workload is
/// invalid.
fn inputs_by_profile(root: &Section<'_>, resolved: &[Resolved]) -> Vec<SuiteInputs> {
    let workloads = |profile: Profile| {
        resolved
            .get(profile as usize)
            .map_or(&[][..], |resolved| &resolved.workloads)
    };
    let all: Vec<Workload> = Profile::ALL
        .iter()
        .flat_map(|profile| workloads(*profile))
        .cloned()
        .collect();
    let files = root.table(&suite::INPUTS, "`[inputs]`");
    let files = files.map(|table| inputs::read(&table, &all)).unwrap_or_default();
    let of_profile = |profile: &Profile| {
        let overrides = profile_section(root, *profile)?;
        let table = overrides.table(&profile::INPUTS, "`inputs`")?;
        Some(inputs::read(&table, workloads(*profile)))
    };
    let all = Profile::ALL.iter().map(|profile| {
        let mut files = files.clone();
        files.replace(of_profile(profile).unwrap_or_default());
        files
    });
    all.collect()
}

/// Returns `[profile.<profile>]`.
fn profile_section<'a>(root: &Section<'a>, profile: Profile) -> Option<Section<'a>> {
    let profiles = root.table(&suite::PROFILE, "`[profile]`")?;
    for (name, span, _) in profiles.entries() {
        profiles.parse_name::<Profile>(&span, name);
    }
    let section = profiles.named_table(profile.name(), format!("`[profile.{profile}]`"))?;
    section.reject_unknown_keys(&[profile::KEYS]);
    Some(section)
}

fn sweeps(root: &Section<'_>, overrides: Option<&Section<'_>>, tasks: &[TaskKind]) -> Vec<Sweep> {
    let mut sweeps = vec![];
    if let Some(section) = root.table(&suite::AXES, "`[axes]`") {
        axes::check_applicable(&section, tasks);
        sweeps = axes::read(&section);
    }
    if let Some(section) = overrides.and_then(|section| section.table(&profile::AXES, "`axes`")) {
        axes::check_applicable(&section, tasks);
        for sweep in axes::read(&section) {
            axes::replace(&mut sweeps, sweep);
        }
    }
    sweeps
}

fn report_duplicate_names(tables: &[Section<'_>], workloads: &[Workload]) {
    for (index, (table, workload)) in tables.iter().zip(workloads).enumerate() {
        if workloads[..index]
            .iter()
            .any(|earlier| earlier.name == workload.name)
        {
            table.report_at(
                &crate::keys::workload::NAME,
                format_args!(
                    "the suite has more than one workload `{}`\n  hint: use a unique name for each workload",
                    workload.name
                ),
            );
        }
    }
}
