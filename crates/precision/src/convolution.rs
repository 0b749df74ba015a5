//! Convolution as a matrix product of unfolded windows, so that its arithmetic is that of the controlled product.
//!
//! burn's own convolution chooses TF32 by itself, and its strict variant loses its strictness in the backward pass. Here
//! all three products of a layer, its output and both gradients, are one matrix product each: positions × window, times
//! window × channels. Images stand channels-last in memory, as those products leave them.

use burn::tensor::{Shape, Tensor, TensorMetadata, TensorPrimitive, ops::FloatTensor, s};

use crate::{
    MatmulMode, PrecisionBackend,
    compute::{round, wide},
};

/// Bytes of unfolded windows that exist at a time: larger batches are taken in parts. Windows of 3 × 3 repeat each value
/// nine times, which would be most of a network's memory.
const UNFOLDED_BYTES: usize = 64 << 20;

/// A product of a convolution, and how its filters move over the images. Filters are not dilated, and see all channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// Which of the layer's three products.
    pub pass: Pass,
    /// Rows and columns from one window to the next.
    pub stride: usize,
    /// Rows and columns of zeros around an image; less than the filters' edges.
    pub padding: usize,
}

/// The three products of a convolution layer with images `[n, c, h, w]`, filters `[o, c, a, b]` and output
/// `[n, o, y, x]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pass {
    /// Images and filters to the output.
    Forward,
    /// The output's gradient and filters to the images' gradient, whose `[h, w]` this is.
    Images([usize; 2]),
    /// Images and the output's gradient to the filters' gradient, whose `[a, b]` this is.
    Filters([usize; 2]),
}

impl Convolution {
    /// Shape of what comes out.
    pub fn shape(&self, lhs: &Shape, rhs: &Shape) -> Shape {
        let ([n, l, h, w], [o, r, a, b]) = (lhs.dims(), rhs.dims());
        let steps = |image: usize, filter: usize| (image + 2 * self.padding - filter) / self.stride + 1;
        Shape::new(match self.pass {
            Pass::Forward => [n, o, steps(h, a), steps(w, b)],
            Pass::Images([h, w]) => [n, r, h, w],
            Pass::Filters([a, b]) => [r, l, a, b],
        })
    }

    /// The same layer's other product.
    pub(crate) fn with(self, pass: Pass) -> Self {
        Self { pass, ..self }
    }
}

/// Computes a product of a convolution by the controlled matrix product.
pub(crate) fn by_unfolding<B: PrecisionBackend>(
    lhs: FloatTensor<B>,
    rhs: FloatTensor<B>,
    convolution: Convolution,
    mode: MatmulMode,
) -> FloatTensor<B> {
    // The sum over a batch may come in parts: only what they add up to is rounded.
    let mode = MatmulMode {
        unrounded: matches!(convolution.pass, Pass::Filters(_)),
        ..mode
    };
    let dtype = lhs.dtype();
    let product = |a, b| B::controlled_matmul(a, b, mode);
    let product = by_products::<B>(
        lhs,
        rhs,
        convolution,
        product,
        |images, filter, stride, padding, filters| {
            of_windows::<B>(images, filter, stride, padding, filters, product)
        },
    );
    let product = round(tensor::<B, 4>(product), dtype);
    product.into_primitive().tensor()
}

/// Computes a product of a convolution by a given product of matrices, and one of all windows of channels-last images `[n, h, w, c]` and filters
/// `[a · b · c, o]`, which is told the filters' edges, the stride and the padding: `[n · y · x, o]`. The result is in what these give, or in
/// f32 where they gave parts of a sum: rounding it is the caller's.
pub(crate) fn by_products<B: PrecisionBackend>(
    lhs: FloatTensor<B>,
    rhs: FloatTensor<B>,
    convolution: Convolution,
    product: impl Fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>,
    of_windows: impl Fn(FloatTensor<B>, [usize; 2], usize, usize, FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let shape = convolution.shape(&lhs.shape(), &rhs.shape());
    if lhs.shape().num_elements() == 0 || rhs.shape().num_elements() == 0 {
        return B::float_zeros(shape, &B::float_device(&lhs), lhs.dtype().into());
    }
    let multiply = |a: Tensor<B, 2>, b: Tensor<B, 2>| {
        let operand = |tensor: Tensor<B, 2>| tensor.into_primitive().tensor();
        tensor::<B, 2>(product(operand(a), operand(b)))
    };
    let multiply_windows = |images: Tensor<B, 4>, filter, stride, padding, filters: Tensor<B, 2>| {
        let (images, filters) = (
            images.into_primitive().tensor(),
            filters.into_primitive().tensor(),
        );
        tensor::<B, 2>(of_windows(images, filter, stride, padding, filters))
    };
    let (lhs, rhs) = (tensor::<B, 4>(lhs), tensor::<B, 4>(rhs));
    let Convolution {
        pass,
        stride,
        padding,
    } = convolution;
    let result = match pass {
        Pass::Forward => {
            let [o, c, a, b] = rhs.dims();
            let filters = rhs.permute([2, 3, 1, 0]).reshape([a * b * c, o]);
            let images = channels_last(lhs);
            multiply_windows(images, [a, b], stride, padding, filters)
        }
        Pass::Images([h, w]) => {
            // A convolution again: of the gradient, its rows and columns as far apart as the stride, with the filters
            // turned by half a circle.
            let [o, c, a, b] = rhs.dims();
            let filters = rhs.flip([2, 3]).permute([2, 3, 0, 1]).reshape([a * b * o, c]);
            let (top, left) = (a - 1 - padding, b - 1 - padding);
            let grad = spread(channels_last(lhs), [h + a - 1, w + b - 1], [top, left], stride);
            multiply_windows(grad, [a, b], 1, 0, filters)
        }
        Pass::Filters([a, b]) => {
            let [_, o, y, x] = rhs.dims();
            let (images, grad) = (channels_last(lhs), channels_last(rhs));
            let c = images.dims()[3];
            let part = images_at_a_time(&images, y * x * a * b);
            let sum = images
                .split(part, 0)
                .into_iter()
                .zip(grad.split(part, 0))
                .map(|(images, grad)| {
                    let rows = grad.dims()[0] * y * x;
                    let windows = unfold(images, [a, b], stride, padding);
                    multiply(windows.transpose(), grad.reshape([rows, o]))
                })
                .reduce(|sum, part| wide(sum) + wide(part))
                .expect("a batch that is not empty has a part");
            let sum = sum.reshape([a, b, c, o]).permute([3, 2, 0, 1]);
            return sum.into_primitive().tensor();
        }
    };
    let [n, channels, h, w] = shape.dims();
    let result = result.reshape([n, h, w, channels]).permute([0, 3, 1, 2]);
    result.into_primitive().tensor()
}

fn tensor<B: PrecisionBackend, const D: usize>(primitive: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(primitive))
}

/// `[n, c, h, w]` as `[n, h, w, c]`.
fn channels_last<B: PrecisionBackend>(images: Tensor<B, 4>) -> Tensor<B, 4> {
    images.permute([0, 2, 3, 1])
}

/// How many images' windows fit into [`UNFOLDED_BYTES`], at least one.
fn images_at_a_time<B: PrecisionBackend>(images: &Tensor<B, 4>, values: usize) -> usize {
    let [n, _, _, c] = images.dims();
    let bytes = values * c * images.dtype().size();
    (UNFOLDED_BYTES / bytes.max(1)).clamp(1, n.max(1))
}

/// All windows, those of some images at a time, times the filters.
pub(crate) fn of_windows<B: PrecisionBackend>(
    images: FloatTensor<B>,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
    filters: FloatTensor<B>,
    product: impl Fn(FloatTensor<B>, FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let images = tensor::<B, 4>(images);
    let [_, h, w, _] = images.dims();
    let steps = |image: usize, filter: usize| (image + 2 * padding - filter) / stride + 1;
    let values = steps(h, filter[0]) * steps(w, filter[1]) * filter[0] * filter[1];
    let part = images_at_a_time(&images, values);
    let multiply = |images| {
        let windows = unfold(images, filter, stride, padding);
        product(windows.into_primitive().tensor(), filters.clone())
    };
    let mut parts: Vec<_> = images.split(part, 0).into_iter().map(multiply).collect();
    if parts.len() == 1 {
        return parts.remove(0);
    }
    let parts = parts.into_iter().map(tensor::<B, 2>).collect();
    Tensor::cat(parts, 0).into_primitive().tensor()
}

/// All windows of channels-last images, one a row: `[n · y · x, a · b · c]`.
fn unfold<B: PrecisionBackend>(
    images: Tensor<B, 4>,
    filter: [usize; 2],
    stride: usize,
    padding: usize,
) -> Tensor<B, 2> {
    let [n, h, w, c] = images.dims();
    if (filter, stride, padding) == ([1, 1], 1, 0) {
        return images.reshape([n * h * w, c]);
    }
    tensor(B::windows(
        images.into_primitive().tensor(),
        filter,
        stride,
        padding,
    ))
}

/// [`PrecisionBackend::windows`] by burn's operations.
pub(crate) fn windows<B: PrecisionBackend>(
    images: FloatTensor<B>,
    [a, b]: [usize; 2],
    stride: usize,
    padding: usize,
) -> FloatTensor<B> {
    let images = tensor::<B, 4>(images);
    let [n, h, w, c] = images.dims();
    let images = match padding {
        0 => images,
        padding => spread(images, [h + 2 * padding, w + 2 * padding], [padding; 2], 1),
    };
    let windows: Tensor<B, 6> = images.unfold::<5, _>(1, a, stride).unfold::<6, _>(2, b, stride);
    let [_, y, x, ..] = windows.dims();
    let windows = windows
        .permute([0, 1, 2, 4, 5, 3])
        .reshape([n * y * x, a * b * c]);
    windows.into_primitive().tensor()
}

/// Channels-last images on a larger field of zeros, beginning at a row and a column, their own rows and columns `step`
/// apart.
fn spread<B: PrecisionBackend>(
    images: Tensor<B, 4>,
    [h, w]: [usize; 2],
    [top, left]: [usize; 2],
    step: usize,
) -> Tensor<B, 4> {
    let [n, rows, columns, c] = images.dims();
    if (rows, columns) == (h, w) {
        return images;
    }
    let field = Tensor::zeros([n, h, w, c], (&images.device(), images.dtype()));
    let (bottom, right) = (top + (rows - 1) * step + 1, left + (columns - 1) * step + 1);
    field.slice_assign(s![.., top..bottom; step, left..right; step, ..], images)
}

#[cfg(test)]
mod tests {
    use mantissa_core::{Accumulator, MatmulPrecision};

    use burn::tensor::DType;

    use super::*;
    use crate::device::Flex;

    #[test]
    fn parts_of_a_sum_over_the_batch_are_not_rounded_before_they_are_added() {
        // Windows of 36 images fit into a part. A filter's value at an edge meets 39 × 40 ones of each of 40 images.
        let ones = |shape: [usize; 4]| {
            let ones = Tensor::<Flex, 4>::ones(shape, (&Default::default(), DType::BF16));
            ones.into_primitive().tensor()
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
        let gradient = tensor::<Flex, 4>(by_unfolding::<Flex>(images, gradient, convolution, mode));
        assert_eq!(gradient.dtype(), DType::BF16);
        let data = gradient.into_data();
        // bf16 holds multiples of 256 there: 62400 is 62464. Rounded part by part, it would be 62208.
        assert_eq!(data.iter::<f32>().nth(1), Some(62464.0));
    }

    #[test]
    fn a_gradient_in_f32_is_not_rounded_to_what_its_factors_were() {
        let ones = |shape: [usize; 4]| {
            let ones = Tensor::<Flex, 4>::ones(shape, &Default::default());
            ones.into_primitive().tensor()
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
            let gradient =
                tensor::<Flex, 4>(Flex::controlled_convolution(images, gradient, convolution, mode));
            // The filter's middle meets all 361 ones, which bf16 would hold as 360.
            assert_eq!(
                gradient.into_data().iter::<f32>().nth(4),
                Some(361.0),
                "{precision}"
            );
        }
    }
}
