//! Operations with controlled arithmetic, as an extension of a burn backend. Controlled means that the caller, not the backend, defines the
//! formats of operands and sums.

use burn::{
    backend::{
        Backend, TensorMetadata, backend_extension,
        ops::AttentionModuleOptions,
        tensor::{BoolTensor, FloatTensor, IntTensor},
    },
    tensor::{DType, FloatDType, IndexingUpdateOp, Shape},
};
use mantissa_core::{Gelu, Layout};
use mantissa_cpu_kernels::{AdamRates, DropoutMask};

#[cfg(feature = "cubecl")]
use crate::output_shapes::{attention_shape, product_shape};
use crate::{
    composed::{self, row, sum_over_rows},
    convolution::{Convolution, convolve_by_unfolding},
    dtypes::intermediate_dtype,
    matmul_mode::MatmulMode,
};

/// Backend with controlled arithmetic.
///
/// Methods with a body are composed of burn's operations. For 16-bit inputs they compute in f32 and round once at the end, like PyTorch's
/// fused kernels. A backend overrides them if it has a faster implementation.
///
/// Methods with `fusion(dtype, shape)`, such as matmuls, have their own kernel, which burn's kernel fusion does not merge with others. Methods
/// with `fusion(default)` are split into burn's operations before fusion.
#[backend_extension(Flex, Autodiff, Cube: cfg(feature = "cubecl"), Fusion: cfg(feature = "cubecl"))]
pub trait PrecisionBackend: Backend {
    /// Multiplies matrices with batching and broadcasting, shapes `[…, m, k] × […, k, n] → […, m, n]`, in the dtype of
    /// [`MatmulMode::output`].
    #[fusion(dtype = mode.output(lhs), shape = product_shape(lhs, rhs))]
    fn controlled_matmul(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self>;

    /// Multiplies matrices, with the columns of the right operand stored as rows, `[…, m, k] × […, n, k] → […, m, n]`: the layout of
    /// linear layers' weights.
    #[fusion(default)]
    fn controlled_matmul_by_columns(
        lhs: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        Self::controlled_matmul(lhs, Self::float_transpose(columns), mode)
    }

    /// Computes a convolution pass, shapes as in [`Convolution::shape`], in the dtype of the operands.
    #[fusion(dtype = lhs, shape = convolution.shape(lhs, rhs))]
    fn controlled_convolution(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        convolution: Convolution,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        convolve_by_unfolding::<Self>(lhs, rhs, convolution, mode)
    }

    /// Unfolds all windows of `filter` rows and columns over zero-padded channels-last images `[n, h, w, c]`. Returns one window per row,
    /// `[n · y · x, rows · columns · c]`, for `y` × `x` windows per image.
    #[fusion(default)]
    fn windows(
        images: FloatTensor<Self>,
        filter: [usize; 2],
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        composed::windows::<Self>(images, filter, stride, padding)
    }

    /// Computes `(x − mean) / deviation · scale + shift` of each column of `rows` `[rows, columns]`. The statistics are `[columns]` each,
    /// in f32 for 16-bit rows and otherwise in the dtype of `rows`. 16-bit rows are computed in f32 and rounded once.
    #[fusion(default)]
    fn normalize_columns(
        rows: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        deviation: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let (wide, dtype) = widen::<Self>(rows);
        let statistics = [mean, deviation, scale, shift];
        narrow::<Self>(composed::normalize_columns::<Self>(wide, statistics), dtype)
    }

    /// Computes `max(x, 0)` of each element.
    #[fusion(default)]
    fn relu_forward(input: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::relu(input)
    }

    /// Computes the gradient of [`PrecisionBackend::relu_forward`], from its output.
    #[fusion(default)]
    fn relu_gradient(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::relu_backward(output, grad)
    }

    /// Adds two tensors of the same shape and dtype.
    #[fusion(default)]
    fn add_same_shape(a: FloatTensor<Self>, b: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_add(a, b)
    }

    /// Computes attention in one kernel: `softmax(query · keyᵀ / √width) · value` over the positions that are not
    /// `padding`. Floats are `[n, heads, sequence, width]` and `padding` is `[n, heads, sequence, sequence]`. The
    /// arithmetic depends on the kernel; `mode` applies to the backward pass.
    #[fusion(dtype = query, shape = attention_shape(query, value))]
    fn fused_attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        padding: BoolTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        let _ = mode;
        Self::attention(
            query,
            key,
            value,
            Some(padding),
            None,
            AttentionModuleOptions::default(),
        )
    }

    /// Copies a tensor. The time of this kernel is a lower bound for kernels that read and write a tensor.
    #[fusion(default)]
    fn copied(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_mul_scalar(tensor, 1.0.into())
    }

    /// Rounds to another dtype, to nearest even.
    #[fusion(default)]
    fn round_to(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        Self::float_cast(tensor, dtype)
    }

    /// Rounds f32 values to a format with the exponent and fraction bits of `layout`, at most those of f32: to nearest, ties to even, with
    /// gradual underflow and overflow to infinity. The result is stored as f32. A gradient passes through unchanged.
    #[fusion(dtype = tensor, shape = tensor)]
    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self>;

    /// Looks up `rows` `[n]` of a `table` `[height, width]`. Returns `[n, width]`.
    #[fusion(default)]
    fn embedding_lookup(table: FloatTensor<Self>, rows: IntTensor<Self>) -> FloatTensor<Self> {
        Self::float_select(table, 0, rows)
    }

    /// Computes the gradient of [`PrecisionBackend::embedding_lookup`] with respect to a table of this shape. For a row that is read
    /// several times, the gradient is summed in at least f32 and rounded once.
    #[fusion(default)]
    fn embedding_gradient(shape: Shape, rows: IntTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let (grad, dtype) = widen::<Self>(grad);
        let zeros = Self::float_zeros(shape, &grad.device(), grad.dtype().into());
        let sum = Self::float_select_assign(zeros, 0, rows, grad, IndexingUpdateOp::Add);
        narrow::<Self>(sum, dtype)
    }

    /// Swaps the middle dimensions: `[a, b, c, d]` becomes `[a, c, b, d]`. The result is a view, or a contiguous copy where
    /// that is faster overall.
    #[fusion(default)]
    fn transpose_heads(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::float_swap_dims(tensor, 1, 2)
    }

    /// Rotates pairs of elements of `[n, heads, sequence, width]` by angles whose cosine and sine are `[1, 1, sequence, width / 2]`. Cosine
    /// and sine are at least f32; the result is computed in their format and rounded once. [`crate::Rotation`] defines the pairs.
    #[fusion(default)]
    fn rotate(
        input: FloatTensor<Self>,
        cosine: FloatTensor<Self>,
        sine: FloatTensor<Self>,
        interleaved: bool,
    ) -> FloatTensor<Self> {
        let (wide, dtype) = widen::<Self>(input);
        narrow::<Self>(composed::rotate::<Self>(wide, cosine, sine, interleaved), dtype)
    }

    /// Replaces elements by `value` where `hidden` is true. `hidden` has the shape of the tensor and may be a broadcast
    /// view.
    #[fusion(default)]
    fn masked_fill(tensor: FloatTensor<Self>, hidden: BoolTensor<Self>, value: f64) -> FloatTensor<Self> {
        Self::float_mask_fill(tensor, hidden, value.into())
    }

    /// Replaces the elements that `mask` drops by 0.
    #[fusion(dtype = tensor, shape = tensor)]
    fn zero_dropped(tensor: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self>;

    /// Computes softmax over the last dimension.
    #[fusion(default)]
    fn softmax_last(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        let (wide, dtype) = widen::<Self>(tensor);
        let last = wide.shape().num_dims() - 1;
        narrow::<Self>(Self::softmax(wide, last), dtype)
    }

    /// Computes the gradient of [`PrecisionBackend::softmax_last`], from its output.
    #[fusion(default)]
    fn softmax_last_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let ((output, dtype), (grad, _)) = (widen::<Self>(output), widen::<Self>(grad));
        let last = output.shape().num_dims() - 1;
        let dot = Self::float_sum_dim(Self::float_mul(grad.clone(), output.clone()), last);
        narrow::<Self>(Self::float_mul(output, Self::float_sub(grad, dot)), dtype)
    }

    /// Computes GELU, `x · Φ(x)` or an approximation of it.
    #[fusion(default)]
    fn gelu_form(input: FloatTensor<Self>, form: Gelu) -> FloatTensor<Self> {
        if form == Gelu::TanhPacked {
            return Self::gelu_tanh_packed(input);
        }
        let (wide, dtype) = widen::<Self>(input);
        narrow::<Self>(composed::gelu::<Self>(wide, form), dtype)
    }

    /// Computes [`Gelu::TanhPacked`] of 16-bit values.
    #[fusion(dtype = input, shape = input)]
    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self>;

    /// Computes the gradient of [`PrecisionBackend::gelu_form`] from its input, in f32 for 16-bit formats: `grad` times `Φ(x) + x · φ(x)`,
    /// or times the derivative of the approximation. burn's own GELU is exact only in the forward pass. On GPUs, its gradient is that of
    /// the tanh approximation, with an error of up to 10⁻³.
    #[fusion(default)]
    fn gelu_form_backward(
        input: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        form: Gelu,
    ) -> FloatTensor<Self> {
        let ((input, dtype), (grad, _)) = (widen::<Self>(input), widen::<Self>(grad));
        let slope = composed::gelu_slope::<Self>(input, form);
        narrow::<Self>(Self::float_mul(grad, slope), dtype)
    }

    /// Computes layer norm over the last dimension with the biased variance; `scale` and `shift` are `[n]`. For the backward pass, also
    /// returns the mean and the inverse standard deviation, with a last dimension of size 1, in f32 for 16-bit inputs.
    #[fusion(default)]
    fn normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let (input, dtype) = widen::<Self>(input);
        let last = input.shape().num_dims() - 1;
        let mean = Self::float_mean_dim(input.clone(), last);
        let centered = Self::float_sub(input, mean.clone());
        let variance = Self::float_mean_dim(Self::float_mul(centered.clone(), centered.clone()), last);
        let inverse_deviation =
            Self::float_recip(Self::float_sqrt(Self::float_add_scalar(variance, epsilon.into())));
        let rank = last + 1;
        let normal = Self::float_mul(centered, inverse_deviation.clone());
        let scaled = Self::float_mul(normal, row::<Self>(widen::<Self>(scale).0, rank));
        let output = narrow::<Self>(
            Self::float_add(scaled, row::<Self>(widen::<Self>(shift).0, rank)),
            dtype,
        );
        (output, mean, inverse_deviation)
    }

    /// Computes the gradients of the input, the scale and the shift of [`PrecisionBackend::normalize_last`].
    #[fusion(default)]
    fn normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_deviation: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let ((input, dtype), (grad, _), (scale, scale_dtype)) =
            (widen::<Self>(input), widen::<Self>(grad), widen::<Self>(scale));
        let rank = input.shape().num_dims();
        let last = rank - 1;
        let normal = Self::float_mul(Self::float_sub(input, mean), inverse_deviation.clone());

        let rows = |tensor| narrow::<Self>(sum_over_rows::<Self>(tensor, scale.shape()), scale_dtype);
        let grad_scale = rows(Self::float_mul(grad.clone(), normal.clone()));
        let grad_shift = rows(grad.clone());

        let grad = Self::float_mul(grad, row::<Self>(scale, rank));
        let mean_grad = Self::float_mean_dim(grad.clone(), last);
        let mean_dot = Self::float_mean_dim(Self::float_mul(grad.clone(), normal.clone()), last);
        let inner = Self::float_sub(
            Self::float_sub(grad, mean_grad),
            Self::float_mul(normal, mean_dot),
        );
        let grad_input = narrow::<Self>(Self::float_mul(inner, inverse_deviation), dtype);
        (grad_input, grad_scale, grad_shift)
    }

    /// Computes root-mean-square norm over the last dimension (arXiv 1910.07467); `scale` is `[n]`. For the backward pass, also returns
    /// one over the root of the mean square, with a last dimension of size 1, in f32 for 16-bit inputs.
    #[fusion(default)]
    fn rms_normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let (input, dtype) = widen::<Self>(input);
        let rank = input.shape().num_dims();
        let square = Self::float_mean_dim(Self::float_mul(input.clone(), input.clone()), rank - 1);
        let inverse = Self::float_recip(Self::float_sqrt(Self::float_add_scalar(square, epsilon.into())));
        let normal = Self::float_mul(input, inverse.clone());
        let scaled = Self::float_mul(normal, row::<Self>(widen::<Self>(scale).0, rank));
        (narrow::<Self>(scaled, dtype), inverse)
    }

    /// Computes the gradients of the input and the scale of [`PrecisionBackend::rms_normalize_last`].
    #[fusion(default)]
    fn rms_normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        inverse_rms: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let ((input, dtype), (grad, _), (scale, scale_dtype)) =
            (widen::<Self>(input), widen::<Self>(grad), widen::<Self>(scale));
        let rank = input.shape().num_dims();
        let normal = Self::float_mul(input, inverse_rms.clone());
        let grad_scale = sum_over_rows::<Self>(Self::float_mul(grad.clone(), normal.clone()), scale.shape());
        let grad = Self::float_mul(grad, row::<Self>(scale, rank));
        let mean_dot = Self::float_mean_dim(Self::float_mul(grad.clone(), normal.clone()), rank - 1);
        let inner = Self::float_sub(grad, Self::float_mul(normal, mean_dot));
        let grad_input = narrow::<Self>(Self::float_mul(inner, inverse_rms), dtype);
        (grad_input, narrow::<Self>(grad_scale, scale_dtype))
    }

    /// Applies an Adam step and returns the new parameters and running means of gradients and squared gradients. All inputs are vectors
    /// of one length. Intermediate results are rounded to the dtype of the parameters where PyTorch rounds them; the factors are not
    /// rounded.
    #[fusion(default)]
    fn adam(
        value: FloatTensor<Self>,
        first: FloatTensor<Self>,
        second: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        rates: AdamRates,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let dtype = value.dtype();
        let stored = |tensor| narrow::<Self>(tensor, dtype);
        let rounded = |tensor| widen::<Self>(stored(tensor)).0;
        let [value, first, second] = [value, first, second].map(|part| widen::<Self>(part).0);
        let gradient = rounded(gradient);

        let difference = Self::float_sub(gradient.clone(), first.clone());
        let first = Self::float_add(first, Self::float_mul_scalar(difference, rates.share1.into()));
        let first = rounded(first);
        let square = Self::float_mul(
            Self::float_mul_scalar(gradient.clone(), rates.share2.into()),
            gradient,
        );
        let decayed = rounded(Self::float_mul_scalar(second, rates.decay2.into()));
        let second = rounded(Self::float_add(decayed, square));

        let root = rounded(Self::float_sqrt(second.clone()));
        let root = rounded(Self::float_div_scalar(root, rates.correction2.into()));
        let denominator = rounded(Self::float_add_scalar(root, rates.epsilon.into()));
        let update = Self::float_div(first.clone(), denominator);
        let update = Self::float_div_scalar(update, rates.correction1.into());
        let update = Self::float_mul_scalar(update, rates.learning_rate.into());
        let value = rounded(Self::float_mul_scalar(value, rates.keep.into()));
        let value = stored(Self::float_sub(value, update));
        (value, stored(first), stored(second))
    }

    /// Replaces a vector on a CUDA device by its sum over the group of [`crate::Nccl`], in its own dtype.
    #[fusion(dtype = vector, shape = vector)]
    fn sum_over_processes(vector: FloatTensor<Self>) -> FloatTensor<Self>;
}

/// Widens tensors of 16-bit formats to f32. Also returns the original dtype.
pub(crate) fn widen<B: PrecisionBackend>(tensor: FloatTensor<B>) -> (FloatTensor<B>, DType) {
    let dtype = tensor.dtype();
    (narrow::<B>(tensor, intermediate_dtype(dtype)), dtype)
}

/// Rounds to a dtype. Returns the tensor unchanged if it has this dtype.
pub(crate) fn narrow<B: PrecisionBackend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    if tensor.dtype() == dtype {
        tensor
    } else {
        B::round_to(tensor, dtype.into())
    }
}

/// Multiplies every element by a factor and rounds once.
pub(crate) fn times<B: PrecisionBackend>(tensor: FloatTensor<B>, factor: f64) -> FloatTensor<B> {
    let (wide, dtype) = widen::<B>(tensor);
    narrow::<B>(B::float_mul_scalar(wide, factor.into()), dtype)
}
