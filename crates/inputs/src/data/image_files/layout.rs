//! Detects the layout of an image data set: CIFAR-10 batches; files in the format of MNIST; one folder per class; or one folder per part (training, validation, test), each
//! with one folder per class.

use std::{
    fs,
    path::{Path, PathBuf},
};

use image::ImageFormat;

use super::{
    cifar_batches::{is_batch, read_batches},
    class_folders::{InvalidFolders, MAX_DEPTH, has_picture, read_class_folders},
    idx_files::{is_idx_images, labels_name, read_idx},
    source::Source,
};
use crate::data::{
    DataError, KnownClasses,
    cifar10::{CIFAR_DOCUMENTS, CIFAR_RECORD, has_batch_name},
    detect::{Content, detect_content},
    examples::Part,
    folder_entries::{self, is_document, is_hidden, part_of, skipped_note},
};

/// Returns true if a folder has files with the content or the name of a CIFAR-10 batch, files in the format of MNIST, or subfolders with
/// images.
pub(crate) fn contains_images(folder: &Path) -> Result<bool, DataError> {
    let entries = folder_entries::list(folder)?;
    for (name, path) in &entries {
        let has_images =
            || Ok::<_, DataError>(has_batch_name(name) || is_batch(path)? || is_idx_images(name, path)?);
        if !is_hidden(name) && path.is_file() && has_images()? {
            return Ok(true);
        }
    }
    // Class folders are in the folder itself or in one folder per part.
    Ok(entries
        .iter()
        .any(|(name, path)| !is_hidden(name) && path.is_dir() && has_picture(path, MAX_DEPTH)))
}

/// Finds the images at a path without decoding them.
pub(super) fn find(
    path: &Path,
    known: Option<&KnownClasses>,
    for_training: bool,
) -> Result<Source, DataError> {
    let invalid = |reason: String| DataError::NoImages {
        path: path.to_owned(),
        reason,
    };
    let full = fs::canonicalize(path).map_err(DataError::read(path))?;
    let name = full
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if path.is_file() {
        return match detect_content(path)? {
            Content::Batch => read_batches(name, vec![(Part::Train, path.to_owned())]),
            Content::Other(is) => Err(invalid(format!("it is {is}"))),
            Content::IdxImages => Err(invalid(
                "it is a file of images, but the labels are in another file: pass its folder".to_owned(),
            )),
            Content::Picture => Err(invalid(
                "it is a single image, but a data set is a folder with one subfolder per class".to_owned(),
            )),
            _ => Err(invalid(format!(
                "its size is not a multiple of {CIFAR_RECORD} bytes, the size of a CIFAR-10 record"
            ))),
        };
    }
    let entries = folder_entries::list(path)?;
    let mut idx_images = vec![];
    for (name, path) in entries
        .iter()
        .filter(|(name, path)| !is_hidden(name) && path.is_file())
    {
        if is_idx_images(name, path)? {
            idx_images.push((name.clone(), path.clone()));
        }
    }
    if !idx_images.is_empty() {
        let is_known = |name: &str| {
            let is_file_of = |(images, _): &(String, PathBuf)| {
                name == images || Some(name) == labels_name(images).as_deref()
            };
            is_hidden(name) || is_document(name) || idx_images.iter().any(is_file_of)
        };
        let others = entries.iter().filter(|(name, _)| !is_known(name));
        let others: Vec<String> = others.map(|(name, _)| name.clone()).collect();
        let mut source = read_idx(name, &idx_images, known.filter(|_| !for_training))?;
        source
            .notes
            .extend(skipped_note("because they are not IDX files of images", &others));
        return Ok(source);
    }
    let (mut batches, mut unread) = (vec![], vec![]);
    for (name, path) in entries.iter().filter(|(name, _)| !is_hidden(name)) {
        let is_batch_file = path.is_file() && is_batch(path)?;
        if !is_batch_file && has_batch_name(name) {
            let reason = match detect_content(path)? {
                Content::Other(is) => format!("`{name}` is {is}"),
                _ => format!("`{name}` is not a CIFAR-10 batch"),
            };
            return Err(invalid(reason));
        }
        if is_batch_file {
            batches.push((part_of(name).unwrap_or(Part::Train), path.clone()));
        } else if path.is_file() && !CIFAR_DOCUMENTS.contains(&name.as_str()) {
            unread.push(name.clone());
        }
    }
    if !batches.is_empty() {
        let lacks = |number: &u32| {
            !entries
                .iter()
                .any(|(name, _)| name.to_lowercase() == format!("data_batch_{number}.bin"))
        };
        let missing: Vec<String> = (1..=5)
            .filter(lacks)
            .map(|number| format!("data_batch_{number}.bin"))
            .collect();
        let is_incomplete = missing.len() < 4;
        let notes = [
            skipped_note("because they are not CIFAR-10 batches", &unread),
            (is_incomplete && !missing.is_empty()).then(|| format!("missing: {}", missing.join(", "))),
        ];
        let mut source = read_batches(name, batches)?;
        source.notes.extend(notes.into_iter().flatten());
        return Ok(source);
    }
    // A folder with the name of a part (e.g. `train`) contains this part only if it has subfolders, which are its classes. Without subfolders,
    // the folder may be a class of this name.
    let has_folders = |path: &Path| {
        let entries = folder_entries::list(path).unwrap_or_default();
        entries
            .iter()
            .any(|(name, path)| !is_hidden(name) && path.is_dir())
    };
    let folders_here = || {
        entries
            .iter()
            .filter(|(name, path)| !is_hidden(name) && path.is_dir())
    };
    let parts = folders_here().filter_map(|(name, path)| Some((part_of(name)?, path)));
    let (mut parts, without): (Vec<(Part, &PathBuf)>, Vec<_>) =
        parts.partition(|(_, path)| has_folders(path));
    if let (false, [(_, part), ..]) = (parts.is_empty(), &without[..]) {
        return Err(invalid(format!(
            "`{}` has no class folders, but other parts have them",
            part.file_name().unwrap_or_default().to_string_lossy()
        )));
    }
    // Sort the training part to the front, because the first part defines the classes.
    parts.sort_by_key(|(part, _)| *part);
    if let Some(pair) = parts.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let name = |path: &Path| {
            path.file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned()
        };
        let names = format!("`{}` and `{}`", name(pair[0].1), name(pair[1].1));
        return Err(invalid(format!("two folders for one part: {names}")));
    }
    let mut loose = vec![];
    let parts = if parts.is_empty() {
        vec![(Part::Train, &full)]
    } else {
        let files = entries
            .iter()
            .filter(|(name, path)| !is_hidden(name) && path.is_file());
        loose.extend(files.filter(|(_, path)| ImageFormat::from_path(path).is_ok()));
        parts
    };
    // If there are part folders, other folders are skipped.
    let is_part = |path: &PathBuf| parts.iter().any(|(_, part)| *part == path || **part == full);
    let no_part = folders_here().filter(|(_, path)| !is_part(path));
    let no_part: Vec<String> = no_part.chain(loose).map(|(name, _)| name.clone()).collect();
    read_class_folders(name, (&parts, &no_part), known, for_training).map_err(|error| match error {
        InvalidFolders::Data(error) => error,
        InvalidFolders::Classes(reason) => invalid(reason),
    })
}
