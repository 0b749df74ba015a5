//! Sums of 16-bit values, which MPI 3 does not define.

use std::{
    ffi::{c_int, c_void},
    ops::Add,
    slice,
};

use half::{bf16, f16};
use mpi::{collective::UnsafeUserOperation, ffi::MPI_Datatype};

/// Returns the operation that adds bf16 values.
pub(super) fn of_bf16() -> UnsafeUserOperation {
    // SAFETY: the caller passes buffers of bf16 values.
    unsafe { UnsafeUserOperation::commutative(add::<bf16>) }
}

/// Returns the operation that adds f16 values.
pub(super) fn of_f16() -> UnsafeUserOperation {
    // SAFETY: the caller passes buffers of f16 values.
    unsafe { UnsafeUserOperation::commutative(add::<f16>) }
}

/// Adds `len` values to those of `sums`. `half` adds in f32 and rounds each sum to nearest even.
///
/// The operation is declared commutative, because Open MPI replaces the ring by another algorithm for other operations.
///
/// # Safety
/// `values` and `sums` point to `*len` values of type `T` each and do not overlap.
unsafe extern "C" fn add<T: Copy + Add<Output = T>>(
    values: *mut c_void,
    sums: *mut c_void,
    len: *mut c_int,
    _datatype: *mut MPI_Datatype,
) {
    // SAFETY: the condition of the function.
    let (values, sums) = unsafe {
        let len = *len as usize;
        (
            slice::from_raw_parts(values.cast::<T>(), len),
            slice::from_raw_parts_mut(sums.cast::<T>(), len),
        )
    };
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = *value + *sum;
    }
}
