//! Writes everything that a report consists of.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Report, ReportError, Run, csv,
    figures::{figures, font_faces},
    html, markdown,
};

/// What [`render`] wrote.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The page.
    pub html: PathBuf,
    /// Every file, the page included.
    pub files: Vec<PathBuf>,
}

/// Writes `report.html`, `results.csv`, `summary.md` and `figures/*.{svg,png}` below `folder`, which is made if it is not
/// there. Earlier renderings are replaced; nothing else in the folder is touched.
pub fn render(run: &Run, folder: &Path) -> Result<Rendered, ReportError> {
    let report = Report::new(run)?;
    let drawn = figures(&report);
    let mut files = Vec::with_capacity(2 * drawn.len() + 3);
    // Written one by one: together they would be the larger part of the memory of a large run.
    let mut write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(&path, bytes));
        written.map_err(|source| ReportError::Write {
            path: path.clone(),
            source,
        })?;
        files.push(path);
        Ok::<(), ReportError>(())
    };
    let mut pictures = Vec::with_capacity(drawn.len());
    for figure in &drawn {
        let failed = |reason| ReportError::Draw {
            figure: figure.id.clone(),
            reason,
        };
        let svg = figure.canvas.svg().map_err(failed)?;
        let png = figure.canvas.png().map_err(failed)?;
        write(&format!("figures/{}.png", figure.id), &png)?;
        write(&format!("figures/{}.svg", figure.id), with_font(&svg).as_bytes())?;
        pictures.push((figure, svg));
    }
    write("results.csv", &csv(&report)?)?;
    write("summary.md", markdown(&report).as_bytes())?;
    write("report.html", html(&report, &pictures)?.as_bytes())?;
    Ok(Rendered {
        html: folder.join("report.html"),
        files,
    })
}

/// An SVG that stands alone, with the font of its text.
fn with_font(svg: &str) -> String {
    let style = format!(
        "<style>\n{}text {{ font-family: Figures, sans-serif; }}\n</style>\n",
        font_faces()
    );
    match svg.split_once('\n') {
        Some((head, body)) => format!("{head}\n{style}{body}"),
        None => svg.to_owned(),
    }
}
