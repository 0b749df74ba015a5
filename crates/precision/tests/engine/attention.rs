//! Tests of attention in one kernel against attention in separate steps.

use burn::tensor::{Bool, DType, Device, Distribution, Tensor, TensorData};
use mantissa_core::{Accumulator, Attention, MatmulPrecision, Precision};
use mantissa_precision::{AttentionMask, Compute};

/// `[n, heads, sequence, width]`.
const SHAPE: [usize; 4] = [2, 2, 24, 16];

fn compute(precision: Precision) -> Compute {
    Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32)
}

/// Returns output and gradients of both implementations on the same inputs. The inputs are views of projections, as in models. The second
/// sequence ends with padding.
fn outputs_and_gradients(device: &Device, precision: Precision, dtype: DType) -> [Vec<Vec<f64>>; 2] {
    let device = device.clone().autodiff();
    let [n, heads, sequence, width] = SHAPE;
    let inputs: Vec<TensorData> = (0..4)
        .map(|_| {
            Tensor::<4>::random(
                [n, sequence, heads, width],
                Distribution::Normal(0.0, 1.0),
                &Device::flex(),
            )
            .into_data()
        })
        .collect();
    let padding: Vec<bool> = (0..n * sequence).map(|at| at >= sequence + 17).collect();
    [Attention::Math, Attention::Fused].map(|attention| {
        let upload = |part: usize| {
            Tensor::<4>::from_data(inputs[part].clone(), (&device, dtype))
                .swap_dims(1, 2)
                .require_grad()
        };
        let padding: Tensor<2, Bool> =
            Tensor::from_data(TensorData::new(padding.clone(), [n, sequence]), &device);
        let parts = [0, 1, 2].map(upload);
        let output = compute(precision).with_attention(attention).attention(
            parts.clone(),
            &AttentionMask::padded(&padding),
            None,
        );
        let grads = (output.clone() * upload(3).cast(output.dtype())).sum().backward();
        let list = |tensor: Tensor<4>| tensor.into_data().iter::<f64>().collect::<Vec<f64>>();
        let mut results = vec![list(output.inner())];
        results.extend(parts.map(|part| list(part.grad(&grads).unwrap())));
        results
    })
}

/// Returns the largest difference in units of the largest value, for the output and the gradients.
fn relative_difference([math, fused]: &[Vec<Vec<f64>>; 2]) -> f64 {
    let relative = |(a, b): (&Vec<f64>, &Vec<f64>)| {
        let largest = a.iter().fold(0.0, |max: f64, x| max.max(x.abs()));
        let difference = a
            .iter()
            .zip(b)
            .map(|(x, y)| (x - y).abs())
            .fold(0.0, mantissa_testing::worse);
        difference / largest
    };
    math.iter()
        .zip(fused)
        .map(relative)
        .fold(0.0, mantissa_testing::worse)
}

#[test]
fn fused_attention_and_its_gradients_match_separate_steps() {
    let device = Device::flex();
    let f64s = relative_difference(&outputs_and_gradients(&device, Precision::True64, DType::F64));
    let f32s = relative_difference(&outputs_and_gradients(&device, Precision::True32, DType::F32));
    assert!(f64s < 1e-13 && f32s < 2e-5, "{f64s:e} {f32s:e}");
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use super::*;

    #[test]
    fn fused_attention_on_a_gpu_matches_separate_steps() {
        let Some(device) = crate::vulkan(false) else {
            return;
        };
        let difference = relative_difference(&outputs_and_gradients(&device, Precision::True32, DType::F32));
        // lavapipe does not have matrix units, and the kernel for the other units uses the format of its inputs.
        assert!(difference < 2e-5, "{difference:e}");
    }
}
