//! Where parameters come from: a safetensors file of the user's, or seeded initialisation.

use std::path::Path;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::{
    WorkloadError,
    models::{Init, ParameterSpec},
};

/// Name, shape and row-major values of a parameter.
pub(crate) type Weights = Vec<(String, Vec<usize>, Vec<f32>)>;

/// Seeded initial weights: the same on every machine and under every setting.
pub(crate) fn initial(specs: &[ParameterSpec], seed: u64) -> Weights {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let values = |spec: &ParameterSpec, rng: &mut ChaCha8Rng| {
        let count: usize = spec.shape.iter().product();
        let normal = |deviation: f64, rng: &mut ChaCha8Rng| -> Vec<f32> {
            let sample =
                |_| deviation as f32 * <StandardNormal as Distribution<f32>>::sample(&StandardNormal, rng);
            (0..count).map(sample).collect()
        };
        match spec.init {
            Init::Zeros => vec![0.0; count],
            Init::Ones => vec![1.0; count],
            Init::Normal(deviation) => normal(deviation, rng),
            Init::NormalZeroFirstRow(deviation) => {
                let mut values = normal(deviation, rng);
                values[..spec.shape[1]].fill(0.0);
                values
            }
        }
    };
    specs
        .iter()
        .map(|spec| (spec.name.clone(), spec.shape.clone(), values(spec, &mut rng)))
        .collect()
}

/// Reads every parameter from a safetensors file in f32, f16 or bf16.
///
/// # Errors
/// One error that lists every missing, extra and misshapen tensor, with the shapes wanted and found.
pub(crate) fn from_file(path: &Path, specs: &[ParameterSpec]) -> Result<Weights, WorkloadError> {
    let wrong = |text: String| WorkloadError::Weights(format!("`{}`: {text}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let file = SafeTensors::deserialize(&bytes).map_err(|error| wrong(error.to_string()))?;

    let mut problems = vec![];
    let mut weights = vec![];
    for ParameterSpec { name, shape, .. } in specs {
        match file.tensor(name) {
            Err(_) => problems.push(format!("missing `{name}` {shape:?}")),
            Ok(tensor) if tensor.shape() != shape => {
                problems.push(format!("`{name}` is {:?}, wanted {shape:?}", tensor.shape()));
            }
            Ok(tensor) => match values(&tensor) {
                Some(values) => weights.push((name.clone(), shape.clone(), values)),
                None => problems.push(format!(
                    "`{name}` is {:?}, wanted F32, F16 or BF16",
                    tensor.dtype()
                )),
            },
        }
    }
    let known = |name: &str| specs.iter().any(|spec| spec.name == name);
    let mut extra: Vec<_> = file.names().into_iter().filter(|name| !known(name)).collect();
    extra.sort();
    problems.extend(extra.iter().map(|name| format!("extra `{name}`")));
    if problems.is_empty() {
        return Ok(weights);
    }
    Err(wrong(format!(
        "the tensors do not fit the model\n  {}",
        problems.join("\n  ")
    )))
}

fn values(tensor: &TensorView<'_>) -> Option<Vec<f32>> {
    let halves = tensor.data().chunks_exact(2).map(|b| [b[0], b[1]]);
    match tensor.dtype() {
        Dtype::F32 => Some(
            tensor
                .data()
                .chunks_exact(4)
                .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                .collect(),
        ),
        Dtype::F16 => Some(halves.map(|b| half::f16::from_le_bytes(b).to_f32()).collect()),
        Dtype::BF16 => Some(halves.map(|b| half::bf16::from_le_bytes(b).to_f32()).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{DistilBert, Network};
    use mantissa_core::DistilBertSize;

    #[test]
    fn the_base_model_has_the_published_number_of_parameters() {
        let specs = DistilBert::new(DistilBertSize::BASE, 30_522, 2).parameters();
        let count: usize = specs
            .iter()
            .map(|spec| spec.shape.iter().product::<usize>())
            .sum();
        // 66,362,880 of the encoder and 592,130 of the head, as Hugging Face counts them.
        assert_eq!(count, 66_955_010);
    }

    #[test]
    fn a_file_that_does_not_fit_is_answered_with_every_difference() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.safetensors");
        let floats: Vec<u8> = [1f32, 2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        let view = |shape: Vec<usize>| TensorView::new(Dtype::F32, shape, &floats).unwrap();
        safetensors::serialize_to_file([("a", view(vec![2])), ("z", view(vec![1, 2]))], None, &path).unwrap();
        let spec = |name: &str, shape: &[usize]| ParameterSpec {
            name: name.into(),
            shape: shape.into(),
            init: Init::Zeros,
        };

        let error = from_file(&path, &[spec("a", &[2, 1]), spec("b", &[2])])
            .unwrap_err()
            .to_string();
        for part in ["`a` is [2], wanted [2, 1]", "missing `b` [2]", "extra `z`"] {
            assert!(error.contains(part), "{part} not in {error}");
        }
        let read = from_file(&path, &[spec("a", &[2]), spec("z", &[1, 2])]).unwrap();
        assert_eq!(read[0].2, [1.0, 2.0]);
    }
}
