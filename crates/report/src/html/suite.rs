//! Section of a suite on a page.

use mantissa_analysis::Verdict;
use mantissa_core::Status;
use serde::Serialize;

use super::{
    Picture,
    advice::{WorkAdvicePage, advice},
    picture,
    row_data::{RowData, role, unit},
};
use crate::{
    Banner, Budget, ClaimVerdict, Figure, Group, Report, Row, Run,
    advise::choices,
    cell_details::Cells,
    claims,
    facts::data_names,
    figures::{settings_of, shown_of},
    memory_breakdown::{MemoryTable, memory_table},
    row_notes,
    setting::{AccuracyVerdict, SettingResult},
    table::{Align, Column, Field, page_columns, published_baseline},
    tiles::{Tile, tiles},
    units,
    view::Suite,
};

#[derive(Serialize)]
struct Heading {
    title: String,
    below: &'static str,
    align: Align,
    role: &'static str,
    unit: Option<&'static str>,
}

#[derive(Serialize, Default)]
struct Line {
    class: String,
    fields: Vec<Field>,
    /// Label that distinguishes the setting from the others.
    label: String,
    /// Element to which the row links: the folded details of the setting.
    target: String,
    seeds: Vec<SeedCell>,
    /// `None` for published rows.
    data: Option<RowData>,
}

/// Cell of a setting under one seed.
#[derive(Serialize)]
struct SeedCell {
    id: String,
    seed: u64,
    command: String,
    /// Index of the details of the cell, as returned by [`Cells::add`].
    index: usize,
}

#[derive(Serialize)]
struct PublishedLines {
    name: String,
    hardware: String,
    lines: Vec<Line>,
}

#[derive(Serialize)]
struct GroupPage<'a> {
    workload: &'a str,
    /// Numbers of settings, processes and seeds: `12 of 18 settings ran, 3 processes each over 3 seeds`.
    measured: String,
    tiles: Vec<Tile>,
    answer: &'a [String],
    advice: Vec<WorkAdvicePage>,
    notes: &'a [String],
    headings: Vec<Heading>,
    lines: Vec<Line>,
    published: Vec<PublishedLines>,
    /// Number of rows shown out of all rows, if some are left out.
    capped: Option<String>,
    memory: Option<MemoryTable>,
    /// Number of cells and skip reason, shown instead of the table if all cells were skipped for the same reason.
    folded: Option<String>,
}

#[derive(Serialize)]
struct Source<'a> {
    source: &'a str,
    url: &'a str,
    hardware: &'a str,
    notes: &'a [String],
}

#[derive(Serialize)]
struct ClaimLine<'a> {
    says: &'a str,
    source: &'a str,
    url: &'a str,
    hardware: &'a str,
    /// CSS class: the verdict with dashes.
    class: String,
    verdict: &'a str,
    /// Names of the tests behind the verdict; empty without tests.
    tests: String,
    tested_as: &'a str,
    evidence: &'a [String],
    remarks: &'a [String],
}

#[derive(Serialize)]
pub(super) struct SuiteSection<'a> {
    anchor: String,
    title: &'a str,
    question: &'a str,
    analysis: Vec<&'a str>,
    /// Names of the data, separated by semicolons; empty without data.
    data: String,
    warnings: Vec<&'a Banner>,
    notes: Vec<&'a Banner>,
    claims: Vec<ClaimLine<'a>>,
    claims_note: String,
    groups: Vec<GroupPage<'a>>,
    figures: Vec<Picture<'a>>,
    folded: Vec<Picture<'a>>,
    references: Vec<Source<'a>>,
}

/// Returns the section of a suite. `root` is the path from the page to the folder of the report, with a slash unless it is empty.
pub(super) fn section<'r, 'a>(
    report: &'r Report<'a>,
    suite: &'r Suite<'a>,
    anchor: String,
    (root, figures): (&'static str, &'r [(&'r Figure, String)]),
    cells: &mut Cells,
) -> SuiteSection<'r> {
    let pictures = |folded: bool| {
        let these = figures.iter().filter(move |(figure, _)| {
            figure.suite.as_deref() == Some(&suite.info.name) && figure.folded == folded
        });
        these.map(|(figure, svg)| picture(figure, svg, root)).collect()
    };
    let paragraphs = suite
        .info
        .analysis
        .split("\n\n")
        .map(str::trim)
        .filter(|text| !text.is_empty());
    let sources = suite.references.iter().map(|reference| Source {
        source: &reference.source,
        url: &reference.url,
        hardware: &reference.hardware,
        notes: &reference.notes,
    });
    let (warnings, notes) = suite.banners.iter().partition(|banner| banner.level == "warning");
    SuiteSection {
        anchor,
        title: &suite.info.title,
        question: suite.info.question.trim(),
        analysis: paragraphs.collect(),
        data: data_names(suite).join("; "),
        warnings,
        notes,
        claims: suite.claims.iter().map(claim_line).collect(),
        claims_note: claims::note(report.run),
        groups: suite
            .groups
            .iter()
            .map(|group| group_page(report, suite, group, cells))
            .collect(),
        figures: pictures(false),
        folded: pictures(true),
        references: sources.collect(),
    }
}

fn claim_line<'a>(verdict: &'a ClaimVerdict<'_>) -> ClaimLine<'a> {
    let source = &verdict.claim.source;
    ClaimLine {
        says: &verdict.claim.says,
        source: &source.title,
        url: &source.url,
        hardware: source.hardware.as_deref().unwrap_or_default(),
        class: verdict.standing.name().replace(' ', "-"),
        verdict: &verdict.verdict,
        tests: verdict.tests.join("; "),
        tested_as: &verdict.tested_as,
        evidence: &verdict.evidence,
        remarks: &verdict.remarks,
    }
}

fn group_page<'r, 'a>(
    report: &'r Report<'a>,
    suite: &Suite<'a>,
    group: &'r Group<'a>,
    cells: &mut Cells,
) -> GroupPage<'r> {
    let shown = group.shown(report.rows_shown());
    let columns = page_columns(group);
    let headings = columns.iter().map(|column| {
        let (title, below) = column.title(group);
        Heading {
            title,
            below,
            align: column.align(),
            role: role(group, *column),
            unit: unit(*column),
        }
    });
    let choices = choices(group, &Budget::default());
    let alike = group.common_skip_reason();
    let mut lines = Vec::with_capacity(shown.len());
    for setting in &shown {
        let seeds: Vec<SeedCell> = setting
            .seeds
            .iter()
            .map(|row| seed_cell(report.run, row, cells))
            .collect();
        lines.push(Line {
            class: class(setting),
            fields: columns
                .iter()
                .map(|column| column.field(group, setting))
                .map(|field| match (field.status, alike) {
                    (true, Some(_)) => field.without_detail(),
                    (true, None) => verdict_field(setting, field),
                    (false, _) => field,
                })
                .collect(),
            label: group.setting_label(setting.row()),
            target: match seeds.as_slice() {
                [only] => format!("cell-{}", only.index),
                all => format!("setting-{}", all.first().map_or(0, |cell| cell.index)),
            },
            seeds,
            data: Some(RowData::of(group, setting)),
        });
    }
    let published = suite.references.iter().map(|reference| {
        let base = published_baseline(reference);
        let lines = reference.rows.iter().map(|row| Line {
            class: "published".to_owned(),
            fields: columns
                .iter()
                .map(|column: &Column| column.published(group, row, base))
                .collect(),
            ..Line::default()
        });
        PublishedLines {
            name: reference.title.clone(),
            hardware: reference.hardware.clone(),
            lines: lines.collect(),
        }
    });
    GroupPage {
        workload: group.workload,
        measured: measured(group),
        tiles: tiles(group, &choices, suite.groups.len() == 1),
        answer: &group.answer,
        advice: advice(report, suite, group, &choices),
        notes: &group.notes,
        headings: headings.collect(),
        lines,
        published: published.collect(),
        capped: shown_of(shown.len(), group.comparisons.len()),
        memory: memory_table(group, &shown),
        folded: alike.map(|why| {
            format!(
                "{}, all skipped: {why}",
                settings_of(shown.len(), group.comparisons.len())
            )
        }),
    }
}

/// Returns the field of the verdict with shortened notes, which keep the table narrow, and with the largest loss of accuracy that is not
/// excluded.
fn verdict_field(setting: &SettingResult<'_, '_>, field: Field) -> Field {
    let notes = match setting.seeds.as_slice() {
        [only] => &only.notes[..],
        _ => &[],
    };
    let notes: Vec<&str> = notes.iter().map(|note| row_notes::shortened(note)).collect();
    Field {
        detail: setting.remark(),
        ..field
    }
    .append_detail(&notes.join(", "))
    .append_detail(&setting.loss_not_excluded().unwrap_or_default())
}

/// Counts the settings that ran, their seeds and their processes.
fn measured(group: &Group<'_>) -> String {
    let settings = SettingResult::all(group, |_| true);
    let ran: Vec<_> = settings
        .iter()
        .filter(|setting| setting.processes() > 0)
        .collect();
    let (fewest, most) = (
        ran.iter().map(|setting| setting.processes()).min().unwrap_or(0),
        ran.iter().map(|setting| setting.processes()).max().unwrap_or(0),
    );
    let seeds = ran.iter().map(|setting| setting.seeds.len()).max().unwrap_or(0);
    let counts = match (fewest, most) {
        (0, _) => return format!("none of {} ran", settings_of(settings.len(), settings.len())),
        (1, 1) => "1 process each".to_owned(),
        (fewest, most) if fewest == most => format!("{most} processes each"),
        (fewest, most) => format!("{fewest} to {most} processes each"),
    };
    let of_seeds = if seeds > 1 {
        format!(" over {seeds} seeds")
    } else {
        String::new()
    };
    let settings = match (ran.len(), settings.len()) {
        (some, all) if some < all => format!("{some} of {} settings ran", units::count(all as u64)),
        (_, all) => settings_of(all, all),
    };
    format!("{settings}, {counts}{of_seeds}")
}

fn seed_cell(run: &Run, row: &Row<'_>, cells: &mut Cells) -> SeedCell {
    SeedCell {
        id: row.cell.id.to_string(),
        seed: row.cell.seed,
        command: row.command().unwrap_or_default().to_owned(),
        index: cells.add(run, row),
    }
}

/// Returns the CSS classes of a setting: the status of the first seed that did not finish, or else of the first seed, and the verdict if the
/// accuracy is lost or if the setting is as good as the baseline.
fn class(setting: &SettingResult<'_, '_>) -> String {
    let unfinished = setting.seeds.iter().find(|row| !row.is_ok());
    let status = unfinished.map_or(Status::Ok, |row| row.status.unwrap_or(Status::Skipped));
    let is_unexpected = setting.seeds.iter().any(|row| !row.unexpected.is_empty());
    let unexpected = if is_unexpected { " unexpected" } else { "" };
    let verdict = match setting.accuracy_verdict() {
        Some(AccuracyVerdict::Lost) => " lost",
        _ if is_as_good(setting) => " good",
        _ => "",
    };
    format!("{}{unexpected}{verdict}", status.name())
}

/// Returns `true` if a setting finished and every test of it shows that it is at least as good as the baseline: faster or equally fast, with
/// the accuracy kept.
fn is_as_good(setting: &SettingResult<'_, '_>) -> bool {
    let speed = setting.tested_speed_verdict();
    let speed = speed.map(|verdict| matches!(verdict, Verdict::Improved | Verdict::Unchanged));
    let accuracy = setting.accuracy_verdict();
    let accuracy = accuracy.map(|verdict| verdict == AccuracyVerdict::Kept);
    let tests: Vec<bool> = speed.into_iter().chain(accuracy).collect();
    setting.failure().is_none() && !tests.is_empty() && !tests.contains(&false)
}
