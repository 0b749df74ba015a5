//! Labelled images from disk: binary batches of CIFAR-10, files in the format of MNIST, or one folder of PNG, JPEG, BMP or WebP files per class.

mod cifar_batches;
mod class_folders;
mod decode;
mod idx_files;
mod layout;
mod source;

use std::path::Path;

use decode::{decode, picture};
pub(super) use layout::contains_images;
use layout::find;
use mantissa_core::DataSource;
use rayon::prelude::*;
use source::{Source, UndecodedImage};

use super::{
    DataError, Dataset, Images, KnownClasses, RequestedSplits, classes::count_classes,
    image_preprocessing::ImagePreprocessing, images::Pixels, split::PredefinedSplits,
};

/// Loads the `requested` splits of the images at a path, and resizes and crops them to `edge` × `edge` pixels as `preparation` defines.
///
/// # Errors
/// A path without images, a label out of range, or an image that cannot be decoded. The message names the file.
pub fn load_images(
    (path, known): (&Path, Option<&KnownClasses>),
    requested: &RequestedSplits,
    edge: usize,
    preparation: &ImagePreprocessing,
) -> Result<Dataset<Images>, DataError> {
    let Source {
        name,
        classes,
        names,
        notes,
        predefined,
        raw,
    } = find(path, known, matches!(requested, RequestedSplits::TrainAndTest(_)))?;
    let name = format!("{name}{}", requested.name_suffix(&predefined));
    let splits = requested.select(predefined)?;
    let mut hasher = blake3::Hasher::new();
    let mut part = |found: Vec<UndecodedImage>| -> Result<Images, DataError> {
        let decoded: Vec<Vec<u8>> = found
            .par_iter()
            .map(|found| decode(found, &raw, edge, preparation))
            .collect::<Result<_, _>>()?;
        let mut labels = vec![];
        for (found, bytes) in found.iter().zip(&decoded) {
            hasher.update(&found.label.to_le_bytes());
            hasher.update(bytes);
            labels.push(found.label.cast_signed());
        }
        Ok(Images::new(
            Pixels::Bytes(decoded.concat(), preparation.normalization),
            edge,
            labels,
        ))
    };
    let labels = [&splits.train, &splits.validation, &splits.test]
        .map(|part| part.iter().map(|found| found.label).collect::<Vec<u32>>());
    let class_counts = count_classes(
        &known.cloned().unwrap_or_default().all_names(classes, names),
        labels.each_ref().map(Vec::as_slice),
    );
    let (train, validation, test) = (part(splits.train)?, part(splits.validation)?, part(splits.test)?);
    Ok(Dataset {
        train,
        validation,
        test,
        classes,
        source: DataSource {
            name,
            hash: hasher.finalize().to_hex()[..16].to_owned(),
            synthetic: false,
            classes: class_counts,
            notes,
        },
    })
}

/// Decodes every image. Returns the name of the data, the number of classes, the notes, and a summary of each image.
pub(super) fn summarize(
    path: &Path,
) -> Result<(String, u32, Vec<String>, PredefinedSplits<ImageSummary>), DataError> {
    let source = find(path, None, true)?;
    let summarize_image = |found: &UndecodedImage| -> Result<ImageSummary, DataError> {
        let image = picture(found, &source.raw)?;
        let shorter = image.width().min(image.height());
        Ok((
            found.label,
            shorter.into(),
            *blake3::hash(image.as_raw()).as_bytes(),
        ))
    };
    let all = |part: &Vec<UndecodedImage>| {
        part.par_iter()
            .map(summarize_image)
            .collect::<Result<Vec<_>, _>>()
    };
    let predefined = PredefinedSplits {
        train: all(&source.predefined.train)?,
        validation: source.predefined.validation.as_ref().map(all).transpose()?,
        test: source.predefined.test.as_ref().map(all).transpose()?,
    };
    Ok((source.name, source.classes, source.notes, predefined))
}

/// Label of an image, pixels along its shorter side, and hash of its pixels.
pub(super) type ImageSummary = (u32, u64, [u8; 32]);

#[cfg(test)]
mod tests {
    use std::fs;

    use mantissa_core::Split;

    use super::{
        super::{
            Normalization, Part as _,
            cifar10::{CIFAR_EDGE, CIFAR_RECORD},
        },
        *,
    };

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

    fn split(validation: u32) -> RequestedSplits {
        RequestedSplits::TrainAndTest(Split {
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
        assert!(contains_images(folder.path()).unwrap());
        let data = load_images(
            (folder.path(), None),
            &split(1),
            CIFAR_EDGE,
            &ImagePreprocessing::without_config(Normalization::IMAGENET),
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
        // If only a test set is requested, a single file is the test set.
        let alone = load_images(
            (&folder.path().join("data_batch_1.bin"), None),
            &RequestedSplits::Test(Some(2)),
            CIFAR_EDGE,
            &ImagePreprocessing::without_config(Normalization::IMAGENET),
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
        assert!(contains_images(folder.path()).unwrap() && contains_images(&at("train")).unwrap());
        let data = load_images(
            (folder.path(), None),
            &split(0),
            4,
            &ImagePreprocessing::without_config(Normalization::IMAGENET),
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
    fn image_errors_contain_the_file_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let error = |path: &Path| {
            load_images(
                (path, None),
                &RequestedSplits::Test(None),
                4,
                &ImagePreprocessing::without_config(Normalization::IMAGENET),
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
    fn bad_links_and_parts_without_classes_are_rejected() {
        use std::os::unix::fs::symlink;
        let notes_after = |change: &dyn Fn(&Path)| {
            let folder = tempfile::tempdir().unwrap();
            for name in ["a/1.png", "b/1.png"] {
                picture(&folder.path().join(name), 2, 2, 0);
            }
            change(folder.path());
            let found = contains_images(folder.path()).and_then(|_| find(folder.path(), None, true));
            found
                .map(|source| source.notes.join("\n"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(notes_after(&|_| ()), Ok(String::new()));
        for target in [".", ".."] {
            let error = notes_after(&|folder| symlink(target, folder.join("a/back")).unwrap()).unwrap_err();
            assert!(
                error.contains("a link to a folder that is already in the data set"),
                "{error}"
            );
        }
        let error = notes_after(&|folder| symlink("nowhere", folder.join("c")).unwrap()).unwrap_err();
        assert!(
            error.contains("cannot read `") && error.contains("/c`"),
            "{error}"
        );
        let notes = notes_after(&|folder| fs::write(folder.join("x.gif"), "GIF89a").unwrap()).unwrap();
        assert!(notes.contains("`x.gif`"), "{notes}");
        let in_parts = |folder: &Path, change: &dyn Fn(&Path)| {
            fs::create_dir(folder.join("train")).unwrap();
            for class in ["a", "b"] {
                fs::rename(folder.join(class), folder.join("train").join(class)).unwrap();
            }
            change(folder);
        };
        let error =
            notes_after(&|folder| in_parts(folder, &|folder| picture(&folder.join("test/1.png"), 2, 2, 0)));
        assert!(error.unwrap_err().contains("`test` has no class folders"));
        let notes =
            notes_after(&|folder| in_parts(folder, &|folder| picture(&folder.join("1.png"), 2, 2, 0)));
        assert!(notes.unwrap().contains("`1.png`"));
    }
}
