//! Autocast by class of operation: which format each kind of operation runs in under a precision setting.
//!
//! | class | mixed settings | true settings |
//! |---|---|---|
//! | linear, attention products, convolution | half in, half out, f32 sums | the parameters' format |
//! | GELU, ReLU, dropout | the format of their input | the parameters' format |
//! | softmax, layer and RMS norm, loss | f32 | the parameters' format, f32 inside for halves |
//! | additions | the wider of both | the parameters' format |
//!
//! These are the classes of `torch.amp`'s CUDA operation lists, as far as the models here use them.

use burn::tensor::{Bool, DType, Distribution, FloatDType, Int, Tensor, TensorPrimitive, activation};
use mantissa_core::{Accumulator, Attention, Format, Gelu, MatmulPrecision, Precision, Requested, Setting};

use crate::{Convolution, MatmulMode, Pass, PrecisionBackend, attention};

/// burn's name for a format. TF32 lives in f32 words.
pub const fn dtype(format: Format) -> DType {
    match format {
        Format::F64 => DType::F64,
        Format::F32 | Format::Tf32 => DType::F32,
        Format::Bf16 => DType::BF16,
        Format::F16 => DType::F16,
    }
}

/// Rounds a tensor to a dtype, to nearest even; nothing happens if it has it.
pub(crate) fn round<B: PrecisionBackend, const D: usize>(tensor: Tensor<B, D>, dtype: DType) -> Tensor<B, D> {
    if tensor.dtype() == dtype {
        return tensor;
    }
    let rounded = B::round_to(tensor.into_primitive().tensor(), FloatDType::from(dtype));
    Tensor::from_primitive(TensorPrimitive::Float(rounded))
}

/// A precision setting as the operations of a model see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compute {
    precision: Precision,
    mode: MatmulMode,
    attention: Attention,
}

impl Compute {
    /// From the three axes that govern products.
    pub fn new(precision: Precision, matmul: MatmulPrecision, accumulator: Accumulator) -> Self {
        Self {
            precision,
            mode: MatmulMode {
                precision: matmul,
                accumulator,
            },
            attention: Attention::Math,
        }
    }

    /// The same, with attention computed another way.
    pub fn with_attention(self, attention: Attention) -> Self {
        Self { attention, ..self }
    }

    /// From a setting.
    pub fn of(setting: &Setting) -> Self {
        Self::new(setting.precision(), setting.matmul(), setting.accumulator())
            .with_attention(setting.attention())
    }

    /// What is asked of its matmuls.
    pub fn requested(&self) -> Requested {
        Requested::new(self.precision, self.mode.precision, self.mode.accumulator)
    }

    /// See [`Precision`].
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// The same for a layer that a mixed setting keeps in f32: its products are those of `32-true`.
    pub fn in_f32(self) -> Self {
        let precision = if self.precision.is_mixed() {
            Precision::True32
        } else {
            self.precision
        };
        Self { precision, ..self }
    }

    /// A tensor as matmul-class operations take it: in their format.
    pub fn operand<B: PrecisionBackend, const D: usize>(&self, tensor: Tensor<B, D>) -> Tensor<B, D> {
        round(tensor, dtype(self.precision.compute()))
    }

    /// Matrix product `[…, m, k] × […, k, n]` in the format of matmul-class operations.
    pub fn matmul<B: PrecisionBackend, const D: usize>(
        &self,
        lhs: Tensor<B, D>,
        rhs: Tensor<B, D>,
    ) -> Tensor<B, D> {
        let operand = |tensor| self.operand(tensor).into_primitive().tensor();
        let product = B::controlled_matmul(operand(lhs), operand(rhs), self.mode);
        Tensor::from_primitive(TensorPrimitive::Float(product))
    }

    /// `input · weightᵀ + bias`, shapes `[n, in]`, `[out, in]`, `[out]`, in the format of matmul-class operations.
    pub fn linear<B: PrecisionBackend>(
        &self,
        input: Tensor<B, 2>,
        weight: Tensor<B, 2>,
        bias: Tensor<B, 1>,
    ) -> Tensor<B, 2> {
        let product = self.matmul(input, weight.transpose());
        let bias = round(bias, product.dtype());
        product + bias.unsqueeze()
    }

    /// Attention of `query`, `key` and `value`, each `[n, heads, sequence, width]`, over the positions that are no
    /// `padding` `[n, sequence]`, in the format of matmul-class operations: two products and a softmax, with `dropout` of
    /// the weights between them, or one kernel with an arithmetic of its own.
    ///
    /// # Panics
    /// On a `dropout` that the one kernel would leave out.
    pub fn attention<B: PrecisionBackend>(
        &self,
        [query, key, value]: [Tensor<B, 4>; 3],
        padding: &Tensor<B, 2, Bool>,
        dropout: f64,
    ) -> Tensor<B, 4> {
        let [n, heads, sequence, width] = query.dims();
        let padding = padding
            .clone()
            .reshape([n, 1, 1, sequence])
            .expand([n, heads, sequence, sequence]);
        if self.attention == Attention::Fused {
            assert_eq!(dropout, 0.0, "the fused kernel drops nothing");
            let operand = |tensor| self.operand(tensor).into_primitive().tensor();
            let mixed = B::fused_attention(
                operand(query),
                operand(key),
                operand(value),
                padding.into_primitive(),
                self.mode,
            );
            return Tensor::from_primitive(TensorPrimitive::Float(mixed));
        }
        let scores = self
            .matmul(query, key.swap_dims(2, 3))
            .mul_scalar(1.0 / (width as f64).sqrt());
        let lowest = attention::lowest(scores.dtype());
        let weights = self.softmax(scores.mask_fill(padding, lowest));
        self.matmul(self.dropout(weights, dropout), value)
    }

    /// Convolution of images `[n, c, h, w]` with filters `[o, c, a, b]`, in the format of matmul-class operations:
    /// `[n, o, y, x]`. The `padding` is of zeros, on every side, and less than the filters' edges.
    pub fn convolution<B: PrecisionBackend>(
        &self,
        images: Tensor<B, 4>,
        filters: Tensor<B, 4>,
        stride: usize,
        padding: usize,
    ) -> Tensor<B, 4> {
        let operand = |tensor| self.operand(tensor).into_primitive().tensor();
        let convolution = Convolution {
            pass: Pass::Forward,
            stride,
            padding,
        };
        let output = B::controlled_convolution(operand(images), operand(filters), convolution, self.mode);
        Tensor::from_primitive(TensorPrimitive::Float(output))
    }

    /// Softmax over the last dimension.
    pub fn softmax<B: PrecisionBackend, const D: usize>(&self, input: Tensor<B, D>) -> Tensor<B, D> {
        let input = self.in_parameters_format(input).into_primitive().tensor();
        Tensor::from_primitive(TensorPrimitive::Float(B::softmax_last(input)))
    }

    /// Layer norm over the last dimension; `scale` and `shift` are `[n]`.
    pub fn layer_norm<B: PrecisionBackend, const D: usize>(
        &self,
        input: Tensor<B, D>,
        scale: Tensor<B, 1>,
        shift: Tensor<B, 1>,
        epsilon: f64,
    ) -> Tensor<B, D> {
        let made = B::normalize_last(
            self.in_parameters_format(input).into_primitive().tensor(),
            scale.into_primitive().tensor(),
            shift.into_primitive().tensor(),
            epsilon,
        );
        Tensor::from_primitive(TensorPrimitive::Float(made.output))
    }

    /// Root-mean-square norm over the last dimension; `scale` is `[n]`.
    pub fn rms_norm<B: PrecisionBackend, const D: usize>(
        &self,
        input: Tensor<B, D>,
        scale: Tensor<B, 1>,
        epsilon: f64,
    ) -> Tensor<B, D> {
        let (output, _) = B::rms_normalize_last(
            self.in_parameters_format(input).into_primitive().tensor(),
            scale.into_primitive().tensor(),
            epsilon,
        );
        Tensor::from_primitive(TensorPrimitive::Float(output))
    }

    /// GELU with the exact error function.
    pub fn gelu<B: PrecisionBackend, const D: usize>(&self, input: Tensor<B, D>) -> Tensor<B, D> {
        self.gelu_as(Gelu::Exact, input)
    }

    /// GELU in one of its forms; [`Gelu::TanhPacked`] takes 16-bit values alone.
    pub fn gelu_as<B: PrecisionBackend, const D: usize>(
        &self,
        form: Gelu,
        input: Tensor<B, D>,
    ) -> Tensor<B, D> {
        let output = B::gelu_form(input.into_primitive().tensor(), form);
        Tensor::from_primitive(TensorPrimitive::Float(output))
    }

    /// Zeroes a `share` of the elements at random and scales up the rest, in the format of its input. The mask is drawn
    /// in f32 whatever the setting, so that settings with one seed drop the same elements.
    pub fn dropout<B: PrecisionBackend, const D: usize>(
        &self,
        input: Tensor<B, D>,
        share: f64,
    ) -> Tensor<B, D> {
        if share == 0.0 {
            return input;
        }
        let keep = 1.0 - share;
        let options = (&input.device(), DType::F32);
        let mask = Tensor::<B, D>::random(input.shape(), Distribution::Bernoulli(keep), options);
        let dtype = input.dtype();
        input * round(mask, dtype).mul_scalar(1.0 / keep)
    }

    /// Sum in the wider format of both.
    pub fn add<B: PrecisionBackend, const D: usize>(&self, a: Tensor<B, D>, b: Tensor<B, D>) -> Tensor<B, D> {
        self.in_parameters_format(a) + self.in_parameters_format(b)
    }

    /// Summed cross-entropy of `logits` `[n, classes]` against `targets` `[n]`, in nats.
    pub fn cross_entropy_sum<B: PrecisionBackend>(
        &self,
        logits: Tensor<B, 2>,
        targets: Tensor<B, 1, Int>,
    ) -> Tensor<B, 1> {
        let logits = self.in_parameters_format(logits);
        let format = logits.dtype();
        let wide = match format {
            DType::F16 | DType::BF16 => round(logits, DType::F32),
            _ => logits,
        };
        let log_probabilities = round(activation::log_softmax(wide, 1), format);
        log_probabilities.gather(1, targets.unsqueeze_dim(1)).sum().neg()
    }

    /// Halves that a mixed setting made are widened to the parameters' f32; under true settings nothing happens.
    fn in_parameters_format<B: PrecisionBackend, const D: usize>(
        &self,
        tensor: Tensor<B, D>,
    ) -> Tensor<B, D> {
        round(tensor, dtype(self.precision.parameters()))
    }
}
