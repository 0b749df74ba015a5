//! Entries of a data set folder: sorted list, hidden and skipped files, and the parts that file names indicate.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{DataError, examples::Part};

/// Lists a folder, sorted by name. The operating system returns the entries in arbitrary order.
pub(super) fn list(folder: &Path) -> Result<Vec<(String, PathBuf)>, DataError> {
    let mut entries = vec![];
    for entry in fs::read_dir(folder).map_err(DataError::read(folder))? {
        let entry = entry.map_err(DataError::read(folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Fail on a broken link, because data is missing. Ignore hidden links, because editors use broken links as lock files.
        if !is_hidden(&name) && entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            fs::metadata(entry.path()).map_err(DataError::read(&entry.path()))?;
        }
        entries.push((name, entry.path()));
    }
    entries.sort();
    Ok(entries)
}

/// Returns true for hidden files and folders, and for the `__MACOSX` folder that macOS adds to archives.
pub(super) fn is_hidden(name: &str) -> bool {
    name.starts_with('.') || name == "__MACOSX"
}

/// Returns true if the extension is that of documentation or code, which often lies next to data.
pub(super) fn is_document(name: &str) -> bool {
    const EXTENSIONS: [&str; 10] = [
        "md", "rst", "pdf", "html", "py", "ipynb", "sh", "log", "yaml", "toml",
    ];
    let extension = Path::new(name)
        .extension()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    EXTENSIONS.contains(&extension.as_str())
}

/// Returns the part of the data set (training, validation or test) that a word in the file name indicates.
pub(super) fn part_of(name: &str) -> Option<Part> {
    let name = name.to_lowercase();
    let mut words = name.split(|letter: char| !letter.is_ascii_alphabetic());
    words.find_map(|word| match word {
        "train" | "training" => Some(Part::Train),
        "test" | "testing" => Some(Part::Test),
        "dev" | "devel" | "val" | "valid" | "validation" => Some(Part::Validation),
        _ => None,
    })
}

/// Formats a note on skipped files, or returns `None` if `names` is empty. `why` begins with "because".
pub(super) fn skipped_note(why: &str, names: &[String]) -> Option<String> {
    /// Maximum number of names in a note. Further names are only counted.
    const MAX_LISTED: usize = 5;
    let more = names.len().saturating_sub(MAX_LISTED);
    let listed: Vec<String> = names
        .iter()
        .take(MAX_LISTED)
        .map(|name| format!("`{name}`"))
        .collect();
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!names.is_empty()).then(|| format!("skipped {why}: {}{more}", listed.join(", ")))
}
