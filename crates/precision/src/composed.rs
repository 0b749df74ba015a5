//! Operations composed of burn's operations: the default implementations of [`PrecisionBackend`](crate::PrecisionBackend).

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use burn::{
    backend::{Backend, TensorMetadata, tensor::FloatTensor},
    tensor::{Shape, Slice, s},
};
use mantissa_core::Gelu;

pub(crate) fn reshape<B: Backend, const D: usize>(
    tensor: FloatTensor<B>,
    shape: [usize; D],
) -> FloatTensor<B> {
    B::float_reshape(tensor, Shape::new(shape))
}

/// Unfolds channels-last images into one row per window, as [`PrecisionBackend::windows`](crate::PrecisionBackend::windows) does.
pub(crate) fn windows<B: Backend>(
    images: FloatTensor<B>,
    [a, b]: [usize; 2],
    stride: usize,
    padding: usize,
) -> FloatTensor<B> {
    let [n, h, w, c] = images.shape().dims();
    let images = match padding {
        0 => images,
        padding => dilate_and_pad::<B>(images, [h + 2 * padding, w + 2 * padding], [padding; 2], 1),
    };
    let windows = B::float_unfold(B::float_unfold(images, 1, a, stride), 2, b, stride);
    let [_, y, x, ..] = windows.shape().dims::<6>();
    let windows = B::float_permute(windows, &[0, 1, 2, 4, 5, 3]);
    reshape::<B, 2>(windows, [n * y * x, a * b * c])
}

/// Writes channels-last images into zeros of `h` rows and `w` columns, starting at row `top` and column `left`. Adjacent rows and columns
/// of an image are `step` apart in the result.
pub(crate) fn dilate_and_pad<B: Backend>(
    images: FloatTensor<B>,
    [h, w]: [usize; 2],
    [top, left]: [usize; 2],
    step: usize,
) -> FloatTensor<B> {
    let [n, rows, columns, c] = images.shape().dims();
    if (rows, columns) == (h, w) {
        return images;
    }
    let field = B::float_zeros(Shape::new([n, h, w, c]), &images.device(), images.dtype().into());
    let (bottom, right) = (top + (rows - 1) * step + 1, left + (columns - 1) * step + 1);
    B::float_slice_assign(field, &s![.., top..bottom; step, left..right; step, ..], images)
}

/// Normalizes columns of `[rows, columns]` by mean, deviation, scale and shift, all of the same dtype.
pub(crate) fn normalize_columns<B: Backend>(
    rows: FloatTensor<B>,
    statistics: [FloatTensor<B>; 4],
) -> FloatTensor<B> {
    let [_, columns] = rows.shape().dims();
    let [mean, deviation, scale, shift] =
        statistics.map(|values| B::float_reshape(values, Shape::new([1, columns])));
    let normal = B::float_div(B::float_sub(rows, mean), deviation);
    B::float_add(B::float_mul(normal, scale), shift)
}

/// Rotates pairs of elements, as [`PrecisionBackend::rotate`](crate::PrecisionBackend::rotate) does, in the format of the angles.
pub(crate) fn rotate<B: Backend>(
    input: FloatTensor<B>,
    cosine: FloatTensor<B>,
    sine: FloatTensor<B>,
    interleaved: bool,
) -> FloatTensor<B> {
    let [n, heads, sequence, width] = input.shape().dims();
    let half = width / 2;
    // The reshape puts the two elements of a pair into a dimension of size 2: the last or the second to last.
    let (split, pair_dim) = match interleaved {
        true => ([n, heads, sequence, half, 2], 4),
        false => ([n, heads, sequence, 2, half], 3),
    };
    let pairs = B::float_reshape(input, Shape::new(split));
    let [first, second] = [0, 1].map(|index| {
        let mut slices = vec![Slice::from(..); pair_dim + 1];
        slices[pair_dim] = Slice::from(index..index + 1);
        let part = B::float_slice(pairs.clone(), &slices);
        B::float_reshape(part, Shape::new([n, heads, sequence, half]))
    });
    let times = |part: &FloatTensor<B>, angles: &FloatTensor<B>| B::float_mul(part.clone(), angles.clone());
    let rotated = [
        B::float_sub(times(&first, &cosine), times(&second, &sine)),
        B::float_add(times(&second, &cosine), times(&first, &sine)),
    ];
    let mut part_shape = split;
    part_shape[pair_dim] = 1;
    let rotated = rotated.map(|part| B::float_reshape(part, Shape::new(part_shape)));
    let pairs = B::float_cat(rotated.to_vec(), pair_dim);
    B::float_reshape(pairs, Shape::new([n, heads, sequence, width]))
}

/// Computes GELU of f32 or f64 values. [`Gelu::TanhPacked`] is computed like [`Gelu::Tanh`].
pub(crate) fn gelu<B: Backend>(x: FloatTensor<B>, form: Gelu) -> FloatTensor<B> {
    match form {
        Gelu::Exact => B::float_mul(x.clone(), normal_distribution::<B>(x)),
        Gelu::Tanh | Gelu::TanhPacked => {
            let half = B::float_mul_scalar(x.clone(), 0.5.into());
            let tanh = B::float_add_scalar(inner_tanh::<B>(x), 1.0.into());
            B::float_mul(half, tanh)
        }
    }
}

/// Computes the derivative of GELU at f32 or f64 values.
pub(crate) fn gelu_slope<B: Backend>(x: FloatTensor<B>, form: Gelu) -> FloatTensor<B> {
    match form {
        Gelu::Exact => exact_slope::<B>(x),
        Gelu::Tanh | Gelu::TanhPacked => tanh_slope::<B>(x),
    }
}

/// Computes the tanh of GELU's approximation.
fn inner_tanh<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let square = B::float_mul(x.clone(), x.clone());
    let slope = B::float_mul_scalar(square, (Gelu::TANH_LINE * Gelu::TANH_CUBE).into());
    B::float_tanh(B::float_mul(
        x,
        B::float_add_scalar(slope, Gelu::TANH_LINE.into()),
    ))
}

fn exact_slope<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let square = B::float_mul(x.clone(), x.clone());
    let density = B::float_exp(B::float_mul_scalar(square, (-0.5).into()));
    let density = B::float_mul_scalar(density, (1.0 / (2.0 * PI).sqrt()).into());
    B::float_add(normal_distribution::<B>(x.clone()), B::float_mul(x, density))
}

fn tanh_slope<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let tanh = inner_tanh::<B>(x.clone());
    let tanh_square = B::float_mul(tanh.clone(), tanh.clone());
    let tanh_derivative = B::float_add_scalar(B::float_neg(tanh_square), 1.0.into());
    let square = B::float_mul(x.clone(), x.clone());
    let inner = B::float_mul_scalar(square, (3.0 * Gelu::TANH_LINE * Gelu::TANH_CUBE).into());
    let inner = B::float_mul(x, B::float_add_scalar(inner, Gelu::TANH_LINE.into()));
    let sum = B::float_add(
        B::float_add_scalar(tanh, 1.0.into()),
        B::float_mul(inner, tanh_derivative),
    );
    B::float_mul_scalar(sum, 0.5.into())
}

/// Computes `Φ(x)`, the standard normal distribution function.
fn normal_distribution<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let erf = B::float_erf(B::float_mul_scalar(x, FRAC_1_SQRT_2.into()));
    B::float_mul_scalar(B::float_add_scalar(erf, 1.0.into()), 0.5.into())
}

/// Sums over all dimensions but the last, to `[n]`.
pub(crate) fn sum_over_rows<B: Backend>(tensor: FloatTensor<B>, row: Shape) -> FloatTensor<B> {
    let n = row.num_elements();
    let count = tensor.shape().num_elements() / n;
    let sum = B::float_sum_dim(B::float_reshape(tensor, Shape::new([count, n])), 0);
    B::float_reshape(sum, row)
}

/// Reshapes `[n]` to `[1, …, 1, n]`.
pub(crate) fn row<B: Backend>(tensor: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    let mut shape = vec![1; rank];
    shape[rank - 1] = tensor.shape().num_elements();
    B::float_reshape(tensor, Shape::from(shape))
}
