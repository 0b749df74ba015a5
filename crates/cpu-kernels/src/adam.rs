//! Adam step on the CPU: one pass over parameters, gradients and both means, in place.

use burn_flex::FlexTensor;
use num_traits::{Float, Zero};
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use crate::{
    contiguous::packed,
    storage::{BLOCK, CHUNK, Stored, to_wide_mut},
    vectorized::Wide,
};

/// Factors of an Adam step, not rounded to the format of the parameters: in bf16, 0.999 would be 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamRates<T = f64> {
    /// `1 − learning rate · weight decay`: factor of a parameter.
    pub keep: T,
    /// `1 − β₁`: weight of a gradient in the first mean.
    pub share1: T,
    /// `β₂`: decay of the second mean.
    pub decay2: T,
    /// `1 − β₂`: weight of a squared gradient in the second mean.
    pub share2: T,
    /// `1 − β₁ᵗ`: divisor of the first mean, for bias correction at step `t`.
    pub correction1: T,
    /// `√(1 − β₂ᵗ)`: divisor of the root of the second mean, for bias correction at step `t`.
    pub correction2: T,
    /// Added to the root of the second mean.
    pub epsilon: T,
    /// Learning rate.
    pub learning_rate: T,
}

impl<T> AdamRates<T> {
    /// Returns the same factors in another type.
    fn map<U>(self, f: impl Fn(T) -> U) -> AdamRates<U> {
        AdamRates {
            keep: f(self.keep),
            share1: f(self.share1),
            decay2: f(self.decay2),
            share2: f(self.share2),
            correction1: f(self.correction1),
            correction2: f(self.correction2),
            epsilon: f(self.epsilon),
            learning_rate: f(self.learning_rate),
        }
    }
}

/// Applies an Adam step. Values are rounded to the format of the parameters wherever a sequence of separate operations
/// would store them. Gradients have the format of the parameters, or f32.
pub(crate) fn adam<T: Stored<Wide: Stored<Wide = T::Wide>>>(
    state: [FlexTensor; 3],
    gradient: FlexTensor,
    rates: AdamRates,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let gradient = packed(gradient);
    if gradient.dtype() == <T::Wide as burn::tensor::Element>::dtype() {
        step::<T, T::Wide>(state, gradient.storage(), rates)
    } else {
        step::<T, T>(state, gradient.storage(), rates)
    }
}

fn step<T: Stored, G: Stored<Wide = T::Wide>>(
    state: [FlexTensor; 3],
    gradients: &[G],
    rates: AdamRates,
) -> (FlexTensor, FlexTensor, FlexTensor) {
    let [mut value, mut first, mut second] = state.map(|tensor| match tensor.is_contiguous() {
        true => tensor,
        false => packed(tensor),
    });
    let rates = rates.map(T::Wide::round_from_f64);
    value
        .storage_mut::<T>()
        .par_chunks_mut(CHUNK)
        .zip(first.storage_mut::<T>().par_chunks_mut(CHUNK))
        .zip(second.storage_mut::<T>().par_chunks_mut(CHUNK))
        .zip(gradients.par_chunks(CHUNK))
        .for_each(|(((value, first), second), gradients)| {
            Arch::new().dispatch(Chunk {
                state: [value, first, second],
                gradients,
                rates,
            })
        });
    (value, first, second)
}

struct Chunk<'a, T: Stored, G> {
    /// Parameters and both means.
    state: [&'a mut [T]; 3],
    gradients: &'a [G],
    rates: AdamRates<T::Wide>,
}

impl<T: Stored, G: Stored<Wide = T::Wide>> NullaryFnOnce for Chunk<'_, T, G> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let rates = self.rates;
        let [mut w_buffer, mut m_buffer, mut v_buffer, mut g_buffer] = [[T::Wide::zero(); BLOCK]; 4];
        let [values, firsts, seconds] = self.state.map(|part| part.chunks_mut(BLOCK));
        let state = values.zip(firsts).zip(seconds);
        for (((values, firsts), seconds), gradients) in state.zip(self.gradients.chunks(BLOCK)) {
            let g = G::to_wide(gradients, &mut g_buffer);
            let [w, m, v] = [
                to_wide_mut(values, &mut w_buffer),
                to_wide_mut(firsts, &mut m_buffer),
                to_wide_mut(seconds, &mut v_buffer),
            ];
            for (((w, m), v), g) in w.iter_mut().zip(m).zip(v).zip(g) {
                let g = T::round(*g);
                *m = T::round(*m + (g - *m) * rates.share1);
                *v = T::round(T::round(*v * rates.decay2) + g * rates.share2 * g);
                let root = T::round(T::round(v.sqrt()) / rates.correction2);
                let update = *m / T::round(root + rates.epsilon) / rates.correction1;
                *w = T::round(T::round(*w * rates.keep) - update * rates.learning_rate);
            }
            T::store(&w_buffer, values);
            T::store(&m_buffer, firsts);
            T::store(&v_buffer, seconds);
        }
    }
}
