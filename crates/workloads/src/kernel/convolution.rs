//! Convolutions of a batch of square images.

use burn::tensor::Tensor;
use mantissa_core::ConvolutionShape;
use mantissa_precision::{Compute, PrecisionBackend};

use super::{
    Inputs, Operation,
    error::{Formats, ResultError, compare, exact, rounded},
};

/// Images `[batch, channels, size, size]` and filters `[filters, channels, edge, edge]`.
pub(super) struct Convolution<B: PrecisionBackend> {
    images: Vec<f64>,
    filters: Vec<f64>,
    shape: ConvolutionShape,
    size: usize,
    on_device: [Tensor<B, 4>; 2],
}

impl<B: PrecisionBackend> Convolution<B> {
    pub(super) fn new(shape: ConvolutionShape, size: usize, inputs: &mut Inputs<'_, B>) -> Self {
        let [batch, channels, filters, edge] =
            [shape.batch, shape.channels, shape.filters, shape.edge].map(|n| n as usize);
        let image_shape = [batch, channels, size, size];
        let filter_shape = [filters, channels, edge, edge];
        let (images, filters) = (
            inputs.draw(image_shape.iter().product()),
            inputs.draw(filter_shape.iter().product()),
        );
        Self {
            on_device: [
                inputs.upload(&images, image_shape),
                inputs.upload(&filters, filter_shape),
            ],
            images,
            filters,
            shape,
            size,
        }
    }

    /// Rows and columns of the result.
    fn positions(&self) -> usize {
        let (edge, padding) = (self.shape.edge as usize, self.shape.padding as usize);
        (self.size + 2 * padding - edge) / self.shape.stride as usize + 1
    }

    /// Values of a window.
    fn terms(&self) -> usize {
        self.shape.channels as usize * (self.shape.edge as usize).pow(2)
    }

    /// The windows of an image, one a column: `[terms, positions²]`.
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
                let inside = |at: usize| at.checked_sub(padding).filter(|at| *at < self.size);
                let y = inside(position / positions * stride + row);
                let x = inside(position % positions * stride + column);
                windows.push(y.zip(x).map_or(0.0, |(y, x)| channel[y * self.size + x]));
            }
        }
        windows
    }
}

impl<B: PrecisionBackend> Operation<B, 4> for Convolution<B> {
    fn flops(&self) -> f64 {
        let results =
            f64::from(self.shape.batch) * f64::from(self.shape.filters) * (self.positions() as f64).powi(2);
        2.0 * results * self.terms() as f64
    }

    fn launch(&self, compute: &Compute) -> Tensor<B, 4> {
        let [images, filters] = self.on_device.clone();
        compute.convolution(
            images,
            filters,
            self.shape.stride as usize,
            self.shape.padding as usize,
        )
    }

    fn compare(&self, result: &[f64], formats: Formats) -> ResultError {
        let (filters, terms) = (self.shape.filters as usize, self.terms());
        let (rows, columns) = (self.shape.batch as usize * filters, self.positions().pow(2));
        compare(result, [rows, columns], formats, |row| {
            let windows = self.windows(row / filters);
            let filter = &self.filters[row % filters * terms..][..terms];
            let reference = exact(filter, &windows, columns, formats.needs_more_than_f64());
            let of_seen = if formats.round_operands() {
                let operand = |values: &[f64]| rounded(values, formats.operand);
                exact(&operand(filter), &operand(&windows), columns, false)
            } else {
                reference.clone()
            };
            (reference, of_seen)
        })
    }
}
