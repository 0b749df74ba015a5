//! Reader of `torch.save` files.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read as _,
    path::Path,
};

use mantissa_core::Values;
use mantissa_core::open_regular;
use pytorch_reader::{DType, PickleValue, PytorchReader, Tensor};
use safetensors::Dtype;

use super::tensors::floats;

/// Returns the tensors by name, without reading their values, and the top-level keys whose values are dictionaries or lists. A name consists of
/// the keys on the path to a tensor, joined by dots.
pub(super) fn tensors(path: &Path) -> Result<(BTreeMap<String, Tensor>, BTreeSet<String>), String> {
    if has_negative_views(path).map_err(|error| error.to_string())? {
        return Err("it contains a negated view of a tensor, which is not supported\n  hint: save `tensor.resolve_neg()` instead".to_owned());
    }
    let reader = PytorchReader::new(path).map_err(|error| error.to_string())?;
    if reader.is_empty() {
        return Err("it contains no tensors".to_owned());
    }
    let sections = match PytorchReader::read_pickle_data(path, None) {
        Ok(PickleValue::Dict(values)) => {
            let is_container =
                |value: &PickleValue| matches!(value, PickleValue::Dict(_) | PickleValue::List(_));
            let sections = values.into_iter().filter(|(_, value)| is_container(value));
            sections.map(|(key, _)| key).collect()
        }
        _ => BTreeSet::new(),
    };
    Ok((reader.into_tensors().into_iter().collect(), sections))
}

/// Returns true if a file contains `neg: True`, with which `torch.save` marks tensors that are negated on loading.
fn has_negative_views(path: &Path) -> std::io::Result<bool> {
    /// Number of bytes searched at the beginning of the file, where the pickle is.
    const SEARCHED_BYTES: u64 = 16 << 20;
    let mut bytes = vec![];
    open_regular(path)?.take(SEARCHED_BYTES).read_to_end(&mut bytes)?;
    // The key is followed by its memo index and `True`.
    let key = b"X\x03\x00\x00\x00neg";
    let is_true = |after: &[u8]| matches!(after, [b'q', _, 0x88, ..] | [b'r', _, _, _, _, 0x88, ..]);
    let mut keys = (0..bytes.len().saturating_sub(key.len())).filter(|at| bytes[*at..].starts_with(key));
    Ok(keys.any(|at| is_true(&bytes[at + key.len()..])))
}

/// Returns the dtype of a tensor if it is a supported float.
pub(super) fn dtype(tensor: &Tensor) -> Option<Dtype> {
    match tensor.dtype() {
        DType::F64 => Some(Dtype::F64),
        DType::F32 => Some(Dtype::F32),
        DType::F16 => Some(Dtype::F16),
        DType::BF16 => Some(Dtype::BF16),
        _ => None,
    }
}

/// Returns the values of a tensor in row-major order, in f64 or f32 by the rule of [`super::Mapped::values`].
pub(super) fn values(tensor: &Tensor, wide: bool) -> Result<Values, String> {
    let dtype = dtype(tensor).ok_or("the dtype is not a supported float")?;
    let bytes = tensor.read().map_err(|error| error.to_string())?;
    floats(dtype, &bytes, wide).ok_or_else(|| "the dtype is not a supported float".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_and_pickles_are_read_with_nested_dictionaries() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        for name in ["archive.pth", "pickle.pth"] {
            let (found, sections) = tensors(&folder.join(name)).unwrap();
            let find = |wanted: &str| found.iter().find(|(name, _)| name.ends_with(wanted)).unwrap();
            let contents = |wanted: &str| {
                let (_, tensor) = find(wanted);
                (tensor.shape().to_vec(), values(tensor, false))
            };
            // Values written by `peers/pytorch/golden/checkpoint.py`.
            let single = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
            let plus = |by: f32| Ok(Values::F32(single.iter().map(|x| x + by).collect()));
            assert_eq!(contents("module.single"), (vec![2, 3], plus(0.0)), "{name}");
            let transposed = Ok(Values::F32(vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0]));
            assert_eq!(contents("module.half"), (vec![2, 3], transposed), "{name}");
            assert_eq!(contents("module.brain"), (vec![6], plus(1.0)), "{name}");
            assert_eq!(contents("module.double"), (vec![6], plus(2.0)), "{name}");
            let (_, double) = find("module.double");
            assert!(matches!(values(double, true), Ok(Values::F64(_))), "{name}");
            assert!(contents("module.num_batches_tracked").1.is_err(), "{name}");
            let (in_section, _) = find("module.single");
            let section = in_section.split('.').next().unwrap();
            assert_eq!(
                sections.contains(section),
                section != "module",
                "{name}: {sections:?}"
            );
        }
    }

    #[test]
    fn truncated_and_unrelated_files_are_rejected() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/archive.pth");
        let good = std::fs::read(golden).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.pth");
        for end in [0, 1, 10, good.len() / 2, good.len() - 10] {
            std::fs::write(&path, &good[..end]).unwrap();
            assert!(tensors(&path).is_err(), "{end} bytes");
        }
        std::fs::write(&path, "no archive").unwrap();
        assert!(tensors(&path).is_err());
    }
}
