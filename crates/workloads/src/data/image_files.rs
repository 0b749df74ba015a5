//! Labelled images from the user's disk: CIFAR-10's binary batches, or folders of PNG and JPEG files, a folder a class.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use image::imageops::{self, FilterType};
use mantissa_core::DataSource;
use rayon::prelude::*;

use super::{
    DataError, Dataset, Images, Wanted,
    examples::Part,
    images::{COLOURS, Pixels, Shades},
    imdb_folder,
    split::Given,
};

/// Edge of CIFAR's images.
const CIFAR_EDGE: usize = 32;
/// Bytes of a record of CIFAR-10: a label and three planes.
const CIFAR_RECORD: usize = 1 + COLOURS * CIFAR_EDGE * CIFAR_EDGE;
/// Classes of CIFAR-10.
const CIFAR_CLASSES: u32 = 10;

/// An image that is not decoded yet.
struct Found {
    label: u32,
    from: From,
}

enum From {
    /// A record of one of the files that were read.
    Record { file: usize, index: usize },
    /// A file of its own.
    File(PathBuf),
}

/// Images where they were found.
struct Source {
    name: String,
    classes: u32,
    given: Given<Found>,
    /// CIFAR's files.
    batches: Vec<Vec<u8>>,
}

/// Whether there are images at a path: CIFAR's batches, or folders of classes with a picture in the first.
pub(super) fn are_at(path: &Path) -> bool {
    if path.is_file() {
        return is_batch(path);
    }
    let entries = || imdb_folder::entries(path).unwrap_or_default().into_iter();
    let has_picture = |folder: &Path| {
        let files = imdb_folder::entries(folder).unwrap_or_default();
        files.iter().any(|(name, _)| is_picture(name))
    };
    let classes_in = |folder: &Path| {
        let folders = imdb_folder::entries(folder).unwrap_or_default();
        folders.iter().any(|(_, path)| path.is_dir() && has_picture(path))
    };
    entries().any(|(_, path)| is_batch(&path))
        || classes_in(path)
        || entries().any(|(_, path)| classes_in(&path))
}

fn is_batch(path: &Path) -> bool {
    let bytes = path.metadata().map_or(0, |file| file.len());
    path.extension().is_some_and(|end| end == "bin") && bytes > 0 && bytes.is_multiple_of(CIFAR_RECORD as u64)
}

fn is_picture(name: &str) -> bool {
    let name = name.to_lowercase();
    [".png", ".jpg", ".jpeg"].iter().any(|end| name.ends_with(end))
}

/// Loads what is `wanted` of the images at `path`. Pictures of another size than `edge` are scaled until their shorter side
/// fits, and cut to its middle.
///
/// # Errors
/// A path without images, a label out of range, a picture that cannot be decoded: each with its file.
pub fn load_images(
    path: &Path,
    wanted: &Wanted,
    edge: usize,
    shades: Shades,
) -> Result<Dataset<Images>, DataError> {
    let Source {
        name,
        classes,
        given,
        batches,
    } = find(path)?;
    let name = format!("{name}{}", wanted.remark(&given));
    let divided = wanted.of(given)?;
    let mut hasher = blake3::Hasher::new();
    let mut part = |found: Vec<Found>| -> Result<Images, DataError> {
        let decoded: Vec<Vec<u8>> = found
            .par_iter()
            .map(|found| decoded(found, &batches, edge))
            .collect::<Result<_, _>>()?;
        let mut labels = vec![];
        for (found, bytes) in found.iter().zip(&decoded) {
            hasher.update(&found.label.to_le_bytes());
            hasher.update(bytes);
            labels.push(found.label.cast_signed());
        }
        Ok(Images::new(Pixels::Bytes(decoded.concat(), shades), edge, labels))
    };
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
        },
    })
}

/// Name, number of classes, and of every image its label, the pixels along its shorter side and a hash of its contents. Every one
/// is decoded.
pub(super) fn looked_at(path: &Path) -> Result<(String, u32, Given<Look>), DataError> {
    let source = find(path)?;
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
    Ok((source.name, source.classes, given))
}

/// Label, pixels along the shorter side, hash.
pub(super) type Look = (u32, u64, [u8; 32]);

fn find(path: &Path) -> Result<Source, DataError> {
    let none = |reason: String| DataError::NoImages {
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
        if !is_batch(path) {
            return Err(none(format!(
                "its length is no multiple of {CIFAR_RECORD}, a record of CIFAR-10"
            )));
        }
        return cifar(name, vec![(Part::Train, path.to_owned())]);
    }
    let entries = imdb_folder::entries(path)?;
    let batches = entries.iter().filter(|(_, path)| is_batch(path));
    let batches: Vec<_> = batches
        .map(|(name, path)| {
            let part = if name.contains("test") {
                Part::Test
            } else {
                Part::Train
            };
            (part, path.clone())
        })
        .collect();
    if !batches.is_empty() {
        return cifar(name, batches);
    }
    let parts = entries.iter().filter_map(|(name, path)| match name.as_str() {
        "train" => Some((Part::Train, path)),
        "test" => Some((Part::Test, path)),
        "val" | "valid" | "validation" => Some((Part::Validation, path)),
        _ => None,
    });
    let mut parts: Vec<_> = parts.filter(|(_, path)| path.is_dir()).collect();
    // Classes are those of the training part.
    parts.sort_by_key(|(part, _)| *part);
    let parts = if parts.is_empty() {
        vec![(Part::Train, &full)]
    } else {
        parts
    };
    folders(name, &parts).map_err(|error| match error {
        Unfit::Data(error) => error,
        Unfit::Classes(reason) => none(reason),
    })
}

/// CIFAR-10's records, with their labels.
fn cifar(name: String, files: Vec<(Part, PathBuf)>) -> Result<Source, DataError> {
    let mut source = Source {
        name,
        classes: CIFAR_CLASSES,
        given: no_images(files.iter().map(|(part, _)| *part)),
        batches: vec![],
    };
    for (part, path) in files {
        let bytes = fs::read(&path).map_err(DataError::read(&path))?;
        let file = source.batches.len();
        for (index, record) in bytes.chunks_exact(CIFAR_RECORD).enumerate() {
            let label = u32::from(record[0]);
            if label >= CIFAR_CLASSES {
                return Err(DataError::NoImages {
                    path,
                    reason: format!(
                        "record {} has label {label}, and CIFAR-10 has {CIFAR_CLASSES} classes",
                        index + 1
                    ),
                });
            }
            let from = From::Record { file, index };
            add(&mut source.given, part, Found { label, from });
        }
        source.batches.push(bytes);
    }
    Ok(source)
}

fn no_images(parts: impl Iterator<Item = Part> + Clone) -> Given<Found> {
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
    part.expect("made for the parts there are").push(found);
}

/// Why folders are no data set.
enum Unfit {
    Data(DataError),
    Classes(String),
}

/// Pictures in folders, a folder a class; classes are numbered in the order of their names, and are those of the first part.
fn folders(name: String, parts: &[(Part, &PathBuf)]) -> Result<Source, Unfit> {
    let mut classes: BTreeMap<String, u32> = BTreeMap::new();
    let mut given = no_images(parts.iter().map(|(part, _)| *part));
    for (number, (part, folder)) in parts.iter().enumerate() {
        let folders = imdb_folder::entries(folder).map_err(Unfit::Data)?.into_iter();
        let mut folders: Vec<_> = folders.filter(|(_, path)| path.is_dir()).collect();
        folders.sort();
        for (class, folder) in folders {
            let next = classes.len() as u32;
            let label = match classes.get(&class) {
                Some(label) => *label,
                None if number == 0 => *classes.entry(class.clone()).or_insert(next),
                None => return Err(Unfit::Classes(format!("`{class}` is a class of one part alone"))),
            };
            let mut files: Vec<_> = imdb_folder::entries(&folder).map_err(Unfit::Data)?;
            files.retain(|(name, _)| is_picture(name));
            files.sort();
            if files.is_empty() {
                return Err(Unfit::Classes(format!("`{class}` holds no `.png` or `.jpg`")));
            }
            for (_, path) in files {
                let from = From::File(path);
                add(&mut given, *part, Found { label, from });
            }
        }
    }
    if classes.len() < 2 {
        return Err(Unfit::Classes(
            "it has fewer than two folders of images".to_owned(),
        ));
    }
    Ok(Source {
        name,
        classes: classes.len() as u32,
        given,
        batches: vec![],
    })
}

/// The planes of an image of this edge.
fn decoded(found: &Found, batches: &[Vec<u8>], edge: usize) -> Result<Vec<u8>, DataError> {
    if let From::Record { file, index } = &found.from
        && edge == CIFAR_EDGE
    {
        return Ok(record(batches, *file, *index).to_vec());
    }
    let image = fitted(picture(found, batches)?, edge as u32);
    let plane = |colour: usize| image.pixels().map(move |pixel| pixel.0[colour]);
    Ok((0..COLOURS).flat_map(plane).collect())
}

/// The planes of a record of CIFAR.
fn record(batches: &[Vec<u8>], file: usize, index: usize) -> &[u8] {
    &batches[file][index * CIFAR_RECORD..][1..CIFAR_RECORD]
}

/// An image as it was found.
fn picture(found: &Found, batches: &[Vec<u8>]) -> Result<image::RgbImage, DataError> {
    match &found.from {
        From::Record { file, index } => {
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
        From::File(path) => {
            let wrong = |reason: String| DataError::NoImages {
                path: path.clone(),
                reason,
            };
            let image = image::open(path)
                .map_err(|error| wrong(error.to_string()))?
                .to_rgb8();
            let (width, height) = image.dimensions();
            // Scaled until its shorter side fills an input, the longer one would fill the memory.
            if width.max(height) / width.min(height).max(1) > LONGEST {
                return Err(wrong(format!(
                    "{width} × {height} pixels are a line and no picture"
                )));
            }
            Ok(image)
        }
    }
}

/// The longer side of an image in units of the shorter one, at most.
const LONGEST: u32 = 64;

/// The middle of an image whose shorter side is as long as this.
fn fitted(image: image::RgbImage, edge: u32) -> image::RgbImage {
    let (width, height) = image.dimensions();
    if (width, height) == (edge, edge) {
        return image;
    }
    let shorter = width.min(height).max(1);
    let scaled =
        |side: u32| (u64::from(side) * u64::from(edge) / u64::from(shorter)).max(u64::from(edge)) as u32;
    let (width, height) = (scaled(width), scaled(height));
    let image = imageops::resize(&image, width, height, FilterType::Triangle);
    imageops::crop_imm(&image, (width - edge) / 2, (height - edge) / 2, edge, edge).to_image()
}

#[cfg(test)]
mod tests {
    use mantissa_core::Split;

    use super::super::Part as _;
    use super::*;

    /// Records of CIFAR-10 with these labels; all pixels of a plane are alike.
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
    fn batches_of_cifar_are_normalised_as_the_weights_expect() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data_batch_1.bin"), records(&[3, 5, 9])).unwrap();
        fs::write(folder.path().join("test_batch.bin"), records(&[7])).unwrap();
        fs::write(folder.path().join("batches.meta.txt"), "names").unwrap();
        assert!(are_at(folder.path()) && are_at(&folder.path().join("test_batch.bin")));
        let data = load_images(folder.path(), &split(1), CIFAR_EDGE, Shades::IMAGENET).unwrap();
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
        // A file alone is what a model is tested on.
        let alone = load_images(
            &folder.path().join("data_batch_1.bin"),
            &Wanted::Test(Some(2)),
            CIFAR_EDGE,
            Shades::IMAGENET,
        )
        .unwrap();
        assert_eq!((alone.train.len(), alone.test.len()), (0, 2));
    }

    #[test]
    fn folders_of_pictures_are_classes_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        picture(&at("train/dog/1.png"), 4, 4, 200);
        picture(&at("train/cat/1.png"), 8, 4, 100);
        picture(&at("train/cat/2.jpg"), 4, 6, 100);
        picture(&at("test/dog/1.PNG"), 4, 4, 200);
        assert!(are_at(folder.path()) && are_at(&at("train")));
        let data = load_images(folder.path(), &split(0), 4, Shades::IMAGENET).unwrap();
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
    fn what_is_no_data_set_of_images_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let error = |path: &Path| {
            load_images(path, &Wanted::Test(None), 4, Shades::IMAGENET)
                .unwrap_err()
                .to_string()
        };
        let mut bad = records(&[1, 2]);
        bad[CIFAR_RECORD] = 10;
        fs::write(at("bad.bin"), &bad).unwrap();
        assert!(error(&at("bad.bin")).contains("record 2 has label 10"));
        fs::write(at("short.bin"), &bad[..100]).unwrap();
        assert!(error(&at("short.bin")).contains("its length is no multiple of 3073"));
        assert!(!are_at(&at("short.bin")));
        picture(&at("one/only/1.png"), 4, 4, 0);
        assert!(error(&at("one")).contains("fewer than two folders"));
        picture(&at("two/a/1.png"), 4, 4, 0);
        fs::create_dir_all(at("two/b")).unwrap();
        fs::write(at("two/b/1.png"), "no picture").unwrap();
        assert!(error(&at("two")).contains("1.png"));
        fs::remove_file(at("two/b/1.png")).unwrap();
        assert!(error(&at("two")).contains("`b` holds no `.png`"));
        picture(&at("parts/train/a/1.png"), 4, 4, 0);
        picture(&at("parts/train/b/1.png"), 4, 4, 0);
        picture(&at("parts/test/c/1.png"), 4, 4, 0);
        assert!(error(&at("parts")).contains("`c` is a class of one part alone"));
        assert!(error(&at("absent")).starts_with("cannot read"));
    }
}
