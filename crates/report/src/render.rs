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
    let mut outputs: Vec<(String, Vec<u8>)> = Vec::with_capacity(2 * drawn.len() + 3);
    let mut pictures = Vec::with_capacity(drawn.len());
    for figure in &drawn {
        let failed = |reason| ReportError::Draw {
            figure: figure.id.clone(),
            reason,
        };
        let svg = figure.canvas.svg().map_err(failed)?;
        outputs.push((
            format!("figures/{}.png", figure.id),
            figure.canvas.png().map_err(failed)?,
        ));
        outputs.push((format!("figures/{}.svg", figure.id), with_font(&svg).into_bytes()));
        pictures.push((figure, svg));
    }
    outputs.push(("results.csv".to_owned(), csv(&report)?));
    outputs.push(("summary.md".to_owned(), markdown(&report).into_bytes()));
    outputs.push(("report.html".to_owned(), html(&report, &pictures)?.into_bytes()));

    let write = |path: &Path, bytes: &[u8]| {
        let parent = path.parent().unwrap_or(folder);
        let written = fs::create_dir_all(parent).and_then(|()| fs::write(path, bytes));
        written.map_err(|source| ReportError::Write {
            path: path.to_owned(),
            source,
        })
    };
    let mut files = Vec::with_capacity(outputs.len());
    for (name, bytes) in &outputs {
        let path = folder.join(name);
        write(&path, bytes)?;
        files.push(path);
    }
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
