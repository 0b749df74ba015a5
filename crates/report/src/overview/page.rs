//! Overview as shown on a page.

use serde::Serialize;

use super::{
    Overview,
    format_advice::tally,
    matrix::{DIFFERS, Matrix, MatrixField},
    suite_answer::{Certainty, KEEP_NOTE, SuiteAnswer},
};
use crate::pages::PageFiles;

/// Overview as shown on a page.
#[derive(Debug, Serialize)]
pub(crate) struct OverviewPage<'a> {
    advice: Vec<AdviceLine<'a>>,
    tally: String,
    suites: Vec<SuiteLine<'a>>,
    keep_note: &'static str,
    skipped: Vec<SkippedLine<'a>>,
    matrix: Option<MatrixTable<'a>>,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct AdviceLine<'a> {
    task: &'a str,
    text: &'a str,
    certainty: &'a str,
}

#[derive(Debug, Serialize)]
struct SuiteLine<'a> {
    name: &'a str,
    title: &'a str,
    link: String,
    question: &'a str,
    data: &'a str,
    sentence: &'a str,
    effect: String,
    /// Setting and other effects.
    effect_detail: String,
    certainty: &'static str,
    /// CSS class.
    class: &'static str,
}

#[derive(Debug, Serialize)]
struct SkippedLine<'a> {
    /// Names and links.
    suites: Vec<(&'a str, String)>,
    needs: &'a str,
}

#[derive(Debug, Serialize)]
struct MatrixTable<'a> {
    columns: Vec<MatrixHeading<'a>>,
    rows: Vec<(&'a str, Vec<Field<'a>>)>,
    has_mark: bool,
}

#[derive(Debug, Serialize)]
struct MatrixHeading<'a> {
    title: &'a str,
    source: &'a str,
    link: String,
}

#[derive(Debug, Serialize)]
struct Field<'a> {
    text: &'a str,
    mark: &'static str,
    status: &'static str,
}

impl Overview {
    /// Returns the overview for a page, with links to the pages or sections of the suites.
    pub fn page(&self, files: &PageFiles) -> OverviewPage<'_> {
        let skipped = self.skipped.iter().map(|group| SkippedLine {
            suites: group
                .suites
                .iter()
                .map(|(index, name)| (name.as_str(), files.suite_link(*index)))
                .collect(),
            needs: &group.needs,
        });
        OverviewPage {
            advice: self
                .advice
                .iter()
                .map(|advice| AdviceLine {
                    task: advice.task,
                    text: &advice.text,
                    certainty: &advice.certainty,
                })
                .collect(),
            tally: self.tally(),
            suites: self.suites.iter().map(|suite| suite_line(suite, files)).collect(),
            keep_note: KEEP_NOTE,
            skipped: skipped.collect(),
            matrix: self.matrix.as_ref().map(|matrix| matrix_table(matrix, files)),
            warnings: self.warning_texts().collect(),
        }
    }

    /// Counts the suites by certainty, those that were skipped as not measured: `1 repeated, 2 measured once`.
    pub(super) fn tally(&self) -> String {
        let skipped = self.skipped.iter().flat_map(|group| &group.suites);
        let skipped = skipped.map(|_| Certainty::NotMeasured);
        tally(self.suites.iter().map(|suite| suite.certainty).chain(skipped))
    }
}

fn suite_line<'a>(suite: &'a SuiteAnswer, files: &PageFiles) -> SuiteLine<'a> {
    let effect = suite.effect.as_ref();
    let detail = effect.map(|effect| {
        let parts = [effect.setting.clone(), effect.other_effects()];
        let known = parts.into_iter().filter(|part| !part.is_empty());
        known.collect::<Vec<_>>().join(": ")
    });
    SuiteLine {
        name: &suite.name,
        title: &suite.title,
        link: files.suite_link(suite.suite),
        question: &suite.question,
        data: &suite.data,
        sentence: &suite.sentence,
        effect: effect.map(|effect| effect.speed_text()).unwrap_or_default(),
        effect_detail: detail.unwrap_or_default(),
        certainty: suite.certainty.name(),
        class: suite.certainty.class(),
    }
}

fn matrix_table<'a>(matrix: &'a Matrix, files: &PageFiles) -> MatrixTable<'a> {
    let columns = matrix.columns.iter().map(|column| MatrixHeading {
        title: column.title,
        source: &column.source,
        link: files.suite_link(column.suite),
    });
    let field = |field: &'a MatrixField| Field {
        text: &field.text,
        mark: if field.differs { DIFFERS } else { "" },
        status: field.status.unwrap_or_default(),
    };
    let rows = matrix.rows.iter();
    let rows = rows.map(|(setting, fields)| (setting.as_str(), fields.iter().map(field).collect()));
    MatrixTable {
        columns: columns.collect(),
        rows: rows.collect(),
        has_mark: matrix.has_mark(),
    }
}
