//! Benchmarks of Mantissa's CPU kernels and of the equivalent operations of burn-flex. A kernel can be removed once burn-flex reaches
//! 0.95 of the kernel's speed in every format.

use std::hint::black_box;

use burn::{
    backend::{
        ops::{ActivationOps, AttentionModuleOptions, BoolTensorOps, ConvOptions, FloatTensorOps, ModuleOps},
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::{DType, Device, Distribution, FloatDType, IndexingUpdateOp, Shape, Slice, Tensor},
};
use burn_flex::{Flex, FlexTensor};
use criterion::{Criterion, criterion_group, criterion_main};
use mantissa_core::{Accumulator, Gelu, MatmulPrecision};
use mantissa_precision::{AdamRates, Convolution, MatmulMode, Pass, PrecisionBackend};

const FORMATS: [DType; 3] = [DType::F32, DType::BF16, DType::F16];
const MODE: MatmulMode = MatmulMode {
    precision: MatmulPrecision::Highest,
    accumulator: Accumulator::F32,
    unrounded: false,
};

fn random_tensor(shape: impl Into<Shape>, dtype: DType) -> FlexTensor {
    let (shape, device) = (shape.into(), Device::flex());
    let values = Tensor::<1>::random([shape.num_elements()], Distribution::Normal(0.0, 1.0), &device);
    let values = Tensor::<1>::from_data(values.into_data(), (&device, dtype));
    Flex::float_reshape(values.try_into_primitive::<Flex>().unwrap(), shape)
}

/// Benchmarks both implementations of an operation in each format.
fn bench_both<I: Clone, O>(
    criterion: &mut Criterion,
    name: &str,
    inputs: impl Fn(DType) -> I,
    ours: impl Fn(I) -> O,
    burns: impl Fn(I) -> O,
) {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(20);
    for dtype in FORMATS {
        let inputs = inputs(dtype);
        group.bench_function(format!("{dtype:?}/ours"), |bencher| {
            bencher.iter(|| black_box(ours(inputs.clone())));
        });
        group.bench_function(format!("{dtype:?}/burn's"), |bencher| {
            bencher.iter(|| black_box(burns(inputs.clone())));
        });
    }
    group.finish();
}

/// Benchmarks operations on the rows of a transformer: 8 sequences of 128 tokens, 768 values each.
fn rows(criterion: &mut Criterion) {
    let one = |dtype| random_tensor([1024, 768], dtype);
    let two = |dtype| {
        (
            random_tensor([1024, 768], dtype),
            random_tensor([1024, 768], dtype),
        )
    };
    bench_both(criterion, "relu", one, Flex::relu_forward, Flex::relu);
    bench_both(
        criterion,
        "relu, gradient",
        two,
        |(y, grad)| Flex::relu_gradient(y, grad),
        |(y, grad)| Flex::relu_backward(y, grad),
    );
    bench_both(
        criterion,
        "add",
        two,
        |(a, b)| Flex::add_same_shape(a, b),
        |(a, b)| Flex::float_add(a, b),
    );
    bench_both(
        criterion,
        "gelu",
        one,
        |x| Flex::gelu_form(x, Gelu::Exact),
        Flex::gelu,
    );
    bench_both(
        criterion,
        "gelu, gradient",
        two,
        |(x, grad)| Flex::gelu_form_backward(x, grad, Gelu::Exact),
        |(x, grad)| Flex::gelu_backward(x, grad),
    );
    bench_both(
        criterion,
        "layer norm",
        |dtype| (random_tensor([1024, 768], dtype), random_tensor([768], dtype)),
        |(x, row)| Flex::normalize_last(x, row.clone(), row, 1e-5).0,
        |(x, row)| Flex::layer_norm(x, row.clone(), Some(row), 1e-5),
    );
    bench_both(criterion, "copy", one, Flex::copied, |x| {
        Flex::float_mul_scalar(x, 1.0.into())
    });
    bench_both(
        criterion,
        "embedding, gradient",
        |dtype| random_tensor([1024, 768], dtype),
        |grad| Flex::embedding_gradient(Shape::new([30_522, 768]), row_indices(), grad),
        |grad| {
            let zeros = Flex::float_zeros([30_522, 768].into(), &Default::default(), grad.dtype().into());
            Flex::float_select_assign(zeros, 0, row_indices(), grad, IndexingUpdateOp::Add)
        },
    );
}

fn row_indices() -> FlexTensor {
    let indices = Tensor::<1, burn::tensor::Int>::arange(0..1024, &Device::flex());
    indices.try_into_primitive::<Flex>().unwrap()
}

/// Benchmarks operations on attention scores: 8 sequences of 128 tokens, 12 heads.
fn scores(criterion: &mut Criterion) {
    let shape = [8, 12, 128, 128];
    let heads = |dtype| [(); 3].map(|()| random_tensor([8, 12, 128, 64], dtype));
    bench_both(
        criterion,
        "softmax",
        |dtype| random_tensor(shape, dtype),
        Flex::softmax_last,
        |x| Flex::softmax(x, 3),
    );
    bench_both(
        criterion,
        "softmax, gradient",
        |dtype| (random_tensor(shape, dtype), random_tensor(shape, dtype)),
        |(y, grad)| Flex::softmax_last_backward(y, grad),
        |(y, grad)| {
            let dot = Flex::float_sum_dim(Flex::float_mul(grad.clone(), y.clone()), 3);
            Flex::float_mul(y, Flex::float_sub(grad, dot))
        },
    );
    bench_both(
        criterion,
        "masked fill",
        |dtype| (random_tensor(shape, dtype), padding_mask()),
        |(x, hidden)| Flex::masked_fill(x, hidden, -1e4),
        |(x, hidden)| Flex::float_mask_fill(x, hidden, (-1e4).into()),
    );
    bench_both(
        criterion,
        "attention in one kernel",
        |dtype| (heads(dtype), padding_mask()),
        |([q, k, v], hidden)| Flex::fused_attention(q, k, v, hidden, MODE),
        |([q, k, v], hidden)| Flex::attention(q, k, v, Some(hidden), None, AttentionModuleOptions::default()),
    );
    bench_both(
        criterion,
        "rotation",
        |dtype| {
            let angles = [(); 2].map(|()| random_tensor([1, 1, 128, 32], DType::F32));
            (random_tensor([8, 12, 128, 64], dtype), angles)
        },
        |(x, [cosine, sine])| Flex::rotate(x, cosine, sine, false),
        |(x, angles)| {
            let [cosine, sine] = angles.map(|angles| Flex::float_cast(angles, x.dtype().into()));
            let half = |half| Flex::float_slice(x.clone(), &[(..).into(), (..).into(), (..).into(), half]);
            let (first, second) = (half(Slice::from(0..32)), half(Slice::from(32..64)));
            let times = |x: &FlexTensor, y: &FlexTensor| Flex::float_mul(x.clone(), y.clone());
            let rotated = vec![
                Flex::float_sub(times(&first, &cosine), times(&second, &sine)),
                Flex::float_add(times(&second, &cosine), times(&first, &sine)),
            ];
            Flex::float_cat(rotated, 3)
        },
    );
    bench_both(
        criterion,
        "transpose heads",
        |dtype| random_tensor([8, 12, 128, 64], dtype),
        Flex::transpose_heads,
        |x| Flex::float_swap_dims(x, 1, 2).to_contiguous(),
    );
}

/// Returns a mask that hides the last keys of each sequence from all heads and queries.
fn padding_mask() -> BoolTensor<Flex> {
    let hidden = Tensor::<1, burn::tensor::Int>::arange(0..128, &Device::flex()).greater_elem(100);
    let hidden = hidden
        .reshape([1, 1, 1, 128])
        .try_into_primitive::<Flex>()
        .unwrap();
    Flex::bool_expand(hidden, [8, 12, 128, 128].into())
}

fn casts(criterion: &mut Criterion) {
    for (name, from, to) in [
        ("cast, f32 to bf16", DType::F32, DType::BF16),
        ("cast, bf16 to f32", DType::BF16, DType::F32),
        ("cast, f32 to f16", DType::F32, DType::F16),
        ("cast, f16 to f32", DType::F16, DType::F32),
    ] {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(20);
        let input = random_tensor([1024, 768], from);
        let to = FloatDType::from(to);
        group.bench_function("ours", |bencher| {
            bencher.iter(|| black_box(Flex::round_to(input.clone(), to)))
        });
        group.bench_function("burn's", |bencher| {
            bencher.iter(|| black_box(Flex::float_cast(input.clone(), to)))
        });
        group.finish();
    }
}

/// Benchmarks the matmul of a layer, and matmuls with few rows, as in text generation token by token.
fn matmuls(criterion: &mut Criterion) {
    let burns = |(a, b): (FloatTensor<Flex>, FloatTensor<Flex>)| Flex::float_matmul(a, b);
    for (name, rows) in [
        ("matmul, 1024 rows", 1024),
        ("matmul, 8 rows", 8),
        ("matmul, 1 row", 1),
    ] {
        bench_both(
            criterion,
            name,
            move |dtype| {
                (
                    random_tensor([rows, 768], dtype),
                    random_tensor([768, 768], dtype),
                )
            },
            |(a, b)| Flex::controlled_matmul(a, b, MODE),
            burns,
        );
    }
}

/// Benchmarks a layer of ResNet-20 on 100 images of 32 × 32 values and 16 channels: Mantissa's kernel reads
/// channels-last images, burn's channels-first images.
fn convolutions(criterion: &mut Criterion) {
    let forward = Convolution {
        pass: Pass::Forward,
        stride: 1,
        padding: 1,
    };
    bench_both(
        criterion,
        "convolution",
        |dtype| {
            (
                random_tensor([100, 32, 32, 16], dtype),
                random_tensor([16, 16, 3, 3], dtype),
            )
        },
        |(images, filters)| {
            let images = Flex::float_permute(images, &[0, 3, 1, 2]);
            Flex::controlled_convolution(images, filters, forward, MODE)
        },
        |(images, filters)| {
            let images = Flex::float_reshape(images, [100, 16, 32, 32].into());
            Flex::conv2d(images, filters, None, ConvOptions::new([1; 2], [1; 2], [1; 2], 1))
        },
    );
    bench_both(
        criterion,
        "batch norm, running statistics",
        |dtype| {
            let statistics = [(); 4].map(|()| Flex::float_abs(random_tensor([16], DType::F32)));
            (random_tensor([102_400, 16], dtype), statistics)
        },
        |(x, [mean, deviation, scale, shift])| Flex::normalize_columns(x, mean, deviation, scale, shift),
        |(x, statistics)| {
            let row =
                |values| Flex::float_reshape(Flex::float_cast(values, x.dtype().into()), [1, 16].into());
            let [mean, deviation, scale, shift] = statistics.map(row);
            let normal = Flex::float_div(Flex::float_sub(x, mean), deviation);
            Flex::float_add(Flex::float_mul(normal, scale), shift)
        },
    );
}

/// Benchmarks an AdamW step on a million parameters.
fn optimizers(criterion: &mut Criterion) {
    let rates = AdamRates {
        keep: 0.99,
        share1: 0.1,
        decay2: 0.999,
        share2: 0.001,
        correction1: 0.5,
        correction2: 0.5,
        epsilon: 1e-4,
        learning_rate: 1e-3,
    };
    let times = |x, factor: f64| Flex::float_mul_scalar(x, factor.into());
    bench_both(
        criterion,
        "AdamW",
        |dtype| [(); 4].map(|()| Flex::float_abs(random_tensor([1 << 20], dtype))),
        |[value, first, second, grad]| Flex::adam(value, first, second, grad, rates),
        |[value, first, second, grad]| {
            let first = Flex::float_add(
                times(first, 1.0 - rates.share1),
                times(grad.clone(), rates.share1),
            );
            let square = Flex::float_mul(grad.clone(), grad);
            let second = Flex::float_add(times(second, rates.decay2), times(square, rates.share2));
            let root = Flex::float_sqrt(times(second.clone(), 1.0 / rates.correction2));
            let root = Flex::float_add_scalar(root, rates.epsilon.into());
            let update = Flex::float_div(
                times(first.clone(), rates.learning_rate / rates.correction1),
                root,
            );
            (Flex::float_sub(times(value, rates.keep), update), first, second)
        },
    );
}

criterion_group!(benches, rows, scores, casts, matmuls, convolutions, optimizers);
criterion_main!(benches);
