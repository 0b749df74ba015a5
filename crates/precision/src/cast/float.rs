//! Operations on floats, in the format of their class.

mod base;
mod numeric;

use burn::{
    backend::{
        Dispatch, DispatchTensor, TensorMetadata,
        ir::{BinaryOpIr, FloatOperationIr, ScalarIr, ScalarOpIr, TensorIr},
        ops::FloatTensorOps,
    },
    tensor::{BoolDType, DType, Scalar},
};

use super::{
    rejection::reject,
    replay::Replay,
    rounding::{compute_wide, round_to},
};
use crate::{
    autocast::OpClass,
    tensor_ops::{primitive, tensor_of},
};

/// Clamps a finite value to the range of a format. Modules mask scores with the lowest value of the tensor's format. In a recording, this
/// format is f64, whose lowest value would overflow in a narrower format.
fn clamp_to_finite(value: ScalarIr, format: DType) -> Scalar {
    match (value, format.finfo()) {
        (ScalarIr::Float(value), Some(limits)) if value.is_finite() => {
            value.clamp(limits.min, limits.max).into()
        }
        _ => value.into(),
    }
}

impl Replay<'_> {
    /// Casts the inputs of an operation of this class.
    pub(super) fn cast<const N: usize>(
        &self,
        class: OpClass,
        inputs: [DispatchTensor; N],
    ) -> [DispatchTensor; N] {
        let inputs = inputs.map(tensor_of::<1>);
        self.compute.cast_as(class, inputs).map(primitive)
    }

    /// Casts an input of an operation of class [`OpClass::Full`]. An input that the module itself has cast to a wider format than that of
    /// the class keeps its format.
    pub(super) fn full(&self, input: DispatchTensor) -> DispatchTensor {
        let (precision, input_format) = (self.compute.precision(), input.dtype());
        let format = OpClass::Full.dtype(precision, &[input_format]);
        round_to(input, OpClass::Widest.dtype(precision, &[format, input_format]))
    }

    /// Applies an operation to an input without a cast.
    pub(super) fn apply(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        let input = self.take(input);
        self.put(out, operation(input));
    }

    /// Applies an operation to an input cast by [`Replay::full`].
    pub(super) fn apply_full(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        let input = self.take(input);
        let input = self.full(input);
        self.put(out, operation(input));
    }

    /// Computes a sum, of class [`OpClass::Full`]: 16-bit values are added in f32, and the sum is rounded once.
    fn apply_sum(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        self.apply_full([input, out], |input| compute_wide(input, operation));
    }

    /// Applies an operation in at least f32, and rounds the output once to the format of the input.
    pub(super) fn apply_wide(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        self.apply([input, out], |input| compute_wide(input, operation));
    }

    /// Applies an operation with a scalar in at least f32, and rounds the output once. The scalar is not rounded to a 16-bit format: in
    /// bf16, 0.999 is 1.
    fn apply_scalar(
        &mut self,
        operation: &ScalarOpIr,
        compute: impl FnOnce(DispatchTensor, Scalar) -> DispatchTensor,
    ) {
        let ScalarOpIr { lhs, rhs, out } = operation;
        self.apply_wide([lhs, out], |input| compute(input, (*rhs).into()));
    }

    /// Casts both inputs to the wider format of the two.
    fn take_widest(&mut self, lhs: &TensorIr, rhs: &TensorIr) -> [DispatchTensor; 2] {
        let inputs = [self.take(lhs), self.take(rhs)];
        self.cast(OpClass::Widest, inputs)
    }

    fn apply_widest(
        &mut self,
        BinaryOpIr { lhs, rhs, out }: &BinaryOpIr,
        operation: impl FnOnce(DispatchTensor, DispatchTensor) -> DispatchTensor,
    ) {
        let [lhs, rhs] = self.take_widest(lhs, rhs);
        self.put(out, operation(lhs, rhs));
    }

    fn apply_comparison(
        &mut self,
        operation: &BinaryOpIr,
        compare: impl FnOnce(DispatchTensor, DispatchTensor, BoolDType) -> DispatchTensor,
    ) {
        let format = self.bool_format();
        self.apply_widest(operation, |lhs, rhs| compare(lhs, rhs, format));
    }

    fn apply_scalar_comparison(
        &mut self,
        ScalarOpIr { lhs, rhs, out }: &ScalarOpIr,
        compare: impl FnOnce(DispatchTensor, Scalar, BoolDType) -> DispatchTensor,
    ) {
        let format = self.bool_format();
        self.apply([lhs, out], |lhs| compare(lhs, (*rhs).into(), format));
    }

    /// Stores the outputs of an operation with two outputs.
    pub(super) fn put_both(
        &mut self,
        [first, second]: [&TensorIr; 2],
        values: (DispatchTensor, DispatchTensor),
    ) {
        self.put(first, values.0);
        self.put(second, values.1);
    }

    /// Executes an operation that only float tensors support.
    pub(super) fn float(&mut self, operation: &FloatOperationIr) {
        use FloatOperationIr as Op;
        match operation {
            Op::Matmul(op) => {
                let [lhs, rhs] = [self.take(&op.lhs), self.take(&op.rhs)].map(tensor_of::<1>);
                self.put(&op.out, primitive(self.compute.matmul(lhs, rhs)));
            }

            Op::Exp(op) => self.apply_full([&op.input, &op.out], Dispatch::float_exp),
            Op::Log(op) => self.apply_full([&op.input, &op.out], Dispatch::float_log),
            Op::Log1p(op) => self.apply_full([&op.input, &op.out], Dispatch::float_log1p),
            Op::Recip(op) => self.apply_full([&op.input, &op.out], Dispatch::float_recip),
            Op::Tan(op) => self.apply_full([&op.input, &op.out], Dispatch::float_tan),
            Op::Cosh(op) => self.apply_full([&op.input, &op.out], Dispatch::float_cosh),
            Op::Sinh(op) => self.apply_full([&op.input, &op.out], Dispatch::float_sinh),
            Op::ArcCos(op) => self.apply_full([&op.input, &op.out], Dispatch::float_acos),
            Op::ArcSin(op) => self.apply_full([&op.input, &op.out], Dispatch::float_asin),
            Op::ArcCosh(op) => self.apply_full([&op.input, &op.out], Dispatch::float_acosh),
            Op::ArcTanh(op) => self.apply_full([&op.input, &op.out], Dispatch::float_atanh),
            Op::PowfScalar(op) => self.apply_full([&op.lhs, &op.out], |x| {
                Dispatch::float_powf_scalar(x, op.rhs.into())
            }),
            Op::Powf(op) => {
                let inputs = [self.take(&op.lhs), self.take(&op.rhs)];
                let inputs = inputs.map(|input| self.full(input));
                let [lhs, rhs] = self.cast(OpClass::Widest, inputs);
                self.put(&op.out, Dispatch::float_powf(lhs, rhs));
            }

            Op::ArcTan2(op) => self.apply_widest(op, Dispatch::float_atan2),
            Op::Hypot(op) => self.apply_widest(op, Dispatch::float_hypot),
            Op::Cross(op) => {
                let [lhs, rhs] = self.take_widest(&op.lhs, &op.rhs);
                self.put(&op.out, Dispatch::float_cross(lhs, rhs, op.dim));
            }
            Op::GridSample2d(op) => {
                let [tensor, grid] = self.take_widest(&op.tensor, &op.grid);
                let output = Dispatch::float_grid_sample_2d(tensor, grid, op.options.clone().into());
                self.put(&op.out, output);
            }

            // Random numbers are drawn in f32, so that a seed yields the same numbers in all settings.
            Op::Random(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let drawn = Dispatch::float_random(shape, op.distribution, device, DType::F32.into());
                self.put(&op.out, round_to(drawn, self.format(op.out.dtype)));
            }
            Op::IntoInt(op) => {
                let format = self.int_format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| Dispatch::float_into_int(x, format));
            }
            Op::IsNan(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| Dispatch::float_is_nan(x, format));
            }
            Op::IsInf(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| Dispatch::float_is_inf(x, format));
            }
            Op::Erf(op) => self.apply([&op.input, &op.out], Dispatch::float_erf),
            Op::Sqrt(op) => self.apply([&op.input, &op.out], Dispatch::float_sqrt),
            Op::Cos(op) => self.apply([&op.input, &op.out], Dispatch::float_cos),
            Op::Sin(op) => self.apply([&op.input, &op.out], Dispatch::float_sin),
            Op::Tanh(op) => self.apply([&op.input, &op.out], Dispatch::float_tanh),
            Op::ArcSinh(op) => self.apply([&op.input, &op.out], Dispatch::float_asinh),
            Op::ArcTan(op) => self.apply([&op.input, &op.out], Dispatch::float_atan),
            Op::Round(op) => self.apply([&op.input, &op.out], Dispatch::float_round),
            Op::Floor(op) => self.apply([&op.input, &op.out], Dispatch::float_floor),
            Op::Ceil(op) => self.apply([&op.input, &op.out], Dispatch::float_ceil),
            Op::Trunc(op) => self.apply([&op.input, &op.out], Dispatch::float_trunc),
            Op::Quantize(_) | Op::Dequantize(_) => reject("quantization"),
        }
    }
}
