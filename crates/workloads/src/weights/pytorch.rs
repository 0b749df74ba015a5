//! What `torch.save` writes.

use std::{fs::File, io::Read, path::Path};

use pytorch_reader::{DType, PytorchReader, Tensor};
use safetensors::Dtype;

use super::tensors::floats;

/// Under which keys a training may keep its weights.
const KEYS: [&str; 3] = ["state_dict", "model_state_dict", "model"];

/// Whether a file is an archive (since PyTorch 1.6) or a pickle.
pub(super) fn is_one(path: &Path) -> bool {
    let mut head = [0; 2];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && matches!(&head, b"PK" | [0x80, _])
}

/// Tensors by name, not read yet.
pub(super) fn tensors(path: &Path) -> Result<Vec<(String, Tensor)>, String> {
    for key in KEYS {
        // An error means that there is no such key; any other shows again below.
        if let Ok(reader) = PytorchReader::with_top_level_key(path, key)
            && !reader.is_empty()
        {
            return Ok(reader.into_tensors().into_iter().collect());
        }
    }
    match PytorchReader::new(path) {
        Ok(reader) if reader.is_empty() => Err("it holds no tensors".to_owned()),
        Ok(reader) => Ok(reader.into_tensors().into_iter().collect()),
        Err(error) => Err(error.to_string()),
    }
}

/// The type of a tensor's values, if they are floats that are read.
pub(super) fn dtype(tensor: &Tensor) -> Option<Dtype> {
    match tensor.dtype() {
        DType::F64 => Some(Dtype::F64),
        DType::F32 => Some(Dtype::F32),
        DType::F16 => Some(Dtype::F16),
        DType::BF16 => Some(Dtype::BF16),
        _ => None,
    }
}

/// The values of a tensor as f32, in row-major order.
pub(super) fn values(tensor: &Tensor) -> Result<Vec<f32>, String> {
    let dtype = dtype(tensor).ok_or("no floats")?;
    let bytes = tensor.read().map_err(|error| error.to_string())?;
    floats(dtype, &bytes).ok_or_else(|| "no floats".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_and_pickles_of_pytorch_are_read_whatever_they_are_nested_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
        for name in ["archive.pth", "pickle.pth"] {
            let path = folder.join(name);
            assert!(is_one(&path), "{name}");
            let mut found = tensors(&path).unwrap();
            found.sort_by(|(a, _), (b, _)| a.cmp(b));
            let of = |wanted: &str| {
                let (_, tensor) = found.iter().find(|(name, _)| name == wanted).unwrap();
                (tensor.shape().to_vec(), values(tensor))
            };
            // As `peers/pytorch/golden/checkpoint.py` wrote them.
            let single = vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
            let more = |by: f32| single.iter().map(|x| x + by).collect::<Vec<f32>>();
            assert_eq!(of("module.single"), (vec![2, 3], Ok(single.clone())), "{name}");
            let turned = vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0];
            assert_eq!(of("module.half"), (vec![2, 3], Ok(turned)), "{name}");
            assert_eq!(of("module.brain"), (vec![6], Ok(more(1.0))), "{name}");
            assert_eq!(of("module.double"), (vec![6], Ok(more(2.0))), "{name}");
            assert!(of("module.num_batches_tracked").1.is_err(), "{name}");
        }
    }

    #[test]
    fn a_file_that_is_cut_off_or_none_is_an_error() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/archive.pth");
        let good = std::fs::read(golden).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cut.pth");
        for end in [0, 1, 10, good.len() / 2, good.len() - 10] {
            std::fs::write(&path, &good[..end]).unwrap();
            assert!(tensors(&path).is_err(), "{end} bytes");
        }
        std::fs::write(&path, "no archive").unwrap();
        assert!(!is_one(&path) && tensors(&path).is_err());
    }
}
