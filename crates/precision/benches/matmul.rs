//! What control costs on the CPU: the controlled product in each matmul precision beside burn's own.
//!
//! Targets on two cores: `highest` within 5 % of burn's own, `high` and `medium` within 1.3 times of it.

use std::hint::black_box;

use burn::tensor::{Distribution, Tensor};
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

criterion_group!(benches, products);
criterion_main!(benches);
