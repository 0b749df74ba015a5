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

    /// How many values both operands have.
    pub(super) fn values(&self) -> usize {
        self.lhs.len() + self.rhs.len()
    }

    /// Both, by name, with their shapes.
    pub(super) fn named(&self) -> [(&'static str, Vec<usize>, &[f64]); 2] {
        let [batch, m, n, k] = self.shape;
        // A product of two matrices may be treated otherwise than a batch of one.
        let shaped = |rows, columns| match batch {
            1 => vec![rows, columns],
            _ => vec![batch, rows, columns],
        };
        [("lhs", shaped(m, k), &self.lhs), ("rhs", shaped(k, n), &self.rhs)]
    }

    /// Products at a time.
    pub(super) fn batch(&self) -> usize {
        self.shape[0]
    }

    /// Operands of the given shapes, and how many values they are.
    fn upload<B: PrecisionBackend, const D: usize>(
        &self,
        inputs: &Inputs<'_, B>,
        lhs: [usize; D],
        rhs: [usize; D],
    ) -> ([Tensor<B, D>; 2], usize) {
        let operands = [inputs.upload(&self.lhs, lhs), inputs.upload(&self.rhs, rhs)];
        (operands, self.lhs.len() + self.rhs.len())
    }

    pub(super) fn flops(&self) -> f64 {
        2.0 * self.shape.iter().map(|edge| *edge as f64).product::<f64>()
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

/// A product of two matrices.
pub(super) struct Product(pub(super) Operands);

/// A batch of products.
pub(super) struct Products(pub(super) Operands);

impl<B: PrecisionBackend> Operation<B, 2> for Product {
    type OnDevice = [Tensor<B, 2>; 2];

    fn upload(&self, inputs: &Inputs<'_, B>) -> (Self::OnDevice, usize) {
        let [_, m, n, k] = self.0.shape;
        self.0.upload(inputs, [m, k], [k, n])
    }

    fn launch(&self, [lhs, rhs]: &Self::OnDevice, compute: &Compute) -> Tensor<B, 2> {
        compute.matmul(lhs.clone(), rhs.clone())
    }

    fn flops(&self) -> Option<f64> {
        Some(self.0.flops())
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        self.0.compare(result, formats)
    }
}

impl<B: PrecisionBackend> Operation<B, 3> for Products {
    type OnDevice = [Tensor<B, 3>; 2];

    fn upload(&self, inputs: &Inputs<'_, B>) -> (Self::OnDevice, usize) {
        let [batch, m, n, k] = self.0.shape;
        self.0.upload(inputs, [batch, m, k], [batch, k, n])
    }

    fn launch(&self, [lhs, rhs]: &Self::OnDevice, compute: &Compute) -> Tensor<B, 3> {
        compute.matmul(lhs.clone(), rhs.clone())
    }

    fn flops(&self) -> Option<f64> {
        Some(self.0.flops())
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        self.0.compare(result, formats)
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
