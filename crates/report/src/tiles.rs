//! Tiles of a workload: the fastest setting, the one with the least memory, and what failed. All numbers are those of
//! [`SettingResult`].

use mantissa_core::{Axis, Status, TaskKind};
use serde::Serialize;

use crate::{
    Group,
    advise::{Choice, Conclusion, MIN_MEMORY_SAVING, Rejected, listed},
    overview::{Candidate, Certainty, candidates},
    setting::{SettingResult, memory_text, ratio_text},
    units,
};

/// Maximum number of entries of a tile.
const MAX_ENTRIES: usize = 3;

/// A tile of a workload.
#[derive(Debug, Serialize)]
pub(crate) struct Tile {
    title: &'static str,
    entries: Vec<Entry>,
    /// Number of entries that are left out.
    more: usize,
}

/// Result for one kind of work, or settings that failed for the same reason.
#[derive(Debug, Serialize)]
struct Entry {
    /// Label of the kind of work; empty if all settings do the same work.
    work: String,
    headline: String,
    facts: Vec<String>,
    certainty: &'static str,
    /// CSS class of the certainty; empty if no setting qualifies.
    class: &'static str,
    /// Command that reproduces a cell of the setting; empty without a record.
    command: String,
}

impl Tile {
    fn new(title: &'static str, mut entries: Vec<Entry>) -> Self {
        let more = entries.len().saturating_sub(MAX_ENTRIES);
        entries.truncate(MAX_ENTRIES);
        Self { title, entries, more }
    }
}

impl Entry {
    fn new(setting: Option<&SettingResult<'_, '_>>, certainty: Certainty, headline: String) -> Self {
        let command = setting.and_then(|setting| setting.row().command());
        Self {
            work: String::new(),
            facts: Vec::new(),
            certainty: certainty.name(),
            class: certainty.class(),
            command: command.unwrap_or_default().to_owned(),
            headline,
        }
    }

    /// Returns the entry of a tile for which no setting qualifies. Only the entry of a setting that is shown to qualify has a colour.
    fn none_shown(setting: Option<&SettingResult<'_, '_>>, certainty: Certainty) -> Self {
        Self {
            class: "",
            ..Self::new(setting, certainty, "None shown yet".to_owned())
        }
    }
}

/// Returns the tiles of a workload, from the choices within the default budget; empty if no cell ran. Kernels have no tile for the memory.
/// If the workload is not alone in its suite, it has a tile for failures only if there are any.
pub(crate) fn tiles<'g, 'a>(group: &'g Group<'a>, choices: &[Choice<'g, 'a>], is_alone: bool) -> Vec<Tile> {
    let candidates = candidates(0, group, choices);
    if candidates.is_empty() {
        return Vec::new();
    }
    let is_kernel = group.kind == TaskKind::Kernel;
    let judged = !is_kernel && candidates.iter().any(|one| one.concluded.is_quality_measured);
    let titles = match judged {
        true => [
            "Fastest setting shown to keep the accuracy",
            "Least memory shown to keep the accuracy",
        ],
        false => ["Fastest setting", "Least memory"],
    };
    let of_all = |entry: fn(&Group<'_>, &Candidate<'_, '_>) -> Entry| {
        let entries = candidates.iter().map(|candidate| Entry {
            work: work(group, candidate),
            ..entry(group, candidate)
        });
        entries.collect()
    };
    let mut tiles = vec![Tile::new(titles[0], of_all(fastest))];
    if !is_kernel {
        tiles.push(Tile::new(titles[1], of_all(leanest)));
    }
    let failures = failures(group);
    if is_alone || !failures.is_empty() {
        let entries = match failures.is_empty() {
            true => vec![nothing_failed(group)],
            false => failures,
        };
        tiles.push(Tile::new("What failed", entries));
    }
    tiles
}

/// Returns the label of the kind of work; for a kernel, the size that the conclusion is about.
fn work(group: &Group<'_>, candidate: &Candidate<'_, '_>) -> String {
    let concluded = &candidate.concluded;
    match &concluded.named {
        Some(named) if group.kind == TaskKind::Kernel && group.varies(Axis::Size) => {
            format!("size {}", named.row().axis(Axis::Size))
        }
        _ => concluded.work.clone(),
    }
}

fn fastest(group: &Group<'_>, candidate: &Candidate<'_, '_>) -> Entry {
    let concluded = &candidate.concluded;
    let conclusion = concluded.conclusion;
    let effect = candidate.effect.as_ref();
    let speed = effect.map(|effect| format!("{} as fast as {}", ratio_text(&effect.speed), effect.baseline));
    let others = effect.map(|effect| effect.other_effects());
    let others = others.filter(|text| !text.is_empty());
    let named = concluded.named.as_ref();
    let label = named.map_or("", |named| named.label.as_str());
    let is_fastest = matches!(
        conclusion,
        Conclusion::Use | Conclusion::Fastest | Conclusion::FastestUnjudged
    );
    if is_fastest {
        let limit = named.and_then(SettingResult::loss_not_excluded);
        let facts = [speed, others, limit, unjudged(group, candidate)];
        return Entry {
            facts: facts.into_iter().flatten().collect(),
            ..Entry::new(named, candidate.certainty, label.to_owned())
        };
    }
    let reason = format!("{}{}", conclusion.text(label), conclusion.reason());
    let rejected = concluded.rejected_fastest.as_ref().and_then(|rejected| {
        let ratio = ratio_text(rejected.setting.speed_up()?);
        Some(rejection(rejected, &format!("{ratio} as fast")))
    });
    let compared = effect.filter(|_| rejected.is_none()).zip(speed);
    let compared = compared.map(|(effect, speed)| match effect.setting.as_str() {
        "" => format!("{label}: {speed}"),
        setting => format!("{setting}: {speed}"),
    });
    let others = others.filter(|_| conclusion == Conclusion::RanFastest);
    let facts = [
        Some(reason),
        rejected,
        compared,
        others,
        unjudged(group, candidate),
    ];
    Entry {
        facts: facts.into_iter().flatten().collect(),
        ..Entry::none_shown(named, candidate.certainty)
    }
}

fn leanest(group: &Group<'_>, candidate: &Candidate<'_, '_>) -> Entry {
    let concluded = &candidate.concluded;
    let setting = concluded.leanest.as_ref();
    if let Some((setting, metric, ratio)) =
        setting.and_then(|setting| Some((setting, group.memory?, setting.memory_ratio()?)))
    {
        let bytes = setting
            .value(metric)
            .map(|bytes| group.scale(metric, bytes).text(bytes));
        let (base, ratio_text) = (setting.baseline_label(), memory_text(metric, ratio));
        let facts = [
            bytes.map(|bytes| format!("{bytes} ({})", units::memory_title(metric))),
            Some(format!("{ratio_text} the peak memory of {base}")),
            setting.loss_not_excluded(),
            unjudged(group, candidate),
        ];
        return Entry {
            facts: facts.into_iter().flatten().collect(),
            ..Entry::new(Some(setting), Certainty::of(ratio.n), setting.label.clone())
        };
    }
    let rejected = concluded.rejected_leanest.as_ref();
    let ratio =
        rejected.and_then(|rejected| Some((rejected, group.memory?, rejected.setting.memory_ratio()?)));
    let (fact, certainty) = match ratio {
        Some((rejected, metric, ratio)) => (
            rejection(
                rejected,
                &format!("{} the peak memory", memory_text(metric, ratio)),
            ),
            Certainty::of(ratio.n),
        ),
        None if group.memory.is_none() => ("the memory was not measured".to_owned(), Certainty::NotMeasured),
        None => (
            format!(
                "no other setting saves {:.0} % of the memory",
                100.0 * MIN_MEMORY_SAVING
            ),
            candidate.certainty,
        ),
    };
    Entry {
        facts: vec![fact],
        ..Entry::none_shown(None, certainty)
    }
}

/// Describes a setting that is cheaper but outside the budget.
fn rejection(rejected: &Rejected<'_, '_>, advantage: &str) -> String {
    format!(
        "{}: {advantage}, but {}",
        rejected.setting.label, rejected.reasons
    )
}

fn unjudged(group: &Group<'_>, candidate: &Candidate<'_, '_>) -> Option<String> {
    let is_unjudged = group.kind != TaskKind::Kernel && !candidate.concluded.is_quality_measured;
    is_unjudged.then(|| "accuracy not measured".to_owned())
}

/// Settings with the same status and reason, or all skipped settings.
struct Failure<'g, 'a> {
    is_skipped: bool,
    /// Reason of the first setting.
    reason: String,
    settings: Vec<SettingResult<'g, 'a>>,
}

/// Lists the settings that did not finish or violated an expectation, one entry per status and reason. The skipped ones are one entry, the
/// last one.
fn failures(group: &Group<'_>) -> Vec<Entry> {
    let settings = SettingResult::all(group, |_| true);
    let mut failures: Vec<Failure<'_, '_>> = Vec::new();
    for setting in settings {
        let unexpected = setting.seeds.iter().find(|row| !row.unexpected.is_empty());
        let unexpected = unexpected.map(|row| row.remark());
        let Some(reason) = setting.failure_with_reason().or(unexpected) else {
            continue;
        };
        let is_skipped = setting.failure() == Some(Status::Skipped.name());
        let alike = |known: &&mut Failure<'_, '_>| match is_skipped {
            true => known.is_skipped,
            false => known.reason == reason,
        };
        match failures.iter_mut().find(alike) {
            Some(known) => known.settings.push(setting),
            None => failures.push(Failure {
                is_skipped,
                reason,
                settings: vec![setting],
            }),
        }
    }
    failures.sort_by_key(|failure| failure.is_skipped);
    failures.iter().map(failed).collect()
}

/// Returns the entry of a workload without failures.
fn nothing_failed(group: &Group<'_>) -> Entry {
    let fact = match SettingResult::all(group, |_| true).len() {
        1 => "The only setting finished.".to_owned(),
        all => format!("All {} settings finished.", units::count(all as u64)),
    };
    Entry {
        facts: vec![fact],
        ..Entry::new(
            None,
            Certainty::of(fewest_processes(group)),
            "Nothing failed".to_owned(),
        )
    }
}

fn failed(failure: &Failure<'_, '_>) -> Entry {
    let names: Vec<String> = failure
        .settings
        .iter()
        .map(|setting| setting.label.clone())
        .collect();
    let first = failure.settings.first();
    let (headline, fact) = match (failure.is_skipped, names.as_slice()) {
        (true, [first, _, ..]) => (
            format!("{} settings skipped", names.len()),
            format!("the first, {first}: {}", failure.reason),
        ),
        _ => (listed(&names, ", "), failure.reason.clone()),
    };
    let processes = failure.settings.iter().map(SettingResult::processes).min();
    let certainty = match failure.is_skipped {
        true => Certainty::NotMeasured,
        false => Certainty::of(processes.unwrap_or(0) as u64),
    };
    Entry {
        facts: vec![fact],
        ..Entry::new(first.filter(|_| !failure.is_skipped), certainty, headline)
    }
}

/// Returns the smallest number of processes of a setting.
fn fewest_processes(group: &Group<'_>) -> u64 {
    let settings = SettingResult::all(group, |_| true);
    settings.iter().map(SettingResult::processes).min().unwrap_or(0) as u64
}
