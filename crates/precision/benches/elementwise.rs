//! Throughput of all CPU kernels other than matmuls and convolutions, in bytes per second, and of a copy as the upper bound.
//!
//! Bytes are the minimum traffic: every input read once, every output written once. Target on two cores: no 16-bit kernel
//! is slower than its f32 counterpart, and casts are as fast as the copy.

use std::hint::black_box;

use burn::tensor::{DType, Device, Distribution, Tensor};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mantissa_core::{Accumulator, Format, Gelu, MatmulPrecision, OptimizerKind, Precision};
use mantissa_precision::{Compute, GradientSum, Optimizer, OptimizerSettings, ParameterSet, dtype};

/// Shape of the activations of a transformer of DistilBERT's size: 8 sequences of 512 tokens.
const SHAPE: [usize; 2] = [4096, 768];
const VALUES: u64 = (SHAPE[0] * SHAPE[1]) as u64;

/// Precision settings that store and compute in one format, each with its bytes per value.
const FORMATS: [(Precision, u64); 3] = [
    (Precision::True32, 4),
    (Precision::True16, 2),
    (Precision::TrueBf16, 2),
];

fn draw(format: Format) -> Tensor<2> {
    let device = Device::flex();
    Tensor::<2>::random(SHAPE, Distribution::Normal(0.0, 1.0), &device).cast(dtype(format))
}

fn compute(precision: Precision) -> Compute {
    Compute::new(precision, MatmulPrecision::Highest, Accumulator::F32)
}

/// Benchmarks a kernel that reads and writes one tensor, in each of the given formats.
fn one_to_one(
    criterion: &mut Criterion,
    name: &str,
    formats: &[(Precision, u64)],
    kernel: impl Fn(&Compute, Tensor<2>) -> Tensor<2>,
) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20);
    for (precision, width) in formats.iter().copied() {
        let (compute, input) = (compute(precision), draw(precision.parameters()));
        group.throughput(Throughput::Bytes(2 * width * VALUES));
        group.bench_function(precision.name(), |bencher| {
            bencher.iter(|| black_box(kernel(&compute, input.clone())));
        });
    }
    group.finish();
}

fn rows(criterion: &mut Criterion) {
    one_to_one(criterion, "gelu", &FORMATS, |compute, input| compute.gelu(input));
    one_to_one(criterion, "gelu by tanh", &FORMATS, |compute, input| {
        compute.gelu_as(Gelu::Tanh, input)
    });
    // f32 is omitted, because packed instructions exist only for 16-bit formats.
    one_to_one(
        criterion,
        "gelu by tanh, packed",
        &FORMATS[1..],
        |compute, input| compute.gelu_as(Gelu::TanhPacked, input),
    );
    one_to_one(criterion, "softmax", &FORMATS, |compute, input| {
        compute.softmax(input)
    });
    one_to_one(criterion, "layer norm", &FORMATS, |compute, input| {
        let device = Device::flex();
        let row = || Tensor::<1>::ones([SHAPE[1]], (&device, input.dtype()));
        compute.layer_norm(input.clone(), row(), row(), 1e-5)
    });
    one_to_one(criterion, "rms norm", &FORMATS, |compute, input| {
        let row = Tensor::<1>::ones([SHAPE[1]], (&Device::flex(), input.dtype()));
        compute.rms_norm(input, row, 1e-5)
    });
}

fn casts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cast");
    group.sample_size(20);
    group.throughput(Throughput::Bytes(6 * VALUES));
    for (narrow, wide) in [
        (Precision::True16, Precision::True32),
        (Precision::TrueBf16, Precision::True32),
    ] {
        let format = narrow.parameters();
        for (name, to, from) in [
            (format!("f32 to {format}"), narrow, Format::F32),
            (format!("{format} to f32"), wide, format),
        ] {
            let (compute, input) = (compute(to), draw(from));
            group.bench_function(name, |bencher| {
                bencher.iter(|| black_box(compute.operand(input.clone())));
            });
        }
    }
    group.finish();
}

fn adamw(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("adamw");
    group.sample_size(20);
    for (precision, width) in FORMATS {
        let device = Device::flex();
        let shape = vec![SHAPE[0], SHAPE[1]];
        let values: Vec<f32> = draw(Format::F32).into_data().try_into_vec().unwrap();
        let parts = [("w".to_owned(), shape, values)];
        let mut parameters = ParameterSet::new(parts, precision.parameters(), &device);
        let mut gradients = GradientSum::new(1);
        let tracked = parameters.track();
        let weight = Tensor::<1>::from_inner(draw(precision.parameters()).flatten(0, 1));
        gradients.add((tracked.vector("w") * weight).sum(), &tracked);
        drop(tracked);
        let mut optimizer = Optimizer::new(OptimizerSettings::new(OptimizerKind::AdamW, 1e-3), 1);
        optimizer.step(&mut parameters, gradients.clone());
        // Per value, the parameter and two moments are read and written, `width` bytes each. The f32 gradient is only read.
        group.throughput(Throughput::Bytes((6 * width + 4) * VALUES));
        group.bench_function(precision.name(), |bencher| {
            bencher.iter(|| optimizer.step(&mut parameters, gradients.clone()));
        });
    }
    group.finish();
}

/// Benchmarks a copy, the upper bound for all kernels above.
fn copy(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("copy");
    group.sample_size(20);
    group.throughput(Throughput::Bytes(8 * VALUES));
    let input = draw(Format::F32).into_data();
    assert_eq!(input.dtype(), DType::F32);
    let input = input.try_into_vec::<f32>().unwrap();
    group.bench_function("f32, one core", |bencher| {
        bencher.iter(|| black_box(input.clone()))
    });
    group.finish();
}

criterion_group!(benches, copy, rows, casts, adamw);
criterion_main!(benches);
