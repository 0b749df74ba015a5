//! `report.html`: one self-contained file for light and dark screens.

use mantissa_core::{FloatClass, Format, Status, command_line};
use minijinja::{Environment, value::Serde};
use serde::Serialize;

use crate::{
    Banner, ClaimVerdict, Figure, Group, Report, ReportError, Row, Run,
    banner::this_machine,
    cell_details::Cells,
    claims,
    facts::facts,
    figures::{font_faces, settings_of, shown_of},
    memory_breakdown::{MemoryTable, memory_table},
    setting::SettingResult,
    table::{Align, Column, Field, columns, published_baseline},
    units,
    view::Suite,
};

#[derive(Serialize)]
struct Heading {
    title: String,
    below: &'static str,
    align: Align,
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
    answer: &'a [String],
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
pub(crate) struct Picture<'a> {
    id: &'a str,
    caption: &'a str,
    svg: &'a str,
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
struct SuitePage<'a> {
    anchor: String,
    title: &'a str,
    question: &'a str,
    analysis: Vec<&'a str>,
    banners: &'a [Banner],
    claims: Vec<ClaimLine<'a>>,
    claims_heading: String,
    groups: Vec<GroupPage<'a>>,
    figures: Vec<Picture<'a>>,
    folded: Vec<Picture<'a>>,
    references: Vec<Source<'a>>,
}

#[derive(Serialize)]
struct Page<'a> {
    css: String,
    js: &'static str,
    name: &'a str,
    machine: String,
    backend: &'static str,
    profile: &'static str,
    started: &'a str,
    banners: &'a [Banner],
    tally: String,
    capped: bool,
    suites: Vec<SuitePage<'a>>,
    /// JSON, escaped for a script element.
    cells: String,
    formats: Option<Picture<'a>>,
    finfo: Vec<FormatLine>,
    environment: Vec<(&'static str, String)>,
    missing: &'a [String],
    missing_samples: &'a [String],
    command: String,
    version: &'a str,
}

/// Renders the page. `figures` contains each figure with its SVG.
pub fn html(report: &Report<'_>, figures: &[(&Figure, String)]) -> Result<String, ReportError> {
    let run = report.run;
    let mut cells = Cells::default();
    let suites = report.suites.iter().enumerate();
    let suites = suites
        .map(|(index, suite)| suite_page(report, suite, index, figures, &mut cells))
        .collect();
    let page = Page {
        css: font_faces() + include_str!("../assets/page.css"),
        js: include_str!("../assets/page.js"),
        name: &run.name,
        machine: this_machine(run),
        backend: run.environment.backend.name(),
        profile: run.plan.profile.name(),
        started: &run.environment.started,
        banners: &report.banners,
        tally: tally(report),
        capped: report
            .suites
            .iter()
            .flat_map(|suite| &suite.groups)
            .any(|group| group.comparisons.len() > report.rows_shown()),
        suites,
        cells: cells.json().map_err(ReportError::Cells)?,
        formats: figures
            .iter()
            .find(|(figure, _)| figure.suite.is_none())
            .map(|(figure, svg)| picture(figure, svg)),
        finfo: finfo(),
        environment: facts(run),
        missing: &run.environment.missing,
        missing_samples: &run.missing_samples,
        command: command_line(&run.environment.command),
        version: &run.environment.fingerprint.mantissa,
    };
    let mut environment = Environment::new();
    add_macros(&mut environment)?;
    environment.add_template("page.html", include_str!("../assets/page.html"))?;
    Ok(environment.get_template("page.html")?.render(Serde(&page))?)
}

/// Adds the macros that all pages use.
pub(crate) fn add_macros(environment: &mut Environment<'_>) -> Result<(), minijinja::Error> {
    environment.add_template("macros.html", include_str!("../assets/macros.html"))
}

pub(crate) fn picture<'a>(figure: &'a Figure, svg: &'a str) -> Picture<'a> {
    Picture {
        id: &figure.id,
        caption: &figure.caption,
        svg,
    }
}

fn suite_page<'a>(
    report: &Report<'_>,
    suite: &'a Suite<'_>,
    index: usize,
    figures: &'a [(&'a Figure, String)],
    cells: &mut Cells,
) -> SuitePage<'a> {
    let pictures = |folded: bool| {
        let these = figures.iter().filter(move |(figure, _)| {
            figure.suite.as_deref() == Some(&suite.info.name) && figure.folded == folded
        });
        these.map(|(figure, svg)| picture(figure, svg)).collect()
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
    SuitePage {
        anchor: format!("suite-{index}"),
        title: &suite.info.title,
        question: suite.info.question.trim(),
        analysis: paragraphs.collect(),
        banners: &suite.banners,
        claims: suite.claims.iter().map(claim_line).collect(),
        claims_heading: claims::heading(report.run),
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

fn group_page<'a>(
    report: &Report<'_>,
    suite: &Suite<'_>,
    group: &'a Group<'_>,
    cells: &mut Cells,
) -> GroupPage<'a> {
    let shown = group.shown(report.rows_shown());
    let columns = columns(group);
    let headings = columns.iter().map(|column| {
        let (title, below) = column.title(group);
        Heading {
            title,
            below,
            align: column.align(),
        }
    });
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
                .map(|field| match field.status && alike.is_some() {
                    true => field.without_detail(),
                    false => field,
                })
                .collect(),
            label: group.setting_label(setting.row()),
            target: match seeds.as_slice() {
                [only] => format!("cell-{}", only.index),
                all => format!("setting-{}", all.first().map_or(0, |cell| cell.index)),
            },
            seeds,
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
        answer: &group.answer,
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

fn seed_cell(run: &Run, row: &Row<'_>, cells: &mut Cells) -> SeedCell {
    SeedCell {
        id: row.cell.id.to_string(),
        seed: row.cell.seed,
        command: row.command().unwrap_or_default().to_owned(),
        index: cells.add(run, row),
    }
}

/// Returns the CSS classes of a setting: the status of the first seed that did not finish, or else of the first seed.
fn class(setting: &SettingResult<'_, '_>) -> String {
    let unfinished = setting.seeds.iter().find(|row| !row.is_ok());
    let status = unfinished.map_or(Status::Ok, |row| row.status.unwrap_or(Status::Skipped));
    let is_unexpected = setting.seeds.iter().any(|row| !row.unexpected.is_empty());
    let unexpected = if is_unexpected { " unexpected" } else { "" };
    format!("{}{unexpected}", status.name())
}

/// Counts the rows by status: `12 ok · 1 diverged · 3 skipped`.
fn tally(report: &Report<'_>) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for (_, row) in report.rows() {
        let name = row.status_name();
        match counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => counts.push((name, 1)),
        }
    }
    let texts = counts
        .into_iter()
        .map(|(name, count)| format!("{} {name}", units::count(count as u64)));
    texts.collect::<Vec<_>>().join(" · ")
}

#[derive(Serialize)]
struct FormatLine {
    name: &'static str,
    fields: Vec<String>,
}

/// Returns a line per number format: its sizes, its limits, and the results of rounding three numbers to it.
fn finfo() -> Vec<FormatLine> {
    let rounded_text = |format: Format, x: f64| match format.round(x) {
        rounded if rounded.class == FloatClass::Overflow => "overflow".to_owned(),
        rounded if rounded.class == FloatClass::Underflow => "0".to_owned(),
        rounded if rounded.value < 1e-3 => units::scientific(rounded.value),
        rounded => rounded.value.to_string(),
    };
    let line = |&format: &Format| {
        let counts = [
            format.bits(),
            format.significand_bits(),
            format.exponent_bits(),
            format.decimal_digits(),
        ];
        let limits = [
            format.max_finite(),
            format.min_normal(),
            format.min_subnormal(),
            format.epsilon(),
        ];
        let mut fields: Vec<String> = counts.iter().map(ToString::to_string).collect();
        fields.extend(limits.map(units::limit));
        fields.extend([1.0 / 3.0, 1e6, 1e-8].map(|x| rounded_text(format, x)));
        FormatLine {
            name: format.name(),
            fields,
        }
    };
    Format::ALL.iter().map(line).collect()
}
