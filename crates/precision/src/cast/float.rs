//! Operations on floats, by class.

use burn::tensor::{
    BoolDType, DType, Device, Distribution, FloatDType, IndexingUpdateOp, IntDType, Scalar, Shape, Slice,
    TensorData, TensorMetadata,
    backend::ExecutionError,
    ops::{BoolTensor, FloatTensor, FloatTensorOps, GridSampleOptions, IntTensor},
};

use super::{Autocast, compute, only, primitive, tensor_of, unchanged};
use crate::{
    PrecisionBackend,
    autocast::OpClass,
    compute::{round, wide},
};

/// What is made in the format of a true setting.
macro_rules! made {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $output:ty;)*) => {
        $(fn $name($($argument: $type),*) -> $output {
            made::<B>(B::$name($($argument),*))
        })*
    };
}

/// Factors and the like that need not be numbers of a half: in bf16 0.999 is 1. They meet it in f32, and the result is rounded once.
macro_rules! scalar {
    ($(fn $name:ident($first:ident: $float:ty, $argument:ident: $type:ty) -> $output:ty;)*) => {
        $(fn $name($first: $float, $argument: $type) -> $output {
            widely::<B>($first, |wide| B::$name(wide, $argument))
        })*
    };
}

/// Operations of class [`OpClass::Full`]: their first input is brought to the format of the parameters.
macro_rules! full {
    ($(fn $name:ident($first:ident: $float:ty $(, $argument:ident: $type:ty)*) -> $output:ty;)*) => {
        $(fn $name($first: $float $(, $argument: $type)*) -> $output {
            B::$name(full::<B>($first) $(, $argument)*)
        })*
    };
}

/// Sums, of the same class: those of halves are of f32, and rounded once.
macro_rules! summed {
    ($(fn $name:ident($first:ident: $float:ty $(, $argument:ident: $type:ty)*) -> $output:ty;)*) => {
        $(fn $name($first: $float $(, $argument: $type)*) -> $output {
            widely::<B>(full::<B>($first), |wide| B::$name(wide $(, $argument)*))
        })*
    };
}

/// Means: as sums, and in the format of their input.
macro_rules! averaged {
    ($(fn $name:ident($first:ident: $float:ty $(, $argument:ident: $type:ty)*) -> $output:ty;)*) => {
        $(fn $name($first: $float $(, $argument: $type)*) -> $output {
            widely::<B>($first, |wide| B::$name(wide $(, $argument)*))
        })*
    };
}

/// Operations of class [`OpClass::Widest`]: both inputs are brought to the wider format of the two.
macro_rules! widest {
    ($(fn $name:ident($lhs:ident: $left:ty, $rhs:ident: $right:ty $(, $argument:ident: $type:ty)*) -> $output:ty;)*) => {
        $(fn $name($lhs: $left, $rhs: $right $(, $argument: $type)*) -> $output {
            let [lhs, rhs] = cast::<B, 2>(OpClass::Widest, [$lhs, $rhs]);
            B::$name(lhs, rhs $(, $argument)*)
        })*
    };
}

/// The inputs of an operation of this class.
pub(super) fn cast<B: PrecisionBackend, const N: usize>(
    class: OpClass,
    inputs: [FloatTensor<B>; N],
) -> [FloatTensor<B>; N] {
    // Their rank does not matter.
    let inputs = inputs.map(tensor_of::<B, 1>);
    compute().cast_as(class, inputs).map(primitive)
}

/// An input of an operation of class [`OpClass::Full`]. What a module has widened itself stays wide.
pub(super) fn full<B: PrecisionBackend>(input: FloatTensor<B>) -> FloatTensor<B> {
    let (precision, own) = (compute().precision(), input.dtype());
    let dtypes = [OpClass::Full.dtype(precision, &[own]), own];
    primitive(round(
        tensor_of::<B, 1>(input),
        OpClass::Widest.dtype(precision, &dtypes),
    ))
}

/// What was made, in the format of a true setting.
fn made<B: PrecisionBackend>(tensor: FloatTensor<B>) -> FloatTensor<B> {
    match only() {
        Some(dtype) => primitive(round(tensor_of::<B, 1>(tensor), dtype)),
        None => tensor,
    }
}

/// What `operation` makes of an input in f32 at least, in the format of that input.
pub(super) fn widely<B: PrecisionBackend>(
    input: FloatTensor<B>,
    operation: impl FnOnce(FloatTensor<B>) -> FloatTensor<B>,
) -> FloatTensor<B> {
    let dtype = input.dtype();
    let input = primitive(wide(tensor_of::<B, 1>(input)));
    primitive(round(tensor_of::<B, 1>(operation(input)), dtype))
}

/// Puts values among those of a tensor, in its format.
fn like<B: PrecisionBackend>(value: FloatTensor<B>, tensor: &FloatTensor<B>) -> FloatTensor<B> {
    primitive(round(tensor_of::<B, 1>(value), tensor.dtype()))
}

#[rustfmt::skip]
impl<B: PrecisionBackend> FloatTensorOps<Self> for Autocast<B> {
    fn float_matmul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        primitive(compute().matmul(tensor_of::<B, 1>(lhs), tensor_of(rhs)))
    }

    /// Nothing leaves f64 in a setting of it, whatever a module thinks wide enough.
    fn float_cast(tensor: FloatTensor<Self>, dtype: FloatDType) -> FloatTensor<Self> {
        match only() {
            Some(DType::F64) => made::<B>(tensor),
            _ => B::float_cast(tensor, dtype),
        }
    }

    fn float_powf(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self> {
        let [lhs, rhs] = cast::<B, 2>(OpClass::Full, [lhs, rhs]);
        B::float_powf(lhs, rhs)
    }

    fn float_cat(tensors: Vec<FloatTensor<Self>>, dim: usize) -> FloatTensor<Self> {
        let dtypes: Vec<_> = tensors.iter().map(TensorMetadata::dtype).collect();
        let dtype = OpClass::Widest.dtype(compute().precision(), &dtypes);
        let cast = |tensor| primitive(round(tensor_of::<B, 1>(tensor), dtype));
        B::float_cat(tensors.into_iter().map(cast).collect(), dim)
    }

    fn float_mask_where(tensor: FloatTensor<Self>, mask: BoolTensor<Self>, value: FloatTensor<Self>) -> FloatTensor<Self> {
        let [tensor, value] = cast::<B, 2>(OpClass::Widest, [tensor, value]);
        B::float_mask_where(tensor, mask, value)
    }

    fn float_slice_assign(tensor: FloatTensor<Self>, slices: &[Slice], value: FloatTensor<Self>) -> FloatTensor<Self> {
        let value = like::<B>(value, &tensor);
        B::float_slice_assign(tensor, slices, value)
    }

    fn float_scatter_add(dim: usize, tensor: FloatTensor<Self>, indices: IntTensor<Self>, value: FloatTensor<Self>) -> FloatTensor<Self> {
        let [tensor, value] = cast::<B, 2>(OpClass::Widest, [tensor, value]);
        B::float_scatter_add(dim, tensor, indices, value)
    }

    fn float_select_add(tensor: FloatTensor<Self>, dim: usize, indices: IntTensor<Self>, value: FloatTensor<Self>) -> FloatTensor<Self> {
        let [tensor, value] = cast::<B, 2>(OpClass::Widest, [tensor, value]);
        B::float_select_add(tensor, dim, indices, value)
    }

    fn float_scatter_nd(data: FloatTensor<Self>, indices: IntTensor<Self>, values: FloatTensor<Self>, reduction: IndexingUpdateOp) -> FloatTensor<Self> {
        let [data, values] = cast::<B, 2>(OpClass::Widest, [data, values]);
        B::float_scatter_nd(data, indices, values, reduction)
    }

    widest! {
        fn float_equal(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_not_equal(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_greater(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_greater_equal(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_lower(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_lower_equal(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
    }

    summed! {
        fn float_sum(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_sum_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_prod(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_prod_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_cumsum(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_cumprod(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
    }

    averaged! {
        fn float_mean(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_mean_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
    }

    full! {
        fn float_exp(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_log(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_log1p(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_recip(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_tan(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_cosh(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_sinh(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_acos(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_asin(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_acosh(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_atanh(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_powi_scalar(lhs: FloatTensor<Self>, rhs: Scalar) -> FloatTensor<Self>;
        fn float_powf_scalar(tensor: FloatTensor<Self>, value: Scalar) -> FloatTensor<Self>;
        fn float_powi(lhs: FloatTensor<Self>, rhs: IntTensor<Self>) -> FloatTensor<Self>;
        fn float_powi_scalar_impl(lhs: FloatTensor<Self>, rhs: Scalar) -> FloatTensor<Self>;
        fn float_powf_scalar_impl(tensor: FloatTensor<Self>, value: Scalar) -> FloatTensor<Self>;
    }

    widest! {
        fn float_add(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_sub(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_mul(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_div(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_remainder(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_grid_sample_2d(tensor: FloatTensor<Self>, grid: FloatTensor<Self>, options: GridSampleOptions) -> FloatTensor<Self>;
        fn float_cross(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_atan2(lhs: FloatTensor<Self>, rhs: FloatTensor<Self>) -> FloatTensor<Self>;
    }

    made! {
        fn float_from_data(data: TensorData, device: &Device<Self>) -> FloatTensor<Self>;
        fn float_random(shape: Shape, distribution: Distribution, device: &Device<Self>, dtype: FloatDType) -> FloatTensor<Self>;
        fn float_zeros(shape: Shape, device: &Device<Self>, dtype: FloatDType) -> FloatTensor<Self>;
        fn float_ones(shape: Shape, device: &Device<Self>, dtype: FloatDType) -> FloatTensor<Self>;
        fn float_full(shape: Shape, fill_value: Scalar, device: &Device<Self>, dtype: FloatDType) -> FloatTensor<Self>;
        fn float_empty(shape: Shape, device: &Device<Self>, dtype: FloatDType) -> FloatTensor<Self>;
    }

    scalar! {
        fn float_add_scalar(lhs: FloatTensor<Self>, rhs: Scalar) -> FloatTensor<Self>;
        fn float_sub_scalar(lhs: FloatTensor<Self>, rhs: Scalar) -> FloatTensor<Self>;
        fn float_mul_scalar(lhs: FloatTensor<Self>, rhs: Scalar) -> FloatTensor<Self>;
        fn float_div_scalar(lhs: FloatTensor<Self>, rhs: Scalar) -> FloatTensor<Self>;
        fn float_remainder_scalar(lhs: FloatTensor<Self>, rhs: Scalar) -> FloatTensor<Self>;
    }

    unchanged! {
        fn float_into_data(tensor: FloatTensor<Self>) -> impl Future<Output = Result<TensorData, ExecutionError>> + Send;
        fn float_device(tensor: &FloatTensor<Self>) -> Device<Self>;
        fn float_to_device(tensor: FloatTensor<Self>, device: &Device<Self>) -> FloatTensor<Self>;
        fn float_into_int(tensor: FloatTensor<Self>, out_dtype: IntDType) -> IntTensor<Self>;
        fn float_repeat_dim(tensor: FloatTensor<Self>, dim: usize, times: usize) -> FloatTensor<Self>;
        fn float_clamp_min(tensor: FloatTensor<Self>, min: Scalar) -> FloatTensor<Self>;
        fn float_clamp_max(tensor: FloatTensor<Self>, max: Scalar) -> FloatTensor<Self>;
        fn float_clamp(tensor: FloatTensor<Self>, min: Scalar, max: Scalar) -> FloatTensor<Self>;
        fn float_neg(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_transpose(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_swap_dims(tensor: FloatTensor<Self>, dim1: usize, dim2: usize) -> FloatTensor<Self>;
        fn float_permute(tensor: FloatTensor<Self>, axes: &[usize]) -> FloatTensor<Self>;
        fn float_flip(tensor: FloatTensor<Self>, axes: &[usize]) -> FloatTensor<Self>;
        fn float_reshape(tensor: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self>;
        fn float_gather(dim: usize, tensor: FloatTensor<Self>, indices: IntTensor<Self>) -> FloatTensor<Self>;
        fn float_gather_nd(data: FloatTensor<Self>, indices: IntTensor<Self>) -> FloatTensor<Self>;
        fn float_select(tensor: FloatTensor<Self>, dim: usize, indices: IntTensor<Self>) -> FloatTensor<Self>;
        fn float_slice(tensor: FloatTensor<Self>, slices: &[Slice]) -> FloatTensor<Self>;
        fn float_mask_fill(tensor: FloatTensor<Self>, mask: BoolTensor<Self>, value: Scalar) -> FloatTensor<Self>;
        fn float_equal_elem(lhs: FloatTensor<Self>, rhs: Scalar, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_not_equal_elem(lhs: FloatTensor<Self>, rhs: Scalar, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_greater_elem(lhs: FloatTensor<Self>, rhs: Scalar, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_greater_equal_elem(lhs: FloatTensor<Self>, rhs: Scalar, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_lower_elem(lhs: FloatTensor<Self>, rhs: Scalar, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_lower_equal_elem(lhs: FloatTensor<Self>, rhs: Scalar, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_detach(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_set_require_grad(tensor: FloatTensor<Self>, require_grad: bool) -> FloatTensor<Self>;
        fn float_is_require_grad(tensor: &FloatTensor<Self>) -> bool;
        fn float_cummin(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_cummax(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_sqrt(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_abs(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_cos(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_sin(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_tanh(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_asinh(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_atan(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_round(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_floor(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_ceil(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_trunc(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_erf(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_argmax(tensor: FloatTensor<Self>, dim: usize, out_dtype: IntDType) -> IntTensor<Self>;
        fn float_argtopk(tensor: FloatTensor<Self>, dim: usize, k: usize, out_dtype: IntDType) -> IntTensor<Self>;
        fn float_topk(tensor: FloatTensor<Self>, dim: usize, k: usize) -> FloatTensor<Self>;
        fn float_argmin(tensor: FloatTensor<Self>, dim: usize, out_dtype: IntDType) -> IntTensor<Self>;
        fn float_max(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_max_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_max_dim_with_indices(tensor: FloatTensor<Self>, dim: usize, indices_dtype: IntDType) -> (FloatTensor<Self>, IntTensor<Self>);
        fn float_min(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_min_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_min_dim_with_indices(tensor: FloatTensor<Self>, dim: usize, indices_dtype: IntDType) -> (FloatTensor<Self>, IntTensor<Self>);
        fn float_max_abs(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_max_abs_dim(tensor: FloatTensor<Self>, dim: usize) -> FloatTensor<Self>;
        fn float_any(tensor: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_any_dim(tensor: FloatTensor<Self>, dim: usize, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_all(tensor: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_all_dim(tensor: FloatTensor<Self>, dim: usize, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_sign(tensor: FloatTensor<Self>) -> FloatTensor<Self>;
        fn float_expand(tensor: FloatTensor<Self>, shape: Shape) -> FloatTensor<Self>;
        fn float_sort(tensor: FloatTensor<Self>, dim: usize, descending: bool) -> FloatTensor<Self>;
        fn float_sort_with_indices(tensor: FloatTensor<Self>, dim: usize, descending: bool, indices_dtype: IntDType) -> (FloatTensor<Self>, IntTensor<Self>);
        fn float_argsort(tensor: FloatTensor<Self>, dim: usize, descending: bool, out_dtype: IntDType) -> IntTensor<Self>;
        fn float_unfold(tensor: FloatTensor<Self>, dim: usize, size: usize, step: usize) -> FloatTensor<Self>;
        fn float_is_nan(tensor: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
        fn float_is_inf(tensor: FloatTensor<Self>, out_dtype: BoolDType) -> BoolTensor<Self>;
    }
}
