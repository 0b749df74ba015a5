//! Layers and activations, with or without a method of [`Compute`](crate::Compute).

use burn::{
    backend::{
        Dispatch, DispatchTensor, TensorMetadata,
        ir::{
            ActivationOperationIr, AttentionOpIr, AttentionOptionsIr, BatchNormOpIr, CustomOpIr,
            ModuleOperationIr, TensorIr,
        },
        ops::{ActivationOps, FloatTensorOps, IntTensorOps, ModuleOps, UnfoldOptions},
    },
    tensor::{Bool, DType, Shape, Tensor, s},
};

use super::{
    rejection::reject,
    replay::Replay,
    rounding::{compute_wide, round_to},
};
use crate::{
    AttentionMask, Compute, Dropout, attention,
    autocast::OpClass,
    backend::PrecisionBackend,
    dtypes::intermediate_dtype,
    tensor_ops::{primitive, round, tensor_of, wide},
};

/// Pads images `[n, c, h, w]` with zeros. `padding` contains the numbers of zeros (before, after) for rows and for
/// columns.
fn pad(images: Tensor<4>, padding: [(usize, usize); 2]) -> Tensor<4> {
    let options = (&images.device(), images.dtype());
    (2..4)
        .zip(padding)
        .fold(images, |images, (dim, (before, after))| {
            let zeros = |count| {
                let mut shape = images.dims();
                shape[dim] = count;
                (count > 0).then(|| Tensor::<4>::zeros(shape, options))
            };
            match (zeros(before), zeros(after)) {
                (None, None) => images,
                (before, after) => {
                    let parts = before.into_iter().chain([images]).chain(after);
                    Tensor::cat(parts.collect(), dim)
                }
            }
        })
}

/// Convolves images `[n, c, h, w]` with filters `[o, c / groups, a, b]`. The stride applies to rows and columns.
fn convolution(
    compute: &Compute,
    [images, filters]: [Tensor<4>; 2],
    bias: Option<DispatchTensor>,
    (stride, padding, groups): (usize, [(usize, usize); 2], usize),
) -> Tensor<4> {
    let [outputs, _, a, b] = filters.dims();
    let amounts = padding.into_iter().flat_map(|(before, after)| [before, after]);
    let first = padding[0].0;
    let (images, padding) = match amounts.clone().all(|amount| amount == first) && first < a.min(b) {
        true => (images, first),
        false => (pad(images, padding), 0),
    };
    let output = match groups {
        1 => compute.convolution(images, filters, stride, padding),
        _ => {
            let [_, channels, ..] = images.dims();
            let (group_inputs, group_outputs) = (channels / groups, outputs / groups);
            let parts = (0..groups).map(|group| {
                let (images, filters) = (images.clone(), filters.clone());
                let images = images.slice([s![..], s![group * group_inputs..(group + 1) * group_inputs]]);
                let filters = filters.slice([s![group * group_outputs..(group + 1) * group_outputs]]);
                compute.convolution(images, filters, stride, padding)
            });
            Tensor::cat(parts.collect(), 1)
        }
    };
    let Some(bias) = bias else {
        return output;
    };
    let bias = wide(compute.operand(tensor_of::<1>(bias))).reshape([1, outputs, 1, 1]);
    let format = output.dtype();
    round(wide(output) + bias, format)
}

/// Computes attention in separate steps, like [`Compute::attention`]. The output of a query without visible keys is
/// zero.
fn attention(
    compute: &Compute,
    [query, key, value]: [Tensor<4>; 3],
    mask: Option<DispatchTensor>,
    bias: Option<DispatchTensor>,
    options: &AttentionOptionsIr,
) -> Tensor<4> {
    let [.., width] = query.dims();
    let scale = options.scale.map(|scale| scale.elem());
    let scale = scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
    let scores = compute.matmul_by_columns(query, key);
    let (format, shape, device) = (scores.dtype(), scores.dims(), scores.device());
    let mut scores = wide(scores).mul_scalar(scale);
    if let Some(cap) = options.softcap {
        let cap: f64 = cap.elem();
        scores = scores.div_scalar(cap).tanh().mul_scalar(cap);
    }
    if let Some(bias) = bias {
        let bias = round(tensor_of::<4>(bias), scores.dtype());
        scores = scores + bias;
    }
    let scores = round(scores, format);
    let hidden_by_mask = mask.map(|mask| Tensor::<4, Bool>::from_dispatch(mask).expand(shape));
    let hidden_as_later = options
        .is_causal
        .then(|| AttentionMask::causal(shape[2], shape[3], &device).hidden(shape, &device));
    let hidden = match (hidden_by_mask, hidden_as_later) {
        (Some(hidden_by_mask), Some(hidden_as_later)) => Some(hidden_by_mask.bool_or(hidden_as_later)),
        (hidden_by_mask, hidden_as_later) => hidden_by_mask.or(hidden_as_later),
    };
    let weights = match hidden {
        Some(hidden) => {
            let masked_fill = |values: Tensor<4>, value| {
                let hidden = hidden.clone().into_dispatch();
                tensor_of::<4>(Dispatch::masked_fill(primitive(values), hidden, value))
            };
            masked_fill(
                compute.softmax(masked_fill(scores, attention::lowest(format))),
                0.0,
            )
        }
        None => compute.softmax(scores),
    };
    compute.matmul(weights, value)
}

/// Computes a linear layer, `x` `[…, in]` times `weight` `[in, out]`, as one matmul of all rows.
fn linear(
    compute: &Compute,
    x: DispatchTensor,
    weight: DispatchTensor,
    bias: Option<DispatchTensor>,
) -> DispatchTensor {
    let mut shape = x.shape();
    let [inputs, outputs] = weight.shape().dims();
    let last = shape.num_dims() - 1;
    let rows = shape.num_elements() / inputs;
    shape[last] = outputs;
    let x = tensor_of::<2>(Dispatch::float_reshape(x, Shape::new([rows, inputs])));
    let weight = tensor_of::<2>(weight);
    let output = match bias {
        Some(bias) => compute.linear_by_inputs(x, weight, tensor_of(bias)),
        None => compute.matmul(x, weight),
    };
    Dispatch::float_reshape(primitive(output), shape)
}

/// Computes softmax over any dimension.
fn softmax(input: DispatchTensor, dim: usize) -> DispatchTensor {
    let last = input.shape().num_dims() - 1;
    match dim == last {
        true => Dispatch::softmax_last(input),
        false => {
            let swapped = Dispatch::float_swap_dims(input, dim, last);
            Dispatch::float_swap_dims(Dispatch::softmax_last(swapped), dim, last)
        }
    }
}

/// Computes a sigmoid. For f64 inputs this formula computes in f64, because some backends implement the sigmoid only in
/// f32.
fn sigmoid(input: DispatchTensor) -> DispatchTensor {
    if input.dtype() != DType::F64 {
        return compute_wide(input, Dispatch::sigmoid);
    }
    let denominator = Dispatch::float_add_scalar(Dispatch::float_exp(Dispatch::float_neg(input)), 1.0.into());
    Dispatch::float_recip(denominator)
}

impl Replay<'_> {
    fn take_optional(&mut self, tensor: Option<&TensorIr>) -> Option<DispatchTensor> {
        tensor.map(|tensor| self.take(tensor))
    }

    /// Runs [`Compute::dropout`].
    pub(super) fn dropout(&mut self, operation: &CustomOpIr) {
        let dropout = Dropout {
            share: operation.scalars[0].elem(),
            masks: self.masks,
        };
        let input = tensor_of::<1>(self.take(&operation.inputs[0]));
        let output = self.compute.dropout(input, dropout);
        self.put(&operation.outputs[0], primitive(output));
    }

    pub(super) fn activation(&mut self, operation: &ActivationOperationIr) {
        use ActivationOperationIr as Op;
        let compute = self.compute;
        match operation {
            Op::Relu(op) => self.apply([&op.input, &op.out], Dispatch::relu),
            Op::Gelu(op) => self.apply([&op.input, &op.out], |x| {
                primitive(compute.gelu(tensor_of::<1>(x)))
            }),
            Op::Softmax(op) => self.apply_full([&op.input, &op.out], |x| softmax(x, op.axis)),
            Op::Softmin(op) => {
                self.apply_full([&op.input, &op.out], |x| softmax(Dispatch::float_neg(x), op.axis))
            }
            Op::LogSoftmax(op) => {
                let input = self.take(&op.input);
                let output = compute_wide(self.full(input), |x| Dispatch::log_softmax(x, op.axis));
                self.put(&op.out, output);
            }
            Op::LogSigmoid(op) => self.apply_wide([&op.input, &op.out], Dispatch::log_sigmoid),
            Op::Sigmoid(op) => self.apply([&op.input, &op.out], sigmoid),
            Op::HardSigmoid(op) => self.apply_wide([&op.tensor, &op.out], |x| {
                Dispatch::hard_sigmoid(x, op.alpha.into(), op.beta.into())
            }),
            Op::LeakyRelu(op) => {
                self.apply_wide([&op.lhs, &op.out], |x| Dispatch::leaky_relu(x, op.rhs.into()))
            }
            Op::PRelu(op) => {
                let inputs = [self.take(&op.lhs), self.take(&op.rhs)];
                let [input, slope] = self.cast(OpClass::Lower, inputs);
                self.put(&op.out, Dispatch::prelu(input, slope));
            }
            Op::ReluBackward(_)
            | Op::GeluBackward(_)
            | Op::SigmoidBackward(_)
            | Op::LogSigmoidBackward(_) => reject("a gradient inside a module"),
        }
    }

    /// Computes a batch norm with given statistics, in at least f32.
    fn batch_norm(&mut self, operation: &BatchNormOpIr) {
        let BatchNormOpIr {
            x,
            gamma,
            beta,
            mean,
            variance,
            epsilon,
            out,
        } = operation;
        let x = self.take(x);
        let parts = [gamma, beta, mean, variance].map(|part| self.take(part));
        let format = intermediate_dtype(x.dtype());
        let [gamma, beta, mean, variance] = parts.map(|part| round_to(part, format));
        let output = compute_wide(x, |x| {
            Dispatch::batch_norm(x, gamma, beta, mean, variance, epsilon.elem())
        });
        self.put(out, output);
    }

    fn attention(&mut self, operation: &AttentionOpIr) {
        let parts = [&operation.query, &operation.key, &operation.value];
        let parts = parts.map(|part| tensor_of::<4>(self.take(part)));
        let mask = self.take_optional(operation.mask.as_ref());
        let bias = self.take_optional(operation.attn_bias.as_ref());
        let output = attention(&self.compute, parts, mask, bias, &operation.options);
        self.put(&operation.out, primitive(output));
    }

    pub(super) fn module(&mut self, operation: &ModuleOperationIr) {
        use ModuleOperationIr as Op;
        match operation {
            Op::Embedding(op) => {
                let (table, indices) = (self.take(&op.weights), self.take(&op.indices));
                let [n, sequence] = indices.shape().dims();
                let [_, width] = table.shape().dims();
                let indices = Dispatch::int_reshape(indices, Shape::new([n * sequence]));
                let rows = Dispatch::embedding_lookup(table, indices);
                self.put(
                    &op.out,
                    Dispatch::float_reshape(rows, Shape::new([n, sequence, width])),
                );
            }
            Op::Linear(op) => {
                let (x, weight) = (self.take(&op.x), self.take(&op.weight));
                let bias = self.take_optional(op.bias.as_ref());
                self.put(&op.out, linear(&self.compute, x, weight, bias));
            }
            Op::LayerNorm(op) => {
                let (input, scale) = (self.take(&op.input), self.take(&op.gamma));
                let shift = self.take_optional(op.beta.as_ref());
                let shift = shift.unwrap_or_else(|| primitive(tensor_of::<1>(scale.clone()).zeros_like()));
                let (output, ..) =
                    Dispatch::normalize_last(self.full(input), scale, shift, op.epsilon.elem());
                self.put(&op.out, output);
            }
            Op::BatchNorm(op) => self.batch_norm(op),
            Op::Attention(op) => self.attention(op),

            Op::Conv1d(op) => {
                if op.options.dilation != [1] {
                    reject("a dilated convolution");
                }
                // A one-dimensional convolution equals a two-dimensional one of images with a single row.
                let (x, weight) = (self.take(&op.x), self.take(&op.weight));
                let bias = self.take_optional(op.bias.as_ref());
                let [n, channels, length] = x.shape().dims();
                let [outputs, each, edge] = weight.shape().dims();
                let images = Dispatch::float_reshape(x, Shape::new([n, channels, 1, length]));
                let filters = Dispatch::float_reshape(weight, Shape::new([outputs, each, 1, edge]));
                let padding = [(0, 0), op.options.padding[0]];
                let options = (op.options.stride[0], padding, op.options.groups);
                let output = convolution(&self.compute, [images, filters].map(tensor_of), bias, options);
                let [n, outputs, _, length] = output.dims();
                let output = Dispatch::float_reshape(primitive(output), Shape::new([n, outputs, length]));
                self.put(&op.out, output);
            }
            Op::Conv2d(op) => {
                if op.options.dilation != [1, 1] {
                    reject("a dilated convolution");
                }
                if op.options.stride[0] != op.options.stride[1] {
                    reject("a convolution with different strides for rows and columns");
                }
                let operands = [self.take(&op.x), self.take(&op.weight)].map(tensor_of);
                let bias = self.take_optional(op.bias.as_ref());
                let options = (op.options.stride[0], op.options.padding, op.options.groups);
                let output = convolution(&self.compute, operands, bias, options);
                self.put(&op.out, primitive(output));
            }
            // burn implements padding as a convolution, which would round its operands.
            Op::Unfold4d(op) => {
                if op.options.dilation != [1, 1] {
                    reject("a dilated unfolding");
                }
                let images = tensor_of::<4>(self.take(&op.x));
                let images = pad(images, op.options.padding.map(|side| (side, side)));
                let without_padding = UnfoldOptions::new(op.options.stride, [0, 0], [1, 1]);
                self.put(
                    &op.out,
                    Dispatch::unfold4d(primitive(images), op.kernel_size, without_padding),
                );
            }

            Op::AvgPool1d(op) => self.apply_wide([&op.x, &op.out], |x| {
                let (include_padding, ceil) = (op.count_include_pad, op.ceil_mode);
                Dispatch::avg_pool1d(x, op.kernel_size, op.stride, op.padding, include_padding, ceil)
            }),
            Op::AvgPool2d(op) => self.apply_wide([&op.x, &op.out], |x| {
                let (include_padding, ceil) = (op.count_include_pad, op.ceil_mode);
                Dispatch::avg_pool2d(x, op.kernel_size, op.stride, op.padding, include_padding, ceil)
            }),
            Op::AdaptiveAvgPool1d(op) => self.apply_wide([&op.x, &op.out], |x| {
                Dispatch::adaptive_avg_pool1d(x, op.output_size)
            }),
            Op::AdaptiveAvgPool2d(op) => self.apply_wide([&op.x, &op.out], |x| {
                Dispatch::adaptive_avg_pool2d(x, op.output_size)
            }),
            Op::AdaptiveAvgPool3d(op) => self.apply_wide([&op.x, &op.out], |x| {
                Dispatch::adaptive_avg_pool3d(x, op.output_size)
            }),
            Op::MaxPool1d(op) => self.apply_wide([&op.x, &op.out], |x| {
                let (size, stride) = (op.kernel_size, op.stride);
                Dispatch::max_pool1d(x, size, stride, op.padding, op.dilation, op.ceil_mode)
            }),
            Op::MaxPool2d(op) => self.apply_wide([&op.x, &op.out], |x| {
                let (size, stride) = (op.kernel_size, op.stride);
                Dispatch::max_pool2d(x, size, stride, op.padding, op.dilation, op.ceil_mode)
            }),
            Op::MaxPool1dWithIndices(op) => {
                let x = self.take(&op.x);
                let (input_format, indices) = (x.dtype(), self.int_format(op.out_indices.dtype));
                let x = round_to(x, intermediate_dtype(input_format));
                let (size, stride) = (op.kernel_size, op.stride);
                let (padding, ceil) = (op.padding, op.ceil_mode);
                let pooled =
                    Dispatch::max_pool1d_with_indices(x, size, stride, padding, op.dilation, ceil, indices);
                let output = round_to(pooled.output, input_format);
                self.put_both([&op.out, &op.out_indices], (output, pooled.indices));
            }
            Op::MaxPool2dWithIndices(op) => {
                let x = self.take(&op.x);
                let (input_format, indices) = (x.dtype(), self.int_format(op.out_indices.dtype));
                let x = round_to(x, intermediate_dtype(input_format));
                let (size, stride) = (op.kernel_size, op.stride);
                let (padding, ceil) = (op.padding, op.ceil_mode);
                let pooled =
                    Dispatch::max_pool2d_with_indices(x, size, stride, padding, op.dilation, ceil, indices);
                let output = round_to(pooled.output, input_format);
                self.put_both([&op.out, &op.out_indices], (output, pooled.indices));
            }
            Op::Interpolate(op) => {
                let x = self.take(&op.x);
                let x = self.full(x);
                let output = Dispatch::interpolate(x, op.output_size, op.options.clone().into());
                self.put(&op.out, output);
            }

            Op::DeformableConv2d(_) => reject("a deformable convolution"),
            Op::Conv3d(_) => reject("a three-dimensional convolution"),
            Op::ConvTranspose1d(_) | Op::ConvTranspose2d(_) | Op::ConvTranspose3d(_) => {
                reject("a transposed convolution")
            }
            Op::CtcLoss(_) => reject("a CTC loss"),
            // Gradients flow through the replayed operations. A module must not compute gradients itself.
            _ => reject("a gradient inside a module"),
        }
    }
}
