//! Renders `side-by-side.md` for pull requests and chats.

use std::iter;

use super::{
    fields::{fields, headings},
    html::runs,
    view::{Comparison, RunComparison},
};
use crate::{
    figures::shown_of,
    markdown::{banners, escape, field_text, paragraph, row},
    table::Align,
};

/// Renders the comparison as GitHub-flavoured Markdown.
pub(super) fn markdown(comparison: &RunComparison<'_, '_>) -> String {
    let mut out = "# Side by side\n\n".to_owned();
    for run in runs(comparison) {
        let facts = [
            run.machine.as_str(),
            &format!("{} backend", run.backend),
            &format!("profile {}", run.profile),
            run.started,
        ];
        let facts = escape(&facts.join(" · "));
        out += &format!("- **{}** {}: {facts}\n", run.letter, escape(run.name));
    }
    out.push('\n');
    banners(&mut out, &comparison.banners);
    environment(&mut out, comparison);
    for of_workload in &comparison.tables {
        table(&mut out, of_workload);
    }
    if !comparison.only_in_one_run.is_empty() {
        paragraph(&mut out, "## Settings in only one run");
        for text in &comparison.only_in_one_run {
            out += &format!("- {}\n", escape(text));
        }
    }
    out.truncate(out.trim_end().len());
    out.push('\n');
    out
}

fn environment(out: &mut String, comparison: &RunComparison<'_, '_>) {
    let runs = runs(comparison);
    if !comparison.environments.differing.is_empty() {
        row(
            out,
            iter::once("differs".to_owned()).chain(runs.iter().map(|run| run.letter.to_string())),
        );
        row(out, iter::repeat_n("---".to_owned(), 1 + runs.len()));
        for (name, values) in &comparison.environments.differing {
            row(
                out,
                iter::once(*name)
                    .chain(values.iter().map(String::as_str))
                    .map(escape),
            );
        }
        out.push('\n');
    }
    let shared = comparison.environments.shared.iter();
    let shared: Vec<String> = shared
        .map(|(name, value)| format!("{name} {}", escape(value)))
        .collect();
    paragraph(out, &format!("Same in all runs: {}.", shared.join("; ")));
}

fn table(out: &mut String, table: &Comparison<'_, '_>) {
    paragraph(out, &format!("## {}", escape(&table.title)));
    paragraph(out, &format!("*{}*", escape(table.question)));
    paragraph(out, &escape(&table.answer.join(" ")));
    let shown = table.shown();
    if let Some(text) = shown_of(shown.len(), table.lines.len()) {
        paragraph(
            out,
            &format!("The table is {text} settings; `results.csv` of each run contains all of them."),
        );
    }
    let headings = headings(table);
    let titles = headings.iter().map(|heading| {
        let title = match heading.run.as_str() {
            "" => heading.title.clone(),
            run => format!("{run}: {}", heading.title),
        };
        match heading.below.as_str() {
            "" => title,
            below => format!("{title} ({below})"),
        }
    });
    row(out, titles.map(|title| escape(&title)));
    let alignments = headings.iter().map(|heading| match heading.align {
        Align::Right => "---:",
        Align::Left => "---",
    });
    row(out, alignments.map(str::to_owned));
    for entries in shown {
        row(out, fields(table, entries).iter().map(field_text));
    }
    out.push('\n');
    paragraph(out, &escape(&table.notes.join(" ")));
}
