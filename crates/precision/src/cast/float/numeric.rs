//! Operations on float tensors that integer tensors support as well: arithmetic, reductions and comparisons.

use burn::backend::{Dispatch, TensorMetadata, ir::NumericOperationIr, ops::FloatTensorOps};

use super::clamp_to_finite;
use crate::cast::replay::Replay;

impl Replay<'_> {
    /// Executes an operation that float and integer tensors support.
    pub(in crate::cast) fn numeric_float(&mut self, operation: &NumericOperationIr) {
        use NumericOperationIr as Op;
        match operation {
            Op::Add(op) => self.apply_widest(op, Dispatch::float_add),
            Op::Sub(op) => self.apply_widest(op, Dispatch::float_sub),
            Op::Div(op) => self.apply_widest(op, Dispatch::float_div),
            Op::Rem(op) => self.apply_widest(op, Dispatch::float_remainder),
            // burn records `square()` and `powi_scalar(2)` as a product of a tensor with itself. Such a product therefore has
            // the class `Full`, like other powers.
            Op::Mul(op) if op.lhs.id == op.rhs.id => {
                let inputs = [self.take(&op.lhs), self.take(&op.rhs)];
                let [lhs, rhs] = inputs.map(|input| self.full(input));
                self.put(&op.out, Dispatch::float_mul(lhs, rhs));
            }
            Op::Mul(op) => self.apply_widest(op, Dispatch::float_mul),

            Op::AddScalar(op) => self.apply_scalar(op, Dispatch::float_add_scalar),
            Op::SubScalar(op) => self.apply_scalar(op, Dispatch::float_sub_scalar),
            Op::DivScalar(op) => self.apply_scalar(op, Dispatch::float_div_scalar),
            Op::RemScalar(op) => self.apply_scalar(op, Dispatch::float_remainder_scalar),
            Op::MulScalar(op) => self.apply_scalar(op, Dispatch::float_mul_scalar),

            Op::Sum(op) => self.apply_sum([&op.input, &op.out], Dispatch::float_sum),
            Op::SumDim(op) => self.apply_sum([&op.input, &op.out], |x| Dispatch::float_sum_dim(x, op.axis)),
            Op::SumDims(op) => {
                self.apply_sum([&op.input, &op.out], |x| Dispatch::float_sum_dims(x, &op.axes))
            }
            Op::Prod(op) => self.apply_sum([&op.input, &op.out], Dispatch::float_prod),
            Op::ProdDim(op) => self.apply_sum([&op.input, &op.out], |x| Dispatch::float_prod_dim(x, op.axis)),
            Op::CumSum(op) => self.apply_sum([&op.input, &op.out], |x| Dispatch::float_cumsum(x, op.axis)),
            Op::CumProd(op) => self.apply_sum([&op.input, &op.out], |x| Dispatch::float_cumprod(x, op.axis)),
            Op::Mean(op) => self.apply_wide([&op.input, &op.out], Dispatch::float_mean),
            Op::MeanDim(op) => {
                self.apply_wide([&op.input, &op.out], |x| Dispatch::float_mean_dim(x, op.axis));
            }

            Op::Powi(op) => {
                let exponent = self.take(&op.rhs);
                self.apply_full([&op.lhs, &op.out], |x| Dispatch::float_powi(x, exponent));
            }
            Op::PowiScalar(op) => self.apply_full([&op.lhs, &op.out], |x| {
                Dispatch::float_powi_scalar(x, op.rhs.into())
            }),

            Op::Greater(op) => self.apply_comparison(op, Dispatch::float_greater),
            Op::GreaterElem(op) => self.apply_scalar_comparison(op, Dispatch::float_greater_elem),
            Op::GreaterEqual(op) => self.apply_comparison(op, Dispatch::float_greater_equal),
            Op::GreaterEqualElem(op) => self.apply_scalar_comparison(op, Dispatch::float_greater_equal_elem),
            Op::Lower(op) => self.apply_comparison(op, Dispatch::float_lower),
            Op::LowerElem(op) => self.apply_scalar_comparison(op, Dispatch::float_lower_elem),
            Op::LowerEqual(op) => self.apply_comparison(op, Dispatch::float_lower_equal),
            Op::LowerEqualElem(op) => self.apply_scalar_comparison(op, Dispatch::float_lower_equal_elem),

            Op::Full(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_full(shape, op.value.into(), device, format);
                self.put(&op.out, self.create(op.out.dtype, create));
            }
            Op::Pad(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::float_pad(x, &op.padding, op.mode.into())
            }),
            Op::Abs(op) => self.apply([&op.input, &op.out], Dispatch::float_abs),
            Op::Neg(op) => self.apply([&op.input, &op.out], Dispatch::float_neg),
            Op::Sign(op) => self.apply([&op.input, &op.out], Dispatch::float_sign),
            Op::Clamp(op) => self.apply([&op.tensor, &op.out], |x| {
                let format = x.dtype();
                Dispatch::float_clamp(
                    x,
                    clamp_to_finite(op.min, format),
                    clamp_to_finite(op.max, format),
                )
            }),
            Op::ClampMin(op) => self.apply([&op.lhs, &op.out], |x| {
                let least = clamp_to_finite(op.rhs, x.dtype());
                Dispatch::float_clamp_min(x, least)
            }),
            Op::ClampMax(op) => self.apply([&op.lhs, &op.out], |x| {
                let most = clamp_to_finite(op.rhs, x.dtype());
                Dispatch::float_clamp_max(x, most)
            }),
            Op::CumMin(op) => self.apply([&op.input, &op.out], |x| Dispatch::float_cummin(x, op.axis)),
            Op::CumMax(op) => self.apply([&op.input, &op.out], |x| Dispatch::float_cummax(x, op.axis)),
            Op::Max(op) => self.apply([&op.input, &op.out], Dispatch::float_max),
            Op::MaxDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::float_max_dim(x, op.axis)),
            Op::Min(op) => self.apply([&op.input, &op.out], Dispatch::float_min),
            Op::MinDim(op) => self.apply([&op.input, &op.out], |x| Dispatch::float_min_dim(x, op.axis)),
            Op::MaxAbs(op) => self.apply([&op.input, &op.out], Dispatch::float_max_abs),
            Op::MaxAbsDim(op) => {
                self.apply([&op.input, &op.out], |x| Dispatch::float_max_abs_dim(x, op.axis));
            }
            Op::TopK(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::float_topk(x, op.axis, op.accumulator_len)
            }),
            Op::ArgMax(op) => {
                let format = self.int_format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::float_argmax(x, op.axis, format)
                });
            }
            Op::ArgMin(op) => {
                let format = self.int_format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::float_argmin(x, op.axis, format)
                });
            }
            Op::ArgTopK(op) => {
                let format = self.int_format(op.out.dtype);
                self.apply([&op.input, &op.out], |x| {
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
            Op::Sort(op) => self.apply([&op.input, &op.out], |x| {
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
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::float_argsort(x, op.dim, op.descending, format)
                });
            }
            Op::IntRandom(_) => unreachable!("burn records random integers as an operation on integers"),
        }
    }
}
