//! Convolution as a matmul of unfolded windows, computed with the arithmetic of the controlled matmul.
//!
//! burn's own convolution chooses TF32 by itself, and its strict variant is not strict in the backward pass. Here, each of the three passes
//! (the output and both gradients) is one matmul. The matmul of the output multiplies unfolded windows `[positions, window]` with filters
//! `[window, channels]`. Images are stored channels-last, the layout in which these matmuls write them.

use burn::{
    backend::{Backend, TensorMetadata, tensor::FloatTensor},
    tensor::{Shape, Slice},
};

use crate::{
    MatmulMode,
    backend::{PrecisionBackend, narrow, widen},
    composed::{dilate_and_pad, reshape},
};

/// Maximum bytes of unfolded windows at a time; larger batches are split. Windows of 3 × 3 repeat each value nine times. Unfolding a whole
/// batch would use more memory than the rest of the network.
const MAX_UNFOLDED_BYTES: usize = 64 << 20;

/// One of the three passes of a convolution layer, with stride and padding. Filters are not dilated and read all channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Result that is computed: the output or a gradient.
    pub pass: Pass,
    /// Rows and columns from one window to the next.
    pub stride: usize,
    /// Rows and columns of zeros around an image; less than the edges of the filters.
    pub padding: usize,
}

/// Passes of a convolution layer. Images are `[n, c, h, w]`, filters `[o, c, a, b]` and outputs `[n, o, y, x]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Output, from images and filters.
    Forward,
    /// Gradient of the images, from the gradient of the output and the filters. Contains the size `[h, w]` of the images.
    Images([usize; 2]),
    /// Gradient of the filters, from the images and the gradient of the output. Contains the size `[a, b]` of the filters.
    Filters([usize; 2]),
}

impl Convolution {
    /// Returns the shape of the result.
    pub fn shape(&self, lhs: &Shape, rhs: &Shape) -> Shape {
        let ([n, l, h, w], [o, r, a, b]) = (lhs.dims(), rhs.dims());
        let steps = |image: usize, filter: usize| (image + 2 * self.padding - filter) / self.stride + 1;
        Shape::new(match self.pass {
            Pass::Forward => [n, o, steps(h, a), steps(w, b)],
            Pass::Images([h, w]) => [n, r, h, w],
            Pass::Filters([a, b]) => [r, l, a, b],
        })
    }

    /// Returns another pass of the same layer.
    pub(crate) fn with(self, pass: Pass) -> Self {
        Self { pass, ..self }
    }
}

/// Computes a convolution pass with the controlled matmul.
pub(crate) fn convolve_by_unfolding<B: PrecisionBackend>(
    lhs: FloatTensor<B>,
    rhs: FloatTensor<B>,
    convolution: Convolution,
    mode: MatmulMode,
) -> FloatTensor<B> {
    // The sum over a batch may be computed in parts. Only the total is rounded.
    let mode = MatmulMode {
        unrounded: matches!(convolution.pass, Pass::Filters(_)),
        ..mode
    };
    let dtype = lhs.dtype();
    let matmul = |a, b| B::controlled_matmul(a, b, mode);
    let result = convolve_with::<B>(
        lhs,
        rhs,
        convolution,
        matmul,
        |images, filter, stride, padding, filters| {
            multiply_windows::<B>(images, filter, stride, padding, filters, matmul)
        },
    );
    narrow::<B>(result, dtype)
}

/// Computes a convolution pass with two functions. `matmul` multiplies matrices. `multiply_windows` multiplies all windows of channels-last
/// images `[n, h, w, c]` with filters `[a · b · c, o]` and returns `[n · y · x, o]`. Its other arguments are the size `[a, b]` of the
/// filters, the stride and the padding. The result is not rounded: it has the dtype that these functions return, or f32 if the batch was
/// summed in parts.
pub(crate) fn convolve_with<B: PrecisionBackend>(
    lhs: FloatTensor<B>,
    rhs: FloatTensor<B>,
    convolution: Convolution,
    matmul: impl Fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>,
    multiply_windows: impl Fn(FloatTensor<B>, [usize; 2], usize, usize, FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let shape = convolution.shape(&lhs.shape(), &rhs.shape());
    if lhs.shape().num_elements() == 0 || rhs.shape().num_elements() == 0 {
        return B::float_zeros(shape, &lhs.device(), lhs.dtype().into());
    }
    let Convolution {
        pass,
        stride,
        padding,
    } = convolution;
    let result = match pass {
        Pass::Forward => {
            let [o, c, a, b] = rhs.shape().dims();
            let filters = reshape::<B, 2>(B::float_permute(rhs, &[2, 3, 1, 0]), [a * b * c, o]);
            multiply_windows(channels_last::<B>(lhs), [a, b], stride, padding, filters)
        }
        Pass::Images([h, w]) => {
            // The gradient of the images is a convolution of the output's gradient, dilated by the stride, with the
            // filters rotated by 180°.
            let [o, c, a, b] = rhs.shape().dims();
            let rotated = B::float_permute(B::float_flip(rhs, &[2, 3]), &[2, 3, 0, 1]);
            let filters = reshape::<B, 2>(rotated, [a * b * o, c]);
            let (top, left) = (a - 1 - padding, b - 1 - padding);
            let grad = channels_last::<B>(lhs);
            let grad = dilate_and_pad::<B>(grad, [h + a - 1, w + b - 1], [top, left], stride);
            multiply_windows(grad, [a, b], 1, 0, filters)
        }
        Pass::Filters([a, b]) => {
            let [_, o, y, x] = rhs.shape().dims();
            let (images, grad) = (channels_last::<B>(lhs), channels_last::<B>(rhs));
            let [.., c] = images.shape().dims::<4>();
            let part = images_per_part::<B>(&images, y * x * a * b);
            let sum = parts::<B>(images, part)
                .zip(parts::<B>(grad, part))
                .map(|(images, grad)| {
                    let [count, ..] = grad.shape().dims::<4>();
                    let windows = unfold::<B>(images, [a, b], stride, padding);
                    let grad = reshape::<B, 2>(grad, [count * y * x, o]);
                    matmul(B::float_transpose(windows), grad)
                })
                .reduce(|sum, part| B::float_add(widen::<B>(sum).0, widen::<B>(part).0))
                .expect("the batch is not empty");
            return B::float_permute(reshape::<B, 4>(sum, [a, b, c, o]), &[3, 2, 0, 1]);
        }
    };
    let [n, channels, h, w] = shape.dims();
    B::float_permute(reshape::<B, 4>(result, [n, h, w, channels]), &[0, 3, 1, 2])
}

/// Permutes `[n, c, h, w]` to `[n, h, w, c]`.
fn channels_last<B: Backend>(images: FloatTensor<B>) -> FloatTensor<B> {
    B::float_permute(images, &[0, 2, 3, 1])
}

/// Splits a batch into parts of at most `part` images.
fn parts<B: Backend>(images: FloatTensor<B>, part: usize) -> impl Iterator<Item = FloatTensor<B>> {
    let [n, ..] = images.shape().dims::<4>();
    (0..n).step_by(part).map(move |first| match part >= n {
        true => images.clone(),
        false => B::float_slice(images.clone(), &[Slice::from(first..n.min(first + part))]),
    })
}

/// Returns the number of images whose windows fit into [`MAX_UNFOLDED_BYTES`], at least one. `values` is the number of window values per
/// image and channel.
fn images_per_part<B: Backend>(images: &FloatTensor<B>, values: usize) -> usize {
    let [n, _, _, c] = images.shape().dims();
    let bytes = values * c * images.dtype().size();
    (MAX_UNFOLDED_BYTES / bytes.max(1)).clamp(1, n.max(1))
}

/// Unfolds the windows of some images at a time, and multiplies them with the filters.
pub(crate) fn multiply_windows<B: PrecisionBackend>(
    images: FloatTensor<B>,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
    filters: FloatTensor<B>,
    matmul: impl Fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let [_, h, w, _] = images.shape().dims();
    let steps = |image: usize, filter: usize| (image + 2 * padding - filter) / stride + 1;
    let values = steps(h, filter[0]) * steps(w, filter[1]) * filter[0] * filter[1];
    let part = images_per_part::<B>(&images, values);
    let multiply = |images| {
        let windows = unfold::<B>(images, filter, stride, padding);
        matmul(windows, filters.clone())
    };
    let mut results: Vec<_> = parts::<B>(images, part).map(multiply).collect();
    match results.len() {
        1 => results.remove(0),
        _ => B::float_cat(results, 0),
    }
}

/// Unfolds channels-last images into one row per window: `[n · y · x, a · b · c]`.
fn unfold<B: PrecisionBackend>(
    images: FloatTensor<B>,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
) -> FloatTensor<B> {
    let [n, h, w, c] = images.shape().dims();
    if (filter, stride, padding) == ([1, 1], 1, 0) {
        return reshape::<B, 2>(images, [n * h * w, c]);
    }
    B::windows(images, filter, stride, padding)
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Accumulator, MatmulPrecision};

    use burn::{
        backend::Flex,
        tensor::{DType, Device, Tensor},
    };

    use super::*;

    #[test]
    fn partial_sums_over_the_batch_are_not_rounded() {
        // Windows of 36 images fit into a part. A filter value at an edge is multiplied with 39 × 40 ones in each of 40
        // images.
        let ones = |shape: [usize; 4]| {
            let ones = Tensor::<4>::ones(shape, (&Device::flex(), DType::BF16));
            ones.try_into_primitive::<Flex>().unwrap()
        };
        let convolution = Convolution {
            pass: Pass::Filters([3, 3]),
            stride: 1,
            padding: 1,
        };
        let mode = MatmulMode {
            precision: MatmulPrecision::Highest,
            accumulator: Accumulator::F32,
            unrounded: false,
        };
        let (images, gradient) = (ones([40, 64, 40, 40]), ones([40, 1, 40, 40]));
        let gradient = Tensor::<4>::from_primitive::<Flex>(convolve_by_unfolding::<Flex>(
            images,
            gradient,
            convolution,
            mode,
        ));
        assert_eq!(gradient.dtype(), DType::BF16);
        let data = gradient.into_data();
        // The sum is 62400, and bf16 rounds it to a multiple of 256, 62464. Rounding each part would give 62208.
        assert_eq!(data.iter::<f32>().nth(1), Some(62464.0));
    }

    #[test]
    fn f32_gradients_are_not_rounded_to_the_operand_format() {
        let ones = |shape: [usize; 4]| {
            let ones = Tensor::<4>::ones(shape, &Device::flex());
            ones.try_into_primitive::<Flex>().unwrap()
        };
        let convolution = Convolution {
            pass: Pass::Filters([3, 3]),
            stride: 1,
            padding: 1,
        };
        for &precision in MatmulPrecision::ALL {
            let mode = MatmulMode {
                precision,
                accumulator: Accumulator::F32,
                unrounded: false,
            };
            let (images, gradient) = (ones([1, 1, 19, 19]), ones([1, 1, 19, 19]));
            let gradient = Tensor::<4>::from_primitive::<Flex>(Flex::controlled_convolution(
                images,
                gradient,
                convolution,
                mode,
            ));
            // The middle of the filter is multiplied with all 361 ones, which bf16 would round to 360.
            assert_eq!(
                gradient.into_data().iter::<f32>().nth(4),
                Some(361.0),
                "{precision}"
            );
        }
    }
}
