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
    html::Pages,
    markdown::summary,
    overview::Overview,
    pages::{Layout, PageFiles, remove_stale},
};

/// Files written by [`render`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The page to open first.
    pub html: PathBuf,
    /// Every file, the pages included.
    pub files: Vec<PathBuf>,
}

/// Writes the pages, `results.csv`, `summary.md` and `figures/*.{svg,png,csv}` below `folder`, which is created if missing. A run of several
/// suites has an overview in `index.html` and a page per suite in `suites/*.html`, a run of one suite has `report.html`.
/// Replaces earlier renderings, removes pages of earlier renderings that this one does not have, and leaves other files in the folder alone.
pub fn render(run: &Run, folder: &Path) -> Result<Rendered, ReportError> {
    render_as(run, folder, Layout::PagePerSuite)
}

/// Writes the files of [`render`], but all pages as one `report.html`.
pub fn render_single_file(run: &Run, folder: &Path) -> Result<Rendered, ReportError> {
    render_as(run, folder, Layout::SingleFile)
}

fn render_as(run: &Run, folder: &Path, layout: Layout) -> Result<Rendered, ReportError> {
    let report = Report::new(run)?;
    let (files, overview) = (PageFiles::new(&report, layout), Overview::new(&report));
    let mut writer = Writer::new(folder);
    writer.stream("results.csv", |file| csv_to(&report, file))?;
    let (mut drawn, mut svgs) = (Vec::new(), Vec::new());
    each_figure(&report, |figure| -> Result<(), ReportError> {
        svgs.push(writer.figure(&figure)?);
        drawn.push(figure);
        Ok(())
    })?;
    let pictures: Vec<_> = drawn.iter().zip(svgs).collect();
    writer.write("summary.md", summary(&report, &overview, &files).as_bytes())?;
    let pages = Pages::new(&report, &overview, &files, &pictures)?;
    for (index, file) in files.suites().iter().enumerate() {
        writer.write(file, pages.suite(index)?.as_bytes())?;
    }
    writer.write(files.first(), pages.first()?.as_bytes())?;
    let rendered = writer.finish(files.first());
    remove_stale(folder, &rendered.files)?;
    Ok(rendered)
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

    /// Writes a figure as PNG and as SVG, and its values as CSV. Returns the SVG for a page, without its font.
    pub fn figure(&mut self, figure: &Figure) -> Result<String, ReportError> {
        let failed = |reason| ReportError::Draw {
            figure: figure.id.clone(),
            reason,
        };
        let svg = figure.canvas.svg().map_err(failed)?;
        let png = figure.canvas.png().map_err(failed)?;
        self.write(&format!("figures/{}.png", figure.id), &png)?;
        self.write(&format!("figures/{}.svg", figure.id), with_font(&svg).as_bytes())?;
        self.write(&format!("figures/{}.csv", figure.id), &figure.canvas.csv()?)?;
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
