//! Renders the trend page, a self-contained file with light and dark themes.

use minijinja::{Environment, value::Serde};
use serde::Serialize;

use super::{
    figure,
    view::{Direction, TrendChangePoint, TrendLine, Trends},
};
use crate::{
    Align, ReportError, digits,
    figures::font_faces,
    html::{SCRIPT, add_macros},
    units,
};

/// Maximum number of figures on a page. The most severe trends are drawn.
const MAX_FIGURES: usize = 40;

#[derive(Serialize)]
struct Heading {
    title: &'static str,
    below: &'static str,
    align: Align,
}

/// Field as expected by the macro shared by all pages.
#[derive(Serialize, Default)]
struct Field {
    text: String,
    detail: String,
    sort: Option<f64>,
    status: bool,
    /// CSS class of a status.
    class: &'static str,
}

#[derive(Serialize)]
struct FigurePage {
    id: String,
    caption: String,
    svg: String,
    values: String,
}

#[derive(Serialize)]
struct Page<'a> {
    css: String,
    js: &'static str,
    version: &'static str,
    name: &'a str,
    facts: Vec<String>,
    answer: Vec<String>,
    figures: Vec<FigurePage>,
    left_out: Option<String>,
    headings: Vec<Heading>,
    lines: Vec<Vec<Field>>,
}

impl Trends {
    /// Renders the page: the summary, a figure for each of the most severe trends with a change point, and a table of all trends.
    ///
    /// # Errors
    /// Fails if a figure cannot be drawn or a template fails, both of which are bugs.
    pub fn html(&self) -> Result<String, ReportError> {
        let many = self.many_machines();
        let mut lines: Vec<&TrendLine> = self.lines.iter().collect();
        lines.sort_by(|a, b| a.by_severity(b));
        let changed = lines.iter().filter(|line| !line.turns.is_empty());
        let all = changed.clone().count();
        let figures = changed
            .take(MAX_FIGURES)
            .enumerate()
            .filter_map(|(index, line)| figure_page(index, line, many).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        let page = Page {
            css: font_faces() + include_str!("../../assets/page.css"),
            js: SCRIPT,
            version: env!("CARGO_PKG_VERSION"),
            name: &self.name,
            facts: self.facts(),
            answer: self.answer(),
            left_out: (all > MAX_FIGURES).then(|| {
                format!(
                    "{} trends have change points. The figures show the {MAX_FIGURES} most severe; the table below lists all of them.",
                    units::count(all as u64)
                )
            }),
            figures,
            headings: headings(many),
            lines: lines.iter().map(|line| fields(line, many)).collect(),
        };
        let mut environment = Environment::new();
        add_macros(&mut environment)?;
        environment.add_template("trends.html", include_str!("../../assets/trends.html"))?;
        Ok(environment.get_template("trends.html")?.render(Serde(&page))?)
    }

    fn facts(&self) -> Vec<String> {
        let count = |n: usize, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{} {what}s", units::count(n as u64)),
        };
        let mut facts = vec![count(self.runs, "run"), count(self.lines.len(), "trend")];
        if let Some((from, to)) = &self.span {
            let day = |text: &str| text.chars().take(10).collect::<String>();
            facts.push(format!("{} to {}", day(from), day(to)));
        }
        let mut machines: Vec<&str> = self.lines.iter().map(|line| line.machine.as_str()).collect();
        machines.sort_unstable();
        machines.dedup();
        match machines.as_slice() {
            [] => {}
            [machine] => facts.push((*machine).to_owned()),
            machines => facts.push(count(machines.len(), "machine")),
        }
        facts
    }
}

fn figure_page(index: usize, line: &TrendLine, many: bool) -> Result<Option<FigurePage>, ReportError> {
    let Some((canvas, caption)) = figure::draw(line, many) else {
        return Ok(None);
    };
    let id = format!("trend-{}", index + 1);
    let svg = canvas.svg().map_err(|reason| ReportError::Draw {
        figure: id.clone(),
        reason,
    })?;
    let values = canvas.values();
    Ok(Some(FigurePage {
        id,
        caption,
        svg,
        values,
    }))
}

fn headings(many: bool) -> Vec<Heading> {
    let heading = |title, below, align| Heading { title, below, align };
    let mut headings = vec![
        heading("workload", "suite", Align::Left),
        heading("setting", "", Align::Left),
        heading("metric", "", Align::Left),
        heading("runs", "", Align::Right),
        heading("latest", "", Align::Right),
        heading("fence", "noise between runs", Align::Right),
        heading("change point", "first run", Align::Left),
    ];
    if many {
        headings.insert(2, heading("machine", "", Align::Left));
    }
    headings
}

fn fields(line: &TrendLine, many: bool) -> Vec<Field> {
    let text = |text: &str| Field {
        text: text.to_owned(),
        ..Field::default()
    };
    let number = |text: String, sort: Option<f64>| Field {
        text,
        sort: sort.filter(|sort| sort.is_finite()),
        ..Field::default()
    };
    let latest = line.runs.last().map(|run| run.value);
    let shown = latest.map_or(units::ABSENT.to_owned(), |value| {
        digits::text(line.scale(), value)
    });
    let fence = line
        .fence
        .map_or(units::ABSENT.to_owned(), |fence| line.noise(fence));
    let mut fields = vec![
        Field {
            detail: line.suite.clone(),
            ..text(&line.workload)
        },
        text(&line.setting),
        text(line.metric.name()),
        number(units::count(line.runs.len() as u64), Some(line.runs.len() as f64)),
        number(shown, latest),
        number(fence, line.fence),
        change_point(line).unwrap_or_else(|| text("none")),
    ];
    if many {
        fields.insert(2, text(&line.machine));
    }
    fields
}

/// Formats one change point: if the metric is currently worse, the point at which it became worse, else the latest one. The sort key is the
/// size of the change in multiples of the smallest relevant change: negative for an improvement, 0 for an irrelevant change.
fn change_point(line: &TrendLine) -> Option<Field> {
    let last = line.turns.last()?;
    let (turn, now, towards) = match line.worse() {
        Some((turn, now)) => (turn, now, Direction::Worse),
        None => (last, last.after, last.towards),
    };
    let weight = line.relative_size(turn.before, now);
    let (class, sort) = match towards {
        Direction::Worse => ("failed", weight),
        Direction::Better => ("good", -weight),
        Direction::Neither => ("skipped", 0.0),
    };
    let named = |turn: &TrendChangePoint| line.run(turn).map(super::sentences::run_name).unwrap_or_default();
    let latest = match last.first == turn.first {
        true => String::new(),
        false => format!("; latest change at {}: {}", named(last), last.towards.name()),
    };
    Some(Field {
        text: format!("{}: {}", towards.name(), line.format_change(turn.before, now)),
        detail: format!("since {}{latest}", named(turn)),
        sort: Some(sort).filter(|sort| sort.is_finite()),
        status: true,
        class,
    })
}
