//! Throughput of Mantissa's controlled matmuls and convolutions on the CPU, in each precision and with each accumulator, and of burn's
//! own. The example `cost_of_control` measures the ratio of their times, in alternating runs.

use std::hint::black_box;

use burn::{
    backend::ops::ConvOptions,
    tensor::{DType, Device, Distribution, Tensor, module::conv2d},
};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mantissa_core::{Accumulator, MatmulPrecision, Precision};
use mantissa_precision::Compute;

/// Shapes `[batch, m, k, n]`: two square matmuls, three matmuls of a transformer (a projection, the scores of attention, one token times
/// a large weight), and a tall, thin matrix.
const SHAPES: [(&str, [usize; 4]); 6] = [
    ("256", [1, 256, 256, 256]),
    ("1024", [1, 1024, 1024, 1024]),
    ("projection", [1, 1024, 768, 768]),
    ("attention scores", [48, 128, 64, 128]),
    ("one token", [1, 1, 4096, 4096]),
    ("tall and thin", [1, 16_384, 64, 64]),
];

fn matmuls(criterion: &mut Criterion) {
    for (name, [batch, m, k, n]) in SHAPES {
        let mut group = criterion.benchmark_group(format!("matmul {name}"));
        group.throughput(Throughput::Elements(2 * (batch * m * k * n) as u64));
        group.sample_size(20);
        let draw = |shape, dtype| {
            let normal = Distribution::Normal(0.0, 1.0);
            Tensor::<3>::random(shape, normal, &Device::flex()).cast(dtype)
        };
        let operands = |dtype: DType| (draw([batch, m, k], dtype), draw([batch, k, n], dtype));
        let (lhs, rhs) = operands(DType::F32);
        group.bench_function("burn", |bencher| {
            #[expect(clippy::disallowed_methods, reason = "baseline of the comparison")]
            bencher.iter(|| black_box(lhs.clone().matmul(rhs.clone())));
        });
        for &matmul in MatmulPrecision::ALL {
            let compute = Compute::new(Precision::True32, matmul, Accumulator::F32);
            group.bench_function(BenchmarkId::from_parameter(matmul), |bencher| {
                bencher.iter(|| black_box(compute.matmul(lhs.clone(), rhs.clone())));
            });
        }
        for (precision, dtype) in [
            (Precision::True16, DType::F16),
            (Precision::TrueBf16, DType::BF16),
        ] {
            let (lhs, rhs) = operands(dtype);
            for &accumulator in Accumulator::ALL {
                // Emulated f16 sums are a thousand times slower: the running sum is rounded after each addition. Only one shape uses them.
                if accumulator == Accumulator::F16 && name != "256" {
                    continue;
                }
                let compute = Compute::new(precision, MatmulPrecision::Highest, accumulator);
                group.bench_function(format!("{precision}, {accumulator} sums"), |bencher| {
                    bencher.iter(|| black_box(compute.matmul(lhs.clone(), rhs.clone())));
                });
            }
        }
        group.finish();
    }
}

/// Benchmarks a layer of a CIFAR ResNet.
fn convolutions(criterion: &mut Criterion) {
    let device = Device::flex();
    let draw = |shape: [usize; 4]| Tensor::<4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
    let (images, filters) = (draw([64, 32, 16, 16]), draw([32, 32, 3, 3]));
    let mut group = criterion.benchmark_group("convolution 64 × 32 × 16 × 16, 3 × 3");
    group.throughput(Throughput::Elements(2 * 64 * 32 * 16 * 16 * 32 * 9));
    group.sample_size(20);
    group.bench_function("burn", |bencher| {
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
        #[expect(clippy::disallowed_methods, reason = "baseline of the comparison")]
        bencher.iter(|| black_box(conv2d(images.clone(), filters.clone(), None, options.clone())));
    });
    for &matmul in MatmulPrecision::ALL {
        let compute = Compute::new(Precision::True32, matmul, Accumulator::F32);
        group.bench_function(BenchmarkId::from_parameter(matmul), |bencher| {
            bencher.iter(|| black_box(compute.convolution(images.clone(), filters.clone(), 1, 1)));
        });
    }
    group.finish();
}

criterion_group!(benches, matmuls, convolutions);
criterion_main!(benches);
