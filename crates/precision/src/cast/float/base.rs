//! Operations on float tensors that all kinds of tensors support: shapes, indexing, masks and casts.

use burn::{
    backend::{Dispatch, TensorMetadata, ir::BaseOperationIr, ops::FloatTensorOps},
    tensor::DType,
};

use super::clamp_to_finite;
use crate::{
    autocast::OpClass,
    cast::{replay::Replay, rounding::round_to},
};

impl Replay<'_> {
    /// Executes an operation that all kinds of tensors support.
    pub(in crate::cast) fn base_float(&mut self, operation: &BaseOperationIr) {
        use BaseOperationIr as Op;
        match operation {
            Op::Reshape(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::float_reshape(x, op.out.shape.clone())
            }),
            Op::SwapDims(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::float_swap_dims(x, op.dim1, op.dim2)
            }),
            Op::Permute(op) => {
                self.apply([&op.input, &op.out], |x| Dispatch::float_permute(x, &op.axes));
            }
            Op::Flip(op) => self.apply([&op.input, &op.out], |x| Dispatch::float_flip(x, &op.axes)),
            Op::Expand(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::float_expand(x, op.out.shape.clone())
            }),
            Op::Unfold(op) => self.apply([&op.input, &op.out], |x| {
                Dispatch::float_unfold(x, op.dim, op.size, op.step)
            }),
            Op::Slice(op) => {
                self.apply([&op.tensor, &op.out], |x| Dispatch::float_slice(x, &op.ranges));
            }
            Op::SliceAssign(op) => {
                let (tensor, value) = (self.take(&op.tensor), self.take(&op.value));
                let value = round_to(value, tensor.dtype());
                self.put(&op.out, Dispatch::float_slice_assign(tensor, &op.ranges, value));
            }
            Op::Gather(op) => {
                let (tensor, indices) = (self.take(&op.tensor), self.take(&op.indices));
                self.put(&op.out, Dispatch::float_gather(op.dim, tensor, indices));
            }
            Op::Scatter(op) => {
                let indices = self.take(&op.indices);
                let [tensor, value] = self.take_widest(&op.tensor, &op.value);
                let output = Dispatch::float_scatter(op.dim, tensor, indices, value, op.update);
                self.put(&op.out, output);
            }
            Op::ScatterNd(op) => {
                let indices = self.take(&op.indices);
                let [data, values] = self.take_widest(&op.data, &op.values);
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
                let [tensor, value] = self.take_widest(&op.tensor, &op.value);
                let output = Dispatch::float_select_assign(tensor, op.dim, indices, value, op.update);
                self.put(&op.out, output);
            }
            Op::MaskWhere(op) => {
                let mask = self.take(&op.mask);
                let [tensor, value] = self.take_widest(&op.tensor, &op.value);
                self.put(&op.out, Dispatch::float_mask_where(tensor, mask, value));
            }
            Op::MaskFill(op) => {
                let (tensor, mask) = (self.take(&op.tensor), self.take(&op.mask));
                let value = clamp_to_finite(op.value, tensor.dtype());
                self.put(&op.out, Dispatch::float_mask_fill(tensor, mask, value));
            }
            Op::Equal(op) => self.apply_comparison(op, Dispatch::float_equal),
            Op::EqualElem(op) => self.apply_scalar_comparison(op, Dispatch::float_equal_elem),
            Op::NotEqual(op) => self.apply_comparison(op, Dispatch::float_not_equal),
            Op::NotEqualElem(op) => self.apply_scalar_comparison(op, Dispatch::float_not_equal_elem),
            Op::RepeatDim(op) => self.apply([&op.tensor, &op.out], |x| {
                Dispatch::float_repeat_dim(x, op.dim, op.times)
            }),
            Op::Cat(op) => {
                let tensors: Vec<_> = op.tensors.iter().map(|tensor| self.take(tensor)).collect();
                let formats: Vec<_> = tensors.iter().map(TensorMetadata::dtype).collect();
                let format = OpClass::Widest.dtype(self.compute.precision(), &formats);
                let tensors = tensors.into_iter().map(|tensor| round_to(tensor, format));
                self.put(&op.out, Dispatch::float_cat(tensors.collect(), op.dim));
            }
            Op::Cast(op) => {
                let input = self.take(&op.input);
                let input_format = input.dtype();
                self.record_cast(&op.input, &op.out, input_format);
                // In an f64 setting every tensor stays f64, even if the module casts to a narrower format.
                let target = match self.format(DType::F64) {
                    DType::F64 => DType::F64,
                    _ => self.cast_target(&op.input, &op.out, input_format),
                };
                self.put(&op.out, round_to(input, target));
            }
            Op::Empty(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_empty(shape, device, format);
                self.put(&op.out, self.create(op.out.dtype, create));
            }
            Op::Ones(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_ones(shape, device, format);
                self.put(&op.out, self.create(op.out.dtype, create));
            }
            Op::Zeros(op) => {
                let (shape, device) = (op.out.shape.clone(), self.device.as_dispatch());
                let create = |format| Dispatch::float_zeros(shape, device, format);
                self.put(&op.out, self.create(op.out.dtype, create));
            }
            Op::All(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| Dispatch::float_all(x, format));
            }
            Op::Any(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| Dispatch::float_any(x, format));
            }
            Op::AllDim(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::float_all_dim(x, op.axis, format)
                });
            }
            Op::AnyDim(op) => {
                let format = self.bool_format();
                self.apply([&op.input, &op.out], |x| {
                    Dispatch::float_any_dim(x, op.axis, format)
                });
            }
        }
    }
}
