//! Operations of a model under a precision setting: one method per operation, each in the format of its class in the table
//! of [`autocast`](crate::autocast).

use burn::{
    backend::{Dispatch, DispatchTensor},
    tensor::{
        DType, Distribution, FloatDType, Int, Tensor, activation, module::max_pool2d, ops::MaxPoolOptions, s,
    },
};
use mantissa_core::{
    Accumulator, Attention, Format, Gelu, Layout, MatmulPrecision, Precision, Requested, Setting,
};

use crate::{
    AttentionMask, Convolution, MatmulMode, Pass, Rotation, attention,
    autocast::{OpClass, Operation},
    backend::PrecisionBackend,
};

/// Returns burn's dtype for a format. TF32 values are stored as f32.
pub const fn dtype(format: Format) -> DType {
    match format {
        Format::F64 => DType::F64,
        Format::F32 | Format::Tf32 => DType::F32,
        Format::Bf16 => DType::BF16,
        Format::F16 => DType::F16,
    }
}

/// Rounds a tensor to a dtype, to nearest even. Returns the tensor unchanged if it has this dtype.
pub(crate) fn round<const D: usize>(tensor: Tensor<D>, dtype: DType) -> Tensor<D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    tensor_of(Dispatch::round_to(primitive(tensor), FloatDType::from(dtype)))
}

/// Widens 16-bit formats to f32. Needed before multiplying by a factor that 16-bit formats cannot represent: in bf16,
/// 0.999 is 1.
pub(crate) fn wide<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let dtype = inside(tensor.dtype());
    round(tensor, dtype)
}

/// Returns the dtype for intermediate results of an operation on inputs of this dtype: f32 for 16-bit formats.
pub(crate) fn inside(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        dtype => dtype,
    }
}

/// Multiplies every element by a factor and rounds once.
pub(crate) fn times<const D: usize>(tensor: Tensor<D>, factor: f64) -> Tensor<D> {
    let dtype = tensor.dtype();
    round(wide(tensor).mul_scalar(factor), dtype)
}

pub(crate) fn primitive<const D: usize>(tensor: Tensor<D>) -> DispatchTensor {
    tensor.into_dispatch()
}

pub(crate) fn tensor_of<const D: usize>(primitive: DispatchTensor) -> Tensor<D> {
    Tensor::from_dispatch(primitive)
}

/// Swaps heads and sequence of attention: `[n, sequence, heads, width]` becomes `[n, heads, sequence, width]`, and vice
/// versa.
pub fn transpose_heads(tensor: Tensor<4>) -> Tensor<4> {
    tensor_of(Dispatch::transpose_heads(primitive(tensor)))
}

/// Operations of a model under a precision setting.
///
/// ```
/// use burn::tensor::{DType, Device, Tensor};
/// use mantissa_precision::{Compute, Precision};
///
/// let compute = Compute::from(Precision::MixedBf16);
/// let device = Device::flex();
/// let x = Tensor::<2>::from_floats([[0.1, 0.2], [0.3, 0.4]], &device);
/// let product = compute.matmul(x.clone(), x);
/// assert_eq!(product.dtype(), DType::BF16);
/// assert_eq!(compute.softmax(product).dtype(), DType::F32);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compute {
    precision: Precision,
    mode: MatmulMode,
    attention: Attention,
    emulated: Option<Layout>,
}

impl From<Precision> for Compute {
    /// Uses exact f32 operands for f32 matmuls, and sums in f32.
    fn from(precision: Precision) -> Self {
        Self::new(precision, MatmulPrecision::Highest, Accumulator::F32)
    }
}

impl Compute {
    /// Returns the operations for values of the three axes that define the arithmetic of matmuls.
    pub fn new(precision: Precision, matmul: MatmulPrecision, accumulator: Accumulator) -> Self {
        Self {
            precision,
            mode: MatmulMode {
                precision: matmul,
                accumulator,
                unrounded: false,
            },
            attention: Attention::Math,
            emulated: None,
        }
    }

    /// Returns the same operations with another implementation of attention.
    pub fn with_attention(self, attention: Attention) -> Self {
        Self { attention, ..self }
    }

    /// Returns the same operations, with operands and results of matmuls rounded to a layout if they are f32.
    pub fn emulating(self, layout: Layout) -> Self {
        Self {
            emulated: Some(layout),
            ..self
        }
    }

    /// Returns the operations for a setting.
    pub fn of(setting: &Setting) -> Self {
        Self::new(setting.precision(), setting.matmul(), setting.accumulator())
            .with_attention(setting.attention())
    }

    /// Returns the requested arithmetic of matmuls.
    pub fn requested(&self) -> Requested {
        Requested::new(self.precision, self.mode.precision, self.mode.accumulator)
    }

    /// Returns the arithmetic of matmuls.
    pub(crate) fn mode(&self) -> MatmulMode {
        self.mode
    }

    /// Returns the [`Precision`].
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the operations for a layer that a mixed setting keeps in f32: its matmuls are those of `32-true`.
    pub fn in_f32(self) -> Self {
        let precision = if self.precision.is_mixed() {
            Precision::True32
        } else {
            self.precision
        };
        Self {
            precision,
            emulated: None,
            ..self
        }
    }

    /// Rounds the result of a matmul, or of the operation that follows it, to the emulated layout if there is one.
    fn emulated<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        match self.emulated {
            Some(layout) if tensor.dtype() == DType::F32 => {
                tensor_of(Dispatch::round_to_layout(primitive(tensor), layout))
            }
            _ => tensor,
        }
    }

    /// Casts a tensor to the input format of operations of class [`OpClass::Lower`], that of matmuls.
    pub fn operand<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        let [tensor] = self.cast_as(OpClass::Lower, [tensor]);
        tensor
    }

    /// Casts a tensor to the input format of operations of class [`OpClass::Full`], that of the parameters. Use it for
    /// computations that have no method here: linear algebra such as decompositions and solvers, pre- and
    /// postprocessing.
    pub fn full<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        let [tensor] = self.cast_as(OpClass::Full, [tensor]);
        tensor
    }

    /// Casts inputs as autocast does for an operation.
    pub(crate) fn cast<const D: usize, const N: usize>(
        &self,
        operation: Operation,
        inputs: [Tensor<D>; N],
    ) -> [Tensor<D>; N] {
        self.cast_as(operation.class(), inputs)
    }

    /// Casts inputs as autocast does for operations of this class.
    pub(crate) fn cast_as<const D: usize, const N: usize>(
        &self,
        class: OpClass,
        inputs: [Tensor<D>; N],
    ) -> [Tensor<D>; N] {
        let dtype = class.dtype(self.precision, &inputs.each_ref().map(Tensor::dtype));
        let rounded = inputs.map(|input| round(input, dtype));
        match class {
            OpClass::Lower => rounded.map(|input| self.emulated(input)),
            _ => rounded,
        }
    }

    /// Multiplies matrices `[…, m, k] × […, k, n]`.
    pub fn matmul<const D: usize>(&self, lhs: Tensor<D>, rhs: Tensor<D>) -> Tensor<D> {
        self.product(self.cast(Operation::Matmul, [lhs, rhs]))
    }

    /// Multiplies matrices, with the columns of the right operand stored as rows: `[…, m, k] × […, n, k]`.
    pub fn matmul_by_columns<const D: usize>(&self, lhs: Tensor<D>, columns: Tensor<D>) -> Tensor<D> {
        let [lhs, columns] = self.cast(Operation::Matmul, [lhs, columns]).map(primitive);
        self.emulated(tensor_of(Dispatch::controlled_matmul_by_columns(
            lhs, columns, self.mode,
        )))
    }

    fn product<const D: usize>(&self, operands: [Tensor<D>; 2]) -> Tensor<D> {
        let [lhs, rhs] = operands.map(primitive);
        self.emulated(tensor_of(Dispatch::controlled_matmul(lhs, rhs, self.mode)))
    }

    /// Computes `input · weightᵀ + bias`, shapes `[n, in]`, `[out, in]`, `[out]`. The bias is rounded like the operands and added
    /// to the sums before they are rounded, as cuBLAS does. f16 sums are already rounded at that point.
    pub fn linear(&self, input: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
        self.plus_bias(Dispatch::controlled_matmul_by_columns, [input, weight], bias)
    }

    /// Computes `input · weight + bias` with weights `[in, out]`, the layout of burn's linear layer and of GPT-2.
    pub fn linear_by_inputs(&self, input: Tensor<2>, weight: Tensor<2>, bias: Tensor<1>) -> Tensor<2> {
        self.plus_bias(Dispatch::controlled_matmul, [input, weight], bias)
    }

    fn plus_bias(
        &self,
        product: impl Fn(DispatchTensor, DispatchTensor, MatmulMode) -> DispatchTensor,
        operands: [Tensor<2>; 2],
        bias: Tensor<1>,
    ) -> Tensor<2> {
        let operands = self.cast(Operation::Linear, operands);
        let dtype = operands[0].dtype();
        let mode = MatmulMode {
            unrounded: true,
            ..self.mode
        };
        let [lhs, rhs] = operands.map(primitive);
        let sums: Tensor<2> = tensor_of(product(lhs, rhs, mode));
        let bias = round(self.emulated(round(bias, dtype)), sums.dtype());
        self.emulated(round(sums + bias.unsqueeze(), dtype))
    }

    /// Looks up `rows` `[n]` of a `table` `[rows, width]` and returns `[n, width]`. The gradient of a row that is read several
    /// times is summed in at least f32 and rounded once, as PyTorch's embedding does on CUDA: a sum of ones in bf16 stops at 256.
    pub fn embedding(&self, table: Tensor<2>, rows: Tensor<1, Int>) -> Tensor<2> {
        tensor_of(Dispatch::embedding_lookup(primitive(table), rows.into_dispatch()))
    }

    /// Repeats a matrix `[rows, width]` to `[times, rows, width]`. Its gradient is summed in at least f32 and rounded once.
    pub fn repeated(&self, rows: Tensor<2>, times: usize) -> Tensor<3> {
        let (dtype, [count, width]) = (rows.dtype(), rows.dims());
        let repeated = wide(rows).unsqueeze::<3>().expand([times, count, width]);
        round(repeated, dtype)
    }

    /// Computes attention of `query` `[n, heads, queries, width]` to `key` and `value` `[n, heads / group, keys, width]`, which
    /// `group` neighbouring heads share, under `mask`. Runs either two matmuls and a softmax, each in the format of
    /// its class, with `dropout` applied to the attention weights, or one fused kernel with its own arithmetic.
    ///
    /// # Panics
    /// If attention is fused and there is a `dropout` or a bias, which the fused kernel does not support.
    pub fn attention(
        &self,
        [query, key, value]: [Tensor<4>; 3],
        mask: &AttentionMask,
        dropout: f64,
    ) -> Tensor<4> {
        let [n, heads, queries, width] = query.dims();
        let [_, shared, keys, _] = key.dims();
        if self.attention == Attention::Fused {
            assert_eq!(dropout, 0.0, "fused attention does not support dropout");
            assert!(mask.bias().is_none(), "fused attention does not support a bias");
            let hidden = mask.hidden([n, heads, queries, keys], &query.device());
            let [key, value] = [key, value].map(|part| per_head(part, heads));
            let inputs = self.cast(Operation::Attention, [query, key, value]);
            let [query, key, value] = inputs.map(primitive);
            let hidden = hidden.into_dispatch();
            return tensor_of(Dispatch::fused_attention(query, key, value, hidden, self.mode));
        }
        // The queries of heads that share their keys become rows of one matmul.
        let together = |part: Tensor<4>| match heads / shared {
            1 => part,
            group => {
                let [.., columns] = part.dims();
                part.reshape([n, shared, group * queries, columns])
            }
        };
        let scores = self.matmul_by_columns(together(query), key);
        let scores = scores.reshape([n, heads, queries, keys]);
        let dtype = scores.dtype();
        let scaled = wide(scores).mul_scalar(1.0 / (width as f64).sqrt());
        let biased = match mask.bias() {
            Some(bias) => scaled.clone() + round(bias.clone(), scaled.dtype()),
            None => scaled,
        };
        let scores = self.emulated(round(biased, dtype));
        let scores = if mask.is_limited() {
            let hidden = mask.hidden([n, heads, queries, keys], &scores.device());
            let lowest = attention::lowest(dtype);
            tensor_of(Dispatch::masked_fill(
                primitive(scores),
                hidden.into_dispatch(),
                lowest,
            ))
        } else {
            scores
        };
        let weights = self.dropout(self.softmax(scores), dropout);
        self.matmul(together(weights), value)
            .reshape([n, heads, queries, width])
    }

    /// Rotates pairs of elements of `input` `[n, heads, sequence, width]` by the angles of their positions (arXiv 2104.09864), in
    /// at least f32, and rounds once. Models that compute this in 16-bit formats also round each intermediate result and the sine.
    pub fn rotary(&self, input: Tensor<4>, rotation: &Rotation) -> Tensor<4> {
        self.emulated(rotation.turn(input))
    }

    /// Convolves images `[n, c, h, w]` with filters `[o, c, a, b]` to `[n, o, y, x]`. `padding` adds zeros on every side and must be less than
    /// the edges of the filters.
    pub fn convolution(
        &self,
        images: Tensor<4>,
        filters: Tensor<4>,
        stride: usize,
        padding: usize,
    ) -> Tensor<4> {
        let [images, filters] = self
            .cast(Operation::Convolution, [images, filters])
            .map(primitive);
        let convolution = Convolution {
            pass: Pass::Forward,
            stride,
            padding,
        };
        let output = Dispatch::controlled_convolution(images, filters, convolution, self.mode);
        self.emulated(tensor_of(output))
    }

    /// Computes the maximum of each window of images `[n, c, h, w]`, padded with −∞: `[n, c, y, x]`. Where windows overlap, the
    /// gradient of a value is summed in at least f32 and rounded once, as in PyTorch on CUDA.
    pub fn max_pool(&self, images: Tensor<4>, edge: usize, stride: usize, padding: usize) -> Tensor<4> {
        let dtype = images.dtype();
        let options = MaxPoolOptions::new([edge; 2])
            .with_stride([stride; 2])
            .with_padding([padding; 2]);
        let pooled = max_pool2d(wide(images), options);
        round(pooled, dtype)
    }

    /// Computes softmax over the last dimension.
    pub fn softmax<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let [input] = self.cast(Operation::Softmax, [input]).map(primitive);
        tensor_of(Dispatch::softmax_last(input))
    }

    /// Computes layer norm over the last dimension; `scale` and `shift` are `[n]`.
    pub fn layer_norm<const D: usize>(
        &self,
        input: Tensor<D>,
        scale: Tensor<1>,
        shift: Tensor<1>,
        epsilon: f64,
    ) -> Tensor<D> {
        let [input] = self.cast(Operation::LayerNorm, [input]).map(primitive);
        let (output, ..) = Dispatch::normalize_last(input, primitive(scale), primitive(shift), epsilon);
        tensor_of(output)
    }

    /// Computes root-mean-square norm over the last dimension; `scale` is `[n]`.
    pub fn rms_norm<const D: usize>(&self, input: Tensor<D>, scale: Tensor<1>, epsilon: f64) -> Tensor<D> {
        let [input] = self.cast(Operation::RmsNorm, [input]).map(primitive);
        let (output, _) = Dispatch::rms_normalize_last(input, primitive(scale), epsilon);
        tensor_of(output)
    }

    /// Computes GELU with the exact error function.
    pub fn gelu<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        self.gelu_as(Gelu::Exact, input)
    }

    /// Computes GELU in one of its forms; [`Gelu::TanhPacked`] supports only 16-bit formats.
    pub fn gelu_as<const D: usize>(&self, form: Gelu, input: Tensor<D>) -> Tensor<D> {
        let [input] = self.cast(Operation::Gelu, [input]).map(primitive);
        self.emulated(tensor_of(Dispatch::gelu_form(input, form)))
    }

    /// Computes the sigmoid linear unit `x · σ(x)`, in f32 inside for 16-bit formats.
    pub fn silu<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let [input] = self.cast(Operation::Silu, [input]);
        let dtype = input.dtype();
        // burn's sigmoid computes in f32 on GPUs. The f64 formula overflows only for x below -709, a range that it is
        // not used for.
        let output = match dtype {
            DType::F64 => input.clone() / (input.neg().exp() + 1.0),
            _ => activation::silu(wide(input)),
        };
        self.emulated(round(output, dtype))
    }

    /// Zeroes a `share` of the elements at random and scales up the rest. The mask is drawn in f32 in every setting:
    /// settings with the same seed drop the same elements.
    pub fn dropout<const D: usize>(&self, input: Tensor<D>, share: f64) -> Tensor<D> {
        if share == 0.0 {
            return input;
        }
        let [input] = self.cast(Operation::Dropout, [input]);
        let keep = 1.0 - share;
        let options = (&input.device(), DType::F32);
        let mask = Tensor::<D>::random(input.shape(), Distribution::Bernoulli(keep), options);
        times(input, 1.0 / keep).mask_fill(mask.equal_elem(0.0), 0.0)
    }

    /// Adds two tensors.
    pub fn add<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
        let [a, b] = self.cast(Operation::Add, [a, b]);
        match a.shape() == b.shape() {
            true => tensor_of(Dispatch::add_same_shape(primitive(a), primitive(b))),
            false => a + b,
        }
    }

    /// Computes the maximum of each element and 0, in the format of the input.
    pub fn relu<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        tensor_of(Dispatch::relu_forward(primitive(input)))
    }

    /// Multiplies two tensors element by element.
    pub fn mul<const D: usize>(&self, a: Tensor<D>, b: Tensor<D>) -> Tensor<D> {
        let [a, b] = self.cast(Operation::Mul, [a, b]);
        self.emulated(a * b)
    }

    /// Computes the summed cross-entropy of `logits` `[n, classes]` against `targets` `[n]`, in nats.
    pub fn cross_entropy_sum(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        let chosen = self.log_likelihoods(logits, targets);
        let format = chosen.dtype();
        round(total(wide(chosen).flatten(0, 1)), format).neg()
    }

    /// Computes the cross-entropy of each row of `logits` `[n, classes]` against `targets` `[n]`, in nats, without the
    /// sum of [`Self::cross_entropy_sum`].
    pub fn cross_entropies(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<1> {
        self.log_likelihoods(logits, targets).flatten::<1>(0, 1).neg()
    }

    /// Returns the log-probability of each row's target, `[n, 1]`.
    fn log_likelihoods(&self, logits: Tensor<2>, targets: Tensor<1, Int>) -> Tensor<2> {
        let [logits] = self.cast(Operation::CrossEntropySum, [logits]);
        let format = logits.dtype();
        let log_probabilities = round(activation::log_softmax(wide(logits), 1), format);
        log_probabilities.gather(1, targets.unsqueeze_dim(1))
    }
}

/// Repeats keys or values `[n, shared, keys, width]` for every head that shares them.
fn per_head(part: Tensor<4>, heads: usize) -> Tensor<4> {
    let [n, shared, keys, width] = part.dims();
    if shared == heads {
        return part;
    }
    let each = part.unsqueeze_dim::<5>(2);
    let each = each.expand([n, shared, heads / shared, keys, width]);
    each.reshape([n, heads, keys, width])
}

/// Returns the sum of a vector, `[1]`. Sums rows of a fixed width first, since burn's sum over all elements may use
/// another order in each run. Within a process the order is the same.
pub(crate) fn total(vector: Tensor<1>) -> Tensor<1> {
    const WIDTH: usize = 1024;
    let [count] = vector.dims();
    let whole = count / WIDTH * WIDTH;
    if whole == 0 {
        return vector.sum_dim(0);
    }
    let rows = vector.clone().slice(s![..whole]).reshape([whole / WIDTH, WIDTH]);
    let sum = rows.sum_dim(1).flatten::<1>(0, 1).sum_dim(0);
    match whole == count {
        true => sum,
        false => sum + vector.slice(s![whole..]).sum_dim(0),
    }
}
