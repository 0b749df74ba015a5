//! Attention in one kernel beside attention written out.

use burn::{
    backend::Autodiff,
    tensor::{Bool, DType, Distribution, Tensor, TensorData},
};
use mantissa_core::{Accumulator, Attention, MatmulPrecision, Precision};
use mantissa_precision::{Compute, PrecisionBackend, Sight, device::Flex};

/// `[n, heads, sequence, width]`.
const SHAPE: [usize; 4] = [2, 2, 24, 16];

fn compute(precision: Precision) -> Compute {
    Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32)
}

/// Output and gradients of both ways, on the same inputs, which are views as models make them of their projections; the
/// second sequence has padding at its end.
fn both_ways<B: PrecisionBackend>(precision: Precision, dtype: DType) -> [Vec<Vec<f64>>; 2] {
    let device = Default::default();
    let [n, heads, sequence, width] = SHAPE;
    let draws: Vec<TensorData> = (0..4)
        .map(|_| {
            Tensor::<Flex, 4>::random(
                [n, sequence, heads, width],
                Distribution::Normal(0.0, 1.0),
                &Default::default(),
            )
            .into_data()
        })
        .collect();
    let padding: Vec<bool> = (0..n * sequence).map(|at| at >= sequence + 17).collect();
    [Attention::Math, Attention::Fused].map(|attention| {
        let upload = |part: usize| {
            Tensor::<Autodiff<B>, 4>::from_data(draws[part].clone(), (&device, dtype))
                .swap_dims(1, 2)
                .require_grad()
        };
        let padding: Tensor<Autodiff<B>, 2, Bool> =
            Tensor::from_data(TensorData::new(padding.clone(), [n, sequence]), &device);
        let parts = [0, 1, 2].map(upload);
        let mixed = compute(precision).with_attention(attention).attention(
            parts.clone(),
            &Sight::padded(&padding),
            0.0,
        );
        let grads = (mixed.clone() * upload(3).cast(mixed.dtype())).sum().backward();
        let list = |tensor: Tensor<B, 4>| tensor.into_data().iter::<f64>().collect::<Vec<f64>>();
        let mut found = vec![list(mixed.inner())];
        found.extend(parts.map(|part| list(part.grad(&grads).unwrap())));
        found
    })
}

/// Largest difference in units of the largest value, for the output and the gradients.
fn difference([math, fused]: &[Vec<Vec<f64>>; 2]) -> f64 {
    let relative = |(a, b): (&Vec<f64>, &Vec<f64>)| {
        let largest = a.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        let apart = a
            .iter()
            .zip(b)
            .map(|(x, y)| (x - y).abs())
            .fold(0.0, mantissa_testing::worse);
        apart / largest
    };
    math.iter()
        .zip(fused)
        .map(relative)
        .fold(0.0, mantissa_testing::worse)
}

#[test]
fn one_kernel_attends_as_the_written_out_operations_do_and_so_do_its_gradients() {
    let f64s = difference(&both_ways::<Flex>(Precision::True64, DType::F64));
    let f32s = difference(&both_ways::<Flex>(Precision::True32, DType::F32));
    assert!(f64s < 1e-13 && f32s < 2e-5, "{f64s:e} {f32s:e}");
}

#[cfg(feature = "vulkan")]
mod lavapipe {
    use super::*;

    #[test]
    fn one_kernel_on_a_gpu_is_as_close_as_f16_allows() {
        use mantissa_precision::device::VulkanPlain;

        if !crate::vulkan_is_there() {
            return;
        }
        let close = difference(&both_ways::<VulkanPlain>(Precision::True32, DType::F32));
        assert!((1e-6..5e-3).contains(&close), "{close:e}");
    }
}
