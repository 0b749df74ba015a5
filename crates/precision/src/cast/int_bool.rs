//! Operations on integers and booleans, which are not cast.

use burn::{
    backend::{
        Dispatch, DispatchTensor,
        ir::{
            BaseOperationIr, BinaryOpIr, BoolOperationIr, IntOperationIr, NumericOperationIr, ScalarOpIr,
            TensorIr,
        },
        ops::{BoolTensorOps, IntTensorOps},
    },
    tensor::{BoolDType, IndexingUpdateOp, Scalar},
};

use super::replay::Replay;

impl Replay<'_> {
    fn apply_binary(
        &mut self,
        BinaryOpIr { lhs, rhs, out }: &BinaryOpIr,
        operation: impl FnOnce(DispatchTensor, DispatchTensor) -> DispatchTensor,
    ) {
        let (lhs, rhs) = (self.take(lhs), self.take(rhs));
        self.put(out, operation(lhs, rhs));
    }

    fn apply_with_scalar(
        &mut self,
        ScalarOpIr { lhs, rhs, out }: &ScalarOpIr,
        operation: impl FnOnce(DispatchTensor, Scalar) -> DispatchTensor,
    ) {
        self.apply([lhs, out], |lhs| operation(lhs, (*rhs).into()));
    }

    fn compare_ints(
        &mut self,
        operation: &BinaryOpIr,
        compare: impl FnOnce(DispatchTensor, DispatchTensor, BoolDType) -> DispatchTensor,
    ) {
        let format = self.bool_format();
        self.apply_binary(operation, |lhs, rhs| compare(lhs, rhs, format));
    }

    fn compare_ints_with_scalar(
        &mut self,
        operation: &ScalarOpIr,
        compare: impl FnOnce(DispatchTensor, Scalar, BoolDType) -> DispatchTensor,
    ) {
        let format = self.bool_format();
        self.apply_with_scalar(operation, |lhs, rhs| compare(lhs, rhs, format));
    }

    /// Reads three tensors in order.
    fn take_three(&mut self, tensors: [&TensorIr; 3]) -> [DispatchTensor; 3] {
        tensors.map(|tensor| self.take(tensor))
    }

    pub(super) fn base_int(&mut self, operation: &BaseOperationIr) {
        use BaseOperationIr as Op;
        match operation {
            Op::Reshape(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_reshape(x, op.out.shape.clone())
            }),
            Op::SwapDims(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_swap_dims(x, op.dim1, op.dim2)
            }),
            Op::Permute(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_permute(x, &op.axes)),
            Op::Flip(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_flip(x, &op.axes)),
            Op::Expand(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_expand(x, op.out.shape.clone())
            }),
            Op::Unfold(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_unfold(x, op.dim, op.size, op.step)
            }),
            Op::Slice(op) => self.apply([&op.tensor, &op.out], |x| Dispatch::int_slice(x, &op.ranges)),
            Op::SliceAssign(op) => {
                let (tensor, value) = (self.take(&op.tensor), self.take(&op.value));
                self.put(&op.out, Dispatch::int_slice_assign(tensor, &op.ranges, value));
            }
            Op::Gather(op) => {
                let (tensor, indices) = (self.take(&op.tensor), self.take(&op.indices));
                self.put(&op.out, Dispatch::int_gather(op.dim, tensor, indices));
            }
            Op::Scatter(op) => {
                let [tensor, indices, value] = self.take_three([&op.tensor, &op.indices, &op.value]);
                let output = Dispatch::int_scatter(op.dim, tensor, indices, value, op.update);
                self.put(&op.out, output);
            }
            Op::ScatterNd(op) => {
                let [data, indices, values] = self.take_three([&op.data, &op.indices, &op.values]);
                self.put(
                    &op.out,
                    Dispatch::int_scatter_nd(data, indices, values, op.reduction),
                );
            }
            Op::GatherNd(op) => {
                let (data, indices) = (self.take(&op.data), self.take(&op.indices));
                self.put(&op.out, Dispatch::int_gather_nd(data, indices));
            }
            Op::Select(op) => {
                let (tensor, indices) = (self.take(&op.tensor), self.take(&op.indices));
                self.put(&op.out, Dispatch::int_select(tensor, op.dim, indices));
            }
            Op::SelectAssign(op) => {
                let [tensor, indices, value] = self.take_three([&op.tensor, &op.indices, &op.value]);
                let output = Dispatch::int_select_assign(tensor, op.dim, indices, value, op.update);
                self.put(&op.out, output);
            }
            Op::MaskWhere(op) => {
                let [tensor, mask, value] = self.take_three([&op.tensor, &op.mask, &op.value]);
                self.put(&op.out, Dispatch::int_mask_where(tensor, mask, value));
            }
            Op::MaskFill(op) => {
                let (tensor, mask) = (self.take(&op.tensor), self.take(&op.mask));
                self.put(&op.out, Dispatch::int_mask_fill(tensor, mask, op.value.into()));
            }
            Op::Equal(op) => self.compare_ints(op, Dispatch::int_equal),
            Op::EqualElem(op) => self.compare_ints_with_scalar(op, Dispatch::int_equal_elem),
            Op::NotEqual(op) => self.compare_ints(op, Dispatch::int_not_equal),
            Op::NotEqualElem(op) => self.compare_ints_with_scalar(op, Dispatch::int_not_equal_elem),
            Op::RepeatDim(op) => self.apply([&op.tensor, &op.out], |x| {
                Dispatch::int_repeat_dim(x, op.dim, op.times)
            }),
            Op::Cat(op) => {
                let tensors = op.tensors.iter().map(|tensor| self.take(tensor)).collect();
                self.put(&op.out, Dispatch::int_cat(tensors, op.dim));
            }
            Op::Cast(op) => {
                let format = self.int_format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| Dispatch::int_cast(x, format));
            }
            Op::Empty(op) => {
                let (shape, format) = (op.out.shape.clone(), self.int_format(op.out.dtype));
                self.put(
                    &op.out,
                    Dispatch::int_empty(shape, self.device.as_dispatch(), format),
                );
            }
            Op::Ones(op) => {
                let (shape, format) = (op.out.shape.clone(), self.int_format(op.out.dtype));
                self.put(
                    &op.out,
                    Dispatch::int_ones(shape, self.device.as_dispatch(), format),
                );
            }
            Op::Zeros(op) => {
                let (shape, format) = (op.out.shape.clone(), self.int_format(op.out.dtype));
                self.put(
                    &op.out,
                    Dispatch::int_zeros(shape, self.device.as_dispatch(), format),
                );
            }
            Op::All(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| Dispatch::int_all(x, format));
            }
            Op::Any(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| Dispatch::int_any(x, format));
            }
            Op::AllDim(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::int_all_dim(x, op.axis, format)
                });
            }
            Op::AnyDim(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::int_any_dim(x, op.axis, format)
                });
            }
        }
    }

    pub(super) fn numeric_int(&mut self, operation: &NumericOperationIr) {
        use NumericOperationIr as Op;
        match operation {
            Op::Add(op) => self.apply_binary(op, Dispatch::int_add),
            Op::AddScalar(op) => self.apply_with_scalar(op, Dispatch::int_add_scalar),
            Op::Sub(op) => self.apply_binary(op, Dispatch::int_sub),
            Op::SubScalar(op) => self.apply_with_scalar(op, Dispatch::int_sub_scalar),
            Op::Mul(op) => self.apply_binary(op, Dispatch::int_mul),
            Op::MulScalar(op) => self.apply_with_scalar(op, Dispatch::int_mul_scalar),
            Op::Div(op) => self.apply_binary(op, Dispatch::int_div),
            Op::DivScalar(op) => self.apply_with_scalar(op, Dispatch::int_div_scalar),
            Op::Rem(op) => self.apply_binary(op, Dispatch::int_remainder),
            Op::RemScalar(op) => self.apply_with_scalar(op, Dispatch::int_remainder_scalar),
            Op::Powi(op) => self.apply_binary(op, Dispatch::int_powi),
            Op::PowiScalar(op) => self.apply_with_scalar(op, Dispatch::int_powi_scalar),
            Op::Greater(op) => self.compare_ints(op, Dispatch::int_greater),
            Op::GreaterElem(op) => self.compare_ints_with_scalar(op, Dispatch::int_greater_elem),
            Op::GreaterEqual(op) => self.compare_ints(op, Dispatch::int_greater_equal),
            Op::GreaterEqualElem(op) => self.compare_ints_with_scalar(op, Dispatch::int_greater_equal_elem),
            Op::Lower(op) => self.compare_ints(op, Dispatch::int_lower),
            Op::LowerElem(op) => self.compare_ints_with_scalar(op, Dispatch::int_lower_elem),
            Op::LowerEqual(op) => self.compare_ints(op, Dispatch::int_lower_equal),
            Op::LowerEqualElem(op) => self.compare_ints_with_scalar(op, Dispatch::int_lower_equal_elem),
            Op::Full(op) => {
                let (shape, format) = (op.out.shape.clone(), self.int_format(op.out.dtype));
                let device = self.device.as_dispatch();
                self.put(
                    &op.out,
                    Dispatch::int_full(shape, op.value.into(), device, format),
                );
            }
            Op::IntRandom(op) => {
                let (shape, format) = (op.out.shape.clone(), self.int_format(op.out.dtype));
                let device = self.device.as_dispatch();
                self.put(
                    &op.out,
                    Dispatch::int_random(shape, op.distribution, device, format),
                );
            }
            Op::Pad(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_pad(x, &op.padding, op.mode.into())
            }),
            Op::Abs(op) => self.apply([&op.input, &op.out], Dispatch::int_abs),
            Op::Neg(op) => self.apply([&op.input, &op.out], Dispatch::int_neg),
            Op::Sign(op) => self.apply([&op.input, &op.out], Dispatch::int_sign),
            Op::Mean(op) => self.apply([&op.input, &op.out], Dispatch::int_mean),
            Op::MeanDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_mean_dim(x, op.axis)),
            Op::Sum(op) => self.apply([&op.input, &op.out], Dispatch::int_sum),
            Op::SumDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_sum_dim(x, op.axis)),
            Op::SumDims(op) => self.apply([&op.input, &op.out], |x| {
                op.axes.iter().fold(x, |x, axis| Dispatch::int_sum_dim(x, *axis))
            }),
            Op::Prod(op) => self.apply([&op.input, &op.out], Dispatch::int_prod),
            Op::ProdDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_prod_dim(x, op.axis)),
            Op::CumSum(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_cumsum(x, op.axis)),
            Op::CumProd(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_cumprod(x, op.axis)),
            Op::CumMin(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_cummin(x, op.axis)),
            Op::CumMax(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_cummax(x, op.axis)),
            Op::Max(op) => self.apply([&op.input, &op.out], Dispatch::int_max),
            Op::MaxDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_max_dim(x, op.axis)),
            Op::Min(op) => self.apply([&op.input, &op.out], Dispatch::int_min),
            Op::MinDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_min_dim(x, op.axis)),
            Op::MaxAbs(op) => self.apply([&op.input, &op.out], Dispatch::int_max_abs),
            Op::MaxAbsDim(op) => {
                self.apply([&op.input, &op.out], |x| Dispatch::int_max_abs_dim(x, op.axis));
            }
            Op::Clamp(op) => self.apply([&op.tensor, &op.out], |x| {
                Dispatch::int_clamp(x, op.min.into(), op.max.into())
            }),
            Op::ClampMin(op) => self.apply_with_scalar(op, Dispatch::int_clamp_min),
            Op::ClampMax(op) => self.apply_with_scalar(op, Dispatch::int_clamp_max),
            Op::ArgMax(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_argmax(x, op.axis)),
            Op::ArgMin(op) => self.apply([&op.input, &op.out], |x| Dispatch::int_argmin(x, op.axis)),
            Op::ArgTopK(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_argtopk(x, op.axis, op.accumulator_len)
            }),
            Op::TopK(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_topk(x, op.axis, op.accumulator_len)
            }),
            Op::TopKWithIndices(op) => {
                let found = Dispatch::int_topk_with_indices(self.take(&op.tensor), op.dim, op.k);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::MaxDimWithIndices(op) => {
                let found = Dispatch::int_max_dim_with_indices(self.take(&op.tensor), op.dim);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::MinDimWithIndices(op) => {
                let found = Dispatch::int_min_dim_with_indices(self.take(&op.tensor), op.dim);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::Sort(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_sort(x, op.dim, op.descending)
            }),
            Op::SortWithIndices(op) => {
                let tensor = self.take(&op.input);
                let found = Dispatch::int_sort_with_indices(tensor, op.dim, op.descending);
                self.put_both([&op.out, &op.out_indices], found);
            }
            Op::ArgSort(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::int_argsort(x, op.dim, op.descending)
            }),
        }
    }

    pub(super) fn int(&mut self, operation: &IntOperationIr) {
        use IntOperationIr as Op;
        match operation {
            Op::IntoFloat(op) => {
                let format = self.format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::int_into_float(x, format.into())
                });
            }
            Op::Matmul(op) => {
                let (lhs, rhs) = (self.take(&op.lhs), self.take(&op.rhs));
                self.put(&op.out, Dispatch::int_matmul(lhs, rhs));
            }
            Op::BitwiseAnd(op) => self.apply_binary(op, Dispatch::bitwise_and),
            Op::BitwiseAndScalar(op) => self.apply_with_scalar(op, Dispatch::bitwise_and_scalar),
            Op::BitwiseOr(op) => self.apply_binary(op, Dispatch::bitwise_or),
            Op::BitwiseOrScalar(op) => self.apply_with_scalar(op, Dispatch::bitwise_or_scalar),
            Op::BitwiseXor(op) => self.apply_binary(op, Dispatch::bitwise_xor),
            Op::BitwiseXorScalar(op) => self.apply_with_scalar(op, Dispatch::bitwise_xor_scalar),
            Op::BitwiseNot(op) => self.apply([&op.input, &op.out], Dispatch::bitwise_not),
            Op::BitwiseLeftShift(op) => self.apply_binary(op, Dispatch::bitwise_left_shift),
            Op::BitwiseLeftShiftScalar(op) => self.apply_with_scalar(op, Dispatch::bitwise_left_shift_scalar),
            Op::BitwiseRightShift(op) => self.apply_binary(op, Dispatch::bitwise_right_shift),
            Op::BitwiseRightShiftScalar(op) => {
                self.apply_with_scalar(op, Dispatch::bitwise_right_shift_scalar)
            }
        }
    }

    pub(super) fn base_bool(&mut self, operation: &BaseOperationIr) {
        use BaseOperationIr as Op;
        match operation {
            Op::Reshape(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::bool_reshape(x, op.out.shape.clone())
            }),
            Op::SwapDims(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::bool_swap_dims(x, op.dim1, op.dim2)
            }),
            Op::Permute(op) => self.apply([&op.input, &op.out], |x| Dispatch::bool_permute(x, &op.axes)),
            Op::Flip(op) => self.apply([&op.input, &op.out], |x| Dispatch::bool_flip(x, &op.axes)),
            Op::Expand(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::bool_expand(x, op.out.shape.clone())
            }),
            Op::Unfold(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::bool_unfold(x, op.dim, op.size, op.step)
            }),
            Op::Slice(op) => self.apply([&op.tensor, &op.out], |x| Dispatch::bool_slice(x, &op.ranges)),
            Op::SliceAssign(op) => {
                let (tensor, value) = (self.take(&op.tensor), self.take(&op.value));
                self.put(&op.out, Dispatch::bool_slice_assign(tensor, &op.ranges, value));
            }
            Op::Gather(op) => {
                let (tensor, indices) = (self.take(&op.tensor), self.take(&op.indices));
                self.put(&op.out, Dispatch::bool_gather(op.dim, tensor, indices));
            }
            Op::Scatter(op) if op.update == IndexingUpdateOp::Add => {
                let [tensor, indices, value] = self.take_three([&op.tensor, &op.indices, &op.value]);
                self.put(&op.out, Dispatch::bool_scatter_or(op.dim, tensor, indices, value));
            }
            Op::Select(op) => {
                let (tensor, indices) = (self.take(&op.tensor), self.take(&op.indices));
                self.put(&op.out, Dispatch::bool_select(tensor, op.dim, indices));
            }
            Op::SelectAssign(op) if op.update == IndexingUpdateOp::Add => {
                let [tensor, indices, value] = self.take_three([&op.tensor, &op.indices, &op.value]);
                self.put(&op.out, Dispatch::bool_select_or(tensor, op.dim, indices, value));
            }
            Op::MaskWhere(op) => {
                let [tensor, mask, value] = self.take_three([&op.tensor, &op.mask, &op.value]);
                self.put(&op.out, Dispatch::bool_mask_where(tensor, mask, value));
            }
            Op::MaskFill(op) => {
                let (tensor, mask) = (self.take(&op.tensor), self.take(&op.mask));
                self.put(&op.out, Dispatch::bool_mask_fill(tensor, mask, op.value.into()));
            }
            Op::Equal(op) => self.apply_binary(op, Dispatch::bool_equal),
            Op::EqualElem(op) => self.apply_with_scalar(op, Dispatch::bool_equal_elem),
            Op::NotEqual(op) => self.apply_binary(op, Dispatch::bool_not_equal),
            Op::NotEqualElem(op) => self.apply_with_scalar(op, Dispatch::bool_not_equal_elem),
            Op::RepeatDim(op) => self.apply([&op.tensor, &op.out], |x| {
                Dispatch::bool_repeat_dim(x, op.dim, op.times)
            }),
            Op::Cat(op) => {
                let tensors = op.tensors.iter().map(|tensor| self.take(tensor)).collect();
                self.put(&op.out, Dispatch::bool_cat(tensors, op.dim));
            }
            Op::Empty(op) => {
                let (shape, format) = (op.out.shape.clone(), self.bool_format());
                self.put(
                    &op.out,
                    Dispatch::bool_empty(shape, self.device.as_dispatch(), format),
                );
            }
            Op::Ones(op) => {
                let (shape, format) = (op.out.shape.clone(), self.bool_format());
                self.put(
                    &op.out,
                    Dispatch::bool_ones(shape, self.device.as_dispatch(), format),
                );
            }
            Op::Zeros(op) => {
                let (shape, format) = (op.out.shape.clone(), self.bool_format());
                self.put(
                    &op.out,
                    Dispatch::bool_zeros(shape, self.device.as_dispatch(), format),
                );
            }
            Op::All(op) => self.apply([&op.input, &op.out], Dispatch::bool_all),
            Op::Any(op) => self.apply([&op.input, &op.out], Dispatch::bool_any),
            Op::AllDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::bool_all_dim(x, op.axis)),
            Op::AnyDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::bool_any_dim(x, op.axis)),
            Op::Cast(_) | Op::ScatterNd(_) | Op::GatherNd(_) | Op::Scatter(_) | Op::SelectAssign(_) => {
                unreachable!("burn does not record this operation for booleans")
            }
        }
    }

    pub(super) fn bool(&mut self, operation: &BoolOperationIr) {
        use BoolOperationIr as Op;
        match operation {
            Op::IntoFloat(op) => {
                let format = self.format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::bool_into_float(x, format.into())
                });
            }
            Op::IntoInt(op) => {
                let format = self.int_format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| Dispatch::bool_into_int(x, format));
            }
            Op::Not(op) => self.apply([&op.input, &op.out], Dispatch::bool_not),
            Op::And(op) => self.apply_binary(op, Dispatch::bool_and),
            Op::Or(op) => self.apply_binary(op, Dispatch::bool_or),
            Op::Xor(op) => self.apply_binary(op, Dispatch::bool_xor),
        }
    }
}
