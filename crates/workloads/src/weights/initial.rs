//! Seeded initial weights.

use mantissa_core::Values;
use mantissa_inputs::weights::Weight;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use crate::models::{Init, ParameterSpec};

/// Generates seeded initial weights one by one. The weights are the same on every machine and under every setting.
pub(crate) fn initial(specs: Vec<ParameterSpec>, seed: u64) -> impl Iterator<Item = Weight> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    specs.into_iter().map(move |spec| {
        let values = values(&spec, &mut rng);
        (spec.name, spec.shape, Values::F32(values))
    })
}

fn values(spec: &ParameterSpec, rng: &mut ChaCha8Rng) -> Vec<f32> {
    let count: usize = spec.shape.iter().product();
    let mut normal = |deviation: f64| -> Vec<f32> {
        let sample =
            |_| deviation as f32 * <StandardNormal as Distribution<f32>>::sample(&StandardNormal, rng);
        (0..count).map(sample).collect()
    };
    match spec.init {
        Init::Zeros => vec![0.0; count],
        Init::Ones => vec![1.0; count],
        Init::Normal(deviation) => normal(deviation),
        Init::NormalZeroFirstRow(deviation) => {
            let mut values = normal(deviation);
            values[..spec.shape[1]].fill(0.0);
            values
        }
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::DistilBertSize;

    use crate::models::{DistilBert, Network};

    #[test]
    fn base_model_has_the_published_parameter_count() {
        let specs = DistilBert::new(DistilBertSize::BASE, 30_522, 2).parameters();
        let count: usize = specs
            .iter()
            .map(|spec| spec.shape.iter().product::<usize>())
            .sum();
        // 66,362,880 in the encoder and 592,130 in the head, as reported by Hugging Face.
        assert_eq!(count, 66_955_010);
    }
}
