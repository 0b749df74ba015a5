//! Decodes CIFAR-10 records and image files to color planes.

use std::path::PathBuf;

use mantissa_core::read_regular;

use super::source::{Origin, UndecodedImage};
use crate::data::{
    DataError,
    cifar10::{CIFAR_EDGE, CIFAR_RECORD},
    image_format::is_complete,
    image_preprocessing::ImagePreprocessing,
    images::CHANNELS,
};

/// Maximum aspect ratio of an image.
const MAX_ASPECT_RATIO: u32 = 64;

/// Returns the color planes of an image, resized and cropped to `edge` × `edge` pixels.
pub(super) fn decode(
    found: &UndecodedImage,
    batches: &[Vec<u8>],
    edge: usize,
    preparation: &ImagePreprocessing,
) -> Result<Vec<u8>, DataError> {
    const CIFAR: u32 = CIFAR_EDGE as u32;
    if let Origin::Record { file, index } = &found.origin
        && preparation.is_unchanged((CIFAR, CIFAR), edge as u32)
    {
        return Ok(record(batches, *file, *index).to_vec());
    }
    let resized = preparation.resize_and_crop(picture(found, batches)?, edge as u32);
    let image = resized.map_err(|reason| DataError::NoImages {
        path: match &found.origin {
            Origin::File(path) => path.clone(),
            Origin::Record { .. } => PathBuf::from("CIFAR-10 record"),
        },
        reason,
    })?;
    let plane = |channel: usize| image.pixels().map(move |pixel| pixel.0[channel]);
    Ok((0..CHANNELS).flat_map(plane).collect())
}

/// Returns the planes of a CIFAR-10 record.
fn record(batches: &[Vec<u8>], file: usize, index: usize) -> &[u8] {
    &batches[file][index * CIFAR_RECORD..][1..CIFAR_RECORD]
}

/// Decodes an image in its original size.
pub(super) fn picture(found: &UndecodedImage, batches: &[Vec<u8>]) -> Result<image::RgbImage, DataError> {
    match &found.origin {
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
            let invalid = |reason: String| DataError::NoImages {
                path: path.clone(),
                reason,
            };
            let bytes = read_regular(path).map_err(DataError::read(path))?;
            // Detect the format from the content, because the name may be wrong.
            let format = image::guess_format(&bytes).map_err(|error| invalid(error.to_string()))?;
            if !is_complete(format, &bytes) {
                return Err(invalid("it is truncated".to_owned()));
            }
            let image = image::load_from_memory_with_format(&bytes, format);
            let image = image.map_err(|error| invalid(error.to_string()))?.to_rgb8();
            let (width, height) = image.dimensions();
            // Scaling the shorter side of a very long image to the input size would make an image that does not fit in memory.
            if width.max(height) / width.min(height).max(1) > MAX_ASPECT_RATIO {
                return Err(invalid(format!(
                    "its aspect ratio is above {MAX_ASPECT_RATIO}: {width} × {height} pixels"
                )));
            }
            Ok(image)
        }
    }
}
