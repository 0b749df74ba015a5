//! Writes all files of a report.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
};

use mantissa_core::{Replacement, create_folder_below};

use crate::{
    Figure, Report, ReportError, Run,
    export::csv_to,
    figures::{each_figure, font_faces},
    html, markdown,
};

/// Files written by [`render`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The page.
    pub html: PathBuf,
    /// Every file, the page included.
    pub files: Vec<PathBuf>,
}

/// Writes `report.html`, `results.csv`, `summary.md` and `figures/*.{svg,png}` below `folder`, which is created if missing.
/// Replaces earlier renderings and leaves other files in the folder alone.
pub fn render(run: &Run, folder: &Path) -> Result<Rendered, ReportError> {
    let report = Report::new(run)?;
    let mut writer = Writer::new(folder);
    writer.stream("results.csv", |file| csv_to(&report, file))?;
    let (mut drawn, mut svgs) = (Vec::new(), Vec::new());
    each_figure(&report, |figure| -> Result<(), ReportError> {
        svgs.push(writer.figure(&figure)?);
        drawn.push(figure);
        Ok(())
    })?;
    let pictures: Vec<_> = drawn.iter().zip(svgs).collect();
    writer.write("summary.md", markdown(&report).as_bytes())?;
    writer.write("report.html", html(&report, &pictures)?.as_bytes())?;
    Ok(writer.finish("report.html"))
}

/// Writes the files of a report below a folder, one at a time. For a large run, all of them together would dominate the memory use.
pub(crate) struct Writer<'f> {
    folder: &'f Path,
    files: Vec<PathBuf>,
}

impl<'f> Writer<'f> {
    pub fn new(folder: &'f Path) -> Self {
        Self {
            folder,
            files: Vec::new(),
        }
    }

    pub fn write(&mut self, name: &str, bytes: &[u8]) -> Result<(), ReportError> {
        let path = self.folder.join(name);
        let failed = |source| ReportError::Write { path, source };
        self.stream(name, |mut file| file.write_all(bytes).map_err(failed))
    }

    /// Writes a file while its bytes are produced.
    pub fn stream(
        &mut self,
        name: &str,
        write: impl FnOnce(&File) -> Result<(), ReportError>,
    ) -> Result<(), ReportError> {
        let path = self.folder.join(name);
        let failed = |source| ReportError::Write {
            path: path.clone(),
            source,
        };
        let subfolder = Path::new(name).parent().unwrap_or(Path::new(""));
        let opened = create_folder_below(self.folder, subfolder).and_then(|_| Replacement::new(&path));
        let replacement = opened.map_err(failed)?;
        write(&replacement.file).map_err(|error| match error {
            ReportError::Csv(source) => failed(source),
            error => error,
        })?;
        replacement.finish().map_err(failed)?;
        self.files.push(path);
        Ok(())
    }

    /// Writes a figure as PNG and as SVG. Returns the SVG for a page, without its font.
    pub fn figure(&mut self, figure: &Figure) -> Result<String, ReportError> {
        let failed = |reason| ReportError::Draw {
            figure: figure.id.clone(),
            reason,
        };
        let svg = figure.canvas.svg().map_err(failed)?;
        let png = figure.canvas.png().map_err(failed)?;
        self.write(&format!("figures/{}.png", figure.id), &png)?;
        self.write(&format!("figures/{}.svg", figure.id), with_font(&svg).as_bytes())?;
        Ok(svg)
    }

    /// Returns the written files; `page` is the file to open.
    pub fn finish(self, page: &str) -> Rendered {
        Rendered {
            html: self.folder.join(page),
            files: self.files,
        }
    }
}

/// Returns a standalone SVG with the font of its text.
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
