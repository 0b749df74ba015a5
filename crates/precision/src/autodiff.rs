//! Automatic differentiation of the controlled operations: each backward pass runs in the precision of its forward
//! pass.

use std::fmt::{self, Debug};

use burn::{
    backend::{
        Autodiff, AutodiffBackend, TensorMetadata,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, NodeGuard, Ops, OpsKind, binary, broadcast_shape},
        },
        tensor::{BoolTensor, FloatTensor, IntTensor},
    },
    tensor::{FloatDType, Shape},
};
use mantissa_core::{Gelu, Layout};
use mantissa_cpu_kernels::DropoutMask;

use crate::{Convolution, MatmulMode, Pass, attention, backend::PrecisionBackend};

/// Records the output of an operation and the state of its backward pass, if any input is tracked.
fn record_operation<B, C, O, const N: usize>(
    operation: O,
    nodes: [NodeGuard; N],
    output: FloatTensor<B>,
    state: impl FnOnce(&FloatTensor<B>) -> O::State,
) -> FloatTensor<Autodiff<B, C>>
where
    B: PrecisionBackend,
    C: CheckpointStrategy,
    O: Backward<B, N>,
{
    match operation.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prep) => {
            let state = state(&output);
            prep.finish(state, output)
        }
        OpsKind::UnTracked(prep) => prep.finish(output),
    }
}

/// Saved state of a matmul: both operands, both shapes and the mode. An operand is saved only if the gradient of the other one is needed.
type MatmulState<T> = (Option<T>, Option<T>, Shape, Shape, MatmulMode);

#[derive(Debug)]
struct Matmul {
    /// True if the right operand and its gradient are stored by columns, which avoids a transposition.
    by_columns: bool,
}

impl<B: PrecisionBackend> Backward<B, 2> for Matmul {
    type State = MatmulState<FloatTensor<B>>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (lhs, rhs, lhs_shape, rhs_shape, mode) = ops.state;
        let matmul = |a, b| B::controlled_matmul(a, b, mode.rounded());
        // Callers round unrounded f32 sums to the operands' format later. The gradient of such a sum is f32, but was widened from that format,
        // so the cast is exact.
        let cast_like = |grad, operand: &FloatTensor<B>| match operand.dtype() {
            dtype if dtype == TensorMetadata::dtype(&grad) => grad,
            dtype => B::round_to(grad, dtype.into()),
        };
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |grad| {
                let rhs = rhs.expect("rhs is saved if lhs is tracked");
                let grad = cast_like(grad, &rhs);
                let product = match self.by_columns {
                    true => matmul(grad, rhs),
                    false => matmul(grad, B::float_transpose(rhs)),
                };
                broadcast_shape::<B>(product, &lhs_shape)
            },
            |grad| {
                let lhs = lhs.expect("lhs is saved if rhs is tracked");
                let grad = cast_like(grad, &lhs);
                let product = match self.by_columns {
                    true => matmul(B::float_transpose(grad), lhs),
                    false => matmul(B::float_transpose(lhs), grad),
                };
                broadcast_shape::<B>(product, &rhs_shape)
            },
        );
    }
}

fn matmul<B: PrecisionBackend, C: CheckpointStrategy>(
    lhs: FloatTensor<Autodiff<B, C>>,
    rhs: FloatTensor<Autodiff<B, C>>,
    mode: MatmulMode,
    by_columns: bool,
) -> FloatTensor<Autodiff<B, C>> {
    let (lhs_shape, rhs_shape) = (lhs.shape(), rhs.shape());
    let saved_lhs = rhs.is_tracked().then(|| lhs.primitive().clone());
    let saved_rhs = lhs.is_tracked().then(|| rhs.primitive().clone());
    let nodes = [lhs.node(), rhs.node()];
    let (left, right) = (lhs.into_primitive(), rhs.into_primitive());
    let output = match by_columns {
        true => B::controlled_matmul_by_columns(left, right, mode),
        false => B::controlled_matmul(left, right, mode),
    };
    record_operation::<B, C, _, 2>(Matmul { by_columns }, nodes, output, |_| {
        (saved_lhs, saved_rhs, lhs_shape, rhs_shape, mode)
    })
}

/// Saved state of a convolution: images, filters, both shapes, the convolution and the mode. Images are saved only if the gradient of the
/// filters is needed, and vice versa.
type ConvolutionState<T> = (Option<T>, Option<T>, Shape, Shape, Convolution, MatmulMode);

#[derive(Debug)]
struct Convolve;

impl<B: PrecisionBackend> Backward<B, 2> for Convolve {
    type State = ConvolutionState<FloatTensor<B>>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (images, filters, images_shape, filters_shape, convolution, mode) = ops.state;
        let image_size = |shape: Shape| [shape[2], shape[3]];
        let product = |lhs, rhs, pass| B::controlled_convolution(lhs, rhs, convolution.with(pass), mode);
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |grad| {
                let filters = filters.expect("filters are saved if the images are tracked");
                product(grad, filters, Pass::Images(image_size(images_shape)))
            },
            |grad| {
                let images = images.expect("images are saved if the filters are tracked");
                product(images, grad, Pass::Filters(image_size(filters_shape)))
            },
        );
    }
}

/// Operation whose backward pass computes the gradients of its inputs from saved values and the gradient of its output.
struct Step<B: PrecisionBackend, S, const N: usize>(Gradient<B, S, N>);

type Gradient<B, S, const N: usize> = fn(S, FloatTensor<B>) -> [FloatTensor<B>; N];

impl<B: PrecisionBackend, S, const N: usize> Debug for Step<B, S, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Step")
    }
}

impl<B: PrecisionBackend, S: Clone + Debug + Send + 'static, const N: usize> Backward<B, N>
    for Step<B, S, N>
{
    type State = S;

    fn backward(self, ops: Ops<S, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        for (parent, grad) in ops.parents.into_iter().zip((self.0)(ops.state, grad)) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}

fn record_step<
    B: PrecisionBackend,
    C: CheckpointStrategy,
    S: Clone + Debug + Send + 'static,
    const N: usize,
>(
    nodes: [NodeGuard; N],
    output: FloatTensor<B>,
    state: impl FnOnce(&FloatTensor<B>) -> S,
    gradients: Gradient<B, S, N>,
) -> FloatTensor<Autodiff<B, C>> {
    record_operation::<B, C, _, N>(Step(gradients), nodes, output, state)
}

impl<B: PrecisionBackend, C: CheckpointStrategy> PrecisionBackend for Autodiff<B, C> {
    fn controlled_matmul(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        matmul::<B, C>(lhs, rhs, mode, false)
    }

    fn controlled_matmul_by_columns(
        lhs: FloatTensor<Self>,
        columns: FloatTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        matmul::<B, C>(lhs, columns, mode, true)
    }

    fn controlled_convolution(
        lhs: FloatTensor<Self>,
        rhs: FloatTensor<Self>,
        convolution: Convolution,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        assert_eq!(
            convolution.pass,
            Pass::Forward,
            "second derivatives of a convolution are not supported"
        );
        let (images_shape, filters_shape) = (lhs.shape(), rhs.shape());
        let saved_images = rhs.is_tracked().then(|| lhs.primitive().clone());
        let saved_filters = lhs.is_tracked().then(|| rhs.primitive().clone());
        let nodes = [lhs.node(), rhs.node()];
        let (images, filters) = (lhs.into_primitive(), rhs.into_primitive());
        let output = B::controlled_convolution(images, filters, convolution, mode);
        record_operation::<B, C, _, 2>(Convolve, nodes, output, |_| {
            (
                saved_images,
                saved_filters,
                images_shape,
                filters_shape,
                convolution,
                mode,
            )
        })
    }

    fn fused_attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        padding: BoolTensor<Self>,
        mode: MatmulMode,
    ) -> FloatTensor<Self> {
        let nodes = [query.node(), key.node(), value.node()];
        let inputs = [query, key, value].map(|input| input.into_primitive());
        let [q, k, v] = inputs.clone();
        let output = B::fused_attention(q, k, v, padding.clone(), mode);
        record_step::<B, C, _, 3>(
            nodes,
            output,
            |_| (inputs, padding, mode),
            |(inputs, padding, mode), grad| attention::backward::<B>(inputs, padding, grad, mode),
        )
    }

    fn round_to(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let from = FloatDType::from(tensor.dtype());
        let output = B::round_to(tensor.into_primitive(), dtype);
        record_step::<B, C, _, 1>(nodes, output, |_| from, |from, grad| [B::round_to(grad, from)])
    }

    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::round_to_layout(tensor.into_primitive(), layout);
        record_step::<B, C, _, 1>(nodes, output, |_| (), |(), grad| [grad])
    }

    fn embedding_lookup(table: FloatTensor<Self>, rows: IntTensor<Self>) -> FloatTensor<Self> {
        let nodes = [table.node()];
        let shape = table.shape();
        let output = B::embedding_lookup(table.into_primitive(), rows.clone());
        record_step::<B, C, _, 1>(
            nodes,
            output,
            |_| (rows, shape),
            |(rows, shape), grad| [B::embedding_gradient(shape, rows, grad)],
        )
    }

    fn transpose_heads(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::transpose_heads(tensor.into_primitive());
        record_step::<B, C, _, 1>(nodes, output, |_| (), |(), grad| [B::transpose_heads(grad)])
    }

    fn rotate(
        input: FloatTensor<Self>,
        cosine: FloatTensor<Self>,
        sine: FloatTensor<Self>,
        interleaved: bool,
    ) -> FloatTensor<Self> {
        let nodes = [input.node()];
        let (cosine, sine) = (cosine.into_primitive(), sine.into_primitive());
        let output = B::rotate(input.into_primitive(), cosine.clone(), sine.clone(), interleaved);
        // The gradient is rotated by the opposite angle.
        record_step::<B, C, _, 1>(
            nodes,
            output,
            |_| (cosine, sine, interleaved),
            |(cosine, sine, interleaved), grad| [B::rotate(grad, cosine, B::float_neg(sine), interleaved)],
        )
    }

    fn masked_fill(tensor: FloatTensor<Self>, hidden: BoolTensor<Self>, value: f64) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::masked_fill(tensor.into_primitive(), hidden.clone(), value);
        record_step::<B, C, _, 1>(
            nodes,
            output,
            |_| hidden,
            |hidden, grad| [B::masked_fill(grad, hidden, 0.0)],
        )
    }

    fn zero_dropped(tensor: FloatTensor<Self>, mask: DropoutMask) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::zero_dropped(tensor.into_primitive(), mask);
        record_step::<B, C, _, 1>(
            nodes,
            output,
            |_| mask,
            |mask, grad| [B::zero_dropped(grad, mask)],
        )
    }

    fn softmax_last(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::softmax_last(tensor.into_primitive());
        record_step::<B, C, _, 1>(
            nodes,
            output,
            |output| output.clone(),
            |output, grad| [B::softmax_last_backward(output, grad)],
        )
    }

    fn relu_forward(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [input.node()];
        let output = B::relu_forward(input.into_primitive());
        record_step::<B, C, _, 1>(
            nodes,
            output,
            |output| output.clone(),
            |output, grad| [B::relu_gradient(output, grad)],
        )
    }

    fn gelu_form(input: FloatTensor<Self>, form: Gelu) -> FloatTensor<Self> {
        let nodes = [input.node()];
        let input = input.into_primitive();
        let output = B::gelu_form(input.clone(), form);
        record_step::<B, C, _, 1>(
            nodes,
            output,
            |_| (input, form),
            |(input, form), grad| [B::gelu_form_backward(input, grad, form)],
        )
    }

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::gelu_form(input, Gelu::TanhPacked)
    }

    fn normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        shift: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [input.node(), scale.node(), shift.node()];
        let [input, scale, shift] = [input, scale, shift].map(|input| input.into_primitive());
        let (output, mean, inverse_deviation) =
            B::normalize_last(input.clone(), scale.clone(), shift, epsilon);
        let output = record_step::<B, C, _, 3>(
            nodes,
            output,
            |_| (input, scale, mean.clone(), inverse_deviation.clone()),
            |(input, scale, mean, inverse_deviation), grad| {
                B::normalize_last_backward(input, scale, mean, inverse_deviation, grad).into()
            },
        );
        let [mean, inverse_deviation] = [mean, inverse_deviation].map(<Self as AutodiffBackend>::from_inner);
        (output, mean, inverse_deviation)
    }

    fn rms_normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [input.node(), scale.node()];
        let (input, scale) = (input.into_primitive(), scale.into_primitive());
        let (output, inverse) = B::rms_normalize_last(input.clone(), scale.clone(), epsilon);
        let output = record_step::<B, C, _, 2>(
            nodes,
            output,
            |_| (input, scale, inverse.clone()),
            |(input, scale, inverse), grad| {
                B::rms_normalize_last_backward(input, scale, inverse, grad).into()
            },
        );
        (output, <Self as AutodiffBackend>::from_inner(inverse))
    }

    /// Sums gradients, which are not tracked.
    fn sum_over_processes(vector: FloatTensor<Self>) -> FloatTensor<Self> {
        <Self as AutodiffBackend>::from_inner(B::sum_over_processes(vector.into_primitive()))
    }
}
