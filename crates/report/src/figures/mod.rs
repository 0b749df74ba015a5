//! The pictures, one module each. A figure is drawn once onto a [`Canvas`] and comes out as SVG and as PNG.

mod accumulation;
mod article;
mod axis;
mod canvas;
mod curves;
mod formats;
mod kernel;
mod loss;
mod memory;
mod palette;
mod pixels;
mod samples;
mod thin;
mod timeline;
mod type_setting;

pub use canvas::Canvas;
pub(crate) use type_setting::font_faces;

use mantissa_core::Record;

use crate::{Group, Report, Row, Run, Suite};

/// A drawn figure.
#[derive(Debug, Clone)]
pub struct Figure {
    /// File name without its ending.
    pub id: String,
    /// The suite it belongs to; none for the format figure.
    pub suite: Option<String>,
    /// What it shows, for captions and for readers who cannot see it.
    pub caption: String,
    /// Whether the page shows it only on demand.
    pub folded: bool,
    /// The drawing.
    pub canvas: Canvas,
}

/// Traces, and plots of samples, that a page shows at most: each tells about one process of one cell.
const MAX_OF_ONE_PROCESS: usize = 3;

/// Every figure of a report, in the order of its pages. A figure without anything to show is left out.
pub fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (suite, group) in groups(report) {
        let drawn = [
            ("times", article::draw(suite, group)),
            ("accumulation", accumulation::draw(suite, group)),
            ("memory", memory::draw(suite, group)),
            ("loss", loss::draw(report.run, suite, group)),
            ("kernel", kernel::draw(suite, group)),
        ];
        for (kind, drawing) in drawn {
            let index = figures.len();
            figures.extend(drawing.map(|drawing| figure((suite, group), (kind, index), false, drawing)));
        }
    }
    for (kind, choose, draw) in OF_ONE_PROCESS {
        let chosen = groups(report).filter_map(|(suite, group)| {
            let (score, row, record) = choose(report.run, group)?;
            Some((score, suite, group, row, record))
        });
        let mut chosen: Vec<_> = chosen.collect();
        chosen.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, suite, group, row, record) in chosen.into_iter().take(MAX_OF_ONE_PROCESS) {
            let drawing = draw(report.run, suite, group, row, record);
            let index = figures.len();
            figures.extend(drawing.map(|drawing| figure((suite, group), (kind, index), true, drawing)));
        }
    }
    let (canvas, caption) = formats::draw();
    figures.push(Figure {
        id: "formats".to_owned(),
        suite: None,
        caption,
        folded: false,
        canvas,
    });
    figures
}

type Choose = for<'r> fn(&Run, &'r Group<'_>) -> Option<(f64, &'r Row<'r>, &'r Record)>;
type Draw = fn(&Run, &Suite<'_>, &Group<'_>, &Row<'_>, &Record) -> Option<(Canvas, String)>;

/// Figures of one process each: which one of a group tells most, by how much, and its drawing.
const OF_ONE_PROCESS: [(&str, Choose, Draw); 2] = [
    ("trace", timeline::choose, timeline::draw),
    ("samples", samples::choose, samples::draw),
];

fn groups<'r, 'a>(report: &'r Report<'a>) -> impl Iterator<Item = (&'r Suite<'a>, &'r Group<'a>)> {
    let suites = report.suites.iter();
    suites.flat_map(|suite| suite.groups.iter().map(move |group| (suite, group)))
}

fn figure(
    (suite, group): (&Suite<'_>, &Group<'_>),
    (kind, index): (&str, usize),
    folded: bool,
    (canvas, caption): (Canvas, String),
) -> Figure {
    let name = if suite.groups.len() > 1 {
        format!("{}-{}", suite.info.name, group.workload)
    } else {
        suite.info.name.clone()
    };
    Figure {
        id: file_name(&format!("{name}-{kind}"), index),
        suite: Some(suite.info.name.clone()),
        caption,
        folded,
        canvas,
    }
}

/// A name that is safe as a file name everywhere; `index` keeps it unique if something had to be replaced.
fn file_name(name: &str, index: usize) -> String {
    let safe: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '-'
            }
        })
        .take(80)
        .collect();
    if safe == name {
        safe
    } else {
        format!("{safe}-{index}")
    }
}

/// `showing 40 of 1,000`, if something was left out.
pub(crate) fn shown_of(shown: usize, all: usize) -> Option<String> {
    (shown < all).then(|| {
        let count = |n: usize| crate::units::count(n as u64);
        format!("showing {} of {}", count(shown), count(all))
    })
}
