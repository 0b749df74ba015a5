//! Layers and activations: what [`Compute`](crate::Compute) has a method for, and what it does not.

use burn::tensor::{
    Bool, DType, Scalar, Shape, Tensor, TensorMetadata,
    ops::{
        ActivationOps, AttentionModuleOptions, BoolTensor, ConvOptions, ConvTransposeOptions,
        DeformConv2dBackward, DeformConvOptions, FloatTensor, IntTensor, InterpolateOptions,
        MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, UnfoldOptions,
    },
    s,
};

use super::{
    Autocast, compute,
    float::{cast, full, widely},
    primitive, tensor_of, unchanged,
};
use crate::{
    Precision, PrecisionBackend, Sight, attention,
    autocast::OpClass,
    compute::{round, wide},
};

impl<B: PrecisionBackend> ActivationOps<Self> for Autocast<B> {
    fn gelu(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        primitive(compute().gelu(tensor_of::<B, 1>(tensor)))
    }

    fn softmax(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let last = tensor.shape().num_dims() - 1;
        let softmax = |tensor| primitive(compute().softmax(tensor_of::<B, 1>(tensor)));
        match dim == last {
            true => softmax(tensor),
            false => B::float_swap_dims(softmax(B::float_swap_dims(tensor, dim, last)), dim, last),
        }
    }

    fn log_softmax(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        widely::<B>(full::<B>(tensor), |wide| B::log_softmax(wide, dim))
    }

    fn log_sigmoid(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        widely::<B>(tensor, B::log_sigmoid)
    }

    fn prelu(tensor: FloatTensor<Self>, alpha: FloatTensor<Self>) -> FloatTensor<Self> {
        let [tensor, alpha] = cast::<B, 2>(OpClass::Lower, [tensor, alpha]);
        B::prelu(tensor, alpha)
    }

    /// In f64 where its input is: some backends have one in f32 alone.
    fn sigmoid(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        if tensor.dtype() != DType::F64 {
            return widely::<B>(tensor, B::sigmoid);
        }
        B::float_recip(B::float_add_scalar(
            B::float_exp(B::float_neg(tensor)),
            1.0.into(),
        ))
    }

    fn hard_sigmoid(tensor: FloatTensor<Self>, alpha: Scalar, beta: Scalar) -> FloatTensor<Self> {
        widely::<B>(tensor, |wide| B::hard_sigmoid(wide, alpha, beta))
    }

    fn leaky_relu(tensor: FloatTensor<Self>, negative_slope: Scalar) -> FloatTensor<Self> {
        widely::<B>(tensor, |wide| B::leaky_relu(wide, negative_slope))
    }

    unchanged! {
        fn relu(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
    }
}

/// What is refused: its products would be whatever the backend makes of them.
fn refused(what: &str) -> ! {
    panic!("{what} has no controlled precision here, and is refused")
}

/// Operations that are refused, by what they are.
macro_rules! refused {
    ($($what:literal: fn $name:ident($($type:ty),*) -> $output:ty;)*) => {
        $(fn $name($(_: $type),*) -> $output {
            refused($what)
        })*
    };
}

/// An image with zeros around it, `[n, c, h, w]`.
fn padded<B: PrecisionBackend>(images: Tensor<B, 4>, padding: [usize; 2]) -> Tensor<B, 4> {
    let options = (&images.device(), images.dtype());
    (2..4).zip(padding).fold(images, |images, (dim, padding)| {
        if padding == 0 {
            return images;
        }
        let mut shape = images.dims();
        shape[dim] = padding;
        let zeros = Tensor::<B, 4>::zeros(shape, options);
        Tensor::cat(vec![zeros.clone(), images, zeros], dim)
    })
}

/// A convolution of images `[n, c, h, w]` with filters `[o, c / groups, a, b]` whose stride is the same in both directions.
fn convolution<B: PrecisionBackend>(
    images: FloatTensor<B>,
    filters: FloatTensor<B>,
    bias: Option<FloatTensor<B>>,
    (stride, padding, groups): (usize, [usize; 2], usize),
) -> FloatTensor<B> {
    let (images, filters) = (tensor_of::<B, 4>(images), tensor_of::<B, 4>(filters));
    let [outputs, _, a, b] = filters.dims();
    let [vertical, horizontal] = padding;
    let (images, padding) = match vertical == horizontal && vertical < a.min(b) {
        true => (images, vertical),
        false => (padded(images, padding), 0),
    };
    let [_, channels, ..] = images.dims();
    let (inputs_each, outputs_each) = (channels / groups, outputs / groups);
    let parts = (0..groups).map(|group| {
        let (images, filters) = (images.clone(), filters.clone());
        let images = images.slice([s![..], s![group * inputs_each..(group + 1) * inputs_each]]);
        let filters = filters.slice([s![group * outputs_each..(group + 1) * outputs_each]]);
        compute().convolution(images, filters, stride, padding)
    });
    let output = Tensor::cat(parts.collect(), 1);
    let Some(bias) = bias else {
        return primitive(output);
    };
    let bias = wide(compute().operand(tensor_of::<B, 1>(bias))).reshape([1, outputs, 1, 1]);
    let dtype = output.dtype();
    primitive(round(wide(output) + bias, dtype))
}

impl<B: PrecisionBackend> ModuleOps<Self> for Autocast<B> {
    fn embedding(weights: FloatTensor<Self>, indices: IntTensor<Self>) -> FloatTensor<Self> {
        let [n, sequence] = indices.shape().dims();
        let [_, width] = weights.shape().dims();
        let indices = B::int_reshape(indices, Shape::new([n * sequence]));
        let rows = B::look_up(weights, indices);
        B::float_reshape(rows, Shape::new([n, sequence, width]))
    }

    fn linear(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
    ) -> FloatTensor<Self> {
        let mut shape = x.shape();
        let [inputs, outputs] = weight.shape().dims();
        let last = shape.num_dims() - 1;
        let rows = shape.num_elements() / inputs;
        shape[last] = outputs;
        let x = tensor_of::<B, 2>(B::float_reshape(x, Shape::new([rows, inputs])));
        let weight = tensor_of::<B, 2>(weight);
        let output = match bias {
            Some(bias) => compute().linear_by_inputs(x, weight, tensor_of(bias)),
            None => compute().matmul(x, weight),
        };
        B::float_reshape(primitive(output), shape)
    }

    fn conv1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        options: ConvOptions<1>,
    ) -> FloatTensor<Self> {
        if options.dilation != [1] {
            refused("a dilated convolution");
        }
        // Images of one row.
        let [n, channels, length] = x.shape().dims();
        let [outputs, each, edge] = weight.shape().dims();
        let images = B::float_reshape(x, Shape::new([n, channels, 1, length]));
        let filters = B::float_reshape(weight, Shape::new([outputs, each, 1, edge]));
        let way = (options.stride[0], [0, options.padding[0]], options.groups);
        let output = convolution::<B>(images, filters, bias, way);
        let [n, outputs, _, length] = output.shape().dims();
        B::float_reshape(output, Shape::new([n, outputs, length]))
    }

    fn conv2d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        options: ConvOptions<2>,
    ) -> FloatTensor<Self> {
        if options.dilation != [1, 1] {
            refused("a dilated convolution");
        }
        if options.stride[0] != options.stride[1] {
            refused("a convolution with two strides");
        }
        convolution::<B>(
            x,
            weight,
            bias,
            (options.stride[0], options.padding, options.groups),
        )
    }

    fn layer_norm(
        tensor: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let gamma = tensor_of::<B, 1>(gamma);
        let beta = beta.map_or_else(|| gamma.zeros_like(), tensor_of);
        primitive(compute().layer_norm(tensor_of::<B, 1>(tensor), gamma, beta, epsilon))
    }

    /// In steps, as [`Compute::attention`](crate::Compute::attention) has them. A query that sees nothing says nothing.
    fn attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        mask: Option<BoolTensor<Self>>,
        attn_bias: Option<FloatTensor<Self>>,
        options: AttentionModuleOptions,
    ) -> FloatTensor<Self> {
        let [query, key, value] = [query, key, value].map(tensor_of::<B, 4>);
        let [.., width] = query.dims();
        let scale = options.scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
        let scores = compute().matmul_by_columns(query, key);
        let (dtype, shape, device) = (scores.dtype(), scores.dims(), scores.device());
        let mut scores = wide(scores).mul_scalar(scale);
        if let Some(cap) = options.softcap {
            scores = scores.div_scalar(cap).tanh().mul_scalar(cap);
        }
        if let Some(bias) = attn_bias {
            let bias = round(tensor_of::<B, 4>(bias), scores.dtype());
            scores = scores + bias;
        }
        let scores = round(scores, dtype);
        let masked = mask.map(|mask| Tensor::<B, 4, Bool>::from_primitive(mask).expand(shape));
        let later = options
            .is_causal
            .then(|| Sight::<B>::causal(shape[2], shape[3], &device).hidden(shape, &device));
        let hidden = match (masked, later) {
            (Some(masked), Some(later)) => Some(masked.bool_or(later)),
            (masked, later) => masked.or(later),
        };
        let weights = match hidden {
            Some(hidden) => {
                let hide = |values, value| {
                    tensor_of::<B, 4>(B::hide(primitive(values), hidden.clone().into_primitive(), value))
                };
                hide(compute().softmax(hide(scores, attention::lowest(dtype))), 0.0)
            }
            None => compute().softmax(scores),
        };
        primitive(compute().matmul(weights, value))
    }

    fn avg_pool2d(
        x: FloatTensor<Self>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        count_include_pad: bool,
        ceil_mode: bool,
    ) -> FloatTensor<Self> {
        widely::<B>(x, |wide| {
            B::avg_pool2d(wide, kernel_size, stride, padding, count_include_pad, ceil_mode)
        })
    }

    fn adaptive_avg_pool2d(x: FloatTensor<Self>, output_size: [usize; 2]) -> FloatTensor<Self> {
        widely::<B>(x, |wide| B::adaptive_avg_pool2d(wide, output_size))
    }

    fn max_pool2d(
        x: FloatTensor<Self>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> FloatTensor<Self> {
        widely::<B>(x, |wide| {
            B::max_pool2d(wide, kernel_size, stride, padding, dilation, ceil_mode)
        })
    }

    fn max_pool2d_with_indices(
        x: FloatTensor<Self>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> MaxPool2dWithIndices<Self> {
        let dtype = x.dtype();
        let wide = primitive(wide(tensor_of::<B, 1>(x)));
        let pooled = B::max_pool2d_with_indices(wide, kernel_size, stride, padding, dilation, ceil_mode);
        let output = primitive(round(tensor_of::<B, 1>(pooled.output), dtype));
        MaxPool2dWithIndices::new(output, pooled.indices)
    }

    fn interpolate(
        x: FloatTensor<Self>,
        output_size: [usize; 2],
        options: InterpolateOptions,
    ) -> FloatTensor<Self> {
        B::interpolate(full::<B>(x), output_size, options)
    }

    fn rfft(
        signal: FloatTensor<Self>,
        dim: usize,
        n: Option<usize>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        if compute().precision() == Precision::True64 {
            refused("a Fourier transform in f64");
        }
        B::rfft(full::<B>(signal), dim, n)
    }

    fn irfft(
        spectrum_re: FloatTensor<Self>,
        spectrum_im: FloatTensor<Self>,
        dim: usize,
        n: Option<usize>,
    ) -> FloatTensor<Self> {
        if compute().precision() == Precision::True64 {
            refused("a Fourier transform in f64");
        }
        B::irfft(full::<B>(spectrum_re), full::<B>(spectrum_im), dim, n)
    }

    /// Of padding burn makes a product.
    fn unfold4d(x: FloatTensor<Self>, kernel_size: [usize; 2], options: UnfoldOptions) -> FloatTensor<Self> {
        if options.dilation != [1, 1] {
            refused("a dilated unfolding");
        }
        let images = padded(tensor_of::<B, 4>(x), options.padding);
        let bare = UnfoldOptions::new(options.stride, [0, 0], [1, 1]);
        B::unfold4d(primitive(images), kernel_size, bare)
    }

    refused! {
        "a deformed convolution": fn deform_conv2d(
            FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, Option<FloatTensor<Self>>,
            Option<FloatTensor<Self>>, DeformConvOptions<2>
        ) -> FloatTensor<Self>;
        "a convolution in three dimensions": fn conv3d(
            FloatTensor<Self>, FloatTensor<Self>, Option<FloatTensor<Self>>, ConvOptions<3>
        ) -> FloatTensor<Self>;
        "a transposed convolution": fn conv_transpose1d(
            FloatTensor<Self>, FloatTensor<Self>, Option<FloatTensor<Self>>, ConvTransposeOptions<1>
        ) -> FloatTensor<Self>;
        "a transposed convolution": fn conv_transpose2d(
            FloatTensor<Self>, FloatTensor<Self>, Option<FloatTensor<Self>>, ConvTransposeOptions<2>
        ) -> FloatTensor<Self>;
        "a transposed convolution": fn conv_transpose3d(
            FloatTensor<Self>, FloatTensor<Self>, Option<FloatTensor<Self>>, ConvTransposeOptions<3>
        ) -> FloatTensor<Self>;
    }

    // Backward passes are those of the backend inside: nobody asks for these.
    refused! {
        "a gradient outside of the autodiff": fn deform_conv2d_backward(
            FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>, Option<FloatTensor<Self>>,
            Option<FloatTensor<Self>>, FloatTensor<Self>, DeformConvOptions<2>
        ) -> DeformConv2dBackward<Self>;
        "a gradient outside of the autodiff": fn avg_pool2d_backward(
            FloatTensor<Self>, FloatTensor<Self>, [usize; 2], [usize; 2], [usize; 2], bool, bool
        ) -> FloatTensor<Self>;
        "a gradient outside of the autodiff": fn adaptive_avg_pool2d_backward(
            FloatTensor<Self>, FloatTensor<Self>
        ) -> FloatTensor<Self>;
        "a gradient outside of the autodiff": fn max_pool2d_with_indices_backward(
            FloatTensor<Self>, [usize; 2], [usize; 2], [usize; 2], [usize; 2], bool, FloatTensor<Self>, IntTensor<Self>
        ) -> MaxPool2dBackward<Self>;
        "a gradient outside of the autodiff": fn interpolate_backward(
            FloatTensor<Self>, FloatTensor<Self>, [usize; 2], InterpolateOptions
        ) -> FloatTensor<Self>;
    }
}
