//! Writer of checkpoints.

use std::{io, path::Path};

use mantissa_core::Values;
use safetensors::{Dtype, SafeTensorError, tensor::TensorView};

use super::Weight;

/// Writes tensors to a safetensors file, in f32 or f64. A value of a narrower format is exact in f32.
///
/// # Errors
/// Any I/O error, or a shape that does not have as many elements as the values.
pub fn save_weights(path: &Path, weights: &[Weight]) -> io::Result<()> {
    let failed = |error: SafeTensorError| match error {
        SafeTensorError::IoError(error) => error,
        error => io::Error::other(error),
    };
    let view = |(name, shape, values): &Weight| {
        let (dtype, bytes): (Dtype, Vec<u8>) = match values {
            Values::F32(values) => (
                Dtype::F32,
                values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ),
            Values::F64(values) => (
                Dtype::F64,
                values.iter().flat_map(|value| value.to_le_bytes()).collect(),
            ),
        };
        (name.clone(), dtype, shape.clone(), bytes)
    };
    let tensors: Vec<_> = weights.iter().map(view).collect();
    let views = tensors.iter().map(|(name, dtype, shape, bytes)| {
        TensorView::new(*dtype, shape.clone(), bytes).map(|view| (name, view))
    });
    let views: Vec<_> = views.collect::<Result<_, _>>().map_err(failed)?;
    safetensors::serialize_to_file(views, None, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::read_weights;

    #[test]
    fn saved_weights_are_read_back_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights.safetensors");
        let weights = vec![
            ("a.weight".to_owned(), vec![2, 1], Values::F32(vec![1.5, -0.0])),
            ("b".to_owned(), vec![1], Values::F32(vec![f32::MIN_POSITIVE])),
        ];
        save_weights(&path, &weights).unwrap();
        let mut read = read_weights(&path).unwrap();
        read.sort_by(|a, b| a.0.cmp(&b.0));
        assert_eq!(read, weights);
    }

    #[test]
    fn a_shape_of_another_size_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let weights = [("a".to_owned(), vec![3], Values::F32(vec![1.0]))];
        assert!(save_weights(&folder.path().join("a"), &weights).is_err());
    }
}
