//! Figures, one module each. A figure is drawn once onto a [`Canvas`] and exported as SVG and PNG.

mod accumulation;
mod article;
pub(crate) mod axis;
pub(crate) mod canvas;
mod captions;
#[cfg(test)]
mod colour_vision;
pub(crate) mod curves;
pub(crate) mod datum;
mod devices;
pub(crate) mod downsample;
mod finding;
pub(crate) mod fonts;
mod formats;
mod gradient_error;
mod grid;
mod histogram;
mod kernel;
mod key;
mod labels;
mod ladder;
mod loss;
mod memory;
mod metric_panel;
pub(crate) mod palette;
mod panels;
mod pareto;
mod pixels;
mod power_law;
mod quality;
mod ranges;
mod samples;
mod scatter;
mod selection;
mod speed;
mod staleness;
mod svg;
mod timeline;
mod ulps;

pub use canvas::Canvas;
pub(crate) use captions::{settings_of, shown_of};
pub(crate) use fonts::font_faces;
pub(crate) use quality::changed_predictions;

use std::{collections::HashSet, convert::Infallible};

use captions::{conditions, describe_oversubscription, describe_whiskers};
use flate2::Crc;
use mantissa_core::Record;

use crate::{Group, Report, Row, Run, Suite};

/// A drawn figure.
#[derive(Debug, Clone)]
pub struct Figure {
    /// File name without extension.
    pub id: String,
    /// Suite of the figure; `None` for the figure of formats.
    pub suite: Option<String>,
    /// Workload of the figure, whose marks are labelled as the rows of its table.
    pub workload: Option<String>,
    /// Caption, which also describes the figure to readers who cannot see it.
    pub caption: String,
    /// `true` if the page shows the figure only on demand.
    pub folded: bool,
    /// The drawing.
    pub canvas: Canvas,
}

/// Maximum number of figures of each kind in [`PROCESS_FIGURES`].
const MAX_PROCESS_FIGURES: usize = 3;

/// Draws every figure of a report, in the order of its page. Figures without data are left out.
pub fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures = Vec::new();
    let all: Result<(), Infallible> = each_figure(report, |figure| {
        figures.push(figure);
        Ok(())
    });
    match all {
        Ok(()) => figures,
    }
}

/// Passes the figures to `take` one by one. The data of a figure is freed before the next one is drawn.
pub(crate) fn each_figure<E>(
    report: &Report<'_>,
    mut take: impl FnMut(Figure) -> Result<(), E>,
) -> Result<(), E> {
    let mut used = HashSet::new();
    // Returns `true` if there is a drawing.
    let mut add = |target, kind, folded, drawing: Option<(Canvas, String)>| {
        let Some(drawing) = drawing else {
            return Ok(false);
        };
        let mut figure = figure(target, kind, folded, drawing);
        figure.id = distinct(figure.id, &mut used);
        take(figure).map(|()| true)
    };
    for target @ (suite, group) in groups(report) {
        // The page shows the first figure of each workload and folds the others.
        let mut folded = false;
        folded |= add(target, "times", folded, article::draw(suite, group))?;
        folded |= add(target, "ladder", folded, ladder::draw(suite, group))?;
        folded |= add(target, "accumulation", folded, accumulation::draw(suite, group))?;
        folded |= add(target, "devices", folded, devices::draw(suite, group))?;
        folded |= add(
            target,
            "gradient-error",
            folded,
            gradient_error::draw(suite, group),
        )?;
        folded |= add(target, "staleness", folded, staleness::draw(report.run, group))?;
        folded |= add(target, "kernel", folded, kernel::draw(suite, group))?;
        folded |= add(target, "quality", folded, quality::draw(suite, group))?;
        folded |= add(target, "speed", folded, speed::draw(suite, group))?;
        folded |= add(target, "pareto", folded, pareto::draw(group))?;
        folded |= add(target, "memory", folded, memory::draw(suite, group))?;
        folded |= add(target, "loss", folded, loss::draw(report.run, group))?;
        add(target, "ulps", folded, ulps::draw(report.run, group))?;
    }
    for (kind, choose, draw) in PROCESS_FIGURES {
        let chosen = groups(report).filter_map(|(suite, group)| {
            let (score, row, record) = choose(report.run, group)?;
            Some((score, suite, group, row, record))
        });
        let mut chosen: Vec<_> = chosen.collect();
        chosen.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, suite, group, row, record) in chosen.into_iter().take(MAX_PROCESS_FIGURES) {
            let drawing = draw(report.run, suite, group, row, record);
            add((suite, group), kind, true, drawing)?;
        }
    }
    let (canvas, caption) = formats::draw();
    take(Figure {
        id: "formats".to_owned(),
        suite: None,
        workload: None,
        caption,
        folded: false,
        canvas,
    })
}

type Choose = for<'r> fn(&Run, &'r Group<'_>) -> Option<(f64, &'r Row<'r>, &'r Record)>;
type Draw = fn(&Run, &Suite<'_>, &Group<'_>, &Row<'_>, &Record) -> Option<(Canvas, String)>;

/// Figures that show one process of one cell: kind, function that chooses the group's most informative process with a score, and
/// function that draws it.
const PROCESS_FIGURES: [(&str, Choose, Draw); 3] = [
    ("ranges", ranges::choose, ranges::draw),
    ("trace", timeline::choose, timeline::draw),
    ("samples", samples::choose, samples::draw),
];

fn groups<'r, 'a>(report: &'r Report<'a>) -> impl Iterator<Item = (&'r Suite<'a>, &'r Group<'a>)> {
    let suites = report.suites.iter();
    suites.flat_map(|suite| suite.groups.iter().map(move |group| (suite, group)))
}

fn figure(
    (suite, group): (&Suite<'_>, &Group<'_>),
    kind: &str,
    folded: bool,
    (canvas, caption): (Canvas, String),
) -> Figure {
    let name = if suite.groups.len() > 1 {
        format!("{}-{}", suite.info.name, group.workload)
    } else {
        suite.info.name.clone()
    };
    let caption = format!("{caption} {}", conditions(group));
    Figure {
        id: file_name(&format!("{name}-{kind}")),
        suite: Some(suite.info.name.clone()),
        workload: Some(group.workload.to_owned()),
        caption,
        folded,
        canvas,
    }
}

/// Returns a file name that is valid on every system and does not depend on other names. If a character was replaced or the name is too
/// long, a checksum of the name is appended.
pub(crate) fn file_name(name: &str) -> String {
    let replaced = name.chars().map(|c| match c {
        c if c.is_ascii_alphanumeric() || c == '-' || c == '_' => c,
        _ => '-',
    });
    let safe: String = replaced.take(80).collect();
    if safe == name {
        return safe;
    }
    let mut checksum = Crc::new();
    checksum.update(name.as_bytes());
    format!("{safe}-{:08x}", checksum.sum())
}

/// Appends a number to a file name that is already used, also on file systems that ignore case.
pub(crate) fn distinct(name: String, used: &mut HashSet<String>) -> String {
    let mut distinct = name.clone();
    let mut number = 2;
    while !used.insert(distinct.to_lowercase()) {
        distinct = format!("{name}-{number}");
        number += 1;
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_safe_stable_and_distinct() {
        assert_eq!(file_name("matmul-m_512-times"), "matmul-m_512-times");
        // The checksums are those of Python's `zlib.crc32`.
        assert_eq!(file_name("a/b"), "a-b-07f4401c");
        assert_eq!(file_name("a.b"), "a-b-1eef715d");
        assert_eq!(file_name(&"x".repeat(81)).len(), 89);
        let mut used = HashSet::new();
        let names = ["a-b", "A-b", "a-b"].map(|name| distinct(name.to_owned(), &mut used));
        assert_eq!(names, ["a-b", "A-b-2", "a-b-3"]);
    }
}
