//! Images in the format of MNIST: per part, a file of images and a file of labels, with gzip or without.

use std::path::{Path, PathBuf};

use mantissa_core::read_regular;

use super::source::{Origin, RawImages, Source, UndecodedImage, add, empty_parts};
use crate::data::{
    DataError, KnownClasses,
    detect::{Content, detect_content},
    examples::Part,
    folder_entries::part_of,
    idx::{IDX_IMAGES, IDX_LABELS, IdxArray},
    text_decoding::unpack,
};

/// Returns the part that the name of a file indicates. MNIST's test files begin with `t10k`.
fn part(name: &str) -> Part {
    let test = name.to_lowercase().starts_with("t10k").then_some(Part::Test);
    test.or_else(|| part_of(name)).unwrap_or(Part::Train)
}

/// Returns true for a file of images in the format of MNIST. Its name must contain `images`; the name of the label file contains `labels` instead.
pub(super) fn is_idx_images(name: &str, path: &Path) -> Result<bool, DataError> {
    Ok(labels_name(name).is_some() && detect_content(path)? == Content::IdxImages)
}

/// Returns the name of the file of labels that belongs to a file of images.
pub(super) fn labels_name(images: &str) -> Option<String> {
    images
        .contains("images")
        .then(|| images.replace("images", "labels").replace("idx3", "idx1"))
}

/// Reads the images of `files`, and the labels next to them. The classes are 0 up to the largest label, or those of the checkpoint to be tested if
/// it has more.
pub(super) fn read_idx(
    name: String,
    files: &[(String, PathBuf)],
    tested: Option<&KnownClasses>,
) -> Result<Source, DataError> {
    let parts = files.iter().map(|(name, _)| part(name));
    let mut source = Source {
        name,
        classes: 0,
        names: vec![],
        notes: vec![],
        predefined: empty_parts(parts),
        raw: vec![],
    };
    let mut seen: Vec<(Part, &str)> = vec![];
    for (name, path) in files {
        let invalid = |reason: String| DataError::NoImages {
            path: path.clone(),
            reason,
        };
        let part = part(name);
        if let Some((_, earlier)) = seen.iter().find(|(seen, _)| *seen == part) {
            return Err(invalid(format!(
                "there are two files for one part: `{earlier}` and `{name}`"
            )));
        }
        seen.push((part, name));
        let labels_name = labels_name(name).expect("`is_idx_images` checks the name");
        let labels = path.with_file_name(&labels_name);
        if !labels.is_file() {
            return Err(invalid(format!(
                "its labels are missing (expected in `{labels_name}`)"
            )));
        }
        let bytes = read_bytes(path)?;
        let array = IdxArray::read(&bytes, IDX_IMAGES).map_err(|problem| invalid(format!("it {problem}")))?;
        let [_, rows, columns] = array.dimensions[..] else {
            unreachable!("`IDX_IMAGES` has three dimensions");
        };
        if rows == 0 || columns == 0 {
            return Err(invalid(format!("its images have {rows} × {columns} pixels")));
        }
        let raw = RawImages::grayscale(array.values.to_vec(), (columns, rows), path.clone());
        let bytes = read_bytes(&labels)?;
        let of_labels = |reason: String| DataError::NoImages {
            path: labels.clone(),
            reason,
        };
        let array =
            IdxArray::read(&bytes, IDX_LABELS).map_err(|problem| of_labels(format!("it {problem}")))?;
        if array.values.len() != raw.len() {
            return Err(of_labels(format!(
                "it has {} labels, but there are {} images",
                array.values.len(),
                raw.len()
            )));
        }
        let file = source.raw.len();
        for (index, label) in array.values.iter().enumerate() {
            let label = u32::from(*label);
            source.classes = source.classes.max(label + 1);
            let origin = Origin::Raw { file, index };
            add(&mut source.predefined, part, UndecodedImage { label, origin });
        }
        source.raw.push(raw);
    }
    source.classes = source
        .classes
        .max(tested.and_then(KnownClasses::count).unwrap_or(0));
    Ok(source)
}

/// Reads a file and unpacks it if it is compressed with gzip.
fn read_bytes(path: &Path) -> Result<Vec<u8>, DataError> {
    let bytes = read_regular(path).map_err(DataError::read(path))?;
    match bytes.starts_with(b"\x1f\x8b") {
        true => unpack(&bytes, path),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _};

    use super::*;
    use crate::data::{ImagePreprocessing, Images, Normalization, Part as _, RequestedSplits, load_images};

    fn idx(magic: [u8; 4], dimensions: &[u32], values: &[u8]) -> Vec<u8> {
        let dimensions = dimensions.iter().flat_map(|size| size.to_be_bytes());
        magic
            .into_iter()
            .chain(dimensions)
            .chain(values.iter().copied())
            .collect()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(vec![], flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Writes a folder with two training images and one test image of 2 × 2 pixels.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
        write(
            "train-images-idx3-ubyte",
            &idx(IDX_IMAGES, &[2, 2, 2], &[0, 51, 102, 153, 204, 255, 0, 0]),
        );
        write("train-labels-idx1-ubyte", &idx(IDX_LABELS, &[2], &[3, 0]));
        write(
            "t10k-images-idx3-ubyte.gz",
            &gzip(&idx(IDX_IMAGES, &[1, 2, 2], &[255, 0, 0, 0])),
        );
        write("t10k-labels-idx1-ubyte.gz", &gzip(&idx(IDX_LABELS, &[1], &[1])));
        write("README.md", b"about");
        folder
    }

    fn load(path: &Path) -> Result<crate::data::Dataset<Images>, String> {
        // Maps a byte to itself over 255.
        let normalization = Normalization::new([0.0; 3], [1.0; 3]);
        load_images(
            (path, None),
            &RequestedSplits::Test(None),
            2,
            &ImagePreprocessing::without_config(normalization),
        )
        .map_err(|error| error.to_string())
    }

    #[test]
    fn gray_values_are_those_of_all_three_colours() {
        let folder = folder();
        assert_eq!(
            crate::data::detect_kind(folder.path()).unwrap(),
            mantissa_core::DatasetKind::Images
        );
        let data = load(folder.path()).unwrap();
        assert_eq!(data.classes, 4);
        let test = data.test.batch(&[0]);
        assert_eq!(test.labels, [1]);
        assert_eq!(test.values, [1.0, 0.0, 0.0, 0.0].repeat(3));
    }

    #[test]
    fn missing_wrong_and_ambiguous_files_are_errors() {
        let error = |change: &dyn Fn(&Path)| {
            let folder = folder();
            change(folder.path());
            load(folder.path()).unwrap_err()
        };
        let removed = error(&|path| fs::remove_file(path.join("train-labels-idx1-ubyte")).unwrap());
        assert!(
            removed.contains("(expected in `train-labels-idx1-ubyte`)"),
            "{removed}"
        );
        let labels = |values: &'static [u8]| {
            move |path: &Path| {
                let count = values.len() as u32;
                fs::write(
                    path.join("train-labels-idx1-ubyte"),
                    idx(IDX_LABELS, &[count], values),
                )
                .unwrap();
            }
        };
        let few = error(&labels(&[1]));
        assert!(few.contains("it has 1 labels, but there are 2 images"), "{few}");
        let twice = error(&|path| {
            let bytes = fs::read(path.join("train-images-idx3-ubyte")).unwrap();
            fs::write(path.join("train-images-idx3-ubyte.gz"), gzip(&bytes)).unwrap();
        });
        assert!(twice.contains("two files for one part"), "{twice}");
        let empty = error(&|path| {
            fs::write(
                path.join("train-images-idx3-ubyte"),
                idx(IDX_IMAGES, &[2, 0, 2], &[]),
            )
            .unwrap();
        });
        assert!(empty.contains("0 × 2 pixels"), "{empty}");
        let kept = folder();
        let file = load(&kept.path().join("train-images-idx3-ubyte")).unwrap_err();
        assert!(file.contains("pass its folder"), "{file}");
    }
}
