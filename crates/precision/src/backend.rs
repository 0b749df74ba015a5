//! The operations whose arithmetic mantissa controls, as an extension of a burn backend.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

use burn::tensor::{
    DType, FloatDType, Shape, TensorMetadata,
    backend::Backend,
    ops::{AttentionModuleOptions, BoolTensor, FloatTensor},
};
use mantissa_core::{Accumulator, Layout, MatmulPrecision};

use crate::convolution::{self, Convolution};

/// What a matmul does to its operands. Concerns f32 operands; narrower and wider ones are multiplied as they are.
/// Sums are kept in f32 (f64 for f64 operands).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatmulMode {
    /// What the multiplier sees of an f32 operand.
    pub precision: MatmulPrecision,
    /// The width of the running sum of half operands.
    pub accumulator: Accumulator,
}

/// A normalised tensor with what its backward pass needs.
#[derive(Debug, Clone)]
pub struct Normalized<T> {
    /// Scaled and shifted, shape and dtype of the input.
    pub output: T,
    /// Mean over the last dimension, kept as size 1; f32 for half inputs.
    pub mean: T,
    /// One over the standard deviation, shape and dtype of `mean`.
    pub inverse_deviation: T,
}

/// Gradients of a layer norm: of its input, its scale and its shift.
pub type LayerNormGradients<T> = (T, T, T);

/// Bytes of a device's allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllocatorUsage {
    /// Taken from the device.
    pub reserved: u64,
    /// Handed out to tensors.
    pub in_use: u64,
}

/// A backend whose arithmetic is under control.
///
/// Methods with a body are composed of burn's operations, in f32 inside for half inputs and rounded once at the end,
/// as the fused kernels of PyTorch do; a backend overrides them where it can do the same faster.
pub trait PrecisionBackend: Backend {
    /// Batched, broadcasting matrix product, shapes `[…, m, k] × […, k, n] → […, m, n]`, in the dtype of the operands.
    fn controlled_matmul(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self>;

    /// A product of a convolution, shapes as [`Convolution::shape`] has them, in the dtype of the operands.
    fn controlled_convolution(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        convolution: Convolution,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        convolution::by_unfolding::<Self>(lhs, rhs, convolution, mode)
    }

    /// All windows of `filter` rows and columns over channels-last images `[n, h, w, c]` with zeros around them, one a row:
    /// `[n · y · x, rows · columns · c]`.
    fn windows(
        images: FloatTensor<Self>,
        filter: [usize; 2],
        stride: usize,
        padding: usize,
    ) -> FloatTensor<Self> {
        convolution::windows::<Self>(images, filter, stride, padding)
    }

    /// Attention in one kernel: `softmax(query · keyᵀ / √width) · value` over the positions that are no `padding`. Floats
    /// are `[n, heads, sequence, width]` and `padding` is `[n, heads, sequence, sequence]`. The kernel's arithmetic is its
    /// own; the `mode` is that of the backward pass.
    fn fused_attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        padding: BoolTensor<Self>,
        _mode: MatmulMode,
    ) -> FloatTensor<Self> {
        Self::attention(
            query,
            key,
            value,
            Some(padding),
            None,
            AttentionModuleOptions::default(),
        )
    }

    /// What the allocator behind the calling thread's stream holds; absent where there is none to ask.
    fn allocator_usage(_device: &Self::Device) -> Option<AllocatorUsage> {
        None
    }

    /// Hands over to the device what has been asked for, and does not wait for it.
    ///
    /// # Errors
    /// What the device reports.
    fn submit(_device: &Self::Device) -> Result<(), String> {
        Ok(())
    }

    /// Rounds to another dtype, to nearest even.
    fn round_to(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        Self::float_cast(tensor, dtype)
    }

    /// Rounds f32 values to the nearest ones of a layout with fewer bits, ties to even, with gradual underflow and
    /// overflow to infinity. They stay in f32 words; a gradient passes as it is.
    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self>;

    /// Softmax over the last dimension.
    fn softmax_last(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        let (wide, dtype) = widen::<Self>(tensor);
        let last = wide.shape().num_dims() - 1;
        narrow::<Self>(Self::softmax(wide, last), dtype)
    }

    /// Gradient of [`PrecisionBackend::softmax_last`], from its output.
    fn softmax_last_backward(output: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let ((output, dtype), (grad, _)) = (widen::<Self>(output), widen::<Self>(grad));
        let last = output.shape().num_dims() - 1;
        let dot = Self::float_sum_dim(Self::float_mul(grad.clone(), output.clone()), last);
        narrow::<Self>(Self::float_mul(output, Self::float_sub(grad, dot)), dtype)
    }

    /// GELU with the error function: `x · Φ(x)`.
    fn gelu_exact(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let (wide, dtype) = widen::<Self>(input);
        let distribution = normal_distribution::<Self>(wide.clone());
        narrow::<Self>(Self::float_mul(wide, distribution), dtype)
    }

    /// Gradient of [`PrecisionBackend::gelu_exact`], from its input: `Φ(x) + x · φ(x)`. burn's own GELU is exact in the
    /// forward pass only: outside the CPU its gradient is that of the tanh approximation, off by up to 10⁻³.
    fn gelu_exact_backward(input: FloatTensor<Self>, grad: FloatTensor<Self>) -> FloatTensor<Self> {
        let ((input, dtype), (grad, _)) = (widen::<Self>(input), widen::<Self>(grad));
        let square = Self::float_mul(input.clone(), input.clone());
        let density = Self::float_exp(Self::float_mul_scalar(square, (-0.5).into()));
        let density = Self::float_mul_scalar(density, (1.0 / (2.0 * PI).sqrt()).into());
        let slope = Self::float_add(
            normal_distribution::<Self>(input.clone()),
            Self::float_mul(input, density),
        );
        narrow::<Self>(Self::float_mul(grad, slope), dtype)
    }

    /// Layer norm over the last dimension with the biased variance; `scale` and `shift` are `[n]`.
    fn normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> Normalized<FloatTensor<Self>> {
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
        Normalized {
            output,
            mean,
            inverse_deviation,
        }
    }

    /// Gradients of [`PrecisionBackend::normalize_last`].
    fn normalize_last_backward(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_deviation: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> LayerNormGradients<FloatTensor<Self>> {
        let ((input, dtype), (grad, _), (scale, scale_dtype)) =
            (widen::<Self>(input), widen::<Self>(grad), widen::<Self>(scale));
        let rank = input.shape().num_dims();
        let last = rank - 1;
        let n = scale.shape().num_elements();
        let normal = Self::float_mul(Self::float_sub(input, mean), inverse_deviation.clone());

        let rows = |tensor: FloatTensor<Self>| {
            let count = tensor.shape().num_elements() / n;
            let sum = Self::float_sum_dim(Self::float_reshape(tensor, Shape::new([count, n])), 0);
            narrow::<Self>(Self::float_reshape(sum, Shape::new([n])), scale_dtype)
        };
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
}

/// `Φ(x)`, the standard normal distribution function.
fn normal_distribution<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let erf = B::float_erf(B::float_mul_scalar(x, FRAC_1_SQRT_2.into()));
    B::float_mul_scalar(B::float_add_scalar(erf, 1.0.into()), 0.5.into())
}

/// Half tensors as f32, others as they are; and the dtype to come back to.
fn widen<B: PrecisionBackend>(tensor: FloatTensor<B>) -> (FloatTensor<B>, DType) {
    let dtype = tensor.dtype();
    match dtype {
        DType::F16 | DType::BF16 => (B::round_to(tensor, FloatDType::F32), dtype),
        _ => (tensor, dtype),
    }
}

fn narrow<B: PrecisionBackend>(tensor: FloatTensor<B>, dtype: DType) -> FloatTensor<B> {
    if tensor.dtype() == dtype {
        tensor
    } else {
        B::round_to(tensor, dtype.into())
    }
}

/// `[n]` as `[1, …, 1, n]`.
fn row<B: Backend>(tensor: FloatTensor<B>, rank: usize) -> FloatTensor<B> {
    let mut shape = vec![1; rank];
    shape[rank - 1] = tensor.shape().num_elements();
    B::float_reshape(tensor, Shape::from(shape))
}
