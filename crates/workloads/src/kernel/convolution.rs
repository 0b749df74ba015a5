//! Convolutions of a batch of square images.

use burn::tensor::{Device, Tensor, TensorData};
use mantissa_core::ConvolutionShape;
use mantissa_precision::Compute;

use super::{
    error::{Formats, ResultError, compare, round_values, row_times_matrix},
    operation::{Inputs, OnBurn, Operation, upload},
};

/// Images `[batch, channels, size, size]` and filters `[filters, channels, edge, edge]`.
pub(super) struct Convolution {
    images: Vec<f64>,
    filters: Vec<f64>,
    shape: ConvolutionShape,
    size: usize,
}

impl Convolution {
    pub(super) fn new(shape: ConvolutionShape, size: usize, inputs: &mut Inputs<'_>) -> Self {
        let [images, filters] = shapes(shape, size).map(|shape| inputs.draw(shape.iter().product()));
        Self {
            images,
            filters,
            shape,
            size,
        }
    }

    /// Returns the number of rows and of columns of the result.
    fn positions(&self) -> usize {
        let (edge, padding) = (self.shape.edge as usize, self.shape.padding as usize);
        (self.size + 2 * padding - edge) / self.shape.stride as usize + 1
    }

    /// Returns the number of products that are summed for one value of the result.
    fn terms(&self) -> usize {
        self.shape.channels as usize * (self.shape.edge as usize).pow(2)
    }

    /// Returns the windows of an image as columns of a matrix `[terms, positions²]` (im2col).
    fn windows(&self, image: usize) -> Vec<f64> {
        let positions = self.positions();
        let [edge, stride, padding] =
            [self.shape.edge, self.shape.stride, self.shape.padding].map(|n| n as usize);
        let mut windows = Vec::with_capacity(self.terms() * positions * positions);
        for term in 0..self.terms() {
            let (channel, row, column) = (term / (edge * edge), term / edge % edge, term % edge);
            let channel =
                &self.images[(image * self.shape.channels as usize + channel) * self.size * self.size..];
            for position in 0..positions * positions {
                let unpadded = |at: usize| at.checked_sub(padding).filter(|at| *at < self.size);
                let y = unpadded(position / positions * stride + row);
                let x = unpadded(position % positions * stride + column);
                windows.push(y.zip(x).map_or(0.0, |(y, x)| channel[y * self.size + x]));
            }
        }
        windows
    }
}

/// Returns the shapes of the images and of the filters.
fn shapes(shape: ConvolutionShape, size: usize) -> [[usize; 4]; 2] {
    let [batch, channels, filters, edge] =
        [shape.batch, shape.channels, shape.filters, shape.edge].map(|n| n as usize);
    [[batch, channels, size, size], [filters, channels, edge, edge]]
}

impl OnBurn<4> for Convolution {
    type OnHost = [TensorData; 2];
    type OnDevice = [Tensor<4>; 2];

    fn convert(&self, inputs: &Inputs<'_>) -> Self::OnHost {
        let [images, filters] = shapes(self.shape, self.size);
        [
            inputs.convert(&self.images, images),
            inputs.convert(&self.filters, filters),
        ]
    }

    fn upload(&self, inputs: &Self::OnHost, device: &Device) -> Self::OnDevice {
        inputs.each_ref().map(|values| upload(values, device))
    }

    fn launch(&self, [images, filters]: &Self::OnDevice, compute: &Compute) -> Tensor<4> {
        compute.convolution(
            images.clone(),
            filters.clone(),
            self.shape.stride as usize,
            self.shape.padding as usize,
        )
    }
}

impl Operation for Convolution {
    fn inputs(&self) -> Vec<(&'static str, Vec<usize>, &[f64])> {
        let [images, filters] = shapes(self.shape, self.size).map(Vec::from);
        vec![
            ("images", images, &self.images),
            ("filters", filters, &self.filters),
        ]
    }

    fn flops(&self) -> Option<f64> {
        let results =
            f64::from(self.shape.batch) * f64::from(self.shape.filters) * (self.positions() as f64).powi(2);
        Some(2.0 * results * self.terms() as f64)
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let (filters, terms) = (self.shape.filters as usize, self.terms());
        let (rows, columns) = (self.shape.batch as usize * filters, self.positions().pow(2));
        compare(result, [rows, columns], formats, |row| {
            let windows = self.windows(row / filters);
            let filter = &self.filters[row % filters * terms..][..terms];
            let reference = row_times_matrix(filter, &windows, columns, formats.needs_more_than_f64());
            let from_rounded = if formats.round_operands() {
                let operand = |values: &[f64]| round_values(values, formats.operand);
                row_times_matrix(&operand(filter), &operand(&windows), columns, false)
            } else {
                reference.clone()
            };
            (reference, from_rounded)
        })
    }
}
