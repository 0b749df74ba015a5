//! Rotary embeddings on the CPU: rows in parallel, one pass over memory, f32 inside for 16-bit formats.

use burn::backend::TensorMetadata;
use burn_flex::FlexTensor;
use num_traits::Zero;
use pulp::{Arch, NullaryFnOnce};

use super::{
    contiguous::packed,
    parallel_init::written,
    stored::{Stored, chunk_of_rows, contiguous, width},
};

/// Implements [`crate::PrecisionBackend::rotate`].
pub(super) fn rotate<T: Stored>(
    input: FlexTensor,
    cosine: FlexTensor,
    sine: FlexTensor,
    interleaved: bool,
) -> FlexTensor {
    let [input, cosine, sine] = [input, cosine, sine].map(packed);
    let (from, n) = (input.storage::<T>(), width(&input.shape()));
    if from.is_empty() {
        return input;
    }
    let to = written(from.len(), chunk_of_rows(n), |these, to| {
        Arch::new().dispatch(Rows {
            first: these.start / n,
            from: &from[these],
            to,
            n,
            cosine: cosine.storage(),
            sine: sine.storage(),
            interleaved,
        });
    });
    contiguous(to, input.shape())
}

/// Rows of width `n`, starting at row `first` of the tensor.
struct Rows<'a, T: Stored> {
    from: &'a [T],
    to: &'a mut [T],
    n: usize,
    first: usize,
    cosine: &'a [T::Wide],
    sine: &'a [T::Wide],
    interleaved: bool,
}

impl<T: Stored> NullaryFnOnce for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (n, half) = (self.n, self.n / 2);
        let places = self.cosine.len() / half;
        let mut row = vec![T::Wide::zero(); n];
        let rows = self.from.chunks_exact(n).zip(self.to.chunks_exact_mut(n));
        for (at, (from, to)) in rows.enumerate() {
            let angles = (self.first + at) % places * half;
            let (cosine, sine) = (&self.cosine[angles..][..half], &self.sine[angles..][..half]);
            T::widen(from, &mut row);
            let angles = cosine.iter().zip(sine);
            if self.interleaved {
                let (pairs, _) = row.as_chunks_mut::<2>();
                for ([x, y], (cosine, sine)) in pairs.iter_mut().zip(angles) {
                    (*x, *y) = (*x * *cosine - *y * *sine, *y * *cosine + *x * *sine);
                }
            } else {
                let (xs, ys) = row.split_at_mut(half);
                for ((x, y), (cosine, sine)) in xs.iter_mut().zip(ys).zip(angles) {
                    (*x, *y) = (*x * *cosine - *y * *sine, *y * *cosine + *x * *sine);
                }
            }
            T::narrow(&row, to);
        }
    }
}

#[cfg(test)]
mod tests {
    use burn::{
        backend::{Dispatch, DispatchTensor},
        tensor::{DType, Device, Distribution, Tensor},
    };
    use burn_flex::Flex;

    use super::*;
    use crate::{PrecisionBackend, rotation::turn};

    #[test]
    fn rows_turn_bit_for_bit_as_by_burns_operations() {
        let device = Device::flex();
        for (dtype, wide) in [
            (DType::F64, DType::F64),
            (DType::F32, DType::F32),
            (DType::F16, DType::F32),
            (DType::BF16, DType::F32),
        ] {
            let random = |shape: [usize; 4], dtype| {
                Tensor::<4>::random(shape, Distribution::Default, (&device, DType::F32)).cast(dtype)
            };
            // The larger one is two whole pieces of work and a partial one, which begins within a sequence.
            let sizes = [(5, 2, 8), (257, 5, 24)];
            for (interleaved, (sequence, heads, width)) in
                sizes.into_iter().flat_map(|size| [(false, size), (true, size)])
            {
                let [cosine, sine] = [0, 1].map(|_| {
                    random([1, 1, sequence, width / 2], wide)
                        .try_into_primitive::<Flex>()
                        .unwrap()
                });
                let input = random([3, sequence, heads, width], dtype).swap_dims(1, 2);
                let input = input.try_into_primitive::<Flex>().unwrap();
                let widened = Flex::round_to(input.clone(), wide.into());
                let by_burn = turn::<Flex>(widened, cosine.clone(), sine.clone(), interleaved);
                let by_burn = Flex::round_to(by_burn, dtype.into());
                let of = |tensor| Tensor::<4>::from_primitive::<Flex>(tensor).into_data();
                assert_eq!(of(Flex::rotate(input, cosine, sine, interleaved)), of(by_burn));
            }
        }
    }

    #[test]
    fn gradients_are_those_through_burns_operations() {
        type Turn = fn(DispatchTensor, [DispatchTensor; 2], bool) -> DispatchTensor;
        let device = Device::flex().autodiff();
        for (dtype, wide) in [
            (DType::F64, DType::F64),
            (DType::F32, DType::F32),
            (DType::F16, DType::F32),
            (DType::BF16, DType::F32),
        ] {
            let random = |shape: [usize; 4], dtype| {
                Tensor::<4>::random(shape, Distribution::Default, (&device, DType::F32)).cast(dtype)
            };
            for interleaved in [false, true] {
                let angles = [0, 1].map(|_| random([1, 1, 5, 4], wide).into_dispatch());
                let (input, upstream) = (random([3, 2, 5, 8], dtype), random([3, 2, 5, 8], dtype));
                let gradient = |turned: Turn| {
                    let input = input.clone().detach().require_grad();
                    let output = turned(input.clone().into_dispatch(), angles.clone(), interleaved);
                    let output = Tensor::<4>::from_dispatch(output);
                    let gradients = (output * upstream.clone()).sum().backward();
                    input
                        .grad(&gradients)
                        .unwrap()
                        .into_data()
                        .iter::<f64>()
                        .collect::<Vec<_>>()
                };
                let own = gradient(|input, [cosine, sine], interleaved| {
                    Dispatch::rotate(input, cosine, sine, interleaved)
                });
                let burns = gradient(|input, [cosine, sine], interleaved| {
                    let (narrow, wide) = (TensorMetadata::dtype(&input), TensorMetadata::dtype(&cosine));
                    // burn's cast would round values just above a tie in the wrong direction.
                    let widened = Dispatch::round_to(input, wide.into());
                    let output = turn::<Dispatch>(widened, cosine, sine, interleaved);
                    Dispatch::round_to(output, narrow.into())
                });
                assert_eq!(own, burns, "{dtype:?}, interleaved: {interleaved}");
                assert!(own.iter().any(|value| *value != 0.0));
            }
        }
    }
}
