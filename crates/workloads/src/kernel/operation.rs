//! Operation that a kernel cell times, and its inputs.

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::{Format, Setting};
use mantissa_precision::{Compute, dtype};
use rand_chacha::ChaCha8Rng;

use super::{
    error::{Formats, ResultError},
    inputs,
};

/// Matmul of two row-major matrices.
pub(super) struct MatmulOperands<'a> {
    /// `[m, n, k]`.
    pub(super) shape: [usize; 3],
    /// `[m, k]`.
    pub(super) lhs: &'a [f64],
    /// `[k, n]`.
    pub(super) rhs: &'a [f64],
}

/// Operation on inputs in host memory, independent of the framework that computes it.
pub(super) trait Operation {
    /// Returns the inputs: name, shape and values of each.
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>, &[f64])>;

    /// Returns the number of values on the device during a launch.
    fn values(&self) -> usize {
        self.inputs().iter().map(|(.., values)| values.len()).sum()
    }

    /// Returns the floating-point operations per launch, for compute-bound kernels.
    fn flops(&self) -> Option<f64> {
        None
    }

    /// Returns the minimum number of bytes that a launch moves, for memory-bound kernels: each input is read once and each output written once.
    fn traffic(&self) -> Option<u64> {
        None
    }

    /// Returns the operands, if this operation is a single matmul.
    fn matmul_operands(&self) -> Option<MatmulOperands<'_>> {
        None
    }

    /// Compares a result with float64.
    fn compare(&self, result: &[f64], formats: Formats) -> ResultError;
}

/// Operation that burn computes, with a result of `D` dimensions.
pub(super) trait OnBurn<const D: usize>: Operation {
    /// Inputs on the host, in the formats in which they are stored.
    type OnHost;
    /// Inputs on the device.
    type OnDevice;

    /// Converts the inputs to the formats in which they are stored.
    fn convert(&self, inputs: &Inputs<'_>) -> Self::OnHost;

    /// Uploads a copy of the inputs.
    fn upload(&self, inputs: &Self::OnHost, device: &Device) -> Self::OnDevice;

    /// Computes the result.
    fn launch(&self, inputs: &Self::OnDevice, compute: &Compute) -> Tensor<D>;
}

/// Generator of inputs.
pub(super) struct Inputs<'a> {
    pub(super) setting: &'a Setting,
    /// Format in which inputs are stored.
    pub(super) stored: Format,
    pub(super) rng: ChaCha8Rng,
    pub(super) device: &'a Device,
}

impl Inputs<'_> {
    /// Draws values from the setting's distribution, rounded to the format in which they will be stored.
    pub(super) fn draw(&mut self, count: usize) -> Vec<f64> {
        let mut values = inputs::draw(count, self.setting.distribution(), &mut self.rng);
        values.iter_mut().for_each(|x| *x = self.stored.round(*x).value);
        values
    }

    /// Converts values to the format in which they are stored.
    pub(super) fn convert<const D: usize>(&self, values: &[f64], shape: [usize; D]) -> TensorData {
        TensorData::new(values.to_vec(), shape).convert_dtype(dtype(self.stored))
    }
}

/// Uploads a copy of values in their format.
pub(super) fn upload<const D: usize>(values: &TensorData, device: &Device) -> Tensor<D> {
    Tensor::from_data(values.clone(), (device, values.dtype()))
}
