//! Matmuls, single or batched.

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::Distribution;
use mantissa_precision::Compute;

use super::{
    error::{Formats, ResultError, compare, round_values, row_times_matrix},
    inputs::cancel,
    operation::{Inputs, MatmulOperands, OnBurn, Operation, upload},
};

/// Operands `[batch, m, k]` and `[batch, k, n]`, row-major.
pub(super) struct Operands {
    lhs: Vec<f64>,
    rhs: Vec<f64>,
    /// `[batch, m, n, k]`.
    shape: [usize; 4],
}

impl Operands {
    pub(super) fn new(shape: [usize; 4], inputs: &mut Inputs<'_>) -> Self {
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

    /// Returns the number of matmuls per launch.
    pub(super) fn batch(&self) -> usize {
        self.shape[0]
    }
}

impl Operation for Operands {
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>, &[f64])> {
        let [batch, m, n, k] = self.shape;
        // A framework may compute a single matmul differently than a batch of one.
        let shape_of = |rows, columns| match batch {
            1 => vec![rows, columns],
            _ => vec![batch, rows, columns],
        };
        vec![
            ("lhs", shape_of(m, k), &self.lhs),
            ("rhs", shape_of(k, n), &self.rhs),
        ]
    }

    fn flops(&self) -> Option<f64> {
        Some(2.0 * self.shape.iter().map(|edge| *edge as f64).product::<f64>())
    }

    fn matmul_operands(&self) -> Option<MatmulOperands<'_>> {
        let [batch, m, n, k] = self.shape;
        (batch == 1).then_some(MatmulOperands {
            shape: [m, n, k],
            lhs: &self.lhs,
            rhs: &self.rhs,
        })
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let [batch, m, n, k] = self.shape;
        let rounded_rhs = formats
            .round_operands()
            .then(|| round_values(&self.rhs, formats.operand));
        compare(result, [batch * m, n], formats, |row| {
            let lhs = &self.lhs[row * k..][..k];
            let matrix = row / m * k * n..(row / m + 1) * k * n;
            let reference =
                row_times_matrix(lhs, &self.rhs[matrix.clone()], n, formats.needs_more_than_f64());
            let from_rounded = match &rounded_rhs {
                Some(rhs) => row_times_matrix(&round_values(lhs, formats.operand), &rhs[matrix], n, false),
                None => reference.clone(),
            };
            (reference, from_rounded)
        })
    }
}

/// Single matmul.
impl OnBurn<2> for Operands {
    type OnHost = [TensorData; 2];
    type OnDevice = [Tensor<2>; 2];

    fn convert(&self, inputs: &Inputs<'_>) -> Self::OnHost {
        let [_, m, n, k] = self.shape;
        [
            inputs.convert(&self.lhs, [m, k]),
            inputs.convert(&self.rhs, [k, n]),
        ]
    }

    fn upload(&self, inputs: &Self::OnHost, device: &Device) -> Self::OnDevice {
        inputs.each_ref().map(|values| upload(values, device))
    }

    fn launch(&self, [lhs, rhs]: &Self::OnDevice, compute: &Compute) -> Tensor<2> {
        compute.matmul(lhs.clone(), rhs.clone())
    }
}

/// Batched matmul.
impl OnBurn<3> for Operands {
    type OnHost = [TensorData; 2];
    type OnDevice = [Tensor<3>; 2];

    fn convert(&self, inputs: &Inputs<'_>) -> Self::OnHost {
        let [batch, m, n, k] = self.shape;
        [
            inputs.convert(&self.lhs, [batch, m, k]),
            inputs.convert(&self.rhs, [batch, k, n]),
        ]
    }

    fn upload(&self, inputs: &Self::OnHost, device: &Device) -> Self::OnDevice {
        inputs.each_ref().map(|values| upload(values, device))
    }

    fn launch(&self, [lhs, rhs]: &Self::OnDevice, compute: &Compute) -> Tensor<3> {
        compute.matmul(lhs.clone(), rhs.clone())
    }
}

#[cfg(test)]
mod tests {
    use mantissa_core::Format;

    use super::*;

    #[test]
    fn rows_of_a_batch_are_compared_with_the_matching_matmul() {
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
