//! Images in the binary batches of CIFAR-10.

use std::path::{Path, PathBuf};

use mantissa_core::read_regular;

use super::source::{Origin, RawImages, Source, UndecodedImage, add, empty_parts};
use crate::data::{
    DataError,
    cifar10::{CIFAR_CLASSES, CIFAR_RECORD},
    detect::{Content, detect_content},
    examples::Part,
};

/// Returns true for a `.bin` file with the size of a CIFAR-10 batch.
pub(super) fn is_batch(path: &Path) -> Result<bool, DataError> {
    let has_extension = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("bin"));
    Ok(has_extension && detect_content(path)? == Content::Batch)
}

/// Reads CIFAR-10 records with their labels.
pub(super) fn read_batches(name: String, files: Vec<(Part, PathBuf)>) -> Result<Source, DataError> {
    let mut source = Source {
        name,
        classes: CIFAR_CLASSES,
        names: vec![],
        notes: vec![],
        predefined: empty_parts(files.iter().map(|(part, _)| *part)),
        raw: vec![],
    };
    for (part, path) in files {
        let bytes = read_regular(&path).map_err(DataError::read(&path))?;
        let file = source.raw.len();
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
            let origin = Origin::Raw { file, index };
            add(&mut source.predefined, part, UndecodedImage { label, origin });
        }
        source.raw.push(RawImages::cifar(bytes, path));
    }
    Ok(source)
}
