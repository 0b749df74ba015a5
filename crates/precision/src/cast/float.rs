//! Operations on floats, in the format of their class.

use burn::{
    backend::{
        Dispatch, DispatchTensor, TensorMetadata,
        ir::{
            BaseOperationIr, BinaryOpIr, FloatOperationIr, NumericOperationIr, ScalarIr, ScalarOpIr, TensorIr,
        },
        ops::FloatTensorOps,
    },
    tensor::{BoolDType, DType, Scalar},
};

use super::{
    layers::refused,
    replay::{Replay, rounded},
};
use crate::{
    autocast::OpClass,
    compute::{inside, primitive, tensor_of},
};

/// Computes an operation in at least f32 and rounds its output to the format of the input.
pub(super) fn widely(
    input: DispatchTensor,
    operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
) -> DispatchTensor {
    let format = input.dtype();
    rounded(operation(rounded(input, inside(format))), format)
}

/// Returns the nearest value of a format; finite values stay finite. Modules mask with the lowest number of the format that
/// they observe, which is f64 in a recording.
fn finite(value: ScalarIr, format: DType) -> Scalar {
    match (value, format.finfo()) {
        (ScalarIr::Float(value), Some(limits)) if value.is_finite() => {
            value.clamp(limits.min, limits.max).into()
        }
        _ => value.into(),
    }
}

impl Replay {
    /// Casts the inputs of an operation of this class.
    pub(super) fn cast<const N: usize>(
        &self,
        class: OpClass,
        inputs: [DispatchTensor; N],
    ) -> [DispatchTensor; N] {
        let inputs = inputs.map(tensor_of::<1>);
        self.compute.cast_as(class, inputs).map(primitive)
    }

    /// Casts an input of an operation of class [`OpClass::Full`]. A tensor that the module itself has widened stays
    /// wide.
    pub(super) fn full(&self, input: DispatchTensor) -> DispatchTensor {
        let (precision, own) = (self.compute.precision(), input.dtype());
        let format = OpClass::Full.dtype(precision, &[own]);
        rounded(input, OpClass::Widest.dtype(precision, &[format, own]))
    }

    /// Applies an operation to an input without a cast.
    pub(super) fn unchanged(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        let input = self.take(input);
        self.put(out, operation(input));
    }

    /// Applies an operation to an input cast by [`Replay::full`].
    pub(super) fn fully(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        let input = self.take(input);
        let input = self.full(input);
        self.put(out, operation(input));
    }

    /// Computes a sum, of class [`OpClass::Full`]: 16-bit values are added in f32, and the sum is rounded once.
    fn summed(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        self.fully([input, out], |input| widely(input, operation));
    }

    /// Computes a mean in the format of its input: 16-bit values are added in f32, and the mean is rounded once.
    fn averaged(
        &mut self,
        [input, out]: [&TensorIr; 2],
        operation: impl FnOnce(DispatchTensor) -> DispatchTensor,
    ) {
        self.unchanged([input, out], |input| widely(input, operation));
    }

    /// Applies an operation with a scalar in f32 and rounds the result once. A scalar is not rounded to a 16-bit format: in
    /// bf16, 0.999 is 1.
    fn scaled(
        &mut self,
        operation: &ScalarOpIr,
        compute: impl FnOnce(DispatchTensor, Scalar) -> DispatchTensor,
    ) {
        let ScalarOpIr { lhs, rhs, out } = operation;
        self.averaged([lhs, out], |input| compute(input, (*rhs).into()));
    }

    /// Casts both inputs to the wider format of the two.
    fn two_widest(&mut self, lhs: &TensorIr, rhs: &TensorIr) -> [DispatchTensor; 2] {
        let inputs = [self.take(lhs), self.take(rhs)];
        self.cast(OpClass::Widest, inputs)
    }

    fn widest(
        &mut self,
        BinaryOpIr { lhs, rhs, out }: &BinaryOpIr,
        operation: impl FnOnce(DispatchTensor, DispatchTensor) -> DispatchTensor,
    ) {
        let [lhs, rhs] = self.two_widest(lhs, rhs);
        self.put(out, operation(lhs, rhs));
    }

    fn compared(
        &mut self,
        operation: &BinaryOpIr,
        compare: impl FnOnce(DispatchTensor, DispatchTensor, BoolDType) -> DispatchTensor,
    ) {
        let format = self.bool_format();
        self.widest(operation, |lhs, rhs| compare(lhs, rhs, format));
    }

    fn compared_with(
        &mut self,
        ScalarOpIr { lhs, rhs, out }: &ScalarOpIr,
        compare: impl FnOnce(DispatchTensor, Scalar, BoolDType) -> DispatchTensor,
    ) {
        let format = self.bool_format();
        self.unchanged([lhs, out], |lhs| compare(lhs, (*rhs).into(), format));
    }

    pub(super) fn base_float(&mut self, operation: &BaseOperationIr) {
        use BaseOperationIr as Op;
        match operation {
            Op::Reshape(op) => self.unchanged([&op.input, &op.out], |x| {
                Dispatch::float_reshape(x, op.out.shape.clone())
            }),
            Op::SwapDims(op) => self.unchanged([&op.input, &op.out], |x| {
                Dispatch::float_swap_dims(x, op.dim1, op.dim2)
            }),
            Op::Permute(op) => {
                self.unchanged([&op.input, &op.out], |x| Dispatch::float_permute(x, &op.axes));
            }
            Op::Flip(op) => self.unchanged([&op.input, &op.out], |x| Dispatch::float_flip(x, &op.axes)),
            Op::Expand(op) => self.unchanged([&op.input, &op.out], |x| {
                Dispatch::float_expand(x, op.out.shape.clone())
            }),
            Op::Unfold(op) => self.unchanged([&op.input, &op.out], |x| {
                Dispatch::float_unfold(x, op.dim, op.size, op.step)
            }),
            Op::Slice(op) => {
                self.unchanged([&op.tensor, &op.out], |x| Dispatch::float_slice(x, &op.ranges));
            }
            Op::SliceAssign(op) => {
                let (tensor, value) = (self.take(&op.tensor), self.take(&op.value));
                let value = rounded(value, tensor.dtype());
                self.put(&op.out, Dispatch::float_slice_assign(tensor, &op.ranges, value));
            }
            Op::Gather(op) => {
                let (tensor, indices) = (self.take(&op.tensor), self.take(&op.indices));
                self.put(&op.out, Dispatch::float_gather(op.dim, tensor, indices));
            }
            Op::Scatter(op) => {
                let indices = self.take(&op.indices);
                let [tensor, value] = self.two_widest(&op.tensor, &op.value);
                let output = Dispatch::float_scatter(op.dim, tensor, indices, value, op.update);
                self.put(&op.out, output);
            }
            Op::ScatterNd(op) => {
                let indices = self.take(&op.indices);
                let [data, values] = self.two_widest(&op.data, &op.values);
                let output = Dispatch::float_scatter_nd(data, indices, values, op.reduction);
                self.put(&op.out, output);
            }
            Op::GatherNd(op) => {
                let (data, indices) = (self.take(&op.data), self.take(&op.indices));
                self.put(&op.out, Dispatch::float_gather_nd(data, indices));
            }
            Op::Select(op) => {
                let (tensor, indices) = (self.take(&op.tensor), self.take(&op.indices));
                self.put(&op.out, Dispatch::float_select(tensor, op.dim, indices));
            }
            Op::SelectAssign(op) => {
                let indices = self.take(&op.indices);
                let [tensor, value] = self.two_widest(&op.tensor, &op.value);
                let output = Dispatch::float_select_assign(tensor, op.dim, indices, value, op.update);
                self.put(&op.out, output);
            }
            Op::MaskWhere(op) => {
                let mask = self.take(&op.mask);
                let [tensor, value] = self.two_widest(&op.tensor, &op.value);
                self.put(&op.out, Dispatch::float_mask_where(tensor, mask, value));
            }
            Op::MaskFill(op) => {
                let (tensor, mask) = (self.take(&op.tensor), self.take(&op.mask));
                let value = finite(op.value, tensor.dtype());
                self.put(&op.out, Dispatch::float_mask_fill(tensor, mask, value));
            }
            Op::Equal(op) => self.compared(op, Dispatch::float_equal),
            Op::EqualElem(op) => self.compared_with(op, Dispatch::float_equal_elem),
            Op::NotEqual(op) => self.compared(op, Dispatch::float_not_equal),
            Op::NotEqualElem(op) => self.compared_with(op, Dispatch::float_not_equal_elem),
            Op::RepeatDim(op) => self.unchanged([&op.tensor, &op.out], |x| {
                Dispatch::float_repeat_dim(x, op.dim, op.times)
            }),
            Op::Cat(op) => {
                let tensors: Vec<_> = op.tensors.iter().map(|tensor| self.take(tensor)).collect();
                let formats: Vec<_> = tensors.iter().map(TensorMetadata::dtype).collect();
                let format = OpClass::Widest.dtype(self.compute.precision(), &formats);
                let tensors = tensors.into_iter().map(|tensor| rounded(tensor, format));
                self.put(&op.out, Dispatch::float_cat(tensors.collect(), op.dim));
            }
            Op::Cast(op) => {
                let input = self.take(&op.input);
                let own = input.dtype();
                self.note_cast(&op.input, &op.out, own);
                // In an f64 setting every tensor stays f64, even if the module casts to a narrower format.
                let target = match self.format(DType::F64) {
                    DType::F64 => DType::F64,
                    _ => self.cast_target(&op.input, &op.out, own),
                };
                self.put(&op.out, rounded(input, target));
            }
            Op::Empty(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_empty(shape, device, format);
                self.put(&op.out, self.created(op.out.dtype, create));
            }
            Op::Ones(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_ones(shape, device, format);
                self.put(&op.out, self.created(op.out.dtype, create));
            }
            Op::Zeros(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_zeros(shape, device, format);
                self.put(&op.out, self.created(op.out.dtype, create));
            }
            Op::All(op) => {
                let format = self.bool_format();
                self.unchanged([&op.input, &op.out], |x| Dispatch::float_all(x, format));
            }
            Op::Any(op) => {
                let format = self.bool_format();
                self.unchanged([&op.input, &op.out], |x| Dispatch::float_any(x, format));
            }
            Op::AllDim(op) => {
                let format = self.bool_format();
                self.unchanged([&op.input, &op.out], |x| {
                    Dispatch::float_all_dim(x, op.axis, format)
                });
            }
            Op::AnyDim(op) => {
                let format = self.bool_format();
                self.unchanged([&op.input, &op.out], |x| {
                    Dispatch::float_any_dim(x, op.axis, format)
                });
            }
        }
    }

    pub(super) fn numeric_float(&mut self, operation: &NumericOperationIr) {
        use NumericOperationIr as Op;
        match operation {
            Op::Add(op) => self.widest(op, Dispatch::float_add),
            Op::Sub(op) => self.widest(op, Dispatch::float_sub),
            Op::Div(op) => self.widest(op, Dispatch::float_div),
            Op::Rem(op) => self.widest(op, Dispatch::float_remainder),
            // A square. burn records `square()` and `powi_scalar(2)` like this, and a power is of class `Full`.
            Op::Mul(op) if op.lhs.id == op.rhs.id => {
                let inputs = [self.take(&op.lhs), self.take(&op.rhs)];
                let [lhs, rhs] = inputs.map(|input| self.full(input));
                self.put(&op.out, Dispatch::float_mul(lhs, rhs));
            }
            Op::Mul(op) => self.widest(op, Dispatch::float_mul),

            Op::AddScalar(op) => self.scaled(op, Dispatch::float_add_scalar),
            Op::SubScalar(op) => self.scaled(op, Dispatch::float_sub_scalar),
            Op::DivScalar(op) => self.scaled(op, Dispatch::float_div_scalar),
            Op::RemScalar(op) => self.scaled(op, Dispatch::float_remainder_scalar),
            Op::MulScalar(op) => self.scaled(op, Dispatch::float_mul_scalar),

            Op::Sum(op) => self.summed([&op.input, &op.out], Dispatch::float_sum),
            Op::SumDim(op) => self.summed([&op.input, &op.out], |x| Dispatch::float_sum_dim(x, op.axis)),
            Op::SumDims(op) => self.summed([&op.input, &op.out], |x| Dispatch::float_sum_dims(x, &op.axes)),
            Op::Prod(op) => self.summed([&op.input, &op.out], Dispatch::float_prod),
            Op::ProdDim(op) => self.summed([&op.input, &op.out], |x| Dispatch::float_prod_dim(x, op.axis)),
            Op::CumSum(op) => self.summed([&op.input, &op.out], |x| Dispatch::float_cumsum(x, op.axis)),
            Op::CumProd(op) => self.summed([&op.input, &op.out], |x| Dispatch::float_cumprod(x, op.axis)),
            Op::Mean(op) => self.averaged([&op.input, &op.out], Dispatch::float_mean),
            Op::MeanDim(op) => {
                self.averaged([&op.input, &op.out], |x| Dispatch::float_mean_dim(x, op.axis));
            }

            Op::Powi(op) => {
                let exponent = self.take(&op.rhs);
                self.fully([&op.lhs, &op.out], |x| Dispatch::float_powi(x, exponent));
            }
            Op::PowiScalar(op) => self.fully([&op.lhs, &op.out], |x| {
                Dispatch::float_powi_scalar(x, op.rhs.into())
            }),

            Op::Greater(op) => self.compared(op, Dispatch::float_greater),
            Op::GreaterElem(op) => self.compared_with(op, Dispatch::float_greater_elem),
            Op::GreaterEqual(op) => self.compared(op, Dispatch::float_greater_equal),
            Op::GreaterEqualElem(op) => self.compared_with(op, Dispatch::float_greater_equal_elem),
            Op::Lower(op) => self.compared(op, Dispatch::float_lower),
            Op::LowerElem(op) => self.compared_with(op, Dispatch::float_lower_elem),
            Op::LowerEqual(op) => self.compared(op, Dispatch::float_lower_equal),
            Op::LowerEqualElem(op) => self.compared_with(op, Dispatch::float_lower_equal_elem),

            Op::Full(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_full(shape, op.value.into(), device, format);
                self.put(&op.out, self.created(op.out.dtype, create));
            }
            Op::Pad(op) => self.unchanged([&op.input, &op.out], |x| {
                Dispatch::float_pad(x, &op.padding, op.mode.into())
            }),
            Op::Abs(op) => self.unchanged([&op.input, &op.out], Dispatch::float_abs),
            Op::Neg(op) => self.unchanged([&op.input, &op.out], Dispatch::float_neg),
            Op::Sign(op) => self.unchanged([&op.input, &op.out], Dispatch::float_sign),
            Op::Clamp(op) => self.unchanged([&op.tensor, &op.out], |x| {
                let format = x.dtype();
                Dispatch::float_clamp(x, finite(op.min, format), finite(op.max, format))
            }),
            Op::ClampMin(op) => self.unchanged([&op.lhs, &op.out], |x| {
                let least = finite(op.rhs, x.dtype());
                Dispatch::float_clamp_min(x, least)
            }),
            Op::ClampMax(op) => self.unchanged([&op.lhs, &op.out], |x| {
                let most = finite(op.rhs, x.dtype());
                Dispatch::float_clamp_max(x, most)
            }),
            Op::CumMin(op) => self.unchanged([&op.input, &op.out], |x| Dispatch::float_cummin(x, op.axis)),
            Op::CumMax(op) => self.unchanged([&op.input, &op.out], |x| Dispatch::float_cummax(x, op.axis)),
            Op::Max(op) => self.unchanged([&op.input, &op.out], Dispatch::float_max),
            Op::MaxDim(op) => self.unchanged([&op.input, &op.out], |x| Dispatch::float_max_dim(x, op.axis)),
            Op::Min(op) => self.unchanged([&op.input, &op.out], Dispatch::float_min),
            Op::MinDim(op) => self.unchanged([&op.input, &op.out], |x| Dispatch::float_min_dim(x, op.axis)),
            Op::MaxAbs(op) => self.unchanged([&op.input, &op.out], Dispatch::float_max_abs),
            Op::MaxAbsDim(op) => {
                self.unchanged([&op.input, &op.out], |x| Dispatch::float_max_abs_dim(x, op.axis));
            }
            Op::TopK(op) => self.unchanged([&op.input, &op.out], |x| {
                Dispatch::float_topk(x, op.axis, op.accumulator_len)
            }),
            Op::ArgMax(op) => {
                let format = self.int_format(op.out.dtype);
                self.unchanged([&op.input, &op.out], |x| {
                    Dispatch::float_argmax(x, op.axis, format)
                });
            }
            Op::ArgMin(op) => {
                let format = self.int_format(op.out.dtype);
                self.unchanged([&op.input, &op.out], |x| {
                    Dispatch::float_argmin(x, op.axis, format)
                });
            }
            Op::ArgTopK(op) => {
                let format = self.int_format(op.out.dtype);
                self.unchanged([&op.input, &op.out], |x| {
                    Dispatch::float_argtopk(x, op.axis, op.accumulator_len, format)
                });
            }
            Op::MaxDimWithIndices(op) => {
                let format = self.int_format(op.out_indices.dtype);
                let found = Dispatch::float_max_dim_with_indices(self.take(&op.tensor), op.dim, format);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::MinDimWithIndices(op) => {
                let format = self.int_format(op.out_indices.dtype);
                let found = Dispatch::float_min_dim_with_indices(self.take(&op.tensor), op.dim, format);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::TopKWithIndices(op) => {
                let format = self.int_format(op.out_indices.dtype);
                let found = Dispatch::float_topk_with_indices(self.take(&op.tensor), op.dim, op.k, format);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::Sort(op) => self.unchanged([&op.input, &op.out], |x| {
                Dispatch::float_sort(x, op.dim, op.descending)
            }),
            Op::SortWithIndices(op) => {
                let format = self.int_format(op.out_indices.dtype);
                let tensor = self.take(&op.input);
                let found = Dispatch::float_sort_with_indices(tensor, op.dim, op.descending, format);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::ArgSort(op) => {
                let format = self.int_format(op.out.dtype);
                self.unchanged([&op.input, &op.out], |x| {
                    Dispatch::float_argsort(x, op.dim, op.descending, format)
                });
            }
            Op::IntRandom(_) => unreachable!("burn records random integers as an operation on integers"),
        }
    }

    /// Stores the outputs of an operation with two outputs.
    pub(super) fn put_both(
        &mut self,
        [out, other]: [&TensorIr; 2],
        values: (DispatchTensor, DispatchTensor),
    ) {
        self.put(out, values.0);
        self.put(other, values.1);
    }

    pub(super) fn float(&mut self, operation: &FloatOperationIr) {
        use FloatOperationIr as Op;
        match operation {
            Op::Matmul(op) => {
                let [lhs, rhs] = [self.take(&op.lhs), self.take(&op.rhs)].map(tensor_of::<1>);
                self.put(&op.out, primitive(self.compute.matmul(lhs, rhs)));
            }

            Op::Exp(op) => self.fully([&op.input, &op.out], Dispatch::float_exp),
            Op::Log(op) => self.fully([&op.input, &op.out], Dispatch::float_log),
            Op::Log1p(op) => self.fully([&op.input, &op.out], Dispatch::float_log1p),
            Op::Recip(op) => self.fully([&op.input, &op.out], Dispatch::float_recip),
            Op::Tan(op) => self.fully([&op.input, &op.out], Dispatch::float_tan),
            Op::Cosh(op) => self.fully([&op.input, &op.out], Dispatch::float_cosh),
            Op::Sinh(op) => self.fully([&op.input, &op.out], Dispatch::float_sinh),
            Op::ArcCos(op) => self.fully([&op.input, &op.out], Dispatch::float_acos),
            Op::ArcSin(op) => self.fully([&op.input, &op.out], Dispatch::float_asin),
            Op::ArcCosh(op) => self.fully([&op.input, &op.out], Dispatch::float_acosh),
            Op::ArcTanh(op) => self.fully([&op.input, &op.out], Dispatch::float_atanh),
            Op::PowfScalar(op) => self.fully([&op.lhs, &op.out], |x| {
                Dispatch::float_powf_scalar(x, op.rhs.into())
            }),
            Op::Powf(op) => {
                let inputs = [self.take(&op.lhs), self.take(&op.rhs)];
                let inputs = inputs.map(|input| self.full(input));
                let [lhs, rhs] = self.cast(OpClass::Widest, inputs);
                self.put(&op.out, Dispatch::float_powf(lhs, rhs));
            }

            Op::ArcTan2(op) => self.widest(op, Dispatch::float_atan2),
            Op::Hypot(op) => self.widest(op, Dispatch::float_hypot),
            Op::Cross(op) => {
                let [lhs, rhs] = self.two_widest(&op.lhs, &op.rhs);
                self.put(&op.out, Dispatch::float_cross(lhs, rhs, op.dim));
            }
            Op::GridSample2d(op) => {
                let [tensor, grid] = self.two_widest(&op.tensor, &op.grid);
                let output = Dispatch::float_grid_sample_2d(tensor, grid, op.options.clone().into());
                self.put(&op.out, output);
            }

            // Drawn in f32 in every setting: settings with the same seed draw the same numbers.
            Op::Random(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let drawn = Dispatch::float_random(shape, op.distribution, device, DType::F32.into());
                self.put(&op.out, rounded(drawn, self.format(op.out.dtype)));
            }
            Op::IntoInt(op) => {
                let format = self.int_format(op.out.dtype);
                self.unchanged([&op.input, &op.out], |x| Dispatch::float_into_int(x, format));
            }
            Op::IsNan(op) => {
                let format = self.bool_format();
                self.unchanged([&op.input, &op.out], |x| Dispatch::float_is_nan(x, format));
            }
            Op::IsInf(op) => {
                let format = self.bool_format();
                self.unchanged([&op.input, &op.out], |x| Dispatch::float_is_inf(x, format));
            }
            Op::Erf(op) => self.unchanged([&op.input, &op.out], Dispatch::float_erf),
            Op::Sqrt(op) => self.unchanged([&op.input, &op.out], Dispatch::float_sqrt),
            Op::Cos(op) => self.unchanged([&op.input, &op.out], Dispatch::float_cos),
            Op::Sin(op) => self.unchanged([&op.input, &op.out], Dispatch::float_sin),
            Op::Tanh(op) => self.unchanged([&op.input, &op.out], Dispatch::float_tanh),
            Op::ArcSinh(op) => self.unchanged([&op.input, &op.out], Dispatch::float_asinh),
            Op::ArcTan(op) => self.unchanged([&op.input, &op.out], Dispatch::float_atan),
            Op::Round(op) => self.unchanged([&op.input, &op.out], Dispatch::float_round),
            Op::Floor(op) => self.unchanged([&op.input, &op.out], Dispatch::float_floor),
            Op::Ceil(op) => self.unchanged([&op.input, &op.out], Dispatch::float_ceil),
            Op::Trunc(op) => self.unchanged([&op.input, &op.out], Dispatch::float_trunc),
            Op::Quantize(_) | Op::Dequantize(_) => refused("quantization"),
        }
    }
}
