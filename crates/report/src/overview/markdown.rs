//! Overview as GitHub-flavoured Markdown.

use std::iter;

use super::{
    Overview,
    matrix::{DIFFERS, Matrix},
    suite_answer::{KEEP_NOTE, SuiteAnswer},
};
use crate::{
    markdown::{escape, paragraph, row},
    pages::PageFiles,
};

/// Appends the overview with links to the pages of the suites.
pub(crate) fn markdown(out: &mut String, overview: &Overview, files: &PageFiles) {
    for advice in &overview.advice {
        let text = escape(&format!("{} ({})", advice.text, advice.certainty));
        out.push_str(&format!("- **{}**: {text}\n", advice.task));
    }
    if !overview.advice.is_empty() {
        out.push('\n');
    }
    if !overview.suites.is_empty() {
        suites(out, &overview.suites, files);
    }
    for group in &overview.skipped {
        let names = group.suites.iter().map(|(_, name)| escape(name));
        let names = names.collect::<Vec<_>>().join(", ");
        paragraph(out, &format!("Skipped: {names} ({}).", escape(&group.needs)));
    }
    if let Some(matrix) = &overview.matrix {
        table(out, matrix);
    }
}

fn suites(out: &mut String, suites: &[SuiteAnswer], files: &PageFiles) {
    let titles = ["suite", "question", "result", "effect", "certainty"];
    row(out, titles.map(str::to_owned).into_iter());
    row(out, ["---"; 5].map(str::to_owned).into_iter());
    for suite in suites {
        let effect = suite.effect.as_ref().map(|effect| {
            let parts = [
                effect.setting.clone(),
                effect.speed_text(),
                effect.other_effects(),
            ];
            let known = parts.into_iter().filter(|part| !part.is_empty());
            known.collect::<Vec<_>>().join(", ")
        });
        let fields = [
            format!("[{}]({})", escape(&suite.name), files.link(suite.suite)),
            escape(&suite.question),
            escape(&suite.sentence),
            escape(&effect.unwrap_or_default()),
            suite.certainty.name().to_owned(),
        ];
        row(out, fields.into_iter());
    }
    out.push('\n');
    paragraph(out, KEEP_NOTE);
}

fn table(out: &mut String, matrix: &Matrix) {
    let titles = matrix.columns.iter().map(|column| escape(column.title));
    row(out, iter::once("setting".to_owned()).chain(titles));
    let sides = matrix.columns.iter().map(|_| "---:".to_owned());
    row(out, iter::once("---".to_owned()).chain(sides));
    for (setting, fields) in &matrix.rows {
        let fields = fields.iter().map(|field| {
            let mark = if field.differs { DIFFERS } else { "" };
            format!("{}{mark}", escape(&field.text))
        });
        row(out, iter::once(escape(setting)).chain(fields));
    }
    out.push('\n');
    let sources = matrix
        .columns
        .iter()
        .map(|column| format!("{}: {}", column.title, escape(&column.source)));
    let sources = sources.collect::<Vec<_>>().join("; ");
    let mark = match matrix.has_mark() {
        true => " † another precision was executed than requested.",
        false => "",
    };
    paragraph(
        out,
        &format!("Ratios are relative to the baseline. Workloads: {sources}.{mark}"),
    );
}
