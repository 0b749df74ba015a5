//! Decodes images to color planes.

use std::path::Path;

use image::RgbImage;
use mantissa_core::read_regular;

use super::source::{Origin, RawImages, UndecodedImage};
use crate::data::{
    DataError, image_format::is_complete, image_preprocessing::ImagePreprocessing, images::CHANNELS,
};

/// Maximum aspect ratio of an image.
const MAX_ASPECT_RATIO: u32 = 64;

/// Returns the color planes of an image, resized and cropped to `edge` × `edge` pixels.
pub(super) fn decode(
    found: &UndecodedImage,
    raw: &[RawImages],
    edge: usize,
    preparation: &ImagePreprocessing,
) -> Result<Vec<u8>, DataError> {
    if let Origin::Raw { file, index } = &found.origin
        && preparation.is_unchanged(raw[*file].size(), edge as u32)
    {
        return Ok(raw[*file].planes(*index).into_owned());
    }
    let resized = preparation.resize_and_crop(picture(found, raw)?, edge as u32);
    let image = resized.map_err(|reason| DataError::NoImages {
        path: path(found, raw).to_owned(),
        reason,
    })?;
    let plane = |channel: usize| image.pixels().map(move |pixel| pixel.0[channel]);
    Ok((0..CHANNELS).flat_map(plane).collect())
}

/// Returns the file of an image.
fn path<'a>(found: &'a UndecodedImage, raw: &'a [RawImages]) -> &'a Path {
    match &found.origin {
        Origin::Raw { file, .. } => &raw[*file].path,
        Origin::File(path) => path,
    }
}

/// Decodes an image in its original size.
pub(super) fn picture(found: &UndecodedImage, raw: &[RawImages]) -> Result<RgbImage, DataError> {
    let invalid = |reason: String| DataError::NoImages {
        path: path(found, raw).to_owned(),
        reason,
    };
    let image = match &found.origin {
        Origin::Raw { file, index } => {
            let (width, height) = raw[*file].size();
            let planes = raw[*file].planes(*index);
            let plane = planes.len() / CHANNELS;
            RgbImage::from_fn(width, height, |x, y| {
                let at = y as usize * width as usize + x as usize;
                image::Rgb([planes[at], planes[plane + at], planes[2 * plane + at]])
            })
        }
        Origin::File(path) => {
            let bytes = read_regular(path).map_err(DataError::read(path))?;
            // Detect the format from the content, because the name may be wrong.
            let format = image::guess_format(&bytes).map_err(|error| invalid(error.to_string()))?;
            if !is_complete(format, &bytes) {
                return Err(invalid("it is truncated".to_owned()));
            }
            let image = image::load_from_memory_with_format(&bytes, format);
            image.map_err(|error| invalid(error.to_string()))?.to_rgb8()
        }
    };
    let (width, height) = image.dimensions();
    // Scaling the shorter side of a very long image to the input size would make an image that does not fit in memory.
    if width.max(height) / width.min(height).max(1) > MAX_ASPECT_RATIO {
        return Err(invalid(format!(
            "its aspect ratio is above {MAX_ASPECT_RATIO}: {width} × {height} pixels"
        )));
    }
    Ok(image)
}
