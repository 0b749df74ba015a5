//! The controlled operations under automatic differentiation: each backward pass runs in the precision of its forward
//! pass.

use burn::{
    backend::{
        Autodiff, AutodiffBackend, TensorMetadata,
        autodiff::{
            checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
            grads::Gradients,
            ops::{Backward, NodeGuard, Ops, OpsKind, binary, broadcast_shape, unary},
        },
        tensor::{BoolTensor, FloatTensor, IntTensor},
    },
    tensor::{FloatDType, Shape},
};
use mantissa_core::{Gelu, Layout};

use crate::{Convolution, MatmulMode, Pass, attention, backend::PrecisionBackend};

/// The output of an operation, recorded with what its backward pass needs if any of its inputs is tracked.
fn recorded<B, C, O, const N: usize>(
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

/// Operands that the other operand's gradient needs, their shapes, and the mode.
type MatmulState<T> = (Option<T>, Option<T>, Shape, Shape, MatmulMode);

#[derive(Debug)]
struct Matmul {
    /// Whether the right factor is given by its columns, and its gradient so, too: nothing need be turned.
    by_columns: bool,
}

impl<B: PrecisionBackend> Backward<B, 2> for Matmul {
    type State = MatmulState<FloatTensor<B>>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (lhs, rhs, lhs_shape, rhs_shape, mode) = ops.state;
        let matmul = |a, b| B::controlled_matmul(a, b, mode.rounded());
        // What follows sums that were not rounded rounds its gradient to the format of the operands: nothing is lost here.
        let like = |grad, operand: &FloatTensor<B>| match operand.dtype() {
            dtype if dtype == TensorMetadata::dtype(&grad) => grad,
            dtype => B::round_to(grad, dtype.into()),
        };
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |grad| {
                let rhs = rhs.expect("kept when lhs is tracked");
                let grad = like(grad, &rhs);
                let product = match self.by_columns {
                    true => matmul(grad, rhs),
                    false => matmul(grad, B::float_transpose(rhs)),
                };
                broadcast_shape::<B>(product, &lhs_shape)
            },
            |grad| {
                let lhs = lhs.expect("kept when rhs is tracked");
                let grad = like(grad, &lhs);
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
    let keep_lhs = rhs.is_tracked().then(|| lhs.primitive().clone());
    let keep_rhs = lhs.is_tracked().then(|| rhs.primitive().clone());
    let nodes = [lhs.node(), rhs.node()];
    let (left, right) = (lhs.into_primitive(), rhs.into_primitive());
    let output = match by_columns {
        true => B::controlled_matmul_by_columns(left, right, mode),
        false => B::controlled_matmul(left, right, mode),
    };
    recorded::<B, C, _, 2>(Matmul { by_columns }, nodes, output, |_| {
        (keep_lhs, keep_rhs, lhs_shape, rhs_shape, mode)
    })
}

/// Images and filters that the other one's gradient needs, both shapes, and what was done.
type ConvolutionState<T> = (Option<T>, Option<T>, Shape, Shape, Convolution, MatmulMode);

#[derive(Debug)]
struct Convolve;

impl<B: PrecisionBackend> Backward<B, 2> for Convolve {
    type State = ConvolutionState<FloatTensor<B>>;

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (images, filters, images_shape, filters_shape, convolution, mode) = ops.state;
        let edges = |shape: Shape| [shape[2], shape[3]];
        let product = |lhs, rhs, pass| B::controlled_convolution(lhs, rhs, convolution.with(pass), mode);
        binary::<B, _, _>(
            ops.parents,
            ops.node,
            grads,
            |grad| {
                let filters = filters.expect("kept when the images are tracked");
                product(grad, filters, Pass::Images(edges(images_shape)))
            },
            |grad| {
                let images = images.expect("kept when the filters are tracked");
                product(images, grad, Pass::Filters(edges(filters_shape)))
            },
        );
    }
}

/// Queries, keys, values, padding, and how the backward pass multiplies.
type AttentionState<B> = ([FloatTensor<B>; 3], BoolTensor<B>, MatmulMode);

#[derive(Debug)]
struct Attention;

impl<B: PrecisionBackend> Backward<B, 3> for Attention {
    type State = AttentionState<B>;

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (inputs, padding, mode) = ops.state;
        let found = attention::backward::<B>(inputs, padding, grad, mode);
        for (parent, grad) in ops.parents.into_iter().zip(found) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}

#[derive(Debug)]
struct RoundTo;

impl<B: PrecisionBackend> Backward<B, 1> for RoundTo {
    type State = FloatDType;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let dtype = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| B::round_to(grad, dtype));
    }
}

/// Rounding that a gradient does not see.
#[derive(Debug)]
struct RoundToLayout;

impl<B: PrecisionBackend> Backward<B, 1> for RoundToLayout {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, |grad| grad);
    }
}

#[derive(Debug)]
struct LookUp;

impl<B: PrecisionBackend> Backward<B, 1> for LookUp {
    type State = (IntTensor<B>, Shape);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (rows, shape) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::look_up_backward(shape, rows, grad)
        });
    }
}

#[derive(Debug)]
struct SwapMiddle;

impl<B: PrecisionBackend> Backward<B, 1> for SwapMiddle {
    type State = ();

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        unary::<B, _>(ops.parents, ops.node, grads, B::swap_middle);
    }
}

/// A gradient is turned back.
#[derive(Debug)]
struct Rotate;

impl<B: PrecisionBackend> Backward<B, 1> for Rotate {
    /// Cosine and sine, and whether pairs are interleaved.
    type State = (FloatTensor<B>, FloatTensor<B>, bool);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (cosine, sine, interleaved) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::rotate(grad, cosine, B::float_neg(sine), interleaved)
        });
    }
}

/// Hidden values, and their gradients.
#[derive(Debug)]
struct Hide;

impl<B: PrecisionBackend> Backward<B, 1> for Hide {
    type State = BoolTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let hidden = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| B::hide(grad, hidden, 0.0));
    }
}

#[derive(Debug)]
struct Softmax;

impl<B: PrecisionBackend> Backward<B, 1> for Softmax {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let output = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::softmax_last_backward(output, grad)
        });
    }
}

#[derive(Debug)]
struct Rectify;

impl<B: PrecisionBackend> Backward<B, 1> for Rectify {
    type State = FloatTensor<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let output = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::rectify_backward(output, grad)
        });
    }
}

#[derive(Debug)]
struct GeluStep;

impl<B: PrecisionBackend> Backward<B, 1> for GeluStep {
    type State = (FloatTensor<B>, Gelu);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _: &mut Checkpointer) {
        let (input, form) = ops.state;
        unary::<B, _>(ops.parents, ops.node, grads, |grad| {
            B::gelu_form_backward(input, grad, form)
        });
    }
}

#[derive(Debug)]
struct LayerNorm;

impl<B: PrecisionBackend> Backward<B, 3> for LayerNorm {
    /// Input, scale, mean, inverse deviation.
    type State = (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, 3>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (input, scale, mean, inverse_deviation) = ops.state;
        let (input, scale, shift) = B::normalize_last_backward(input, scale, mean, inverse_deviation, grad);
        for (parent, grad) in ops.parents.into_iter().zip([input, scale, shift]) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, grad);
            }
        }
    }
}

#[derive(Debug)]
struct RmsNorm;

impl<B: PrecisionBackend> Backward<B, 2> for RmsNorm {
    /// Input, scale, inverse root of the mean square.
    type State = (FloatTensor<B>, FloatTensor<B>, FloatTensor<B>);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _: &mut Checkpointer) {
        let grad = grads.consume::<B>(&ops.node);
        let (input, scale, inverse) = ops.state;
        let (input, scale) = B::rms_normalize_last_backward(input, scale, inverse, grad);
        for (parent, grad) in ops.parents.into_iter().zip([input, scale]) {
            if let Some(node) = parent {
                grads.register::<B>(node.id, grad);
            }
        }
    }
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
            "second derivatives are never asked for"
        );
        let (images_shape, filters_shape) = (lhs.shape(), rhs.shape());
        let keep_images = rhs.is_tracked().then(|| lhs.primitive().clone());
        let keep_filters = lhs.is_tracked().then(|| rhs.primitive().clone());
        let nodes = [lhs.node(), rhs.node()];
        let (images, filters) = (lhs.into_primitive(), rhs.into_primitive());
        let output = B::controlled_convolution(images, filters, convolution, mode);
        recorded::<B, C, _, 2>(Convolve, nodes, output, |_| {
            (
                keep_images,
                keep_filters,
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
        recorded::<B, C, _, 3>(Attention, nodes, output, |_| (inputs, padding, mode))
    }

    fn round_to(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let from = FloatDType::from(tensor.dtype());
        let output = B::round_to(tensor.into_primitive(), dtype);
        recorded::<B, C, _, 1>(RoundTo, nodes, output, |_| from)
    }

    fn round_to_layout(tensor: FloatTensor<Self>, layout: Layout) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::round_to_layout(tensor.into_primitive(), layout);
        recorded::<B, C, _, 1>(RoundToLayout, nodes, output, |_| ())
    }

    fn look_up(table: FloatTensor<Self>, rows: IntTensor<Self>) -> FloatTensor<Self> {
        let nodes = [table.node()];
        let shape = table.shape();
        let output = B::look_up(table.into_primitive(), rows.clone());
        recorded::<B, C, _, 1>(LookUp, nodes, output, |_| (rows, shape))
    }

    fn look_up_backward(_: Shape, _: IntTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("second derivatives are never asked for")
    }

    fn swap_middle(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::swap_middle(tensor.into_primitive());
        recorded::<B, C, _, 1>(SwapMiddle, nodes, output, |_| ())
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
        recorded::<B, C, _, 1>(Rotate, nodes, output, |_| (cosine, sine, interleaved))
    }

    fn hide(tensor: FloatTensor<Self>, hidden: BoolTensor<Self>, value: f64) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::hide(tensor.into_primitive(), hidden.clone(), value);
        recorded::<B, C, _, 1>(Hide, nodes, output, |_| hidden)
    }

    fn softmax_last(tensor: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [tensor.node()];
        let output = B::softmax_last(tensor.into_primitive());
        recorded::<B, C, _, 1>(Softmax, nodes, output, |output| output.clone())
    }

    fn softmax_last_backward(_: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("second derivatives are never asked for")
    }

    fn rectify(input: FloatTensor<Self>) -> FloatTensor<Self> {
        let nodes = [input.node()];
        let output = B::rectify(input.into_primitive());
        recorded::<B, C, _, 1>(Rectify, nodes, output, |output| output.clone())
    }

    fn rectify_backward(_: FloatTensor<Self>, _: FloatTensor<Self>) -> FloatTensor<Self> {
        unreachable!("second derivatives are never asked for")
    }

    fn gelu_form(input: FloatTensor<Self>, form: Gelu) -> FloatTensor<Self> {
        let nodes = [input.node()];
        let input = input.into_primitive();
        let output = B::gelu_form(input.clone(), form);
        recorded::<B, C, _, 1>(GeluStep, nodes, output, |_| (input, form))
    }

    fn gelu_tanh_packed(input: FloatTensor<Self>) -> FloatTensor<Self> {
        Self::gelu_form(input, Gelu::TanhPacked)
    }

    fn gelu_form_backward(_: FloatTensor<Self>, _: FloatTensor<Self>, _: Gelu) -> FloatTensor<Self> {
        unreachable!("second derivatives are never asked for")
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
        let output = recorded::<B, C, _, 3>(LayerNorm, nodes, output, |_| {
            (input, scale, mean.clone(), inverse_deviation.clone())
        });
        let [mean, inverse_deviation] = [mean, inverse_deviation].map(<Self as AutodiffBackend>::from_inner);
        (output, mean, inverse_deviation)
    }

    fn normalize_last_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("second derivatives are never asked for")
    }

    fn rms_normalize_last(
        input: FloatTensor<Self>,
        scale: FloatTensor<Self>,
        epsilon: f64,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        let nodes = [input.node(), scale.node()];
        let (input, scale) = (input.into_primitive(), scale.into_primitive());
        let (output, inverse) = B::rms_normalize_last(input.clone(), scale.clone(), epsilon);
        let output = recorded::<B, C, _, 2>(RmsNorm, nodes, output, |_| (input, scale, inverse.clone()));
        (output, <Self as AutodiffBackend>::from_inner(inverse))
    }

    fn rms_normalize_last_backward(
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
        _: FloatTensor<Self>,
    ) -> (FloatTensor<Self>, FloatTensor<Self>) {
        unreachable!("second derivatives are never asked for")
    }
}
