//! Operations of a model under a precision setting: one method per operation, each in the format of its class in the table
//! of [`autocast`](crate::autocast).

mod attention;
mod convolution;
mod cross_entropy;
mod elementwise;
mod embedding;
mod matmul;
mod normalization;

use burn::{
    backend::Dispatch,
    tensor::{DType, Tensor},
};
use mantissa_core::{Accumulator, Attention, Layout, MatmulPrecision, Precision, Requested, Setting};

use crate::{
    autocast::{OpClass, Operation},
    backend::PrecisionBackend,
    matmul_mode::MatmulMode,
    tensor_ops::{primitive, round, tensor_of},
};

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
    emulated_layout: Option<Layout>,
}

impl From<Precision> for Compute {
    /// Uses exact f32 operands for f32 matmuls, and sums in f32.
    fn from(precision: Precision) -> Self {
        Self::new(precision, MatmulPrecision::Highest, Accumulator::F32)
    }
}

impl Compute {
    /// Returns the operations for a precision, a matmul precision and an accumulator.
    pub fn new(precision: Precision, matmul: MatmulPrecision, accumulator: Accumulator) -> Self {
        Self {
            precision,
            mode: MatmulMode {
                precision: matmul,
                accumulator,
                unrounded: false,
            },
            attention: Attention::Math,
            emulated_layout: None,
        }
    }

    /// Returns the same operations with another implementation of attention.
    pub fn with_attention(self, attention: Attention) -> Self {
        Self { attention, ..self }
    }

    /// Returns the same operations, with the f32 operands and results of matmuls rounded to a layout (numbers of exponent and fraction
    /// bits).
    pub fn emulating(self, layout: Layout) -> Self {
        Self {
            emulated_layout: Some(layout),
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

    /// Returns the operations for a layer that a mixed setting keeps in f32: those of `32-true`.
    pub fn in_f32(self) -> Self {
        let precision = if self.precision.is_mixed() {
            Precision::True32
        } else {
            self.precision
        };
        Self {
            precision,
            emulated_layout: None,
            ..self
        }
    }

    /// Rounds the result of a matmul, or of the operation that follows it, to the emulated layout if there is one.
    fn round_to_emulated<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        match self.emulated_layout {
            Some(layout) if tensor.dtype() == DType::F32 => {
                tensor_of(Dispatch::round_to_layout(primitive(tensor), layout))
            }
            _ => tensor,
        }
    }

    /// Casts a tensor to the input format of operations of class [`OpClass::Lower`], the format of matmuls.
    pub fn operand<const D: usize>(&self, tensor: Tensor<D>) -> Tensor<D> {
        let [tensor] = self.cast_as(OpClass::Lower, [tensor]);
        tensor
    }

    /// Casts a tensor to the input format of operations of class [`OpClass::Full`], the format of the parameters. Use this for
    /// computations without a method of [`Compute`]: linear algebra such as decompositions and solvers, pre- and postprocessing.
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
            OpClass::Lower => rounded.map(|input| self.round_to_emulated(input)),
            _ => rounded,
        }
    }
}
