//! Files of a report's pages, the links between them, and the removal of pages of earlier renderings.

use std::{
    collections::HashSet,
    fs,
    io::{self, ErrorKind, Read as _},
    path::{Path, PathBuf},
};

use mantissa_core::open_regular;

use crate::{
    Report, ReportError,
    figures::{distinct, file_name},
};

/// File of a report on one page.
const SINGLE_FILE: &str = "report.html";
/// File of the overview of a report with a page per suite.
const INDEX_PAGE: &str = "index.html";
/// Link from the page of a suite to the overview.
pub(crate) const OVERVIEW_LINK: &str = "../index.html";
/// Folder of the pages of suites.
const SUITE_FOLDER: &str = "suites";
/// Markup in the head of every page of this program.
const GENERATOR: &str = "<meta name=\"generator\" content=\"mantissa ";

/// Division of a report into files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One page.
    SingleFile,
    /// An overview and a page per suite. A run of one suite has one page.
    PagePerSuite,
}

/// Names of the files of a report's pages.
#[derive(Debug)]
pub(crate) struct PageFiles {
    /// Paths of the suites' pages below the folder of the report; `None` if the report has one page.
    suites: Option<Vec<String>>,
}

impl PageFiles {
    pub fn new(report: &Report<'_>, layout: Layout) -> Self {
        let has_overview = layout == Layout::PagePerSuite && report.suites.len() > 1;
        Self {
            suites: has_overview.then(|| suite_files(report)),
        }
    }

    /// Returns the file to open first.
    pub fn first(&self) -> &'static str {
        match self.suites {
            Some(_) => INDEX_PAGE,
            None => SINGLE_FILE,
        }
    }

    /// Returns the files of the suites' pages, in the order of the suites; empty if the report has one page.
    pub fn suites(&self) -> &[String] {
        self.suites.as_deref().unwrap_or_default()
    }

    /// Returns the link to a suite from the page of [`Self::first`].
    pub fn suite_link(&self, suite: usize) -> String {
        match &self.suites {
            Some(files) => files[suite].clone(),
            None => format!("#{}", suite_anchor(suite)),
        }
    }

    /// Returns the link to a suite from another file in the folder of the report.
    pub fn link(&self, suite: usize) -> String {
        match &self.suites {
            Some(files) => files[suite].clone(),
            None => format!("{SINGLE_FILE}#{}", suite_anchor(suite)),
        }
    }
}

/// Returns the id of the element of a suite on the single page.
pub(crate) fn suite_anchor(suite: usize) -> String {
    format!("suite-{suite}")
}

/// Returns a distinct file per suite, also on file systems that ignore case.
fn suite_files(report: &Report<'_>) -> Vec<String> {
    let mut used = HashSet::new();
    let names = report.suites.iter().map(|suite| {
        let name = distinct(file_name(&suite.info.name), &mut used);
        format!("{SUITE_FOLDER}/{name}.html")
    });
    names.collect()
}

/// Removes the pages of an earlier rendering that are not among the `written` files: `report.html`, `index.html` and `suites/*.html`.
/// Leaves files that another program wrote, and symbolic links.
pub(crate) fn remove_stale(folder: &Path, written: &[PathBuf]) -> Result<(), ReportError> {
    let failed = |path: &Path, source| ReportError::Write {
        path: path.to_owned(),
        source,
    };
    let mut candidates = vec![folder.join(SINGLE_FILE), folder.join(INDEX_PAGE)];
    let suites = folder.join(SUITE_FOLDER);
    candidates.extend(html_files(&suites).map_err(|source| failed(&suites, source))?);
    for path in candidates {
        if !written.contains(&path) && is_page(&path) {
            fs::remove_file(&path).map_err(|source| failed(&path, source))?;
        }
    }
    Ok(())
}

/// Lists the HTML files of a folder; none if it does not exist or is a symbolic link.
fn html_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Ok(Vec::new()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    }
    let paths = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let paths = paths.collect::<io::Result<Vec<_>>>()?;
    let is_html = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "html");
    Ok(paths.into_iter().filter(is_html).collect())
}

/// Returns `true` if this program wrote a file, according to the head of the page. A file that cannot be read is not a page.
fn is_page(path: &Path) -> bool {
    /// Number of bytes in which the mark of the program occurs.
    const HEAD_BYTES: u64 = 1024;
    let is_link = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
    let Ok(file) = open_regular(path) else {
        return false;
    };
    let mut head = Vec::new();
    let read = file.take(HEAD_BYTES).read_to_end(&mut head);
    !is_link && read.is_ok() && String::from_utf8_lossy(&head).contains(GENERATOR)
}
