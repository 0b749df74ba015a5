//! IDX, the format of MNIST: a header, then unsigned bytes in row-major order, all big-endian.
//!
//! Source: LeCun, Cortes and Burges, *The MNIST database of handwritten digits*, section "File formats".

/// First bytes of a file of images: unsigned bytes in three dimensions.
pub(super) const IDX_IMAGES: [u8; 4] = [0, 0, 8, 3];
/// First bytes of a file of labels: unsigned bytes in one dimension.
pub(super) const IDX_LABELS: [u8; 4] = [0, 0, 8, 1];

/// Array of an IDX file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IdxArray<'a> {
    pub dimensions: Vec<usize>,
    pub values: &'a [u8],
}

impl<'a> IdxArray<'a> {
    /// Reads an array of unsigned bytes that begins with `magic`, [`IDX_IMAGES`] or [`IDX_LABELS`].
    ///
    /// # Errors
    /// Another magic number, or a size that differs from the header. The message completes the sentence "it …".
    pub fn read(bytes: &'a [u8], magic: [u8; 4]) -> Result<Self, String> {
        let [.., count] = magic;
        let header_bytes = size_of::<u32>() * (1 + usize::from(count));
        let Some((header, values)) = bytes
            .split_at_checked(header_bytes)
            .filter(|_| bytes.starts_with(&magic))
        else {
            return Err("has no complete IDX header of unsigned bytes in the expected dimensions".to_owned());
        };
        let (words, _) = header[size_of::<u32>()..].as_chunks::<4>();
        let dimensions: Vec<usize> = words
            .iter()
            .map(|word| u32::from_be_bytes(*word) as usize)
            .collect();
        let product = dimensions
            .iter()
            .try_fold(1_usize, |product, size| product.checked_mul(*size));
        if product != Some(values.len()) {
            let sizes: Vec<String> = dimensions.iter().map(usize::to_string).collect();
            return Err(format!(
                "has {} bytes after the header, but its dimensions are {}",
                values.len(),
                sizes.join(" × ")
            ));
        }
        Ok(Self { dimensions, values })
    }
}

/// Returns true for the beginning of an IDX file of any type and number of dimensions.
pub(super) fn is_idx(head: &[u8]) -> bool {
    matches!(head, [0, 0, 0x08 | 0x09 | 0x0b..=0x0e, 1..=4, _, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_its_dimensions_and_values() {
        // Two images of 1 × 2 pixels.
        let bytes = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 10, 20, 30, 40];
        let expected = IdxArray {
            dimensions: vec![2, 1, 2],
            values: &[10, 20, 30, 40],
        };
        assert_eq!(IdxArray::read(&bytes, IDX_IMAGES), Ok(expected));
    }

    #[test]
    fn every_truncation_and_extension_is_an_error() {
        let bytes = [0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9];
        assert!(IdxArray::read(&bytes, IDX_LABELS).is_ok());
        for end in 0..bytes.len() {
            assert!(IdxArray::read(&bytes[..end], IDX_LABELS).is_err(), "{end}");
        }
        let longer = [&bytes[..], &[1]].concat();
        assert_eq!(
            IdxArray::read(&longer, IDX_LABELS).unwrap_err(),
            "has 4 bytes after the header, but its dimensions are 3"
        );
        assert!(IdxArray::read(&bytes, IDX_IMAGES).is_err());
        // The product of the dimensions overflows.
        let huge = [&IDX_IMAGES[..], &[0xff; 12]].concat();
        assert!(IdxArray::read(&huge, IDX_IMAGES).is_err());
    }
}
