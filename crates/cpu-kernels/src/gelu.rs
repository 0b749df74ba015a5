//! GELU on the CPU, in one pass over memory; computed in f32 for 16-bit formats.

use burn_flex::FlexTensor;
use mantissa_core::Gelu;

use crate::{
    map::{map, zip},
    storage::Stored,
    vectorized::Wide,
};

pub(crate) fn gelu<T: Stored>(input: FlexTensor, form: Gelu) -> FlexTensor {
    match form {
        Gelu::Exact => map::<T>(input, exact_form),
        Gelu::Tanh => map::<T>(input, tanh_form),
        Gelu::TanhPacked => map::<T>(input, packed_form::<T>),
    }
}

pub(crate) fn gelu_backward<T: Stored>(input: FlexTensor, grad: FlexTensor, form: Gelu) -> FlexTensor {
    match form {
        Gelu::Exact => zip::<T>(input, grad, exact_slope),
        Gelu::Tanh | Gelu::TanhPacked => zip::<T>(input, grad, tanh_slope),
    }
}

#[inline(always)]
fn exact_form<W: Wide>(x: W) -> W {
    x * x.normal_cdf_and_pdf().0
}

#[inline(always)]
fn exact_slope<W: Wide>(x: W, grad: W) -> W {
    let (cdf, pdf) = x.normal_cdf_and_pdf();
    grad * (cdf + x * pdf)
}

/// Computes the tanh in the tanh approximation of GELU.
#[inline(always)]
fn inner_tanh<W: Wide>(x: W) -> W {
    let line = W::round_from_f64(Gelu::TANH_LINE);
    (x * (line + W::round_from_f64(Gelu::TANH_LINE * Gelu::TANH_CUBE) * x * x)).fast_tanh()
}

#[inline(always)]
fn tanh_form<W: Wide>(x: W) -> W {
    let half = W::round_from_f64(0.5) * x;
    half + half * inner_tanh(x)
}

#[inline(always)]
fn tanh_slope<W: Wide>(x: W, grad: W) -> W {
    let tanh = inner_tanh(x);
    let line = W::round_from_f64(Gelu::TANH_LINE);
    let inner_slope = line + W::round_from_f64(3.0 * Gelu::TANH_LINE * Gelu::TANH_CUBE) * x * x;
    let half = W::round_from_f64(0.5);
    grad * (half * (W::one() + tanh) + half * x * (W::one() - tanh * tanh) * inner_slope)
}

/// Emulates a GPU's instructions for pairs of 16-bit values: computes in f32, and rounds each result to the 16-bit format before the next
/// operation.
#[inline(always)]
fn packed_form<T: Stored>(x: T::Wide) -> T::Wide {
    let constant = |c: f64| T::round(T::Wide::round_from_f64(c));
    let square = T::round(x * x);
    let slope =
        T::round(T::round(square * constant(Gelu::TANH_LINE * Gelu::TANH_CUBE)) + constant(Gelu::TANH_LINE));
    let tanh = T::round(T::round(x * slope).fast_tanh());
    let half = T::round(constant(0.5) * x);
    T::round(T::round(half * tanh) + half)
}
