//! Renders `side-by-side.html`, a self-contained page with light and dark themes.

use mantissa_core::command_line;
use minijinja::{Environment, value::Serde};
use serde::Serialize;

use super::{
    fields::{Heading, fields, headings},
    matching::letter,
    view::{Comparison, RunComparison},
};
use crate::{
    Banner, Figure, ReportError,
    banner::this_machine,
    figures::{font_faces, shown_of},
    html::{Picture, SCRIPT, add_macros, picture},
    table::Field,
};

#[derive(Serialize)]
pub(super) struct RunFacts<'a> {
    pub letter: char,
    pub name: &'a str,
    pub machine: String,
    pub backend: &'static str,
    pub profile: &'static str,
    pub started: &'a str,
    pub command: String,
}

/// Returns the facts at the top of the page, one item per run.
pub(super) fn runs<'r>(comparison: &'r RunComparison<'_, '_>) -> Vec<RunFacts<'r>> {
    let facts = |(index, report): (usize, &'r crate::Report<'_>)| RunFacts {
        letter: letter(index),
        name: &report.run.name,
        machine: this_machine(report.run),
        backend: report.run.environment.backend.name(),
        profile: report.run.plan.profile.name(),
        started: &report.run.environment.started,
        command: command_line(&report.run.environment.command),
    };
    comparison.reports.iter().enumerate().map(facts).collect()
}

/// A group heading that spans several columns.
#[derive(Serialize)]
struct Span {
    run: String,
    columns: usize,
}

#[derive(Serialize)]
struct TablePage<'a> {
    anchor: String,
    title: &'a str,
    question: &'a str,
    answer: &'a [String],
    notes: &'a [String],
    spans: Vec<Span>,
    headings: Vec<Heading>,
    lines: Vec<Vec<Field>>,
    capped: Option<String>,
    figure: Option<Picture<'a>>,
}

#[derive(Serialize)]
struct Page<'a> {
    css: String,
    js: &'static str,
    version: &'static str,
    banners: &'a [Banner],
    runs: Vec<RunFacts<'a>>,
    shared: &'a [(&'static str, String)],
    differing: &'a [(&'static str, Vec<String>)],
    tables: Vec<TablePage<'a>>,
    alone: &'a [String],
}

/// Renders the page, with a figure for each table that has one.
pub(super) fn html(
    comparison: &RunComparison<'_, '_>,
    figures: &[Option<(Figure, String)>],
) -> Result<String, ReportError> {
    let tables = comparison.tables.iter().zip(figures).enumerate();
    let page = Page {
        css: font_faces() + include_str!("../../assets/page.css"),
        js: SCRIPT,
        version: env!("CARGO_PKG_VERSION"),
        banners: &comparison.banners,
        runs: runs(comparison),
        shared: &comparison.environments.shared,
        differing: &comparison.environments.differing,
        tables: tables
            .map(|(index, (table, figure))| table_page(table, index, figure.as_ref()))
            .collect(),
        alone: &comparison.only_in_one_run,
    };
    let mut environment = Environment::new();
    add_macros(&mut environment)?;
    environment.add_template(
        "side_by_side.html",
        include_str!("../../assets/side_by_side.html"),
    )?;
    Ok(environment
        .get_template("side_by_side.html")?
        .render(Serde(&page))?)
}

fn table_page<'a>(
    table: &'a Comparison<'_, '_>,
    index: usize,
    figure: Option<&'a (Figure, String)>,
) -> TablePage<'a> {
    let headings = headings(table);
    let mut spans: Vec<Span> = Vec::new();
    for heading in &headings {
        match spans.last_mut() {
            Some(span) if span.run == heading.run => span.columns += 1,
            _ => spans.push(Span {
                run: heading.run.clone(),
                columns: 1,
            }),
        }
    }
    let shown = table.shown();
    TablePage {
        anchor: format!("table-{index}"),
        title: &table.title,
        question: table.question,
        answer: &table.answer,
        notes: &table.notes,
        spans,
        lines: shown.iter().map(|line| fields(table, line)).collect(),
        headings,
        capped: shown_of(shown.len(), table.lines.len()),
        figure: figure.map(|(figure, svg)| picture(figure, svg, "")),
    }
}
