//! Matrix products, one or a batch.

use burn::tensor::Tensor;
use mantissa_core::Distribution;
use mantissa_precision::{Compute, PrecisionBackend};

use super::{
    Inputs, Operation,
    error::{Formats, ResultError, compare, exact, rounded},
    inputs::cancel,
};

/// `[batch, m, k]` and `[batch, k, n]`, row after row.
pub(super) struct Operands {
    lhs: Vec<f64>,
    rhs: Vec<f64>,
    /// `[batch, m, n, k]`.
    shape: [usize; 4],
}

impl Operands {
    pub(super) fn new<B: PrecisionBackend>(shape: [usize; 4], inputs: &mut Inputs<'_, B>) -> Self {
        let [batch, m, n, k] = shape;
        let (mut lhs, mut rhs) = (inputs.draw(batch * m * k), inputs.draw(batch * k * n));
        if inputs.setting.distribution() == Distribution::Cancellation {
            for (lhs, rhs) in lhs.chunks_exact_mut(m * k).zip(rhs.chunks_exact_mut(k * n)) {
                cancel(lhs, rhs, [n, k]);
            }
            let stored = |x: &mut f64| *x = inputs.stored.round(*x).value;
            rhs.iter_mut().for_each(stored);
        }
        Self { lhs, rhs, shape }
    }

    pub(super) fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let [batch, m, n, k] = self.shape;
        let seen = formats
            .round_operands()
            .then(|| rounded(&self.rhs, formats.operand));
        compare(result, [batch * m, n], formats, |row| {
            let lhs = &self.lhs[row * k..][..k];
            let matrix = row / m * k * n..(row / m + 1) * k * n;
            let reference = exact(lhs, &self.rhs[matrix.clone()], n, formats.needs_more_than_f64());
            let of_seen = match &seen {
                Some(rhs) => exact(&rounded(lhs, formats.operand), &rhs[matrix], n, false),
                None => reference.clone(),
            };
            (reference, of_seen)
        })
    }
}

/// Matrix products of `D` dimensions.
pub(super) struct Product<B: PrecisionBackend, const D: usize> {
    operands: Operands,
    lhs: Tensor<B, D>,
    rhs: Tensor<B, D>,
}

impl<B: PrecisionBackend, const D: usize> Product<B, D> {
    pub(super) fn new(operands: Operands, lhs: [usize; D], rhs: [usize; D], inputs: &Inputs<'_, B>) -> Self {
        Self {
            lhs: inputs.upload(&operands.lhs, lhs),
            rhs: inputs.upload(&operands.rhs, rhs),
            operands,
        }
    }
}

impl<B: PrecisionBackend, const D: usize> Operation<B, D> for Product<B, D> {
    fn flops(&self) -> f64 {
        2.0 * self
            .operands
            .shape
            .iter()
            .map(|edge| *edge as f64)
            .product::<f64>()
    }

    fn launch(&self, compute: &Compute) -> Tensor<B, D> {
        compute.matmul(self.lhs.clone(), self.rhs.clone())
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        self.operands.compare(result, formats)
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::Format;

    use super::*;

    #[test]
    fn every_row_of_a_batch_is_compared_with_its_own_product() {
        let operands = Operands {
            lhs: vec![1.0, 2.0, 3.0, 4.0],
            rhs: vec![5.0, 6.0, 7.0, 8.0],
            shape: [2, 1, 1, 2],
        };
        let formats = Formats {
            stored: Format::F32,
            operand: Format::F32,
            output: Format::F32,
        };
        let error = operands.compare(&[17.0, 53.0], formats);
        assert_eq!((error.relative, error.ulps.as_slice()), (0.0, &[2][..]));
        assert!(operands.compare(&[17.0, 17.0], formats).relative > 0.1);
    }
}
