//! Pages of a report: self-contained files for light and dark screens.

mod advice;
mod formats;
mod row_data;
mod suite;

use mantissa_core::command_line;
use minijinja::{Environment, HtmlEscape, Value, value::Serde};
use serde::Serialize;

use self::{
    formats::{FormatLine, finfo},
    suite::{SuiteSection, section},
};
use crate::{
    Banner, Figure, Report, ReportError, Suite,
    banner::{short_machine, this_machine},
    cell_details::Cells,
    facts::facts,
    figures::font_faces,
    more_repeats::{MoreRepeats, more_repeats},
    overview::{Overview, OverviewPage},
    pages::{Layout, OVERVIEW_LINK, PageFiles, suite_anchor},
    units,
};

/// Script of all pages.
pub(crate) const SCRIPT: &str = concat!(
    include_str!("../../assets/copy.js"),
    include_str!("../../assets/table.js"),
    include_str!("../../assets/page.js")
);

/// A figure on a page.
#[derive(Serialize)]
pub(crate) struct Picture<'a> {
    id: &'a str,
    caption: &'a str,
    workload: Option<&'a str>,
    /// Values of the marks, for readers who cannot see the figure.
    values: String,
    svg: &'a str,
    /// Path from the page to the folder of the report, with a slash unless it is empty.
    root: &'static str,
}

/// Link to a suite on the page, with the certainty of its result.
#[derive(Serialize)]
struct SuiteLink<'a> {
    anchor: String,
    title: &'a str,
    certainty: &'static str,
    /// CSS class.
    class: &'static str,
}

#[derive(Serialize, Default)]
struct Page<'a> {
    css: String,
    js: &'static str,
    name: &'a str,
    /// Title of the suite, if the page has only one of several suites.
    suite_title: Option<&'a str>,
    /// Link to the overview on another page.
    overview_link: Option<&'static str>,
    /// Path from the page to the folder of the report, with a slash unless it is empty.
    root: &'static str,
    machine: String,
    /// Name of the machine for the title.
    short_machine: String,
    backend: &'static str,
    profile: &'static str,
    started: &'a str,
    banners: &'a [Banner],
    tally: String,
    capped: bool,
    overview: Option<OverviewPage<'a>>,
    contents: Vec<SuiteLink<'a>>,
    suites: Vec<SuiteSection<'a>>,
    more_repeats: Option<MoreRepeats>,
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

/// Renders a report as one page, which begins with an overview if the run has several suites. `figures` contains each figure with its SVG.
pub fn html(report: &Report<'_>, figures: &[(&Figure, String)]) -> Result<String, ReportError> {
    let files = PageFiles::new(report, Layout::SingleFile);
    Pages::new(report, &Overview::new(report), &files, figures)?.first()
}

/// Renderer of the pages of a report.
pub(crate) struct Pages<'r, 'a> {
    report: &'r Report<'a>,
    overview: &'r Overview,
    files: &'r PageFiles,
    figures: &'r [(&'r Figure, String)],
    environment: Environment<'static>,
}

impl<'r, 'a> Pages<'r, 'a> {
    pub fn new(
        report: &'r Report<'a>,
        overview: &'r Overview,
        files: &'r PageFiles,
        figures: &'r [(&'r Figure, String)],
    ) -> Result<Self, ReportError> {
        let mut environment = Environment::new();
        add_macros(&mut environment)?;
        environment.add_template("overview.html", include_str!("../../assets/overview.html"))?;
        environment.add_template("page.html", include_str!("../../assets/page.html"))?;
        Ok(Self {
            report,
            overview,
            files,
            figures,
            environment,
        })
    }

    /// Renders the page of [`PageFiles::first`].
    pub fn first(&self) -> Result<String, ReportError> {
        let run = self.report.run;
        let suites = match self.files.suites() {
            [] => self.report.suites.iter().enumerate().collect(),
            _ => Vec::new(),
        };
        let formats = self.figures.iter().find(|(figure, _)| figure.suite.is_none());
        let page = Page {
            overview: (self.report.suites.len() > 1).then(|| self.overview.page(self.files)),
            formats: formats.map(|(figure, svg)| picture(figure, svg, "")),
            finfo: finfo(),
            environment: facts(run),
            missing: &run.environment.missing,
            missing_samples: &run.missing_samples,
            command: command_line(&run.environment.command),
            tally: tally(&self.report.suites),
            ..self.page(suites, "")?
        };
        self.render(&page)
    }

    /// Renders the page of a suite in a folder of its own.
    pub fn suite(&self, index: usize) -> Result<String, ReportError> {
        let suite = &self.report.suites[index];
        let page = Page {
            suite_title: Some(&suite.info.title),
            overview_link: Some(OVERVIEW_LINK),
            tally: tally(std::slice::from_ref(suite)),
            ..self.page(vec![(index, suite)], "../")?
        };
        self.render(&page)
    }

    /// Returns a page with some suites.
    fn page(&self, suites: Vec<(usize, &'r Suite<'a>)>, root: &'static str) -> Result<Page<'r>, ReportError> {
        let (report, run) = (self.report, self.report.run);
        let mut cells = Cells::default();
        let groups = suites.iter().flat_map(|(_, suite)| &suite.groups);
        let capped = groups
            .into_iter()
            .any(|group| group.comparisons.len() > report.rows_shown());
        let contents = suites.iter().map(|(index, suite)| {
            let certainty = self.overview.certainty(*index);
            SuiteLink {
                anchor: suite_anchor(*index),
                title: &suite.info.title,
                certainty: certainty.name(),
                class: certainty.class(),
            }
        });
        let contents = contents.collect();
        // The page of the overview alone has no suite, and covers all of them.
        let shown: Vec<&Suite<'_>> = match suites.as_slice() {
            [] => report.suites.iter().collect(),
            suites => suites.iter().map(|(_, suite)| *suite).collect(),
        };
        let more_repeats = more_repeats(report, &shown);
        let sections = suites.into_iter().map(|(index, suite)| {
            let anchor = suite_anchor(index);
            section(report, suite, anchor, (root, self.figures), &mut cells)
        });
        let suites = sections.collect();
        Ok(Page {
            css: font_faces() + include_str!("../../assets/page.css"),
            js: SCRIPT,
            name: &run.name,
            root,
            machine: this_machine(run),
            short_machine: short_machine(run),
            backend: run.environment.backend.name(),
            profile: run.plan.profile.name(),
            started: &run.environment.started,
            banners: &report.banners,
            capped,
            contents,
            suites,
            more_repeats,
            cells: cells.json().map_err(ReportError::Cells)?,
            version: &run.environment.fingerprint.mantissa,
            ..Page::default()
        })
    }

    fn render(&self, page: &Page<'_>) -> Result<String, ReportError> {
        Ok(self.environment.get_template("page.html")?.render(Serde(page))?)
    }
}

/// Adds the macros and the filter that all pages use.
pub(crate) fn add_macros(environment: &mut Environment<'_>) -> Result<(), minijinja::Error> {
    environment.add_filter("code", code);
    environment.add_template("macros.html", include_str!("../../assets/macros.html"))
}

/// Escapes text, and renders the parts in backticks as code.
fn code(text: &str) -> Value {
    let mut parts = text.split('`').map(|part| HtmlEscape(part).to_string());
    let mut html = parts.next().unwrap_or_default();
    while let Some(marked) = parts.next() {
        match parts.next() {
            Some(after) => html.push_str(&format!("<code>{marked}</code>{after}")),
            None => html.push_str(&format!("`{marked}")),
        }
    }
    Value::from_safe_string(html)
}

/// Returns a figure for a page; `root` is the path from the page to the folder of the report.
pub(crate) fn picture<'a>(figure: &'a Figure, svg: &'a str, root: &'static str) -> Picture<'a> {
    Picture {
        id: &figure.id,
        caption: &figure.caption,
        workload: figure.workload.as_deref(),
        values: figure.canvas.values(),
        svg,
        root,
    }
}

/// Counts the rows of suites by status: `12 ok · 1 diverged · 3 skipped`.
fn tally(suites: &[Suite<'_>]) -> String {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    let groups = suites.iter().flat_map(|suite| &suite.groups);
    for row in groups.flat_map(|group| &group.rows) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_backticks_is_code_and_everything_is_escaped() {
        let cases = [
            ("no mark", "no mark"),
            ("pass `--init random`", "pass <code>--init random</code>"),
            ("`a` and `b`", "<code>a</code> and <code>b</code>"),
            ("one ` alone", "one ` alone"),
            ("`a` and ` alone", "<code>a</code> and ` alone"),
            (
                "`<b>` & \"c\" 'd'",
                "<code>&lt;b&gt;</code> &amp; &quot;c&quot; &#x27;d&#x27;",
            ),
            ("", ""),
        ];
        for (text, html) in cases {
            assert_eq!(code(text).to_string(), html);
        }
    }
}
