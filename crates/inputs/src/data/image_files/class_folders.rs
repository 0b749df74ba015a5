//! Images in one folder per class.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use image::ImageFormat;
use rayon::prelude::*;

use super::source::{Origin, Source, UndecodedImage, add, empty_parts};
use crate::data::{
    DataError, KnownClasses,
    examples::Part,
    folder_entries::{self, is_hidden, skipped_note},
    image_format::{has_picture_extension, is_picture, reason_not_picture},
};

/// Maximum depth of the folders that are searched for images.
pub(super) const MAX_DEPTH: u32 = 8;

/// Returns true if a folder, or a subfolder at most `depth` levels below, has an image.
pub(super) fn has_picture(folder: &Path, depth: u32) -> bool {
    let entries = folder_entries::list(folder).unwrap_or_default();
    // Do not open text files: aclImdb has 50,000 of them.
    let mut entries = entries
        .into_iter()
        .filter(|(name, _)| !is_hidden(name) && !name.ends_with(".txt"));
    entries.any(|(_, path)| match path.is_dir() {
        true => depth > 0 && has_picture(&path, depth - 1),
        false => is_picture(&path),
    })
}

/// Reason why folders are not a valid data set.
pub(super) enum InvalidFolders {
    Data(DataError),
    Classes(String),
}

/// Finds images in one folder per class. If `for_training` is true or there is no checkpoint, the folders of the first part define the classes
/// (the training part, if there is one). Otherwise the checkpoint defines them. [`KnownClasses::number_or_new`] assigns the class numbers.
pub(super) fn read_class_folders(
    name: String,
    (parts, no_part): (&[(Part, &PathBuf)], &[String]),
    known: Option<&KnownClasses>,
    for_training: bool,
) -> Result<Source, InvalidFolders> {
    let (mut hidden, mut others, mut loose): (Vec<String>, Vec<String>, Vec<String>) =
        (vec![], vec![], vec![]);
    let mut nested = vec![];
    let mut found: Vec<(Part, String, Vec<PathBuf>)> = vec![];
    let mut seen = BTreeSet::new();
    for (_, folder) in parts {
        seen.extend(fs::canonicalize(folder).ok());
    }
    for (part, folder) in parts {
        for (class, folder) in folder_entries::list(folder).map_err(InvalidFolders::Data)? {
            if is_hidden(&class) {
                hidden.push(class);
            } else if folder.is_dir() {
                let files = files_below(&folder, &mut hidden, &mut seen).map_err(InvalidFolders::Data)?;
                let (pictures, not_pictures): (Vec<_>, Vec<_>) =
                    files.into_par_iter().partition(|file| is_picture(file));
                if let Some(damaged) = not_pictures.iter().find(|file| has_picture_extension(file)) {
                    return Err(InvalidFolders::Data(DataError::NoImages {
                        path: damaged.clone(),
                        reason: reason_not_picture(damaged),
                    }));
                }
                let short_name = |file: &PathBuf| {
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    format!("{class}/{name}")
                };
                others.extend(not_pictures.iter().map(short_name));
                if pictures.is_empty() {
                    return Err(InvalidFolders::Classes(format!(
                        "`{class}` has no images in a supported format (PNG, JPEG, BMP or WebP)"
                    )));
                }
                nested.extend(merged_subfolders(&class, &folder, &pictures));
                found.push((*part, class, pictures));
            } else if is_picture(&folder) {
                loose.push(class);
            } else if ImageFormat::from_path(&folder).is_ok() {
                others.push(class);
            }
        }
    }
    let first = parts.first().map(|(part, _)| *part);
    let is_new = known.is_none() || for_training;
    let defines_classes = |part: Part| !is_new || Some(part) == first;
    let labels = found.iter().filter(|(part, ..)| defines_classes(*part));
    let labels: BTreeSet<&str> = labels.map(|(_, class, _)| class.as_str()).collect();
    if labels.len() < 2 && is_new {
        return Err(InvalidFolders::Classes(
            "it has fewer than two folders with images".to_owned(),
        ));
    }
    let numbered = known
        .unwrap_or(&KnownClasses::default())
        .number_or_new(&labels, for_training)
        .map_err(InvalidFolders::Classes)?;
    let mut predefined = empty_parts(parts.iter().map(|(part, _)| *part));
    for (part, class, pictures) in &found {
        let Some(label) = numbered.numbers.get(class) else {
            return Err(InvalidFolders::Classes(format!(
                "`{class}` is not a class of the first part, which defines the classes"
            )));
        };
        for path in pictures {
            let origin = Origin::File(path.clone());
            add(
                &mut predefined,
                *part,
                UndecodedImage {
                    label: *label,
                    origin,
                },
            );
        }
    }
    let mut names: Vec<(u32, String)> = numbered
        .numbers
        .into_iter()
        .map(|(name, number)| (number, name))
        .collect();
    names.sort();
    let notes = [
        skipped_note("because they are hidden", &hidden),
        skipped_note("because they are not images in a supported format", &others),
        skipped_note("because they are outside the class folders", &loose),
        skipped_note("because they are outside the folders of the parts", no_part),
    ];
    Ok(Source {
        name,
        classes: numbered.count,
        names,
        notes: notes
            .into_iter()
            .flatten()
            .chain(nested)
            .chain(numbered.notes)
            .collect(),
        predefined,
        raw: vec![],
    })
}

/// Lists all files below a folder in sorted order. Adds the names of hidden files and folders to `hidden`.
///
/// # Errors
/// A link to a folder in `seen`, because the files in that folder would be read twice.
fn files_below(
    folder: &Path,
    hidden: &mut Vec<String>,
    seen: &mut BTreeSet<PathBuf>,
) -> Result<Vec<PathBuf>, DataError> {
    if !seen.insert(fs::canonicalize(folder).map_err(DataError::read(folder))?) {
        return Err(DataError::NoImages {
            path: folder.to_owned(),
            reason: "it is a link to a folder that is already in the data set".to_owned(),
        });
    }
    let mut files = vec![];
    for (name, path) in folder_entries::list(folder)? {
        if is_hidden(&name) {
            hidden.push(name);
        } else if path.is_dir() {
            files.extend(files_below(&path, hidden, seen)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns a note if the images of a class are in two or more subfolders and none is directly in the class folder. The user may have intended the
/// subfolders as classes.
fn merged_subfolders(class: &str, folder: &Path, pictures: &[PathBuf]) -> Option<String> {
    let subfolder = |picture: &PathBuf| {
        let mut below = picture.strip_prefix(folder).ok()?.components();
        let first = below.next()?.as_os_str().to_string_lossy().into_owned();
        below.next().map(|_| first)
    };
    let subfolders: Option<BTreeSet<String>> = pictures.iter().map(subfolder).collect();
    let subfolders = subfolders.filter(|names| names.len() > 1)?;
    let names: Vec<String> = subfolders
        .iter()
        .take(5)
        .map(|name| format!("`{name}`"))
        .collect();
    Some(format!(
        "the subfolders of `{class}` are read as one class: {}",
        names.join(", ")
    ))
}
