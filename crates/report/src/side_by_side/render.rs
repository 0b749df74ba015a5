//! Writes the files of a comparison of several runs.

use std::{collections::HashSet, mem, path::Path};

use super::{RunComparison, figure, html::html, markdown::markdown};
use crate::{Rendered, Report, ReportError, Run, figures::distinct, render::Writer};

/// Writes `side-by-side.html`, `side-by-side.md` and `figures/side-by-side-*.{svg,png,csv}` to `folder`, which is created if missing. Writes
/// nothing if the runs have no setting in common.
pub fn render_side_by_side(runs: &[Run], folder: &Path) -> Result<Rendered, ReportError> {
    let reports = runs.iter().map(Report::new).collect::<Result<Vec<_>, _>>()?;
    let comparison = RunComparison::new(&reports)?;
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let mut writer = Writer::new(folder);
    let mut pictures = Vec::with_capacity(comparison.tables.len());
    let mut used = HashSet::new();
    for table in &comparison.tables {
        let mut drawn = figure::draw(table, &names);
        if let Some(figure) = &mut drawn {
            figure.id = distinct(mem::take(&mut figure.id), &mut used);
        }
        let with_svg = drawn.map(|figure| writer.figure(&figure).map(|svg| (figure, svg)));
        pictures.push(with_svg.transpose()?);
    }
    writer.write("side-by-side.md", markdown(&comparison).as_bytes())?;
    writer.write("side-by-side.html", html(&comparison, &pictures)?.as_bytes())?;
    Ok(writer.finish("side-by-side.html"))
}
