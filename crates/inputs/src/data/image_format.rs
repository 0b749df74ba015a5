//! Supported image formats, and detection of truncated and unsupported image files.

use std::path::Path;

use image::ImageFormat;

use crate::contents;

/// Returns true for a supported image format.
pub(super) fn is_supported(format: ImageFormat) -> bool {
    matches!(
        format,
        ImageFormat::Png | ImageFormat::Jpeg | ImageFormat::Bmp | ImageFormat::WebP
    )
}

/// Returns true if a file is an image in a supported format.
pub(super) fn is_picture(path: &Path) -> bool {
    contents::read_head(path).is_ok_and(|head| image::guess_format(&head).is_ok_and(is_supported))
}

/// Returns true for the file extension of a supported image format.
pub(super) fn has_picture_extension(path: &Path) -> bool {
    ImageFormat::from_path(path).is_ok_and(is_supported)
}

/// Explains why a file with the extension of an image is not a supported image.
pub(super) fn reason_not_picture(path: &Path) -> String {
    let head = match contents::read_head(path) {
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

/// Returns false for a truncated image. Some decoders do not report missing data, but fill it in.
pub(super) fn is_complete(format: ImageFormat, bytes: &[u8]) -> bool {
    let last = |marker: &[u8]| bytes.windows(marker.len()).rposition(|window| window == marker);
    let length_at = |at: usize| {
        let length: Option<[u8; 4]> = bytes.get(at..at + 4).and_then(|length| length.try_into().ok());
        length.map_or(usize::MAX, |length| u32::from_le_bytes(length) as usize)
    };
    match format {
        ImageFormat::Png => last(b"IEND\xaeB`\x82").is_some(),
        // In a complete file, the end marker (FF D9) comes after the start of the last scan (FF DA).
        ImageFormat::Jpeg => {
            last(b"\xff\xda").is_some_and(|scan| last(b"\xff\xd9").is_some_and(|end| end > scan))
        }
        ImageFormat::WebP => length_at(4).saturating_add(8) <= bytes.len(),
        _ => true,
    }
}
