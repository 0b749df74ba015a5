//! Mantissa's CPU kernels and the operations of burn-flex that compute the same. A kernel can go if burn-flex reaches 0.95 of its speed
//! in every format.

use std::hint::black_box;

use burn::{
    backend::{
        ops::{ActivationOps, AttentionModuleOptions, BoolTensorOps, FloatTensorOps, ModuleOps},
        tensor::{BoolTensor, FloatTensor},
    },
    tensor::{DType, Device, Distribution, FloatDType, IndexingUpdateOp, Shape, Tensor},
};
use burn_flex::{Flex, FlexTensor};
use criterion::{Criterion, criterion_group, criterion_main};
use mantissa_core::{Accumulator, Gelu, MatmulPrecision};
use mantissa_precision::{MatmulMode, PrecisionBackend};

const FORMATS: [DType; 3] = [DType::F32, DType::BF16, DType::F16];
const MODE: MatmulMode = MatmulMode {
    precision: MatmulPrecision::Highest,
    accumulator: Accumulator::F32,
    unrounded: false,
};

fn drawn(shape: impl Into<Shape>, dtype: DType) -> FlexTensor {
    let (shape, device) = (shape.into(), Device::flex());
    let values = Tensor::<1>::random([shape.num_elements()], Distribution::Normal(0.0, 1.0), &device);
    let values = Tensor::<1>::from_data(values.into_data(), (&device, dtype));
    Flex::float_reshape(values.try_into_primitive::<Flex>().unwrap(), shape)
}

/// Both ways of computing the same, in each format.
fn both<I: Clone, O>(
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

/// Rows of a transformer: 8 sequences of 128 tokens, of 768 values each.
fn rows(criterion: &mut Criterion) {
    let one = |dtype| drawn([1024, 768], dtype);
    let two = |dtype| (drawn([1024, 768], dtype), drawn([1024, 768], dtype));
    both(criterion, "relu", one, Flex::rectify, Flex::relu);
    both(
        criterion,
        "relu, gradient",
        two,
        |(y, grad)| Flex::rectify_backward(y, grad),
        |(y, grad)| Flex::relu_backward(y, grad),
    );
    both(
        criterion,
        "sum",
        two,
        |(a, b)| Flex::plus(a, b),
        |(a, b)| Flex::float_add(a, b),
    );
    both(
        criterion,
        "gelu",
        one,
        |x| Flex::gelu_form(x, Gelu::Exact),
        Flex::gelu,
    );
    both(
        criterion,
        "gelu, gradient",
        two,
        |(x, grad)| Flex::gelu_form_backward(x, grad, Gelu::Exact),
        |(x, grad)| Flex::gelu_backward(x, grad),
    );
    both(
        criterion,
        "layer norm",
        |dtype| (drawn([1024, 768], dtype), drawn([768], dtype)),
        |(x, row)| Flex::normalize_last(x, row.clone(), row, 1e-5).0,
        |(x, row)| Flex::layer_norm(x, row.clone(), Some(row), 1e-5),
    );
    both(criterion, "copy", one, Flex::copied, |x| {
        Flex::float_mul_scalar(x, 1.0.into())
    });
    both(
        criterion,
        "gradient of rows of a table",
        |dtype| drawn([1024, 768], dtype),
        |grad| Flex::look_up_backward(Shape::new([30_522, 768]), numbers(), grad),
        |grad| {
            let zeros = Flex::float_zeros([30_522, 768].into(), &Default::default(), grad.dtype().into());
            Flex::float_select_assign(zeros, 0, numbers(), grad, IndexingUpdateOp::Add)
        },
    );
}

fn numbers() -> FlexTensor {
    let numbers = Tensor::<1, burn::tensor::Int>::arange(0..1024, &Device::flex());
    numbers.try_into_primitive::<Flex>().unwrap()
}

/// Scores of attention: 8 sequences of 128 tokens, 12 heads.
fn scores(criterion: &mut Criterion) {
    let shape = [8, 12, 128, 128];
    let heads = |dtype| [(); 3].map(|()| drawn([8, 12, 128, 64], dtype));
    both(
        criterion,
        "softmax",
        |dtype| drawn(shape, dtype),
        Flex::softmax_last,
        |x| Flex::softmax(x, 3),
    );
    both(
        criterion,
        "softmax, gradient",
        |dtype| (drawn(shape, dtype), drawn(shape, dtype)),
        |(y, grad)| Flex::softmax_last_backward(y, grad),
        |(y, grad)| {
            let dot = Flex::float_sum_dim(Flex::float_mul(grad.clone(), y.clone()), 3);
            Flex::float_mul(y, Flex::float_sub(grad, dot))
        },
    );
    both(
        criterion,
        "mask",
        |dtype| (drawn(shape, dtype), hidden()),
        |(x, hidden)| Flex::hide(x, hidden, -1e4),
        |(x, hidden)| Flex::float_mask_fill(x, hidden, (-1e4).into()),
    );
    both(
        criterion,
        "attention in one kernel",
        |dtype| (heads(dtype), hidden()),
        |([q, k, v], hidden)| Flex::fused_attention(q, k, v, hidden, MODE),
        |([q, k, v], hidden)| Flex::attention(q, k, v, Some(hidden), None, AttentionModuleOptions::default()),
    );
    both(
        criterion,
        "heads side by side",
        |dtype| drawn([8, 12, 128, 64], dtype),
        Flex::swap_middle,
        |x| Flex::float_swap_dims(x, 1, 2).to_contiguous(),
    );
}

/// The last keys of each sequence, for all heads and queries.
fn hidden() -> BoolTensor<Flex> {
    let keys = Tensor::<1, burn::tensor::Int>::arange(0..128, &Device::flex()).greater_elem(100);
    let keys = keys.reshape([1, 1, 1, 128]).try_into_primitive::<Flex>().unwrap();
    Flex::bool_expand(keys, [8, 12, 128, 128].into())
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
        let input = drawn([1024, 768], from);
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

/// A layer's product, and one of a few rows: the next token.
fn products(criterion: &mut Criterion) {
    let burns = |(a, b): (FloatTensor<Flex>, FloatTensor<Flex>)| Flex::float_matmul(a, b);
    for (name, rows) in [
        ("product, 1024 rows", 1024),
        ("product, 8 rows", 8),
        ("product, 1 row", 1),
    ] {
        both(
            criterion,
            name,
            move |dtype| (drawn([rows, 768], dtype), drawn([768, 768], dtype)),
            |(a, b)| Flex::controlled_matmul(a, b, MODE),
            burns,
        );
    }
}

criterion_group!(benches, rows, scores, casts, products);
criterion_main!(benches);
