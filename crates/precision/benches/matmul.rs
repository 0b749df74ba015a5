//! What control costs on the CPU: the controlled product and convolution in each matmul precision beside burn's own.
//!
//! Targets on two cores: `highest` within 5 % of burn's own, `high` and `medium` within 1.3 times of it.

use std::hint::black_box;

use burn::tensor::{Distribution, Tensor, module::conv2d, ops::ConvOptions};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mantissa_core::{Accumulator, MatmulPrecision, Precision};
use mantissa_precision::{Compute, device::Flex};

fn products(criterion: &mut Criterion) {
    let device = Default::default();
    for n in [256usize, 1024] {
        let mut group = criterion.benchmark_group(format!("matmul {n}"));
        group.throughput(Throughput::Elements(2 * (n as u64).pow(3)));
        group.sample_size(20);
        let draw = || Tensor::<Flex, 2>::random([n, n], Distribution::Normal(0.0, 1.0), &device);
        let (lhs, rhs) = (draw(), draw());
        group.bench_function("burn", |bencher| {
            #[expect(
                clippy::disallowed_methods,
                reason = "what the controlled product is compared with"
            )]
            bencher.iter(|| black_box(lhs.clone().matmul(rhs.clone())));
        });
        for &matmul in MatmulPrecision::ALL {
            let compute = Compute::new(Precision::True32, matmul, Accumulator::F32);
            group.bench_function(BenchmarkId::from_parameter(matmul), |bencher| {
                bencher.iter(|| black_box(compute.matmul(lhs.clone(), rhs.clone())));
            });
        }
        group.finish();
    }
}

/// A layer of a CIFAR ResNet.
fn convolutions(criterion: &mut Criterion) {
    let device = Default::default();
    let draw = |shape: [usize; 4]| Tensor::<Flex, 4>::random(shape, Distribution::Normal(0.0, 1.0), &device);
    let (images, filters) = (draw([64, 32, 16, 16]), draw([32, 32, 3, 3]));
    let mut group = criterion.benchmark_group("convolution 64 × 32 × 16 × 16, 3 × 3");
    group.throughput(Throughput::Elements(2 * 64 * 32 * 16 * 16 * 32 * 9));
    group.sample_size(20);
    group.bench_function("burn", |bencher| {
        let options = ConvOptions::new([1, 1], [1, 1], [1, 1], 1);
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

criterion_group!(benches, products, convolutions);
criterion_main!(benches);
