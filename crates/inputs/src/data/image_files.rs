//! Labelled images from disk: binary batches of CIFAR-10, or one folder of PNG, JPEG, BMP or WebP files per class.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use image::ImageFormat;
use mantissa_core::{DataSource, read_regular};
use rayon::prelude::*;

use super::{
    DataError, Dataset, Images, KnownClasses, Wanted,
    classes::counts,
    detect::{Content, recognise},
    examples::Part,
    image_preprocessing::ImagePreprocessing,
    images::{COLOURS, Pixels},
    imdb_folder,
    source::{is_hidden, part_of, skipped_note},
    split::Given,
};
use crate::contents;

/// Edge of CIFAR images, in pixels.
const CIFAR_EDGE: usize = 32;
/// Size of a CIFAR-10 record in bytes: a label and three color planes.
pub(super) const CIFAR_RECORD: usize = 1 + COLOURS * CIFAR_EDGE * CIFAR_EDGE;
/// Files of the CIFAR-10 archive that are not batches.
const CIFAR_DOCUMENTS: [&str; 2] = ["batches.meta.txt", "readme.html"];
/// Classes of CIFAR-10.
const CIFAR_CLASSES: u32 = 10;

/// An image that is not decoded yet.
struct Found {
    label: u32,
    from: Origin,
}

enum Origin {
    /// Record of a CIFAR-10 batch.
    Record { file: usize, index: usize },
    /// Image file.
    File(PathBuf),
}

/// Images before decoding.
struct Source {
    name: String,
    classes: u32,
    /// Numbers and names of the classes that occur.
    names: Vec<(u32, String)>,
    /// Skipped files and other decisions that are reported to the user.
    notes: Vec<String>,
    given: Given<Found>,
    /// Contents of the CIFAR-10 files.
    batches: Vec<Vec<u8>>,
}

/// Returns true for a supported image format.
pub(super) fn is_read(format: ImageFormat) -> bool {
    matches!(
        format,
        ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Bmp | ImageFormat::WebP
    )
}

/// Returns true if a folder has files with the content or the name of a CIFAR-10 batch, or subfolders with images.
pub(super) fn are_at(folder: &Path) -> Result<bool, DataError> {
    let entries = imdb_folder::entries(folder)?;
    for (name, path) in &entries {
        if !is_hidden(name) && path.is_file() && (is_called_batch(name) || is_batch(path)?) {
            return Ok(true);
        }
    }
    // Class folders are in the folder itself or in one folder per part.
    Ok(entries
        .iter()
        .any(|(name, path)| !is_hidden(name) && path.is_dir() && has_picture(path, MAX_DEPTH)))
}

fn is_batch(path: &Path) -> Result<bool, DataError> {
    let ends = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("bin"));
    Ok(ends && recognise(path)? == Content::Batch)
}

/// Returns true if the file name is that of a binary batch of CIFAR-10.
pub(super) fn is_called_batch(name: &str) -> bool {
    let name = name.to_lowercase();
    name.ends_with(".bin") && (name.starts_with("data_batch") || name.starts_with("test_batch"))
}

/// Maximum depth of the folders that are searched for images.
const MAX_DEPTH: u32 = 8;

/// Returns true if a folder, or a subfolder at most `depth` levels below, has an image.
fn has_picture(folder: &Path, depth: u32) -> bool {
    let entries = imdb_folder::entries(folder).unwrap_or_default();
    // Do not open texts: aclImdb has 50,000 of them.
    let mut entries = entries
        .into_iter()
        .filter(|(name, _)| !is_hidden(name) && !name.ends_with(".txt"));
    entries.any(|(_, path)| match path.is_dir() {
        true => depth > 0 && has_picture(&path, depth - 1),
        false => is_picture(&path),
    })
}

/// Returns true if a file is an image in a supported format.
fn is_picture(path: &Path) -> bool {
    contents::head(path).is_ok_and(|head| image::guess_format(&head).is_ok_and(is_read))
}

/// Returns true for the file extension of a supported image format.
fn has_picture_extension(path: &Path) -> bool {
    ImageFormat::from_path(path).is_ok_and(is_read)
}

/// Explains why a file with the extension of an image is not a supported image.
fn reason_not_picture(path: &Path) -> String {
    let head = match contents::head(path) {
        Ok(head) => head,
        Err(error) => return error.to_string(),
    };
    match (contents::unsupported(&head), image::guess_format(&head)) {
        (Some(is), _) => format!("it is {is}"),
        (None, Ok(format)) => format!("its image format {format:?} is not supported"),
        (None, Err(_)) if head.is_empty() => "it is empty".to_owned(),
        (None, Err(_)) => "it is not an image: its first bytes match no known image format".to_owned(),
    }
}

/// Lists all files below a folder in sorted order. Adds the names of hidden files and folders to `hidden`.
///
/// # Errors
/// A link to a folder in `seen`. Its files would be read twice.
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
    for (name, path) in imdb_folder::entries(folder)? {
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

/// Loads the `wanted` part of the images at a path and resizes and crops them to `edge` × `edge` pixels with `preparation`.
///
/// # Errors
/// A path without images, a label out of range, or an image that cannot be decoded. The message names the file.
pub fn load_images(
    (path, known): (&Path, Option<&KnownClasses>),
    wanted: &Wanted,
    edge: usize,
    preparation: &ImagePreprocessing,
) -> Result<Dataset<Images>, DataError> {
    let Source {
        name,
        classes,
        names,
        notes,
        given,
        batches,
    } = find(path, known, matches!(wanted, Wanted::Divided(_)))?;
    let name = format!("{name}{}", wanted.remark(&given));
    let divided = wanted.of(given)?;
    let mut hasher = blake3::Hasher::new();
    let mut part = |found: Vec<Found>| -> Result<Images, DataError> {
        let decoded: Vec<Vec<u8>> = found
            .par_iter()
            .map(|found| decoded(found, &batches, edge, preparation))
            .collect::<Result<_, _>>()?;
        let mut labels = vec![];
        for (found, bytes) in found.iter().zip(&decoded) {
            hasher.update(&found.label.to_le_bytes());
            hasher.update(bytes);
            labels.push(found.label.cast_signed());
        }
        Ok(Images::new(
            Pixels::Bytes(decoded.concat(), preparation.shades),
            edge,
            labels,
        ))
    };
    let labels = [&divided.train, &divided.validation, &divided.test]
        .map(|part| part.iter().map(|found| found.label).collect::<Vec<u32>>());
    let counted = counts(
        &known.cloned().unwrap_or_default().named(classes, names),
        labels.each_ref().map(Vec::as_slice),
    );
    let (train, validation, test) = (
        part(divided.train)?,
        part(divided.validation)?,
        part(divided.test)?,
    );
    Ok(Dataset {
        train,
        validation,
        test,
        classes,
        source: DataSource {
            name,
            hash: hasher.finalize().to_hex()[..16].to_owned(),
            synthetic: false,
            classes: counted,
            notes,
        },
    })
}

/// Decodes every image. Returns the name, the number of classes, the notes, and for each image its label, the length of
/// its shorter side in pixels and a hash of its content.
pub(super) fn looked_at(path: &Path) -> Result<(String, u32, Vec<String>, Given<Look>), DataError> {
    let source = find(path, None, true)?;
    let look = |found: &Found| -> Result<Look, DataError> {
        let image = picture(found, &source.batches)?;
        let shorter = image.width().min(image.height());
        Ok((
            found.label,
            shorter.into(),
            *blake3::hash(image.as_raw()).as_bytes(),
        ))
    };
    let all = |part: &Vec<Found>| part.par_iter().map(look).collect::<Result<Vec<_>, _>>();
    let given = Given {
        train: all(&source.given.train)?,
        validation: source.given.validation.as_ref().map(all).transpose()?,
        test: source.given.test.as_ref().map(all).transpose()?,
    };
    Ok((source.name, source.classes, source.notes, given))
}

/// Label, pixels along the shorter side, hash.
pub(super) type Look = (u32, u64, [u8; 32]);

fn find(path: &Path, known: Option<&KnownClasses>, is_trained: bool) -> Result<Source, DataError> {
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
        return match recognise(path)? {
            Content::Batch => cifar(name, vec![(Part::Train, path.to_owned())]),
            Content::Other(is) => Err(invalid(format!("it is {is}"))),
            Content::Picture => Err(invalid(
                "it is a single image, but a data set is a folder with one subfolder per class".to_owned(),
            )),
            _ => Err(invalid(format!(
                "its size is not a multiple of {CIFAR_RECORD} bytes, the size of a CIFAR-10 record"
            ))),
        };
    }
    let entries = imdb_folder::entries(path)?;
    let (mut batches, mut unread) = (vec![], vec![]);
    for (name, path) in entries.iter().filter(|(name, _)| !is_hidden(name)) {
        let is_one = path.is_file() && is_batch(path)?;
        if !is_one && is_called_batch(name) {
            let reason = match recognise(path)? {
                Content::Other(is) => format!("`{name}` is {is}"),
                _ => format!("`{name}` is not a CIFAR-10 batch"),
            };
            return Err(invalid(reason));
        }
        if is_one {
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
        let mut source = cifar(name, batches)?;
        source.notes.extend(notes.into_iter().flatten());
        return Ok(source);
    }
    // A part folder contains class folders. A folder without subfolders is a class.
    let has_folders = |path: &Path| {
        let entries = imdb_folder::entries(path).unwrap_or_default();
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
    // The training part defines the classes.
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
    folders(name, (&parts, &no_part), known, is_trained).map_err(|error| match error {
        Unfit::Data(error) => error,
        Unfit::Classes(reason) => invalid(reason),
    })
}

/// Reads CIFAR-10 records with their labels.
fn cifar(name: String, files: Vec<(Part, PathBuf)>) -> Result<Source, DataError> {
    let mut source = Source {
        name,
        classes: CIFAR_CLASSES,
        names: vec![],
        notes: vec![],
        given: empty_parts(files.iter().map(|(part, _)| *part)),
        batches: vec![],
    };
    for (part, path) in files {
        let bytes = read_regular(&path).map_err(DataError::read(&path))?;
        let file = source.batches.len();
        for (index, record) in bytes.chunks_exact(CIFAR_RECORD).enumerate() {
            let label = u32::from(record[0]);
            if label >= CIFAR_CLASSES {
                return Err(DataError::NoImages {
                    path,
                    reason: format!(
                        "record {} has label {label}, but CIFAR-10 has {CIFAR_CLASSES} classes",
                        index + 1
                    ),
                });
            }
            let from = Origin::Record { file, index };
            add(&mut source.given, part, Found { label, from });
        }
        source.batches.push(bytes);
    }
    Ok(source)
}

/// Creates an empty list for the training part, and for each other part that occurs in `parts`.
fn empty_parts(parts: impl Iterator<Item = Part> + Clone) -> Given<Found> {
    let has = |wanted| parts.clone().any(|part| part == wanted);
    Given {
        train: vec![],
        validation: has(Part::Validation).then(Vec::new),
        test: has(Part::Test).then(Vec::new),
    }
}

fn add(given: &mut Given<Found>, part: Part, found: Found) {
    let part = match part {
        Part::Train => Some(&mut given.train),
        Part::Validation => given.validation.as_mut(),
        Part::Test => given.test.as_mut(),
    };
    part.expect("`empty_parts` created this part").push(found);
}

/// Reason why folders are not a valid data set.
enum Unfit {
    Data(DataError),
    Classes(String),
}

/// Finds images in one folder per class. For training data, and without a checkpoint, the classes are those of the first part.
/// [`KnownClasses::number_or_new`] assigns their numbers.
fn folders(
    name: String,
    (parts, no_part): (&[(Part, &PathBuf)], &[String]),
    known: Option<&KnownClasses>,
    is_trained: bool,
) -> Result<Source, Unfit> {
    let (mut hidden, mut others, mut loose): (Vec<String>, Vec<String>, Vec<String>) =
        (vec![], vec![], vec![]);
    let mut nested = vec![];
    let mut found: Vec<(Part, String, Vec<PathBuf>)> = vec![];
    let mut seen = BTreeSet::new();
    for (_, folder) in parts {
        seen.extend(fs::canonicalize(folder).ok());
    }
    for (part, folder) in parts {
        for (class, folder) in imdb_folder::entries(folder).map_err(Unfit::Data)? {
            if is_hidden(&class) {
                hidden.push(class);
            } else if folder.is_dir() {
                let files = files_below(&folder, &mut hidden, &mut seen).map_err(Unfit::Data)?;
                let (pictures, not_pictures): (Vec<_>, Vec<_>) =
                    files.into_par_iter().partition(|file| is_picture(file));
                if let Some(damaged) = not_pictures.iter().find(|file| has_picture_extension(file)) {
                    return Err(Unfit::Data(DataError::NoImages {
                        path: damaged.clone(),
                        reason: reason_not_picture(damaged),
                    }));
                }
                let short = |file: &PathBuf| {
                    let name = file.file_name().unwrap_or_default().to_string_lossy();
                    format!("{class}/{name}")
                };
                others.extend(not_pictures.iter().map(short));
                if pictures.is_empty() {
                    return Err(Unfit::Classes(format!(
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
    let is_new = known.is_none() || is_trained;
    let of_first = |part: Part| !is_new || Some(part) == first;
    let labels = found.iter().filter(|(part, ..)| of_first(*part));
    let labels: BTreeSet<&str> = labels.map(|(_, class, _)| class.as_str()).collect();
    if labels.len() < 2 && is_new {
        return Err(Unfit::Classes(
            "it has fewer than two folders with images".to_owned(),
        ));
    }
    let numbered = known
        .unwrap_or(&KnownClasses::default())
        .number_or_new(&labels, is_trained)
        .map_err(Unfit::Classes)?;
    let mut given = empty_parts(parts.iter().map(|(part, _)| *part));
    for (part, class, pictures) in &found {
        let Some(label) = numbered.numbers.get(class) else {
            return Err(Unfit::Classes(format!(
                "`{class}` is not a class of the first part, which defines the classes"
            )));
        };
        for path in pictures {
            let from = Origin::File(path.clone());
            add(&mut given, *part, Found { label: *label, from });
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
        given,
        batches: vec![],
    })
}

/// Reports a class whose images are all in two or more subfolders, because the subfolders may be the intended classes.
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

/// Returns the colour planes of an image, resized and cropped to `edge` × `edge` pixels.
fn decoded(
    found: &Found,
    batches: &[Vec<u8>],
    edge: usize,
    preparation: &ImagePreprocessing,
) -> Result<Vec<u8>, DataError> {
    const CIFAR: u32 = CIFAR_EDGE as u32;
    if let Origin::Record { file, index } = &found.from
        && preparation.keeps((CIFAR, CIFAR), edge as u32)
    {
        return Ok(record(batches, *file, *index).to_vec());
    }
    let fitted = preparation.fitted(picture(found, batches)?, edge as u32);
    let image = fitted.map_err(|reason| DataError::NoImages {
        path: match &found.from {
            Origin::File(path) => path.clone(),
            Origin::Record { .. } => PathBuf::from("CIFAR-10 record"),
        },
        reason,
    })?;
    let plane = |colour: usize| image.pixels().map(move |pixel| pixel.0[colour]);
    Ok((0..COLOURS).flat_map(plane).collect())
}

/// Returns the planes of a CIFAR-10 record.
fn record(batches: &[Vec<u8>], file: usize, index: usize) -> &[u8] {
    &batches[file][index * CIFAR_RECORD..][1..CIFAR_RECORD]
}

/// Decodes an image in its original size.
fn picture(found: &Found, batches: &[Vec<u8>]) -> Result<image::RgbImage, DataError> {
    match &found.from {
        Origin::Record { file, index } => {
            const PLANE: usize = CIFAR_EDGE * CIFAR_EDGE;
            let planes = record(batches, *file, *index);
            Ok(image::RgbImage::from_fn(
                CIFAR_EDGE as u32,
                CIFAR_EDGE as u32,
                |x, y| {
                    let at = y as usize * CIFAR_EDGE + x as usize;
                    image::Rgb([planes[at], planes[PLANE + at], planes[2 * PLANE + at]])
                },
            ))
        }
        Origin::File(path) => {
            let wrong = |reason: String| DataError::NoImages {
                path: path.clone(),
                reason,
            };
            let bytes = read_regular(path).map_err(DataError::read(path))?;
            // Detect the format from the content, because the name may be wrong.
            let format = image::guess_format(&bytes).map_err(|error| wrong(error.to_string()))?;
            if !is_whole(format, &bytes) {
                return Err(wrong("it is truncated".to_owned()));
            }
            let image = image::load_from_memory_with_format(&bytes, format);
            let image = image.map_err(|error| wrong(error.to_string()))?.to_rgb8();
            let (width, height) = image.dimensions();
            // After scaling the shorter side to the input size, the longer side would exceed the memory.
            if width.max(height) / width.min(height).max(1) > MAX_ASPECT_RATIO {
                return Err(wrong(format!(
                    "its aspect ratio is above {MAX_ASPECT_RATIO}: {width} × {height} pixels"
                )));
            }
            Ok(image)
        }
    }
}

/// Returns false for a truncated image. Some decoders do not report it, but fill in the missing data.
fn is_whole(format: ImageFormat, bytes: &[u8]) -> bool {
    let last = |mark: &[u8]| bytes.windows(mark.len()).rposition(|window| window == mark);
    let length_at = |at: usize| {
        let length: Option<[u8; 4]> = bytes.get(at..at + 4).and_then(|length| length.try_into().ok());
        length.map_or(usize::MAX, |length| u32::from_le_bytes(length) as usize)
    };
    match format {
        ImageFormat::Png => last(b"IEND\xaeB`\x82").is_some(),
        // The end marker comes after the last scan.
        ImageFormat::Jpeg => {
            last(b"\xff\xda").is_some_and(|scan| last(b"\xff\xd9").is_some_and(|end| end > scan))
        }
        ImageFormat::WebP => length_at(4).saturating_add(8) <= bytes.len(),
        _ => true,
    }
}

/// Maximum aspect ratio of an image.
const MAX_ASPECT_RATIO: u32 = 64;

#[cfg(test)]
mod tests {
    use mantissa_core::Split;

    use super::super::{Normalization, Part as _};
    use super::*;

    /// Creates CIFAR-10 records with these labels. All pixels of a plane are equal.
    fn records(labels: &[u8]) -> Vec<u8> {
        let plane = CIFAR_EDGE * CIFAR_EDGE;
        let record = |label: u8| {
            let planes = (0..3u8).flat_map(move |colour| std::iter::repeat_n(10 * label + colour, plane));
            std::iter::once(label).chain(planes)
        };
        labels.iter().copied().flat_map(record).collect()
    }

    fn picture(path: &Path, width: u32, height: u32, red: u8) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        image::RgbImage::from_pixel(width, height, image::Rgb([red, 1, 2]))
            .save(path)
            .unwrap();
    }

    fn split(validation: u32) -> Wanted {
        Wanted::Divided(Split {
            join: false,
            train: None,
            validation,
            test: None,
            seed: 1,
        })
    }

    #[test]
    fn cifar_batches_are_normalized() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data_batch_1.bin"), records(&[3, 5, 9])).unwrap();
        fs::write(folder.path().join("test_batch.bin"), records(&[7])).unwrap();
        fs::write(folder.path().join("batches.meta.txt"), "names").unwrap();
        assert!(are_at(folder.path()).unwrap());
        let data = load_images(
            (folder.path(), None),
            &split(1),
            CIFAR_EDGE,
            &ImagePreprocessing::usual(Normalization::IMAGENET),
        )
        .unwrap();
        assert_eq!(
            [data.train.len(), data.validation.len(), data.test.len()],
            [2, 1, 1]
        );
        assert_eq!((data.classes, data.source.synthetic), (10, false));
        let batch = data.test.batch(&[0]);
        let wanted = [
            (70.0 / 255.0 - 0.485) / 0.229,
            (71.0 / 255.0 - 0.456) / 0.224,
            (72.0 / 255.0 - 0.406) / 0.225,
        ];
        for (plane, wanted) in batch.values.chunks_exact(CIFAR_EDGE * CIFAR_EDGE).zip(wanted) {
            assert!(
                plane.iter().all(|x| (f64::from(*x) - wanted).abs() < 1e-6),
                "{} {wanted}",
                plane[0]
            );
        }
        // A single file is a test set.
        let alone = load_images(
            (&folder.path().join("data_batch_1.bin"), None),
            &Wanted::Test(Some(2)),
            CIFAR_EDGE,
            &ImagePreprocessing::usual(Normalization::IMAGENET),
        )
        .unwrap();
        assert_eq!((alone.train.len(), alone.test.len()), (0, 2));
    }

    #[test]
    fn image_folders_are_classes_in_alphabetical_order() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        picture(&at("train/dog/1.png"), 4, 4, 200);
        picture(&at("train/cat/1.png"), 8, 4, 100);
        picture(&at("train/cat/2.jpg"), 4, 6, 100);
        picture(&at("test/dog/1.PNG"), 4, 4, 200);
        assert!(are_at(folder.path()).unwrap() && are_at(&at("train")).unwrap());
        let data = load_images(
            (folder.path(), None),
            &split(0),
            4,
            &ImagePreprocessing::usual(Normalization::IMAGENET),
        )
        .unwrap();
        let mut labels = data.train.labels().to_vec();
        labels.sort_unstable();
        assert_eq!(
            (labels, data.test.labels(), data.classes),
            (vec![0, 0, 1], &[1][..], 2)
        );
        let red = data.test.batch(&[0]).values[0];
        assert!((red - (200.0 / 255.0 - 0.485) / 0.229).abs() < 1e-6, "{red}");
        assert_eq!(data.train.batch(&[0]).values.len(), 3 * 16);
    }

    #[test]
    fn errors_in_image_data_sets_name_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let error = |path: &Path| {
            load_images(
                (path, None),
                &Wanted::Test(None),
                4,
                &ImagePreprocessing::usual(Normalization::IMAGENET),
            )
            .unwrap_err()
            .to_string()
        };
        let mut bad = records(&[1, 2]);
        bad[CIFAR_RECORD] = 10;
        fs::write(at("bad.bin"), &bad).unwrap();
        assert!(error(&at("bad.bin")).contains("record 2 has label 10"));
        fs::write(at("short.bin"), &bad[..100]).unwrap();
        assert!(error(&at("short.bin")).contains("its size is not a multiple of 3073 bytes"));
        picture(&at("one/only/1.png"), 4, 4, 0);
        assert!(error(&at("one")).contains("fewer than two folders"));
        picture(&at("two/a/1.png"), 4, 4, 0);
        fs::create_dir_all(at("two/b")).unwrap();
        fs::write(at("two/b/notes.txt"), "no picture").unwrap();
        assert!(error(&at("two")).contains("`b` has no images in a supported format"));
        for (bytes, reason) in [
            (&b"no picture"[..], "b/1.png`: it is not an image"),
            (b"", "b/1.png`: it is empty"),
            (
                b"version https://git-lfs.github.com/spec/v1",
                "b/1.png`: it is a Git LFS pointer",
            ),
            (b"GIF89a", "b/1.png`: its image format Gif is not supported"),
        ] {
            fs::write(at("two/b/1.png"), bytes).unwrap();
            assert!(error(&at("two")).contains(reason), "{}", error(&at("two")));
        }
        let whole = fs::read(at("one/only/1.png")).unwrap();
        for length in [whole.len() - 8, whole.len() / 2] {
            fs::write(at("two/b/1.png"), &whole[..length]).unwrap();
            assert!(
                error(&at("two")).contains("b/1.png`: it is truncated"),
                "{}",
                error(&at("two"))
            );
        }
        picture(&at("parts/train/a/1.png"), 4, 4, 0);
        picture(&at("parts/train/b/1.png"), 4, 4, 0);
        picture(&at("parts/test/c/1.png"), 4, 4, 0);
        assert!(error(&at("parts")).contains("`c` is not a class of the first part"));
        assert!(error(&at("absent")).starts_with("cannot read"));
    }

    #[test]
    fn cyclic_links_broken_links_and_parts_without_classes_are_errors() {
        use std::os::unix::fs::symlink;
        let of = |change: &dyn Fn(&Path)| {
            let folder = tempfile::tempdir().unwrap();
            for name in ["a/1.png", "b/1.png"] {
                picture(&folder.path().join(name), 2, 2, 0);
            }
            change(folder.path());
            let found = are_at(folder.path()).and_then(|_| find(folder.path(), None, true));
            found
                .map(|source| source.notes.join("\n"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(of(&|_| ()), Ok(String::new()));
        for target in [".", ".."] {
            let error = of(&|folder| symlink(target, folder.join("a/back")).unwrap()).unwrap_err();
            assert!(
                error.contains("a link to a folder that is already in the data set"),
                "{error}"
            );
        }
        let error = of(&|folder| symlink("nowhere", folder.join("c")).unwrap()).unwrap_err();
        assert!(
            error.contains("cannot read `") && error.contains("/c`"),
            "{error}"
        );
        let notes = of(&|folder| fs::write(folder.join("x.gif"), "GIF89a").unwrap()).unwrap();
        assert!(notes.contains("`x.gif`"), "{notes}");
        let in_parts = |folder: &Path, change: &dyn Fn(&Path)| {
            fs::create_dir(folder.join("train")).unwrap();
            for class in ["a", "b"] {
                fs::rename(folder.join(class), folder.join("train").join(class)).unwrap();
            }
            change(folder);
        };
        let error = of(&|folder| in_parts(folder, &|folder| picture(&folder.join("test/1.png"), 2, 2, 0)));
        assert!(error.unwrap_err().contains("`test` has no class folders"));
        let notes = of(&|folder| in_parts(folder, &|folder| picture(&folder.join("1.png"), 2, 2, 0)));
        assert!(notes.unwrap().contains("`1.png`"));
    }
}
