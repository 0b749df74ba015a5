//! Checks of the candidate kernels among which the autotuner chooses: small matmuls of integers, compared with float64.
//!
//! Sums of small integers are exact in every format, so every bit of a result must be correct. Each matmul uses different values, which
//! also detects a kernel that writes nothing and leaves an earlier result in memory.

use burn::tensor::{Bool, Device, Tensor, TensorData};
use mantissa_core::{Accumulator, Attention, MatmulPrecision, Precision};
pub use mantissa_core::{CandidateKernel, CheckedCandidate, CheckedOperation};

use crate::{AttentionMask, Compute, dtype, tensor_ops::round};

/// Returns the names of the candidates for an operation under a setting, on a device with matrix units.
pub fn candidates(operation: CheckedOperation, compute: &Compute) -> Vec<String> {
    #[cfg(feature = "cubecl")]
    {
        let (precision, mode) = (compute.precision(), compute.mode());
        let on_matrix_units = match precision {
            Precision::True64 => false,
            Precision::True32 => mode.precision != MatmulPrecision::Highest,
            _ => true,
        };
        match operation {
            CheckedOperation::Matmul => crate::cube::candidates(on_matrix_units, mode.accumulator),
            CheckedOperation::Convolution if on_matrix_units && mode.accumulator == Accumulator::F32 => {
                crate::cube::convolution_candidates()
            }
            CheckedOperation::Convolution => vec![],
            CheckedOperation::FusedAttention if precision == Precision::True64 => vec![],
            CheckedOperation::FusedAttention => crate::cube::attention_candidates(),
        }
    }
    #[cfg(not(feature = "cubecl"))]
    {
        let _ = (operation, compute);
        vec![]
    }
}

/// Permits only candidates that passed a check. This process never launches any other candidate.
pub fn permit(passed: impl IntoIterator<Item = CandidateKernel>) {
    #[cfg(feature = "cubecl")]
    crate::cube::kernel_allowlist::permit(passed);
    #[cfg(not(feature = "cubecl"))]
    drop(passed);
}

/// Checks a candidate for an operation under a setting. The process cannot be used for anything else afterwards.
///
/// # Errors
/// The error that the device reports.
pub fn check_candidate(
    operation: CheckedOperation,
    compute: Compute,
    candidate: &str,
    device: &Device,
) -> Result<CheckedCandidate, String> {
    #[cfg(feature = "cubecl")]
    {
        let trial = crate::cube::kernel_allowlist::permit_only(candidate);
        let mut checker = Checker {
            compute,
            device,
            seed: 1,
            trial,
            result: CheckedCandidate::default(),
        };
        match operation {
            CheckedOperation::Matmul => checker.matmuls()?,
            CheckedOperation::Convolution => checker.convolutions()?,
            CheckedOperation::FusedAttention => checker.attentions()?,
        }
        Ok(checker.result)
    }
    #[cfg(not(feature = "cubecl"))]
    {
        let _ = (operation, compute, candidate, device);
        Err("this build has no GPU backend: build with `--features cuda` or `--features vulkan`".to_owned())
    }
}

/// Memory layout of an operand.
#[derive(Debug, Clone, Copy)]
enum MemoryLayout {
    /// Row by row.
    Rows,
    /// Column by column.
    Columns,
    /// Row `i` of every matrix of a batch, then row `i + 1` of every matrix, as in a projection that is split into heads.
    Heads,
}

#[cfg(feature = "cubecl")]
struct Checker<'a> {
    compute: Compute,
    device: &'a Device,
    seed: u64,
    trial: &'static crate::cube::kernel_allowlist::Trial,
    result: CheckedCandidate,
}

#[cfg(feature = "cubecl")]
impl Checker<'_> {
    /// Returns small integers, different ones in each call. Sums of up to 128 products of them are exact in the accumulator.
    fn integers(&mut self, count: usize) -> Vec<f64> {
        // f16 represents every integer up to 2048, f32 up to 2²⁴.
        let accumulator = self.compute.mode().accumulator;
        let range = if accumulator == Accumulator::F16 { 3 } else { 15 };
        let mut next = || {
            // Knuth's MMIX generator.
            self.seed = self
                .seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((self.seed >> 33) % range) as f64 - (range / 2) as f64
        };
        (0..count).map(|_| next()).collect()
    }

    fn upload<const D: usize>(&self, values: Vec<f64>, shape: [usize; D]) -> Tensor<D> {
        let format = self.compute.precision().parameters();
        Tensor::from_data(TensorData::new(values, shape), (self.device, dtype(format)))
    }

    /// Compares the result of a launch with the expected float64 values, rounded to the format of the result.
    fn compare(&mut self, what: &str, result: Vec<f64>, expected: &[f64]) {
        let log = self.trial.take();
        if let Some(reason) = log.refused.into_iter().last() {
            self.result.refused = Some(reason);
            return;
        }
        if log.launched.is_empty() {
            return;
        }
        self.result.launched.extend(log.launched);
        self.result.launched.sort();
        self.result.launched.dedup();
        self.result.shapes += 1;
        let format = self.compute.precision().compute();
        let rounded = expected.iter().map(|value| format.round(*value).value);
        let differs = rounded
            .zip(&result)
            .position(|(expected, value)| expected != *value);
        let at = differs.or_else(|| (result.len() != expected.len()).then_some(0));
        if let Some(at) = at.filter(|_| self.result.wrong.is_none()) {
            self.result.wrong = Some(format!(
                "{what}: value {at} of {} is {}, expected {}",
                expected.len(),
                result.get(at).copied().unwrap_or(f64::NAN),
                format.round(expected[at]).value
            ));
        }
    }

    fn matmuls(&mut self) -> Result<(), String> {
        use MemoryLayout::{Columns, Heads, Rows};
        let (even, odd) = ([2, 256, 128, 256], [3, 65, 33, 129]);
        for (shape, layouts) in [
            ([1, 64, 64, 64], [Rows, Rows]),
            (even, [Rows, Rows]),
            (even, [Columns, Rows]),
            (even, [Rows, Columns]),
            (even, [Columns, Columns]),
            (even, [Heads, Heads]),
            ([1, 37, 53, 29], [Rows, Rows]),
            (odd, [Rows, Rows]),
            (odd, [Columns, Columns]),
            ([1, 1, 128, 64], [Rows, Columns]),
        ] {
            self.matmul(shape, layouts)?;
        }
        self.linear([128, 96, 64])
    }

    fn matmul(&mut self, [batch, m, k, n]: [usize; 4], layouts: [MemoryLayout; 2]) -> Result<(), String> {
        let (lhs, rhs) = (self.integers(batch * m * k), self.integers(batch * k * n));
        let upload_as = |checker: &Self, values: &[f64], shape: [usize; 3], layout| {
            let tensor = checker.upload(values.to_vec(), shape);
            match layout {
                MemoryLayout::Rows => tensor,
                MemoryLayout::Columns => contiguous(tensor.swap_dims(1, 2)).swap_dims(1, 2),
                MemoryLayout::Heads => contiguous(tensor.swap_dims(0, 1)).swap_dims(0, 1),
            }
        };
        let product = self.compute.matmul(
            upload_as(self, &lhs, [batch, m, k], layouts[0]),
            upload_as(self, &rhs, [batch, k, n], layouts[1]),
        );
        let result = download(product)?;
        let mut expected = Vec::with_capacity(batch * m * n);
        for z in 0..batch {
            for i in 0..m {
                expected.extend((0..n).map(|j| {
                    let terms = (0..k).map(|l| lhs[(z * m + i) * k + l] * rhs[(z * k + l) * n + j]);
                    terms.sum::<f64>()
                }));
            }
        }
        let what = format!("{batch} × {m} × {k} × {n}, {:?} and {:?}", layouts[0], layouts[1]);
        self.compare(&what.to_lowercase(), result, &expected);
        Ok(())
    }

    /// Checks a linear layer, in which the kernel returns f32 sums.
    fn linear(&mut self, [m, k, n]: [usize; 3]) -> Result<(), String> {
        let (input, weight, bias) = (self.integers(m * k), self.integers(n * k), self.integers(n));
        let output = self.compute.linear(
            self.upload(input.clone(), [m, k]),
            self.upload(weight.clone(), [n, k]),
            self.upload(bias.clone(), [n]),
        );
        let result = download(output)?;
        let dot = |i: usize, j: usize| (0..k).map(|l| input[i * k + l] * weight[j * k + l]).sum::<f64>();
        let expected: Vec<f64> = (0..m * n).map(|at| dot(at / n, at % n) + bias[at % n]).collect();
        self.compare(&format!("linear layer, {m} × {k} × {n}"), result, &expected);
        Ok(())
    }

    fn convolutions(&mut self) -> Result<(), String> {
        // Images, channels, edge of an image, filters, edge of a filter, stride.
        for (shape, gradients) in [
            ([2, 8, 9, 16, 3, 1], true),
            ([3, 5, 7, 7, 3, 1], true),
            ([2, 8, 9, 16, 3, 2], false),
        ] {
            self.convolution(shape, gradients)?;
        }
        Ok(())
    }

    fn convolution(
        &mut self,
        [n, c, edge, o, filter, stride]: [usize; 6],
        gradients: bool,
    ) -> Result<(), String> {
        const PADDING: usize = 1;
        let steps = (edge + 2 * PADDING - filter) / stride + 1;
        let (images, filters) = (
            self.integers(n * c * edge * edge),
            self.integers(o * c * filter * filter),
        );
        let gradient = self.integers(n * o * steps * steps);
        let reference = ConvolutionReference {
            shape: [n, c, edge, o, filter],
            steps,
            stride,
            padding: PADDING,
        };
        let what = format!("{n} × {c} × {edge}² images, {o} filters of {filter}², stride {stride}");
        let tracked = |tensor: Tensor<4>| Tensor::<4>::from_inner(tensor).require_grad();
        let images_on_device = tracked(self.upload(images.clone(), [n, c, edge, edge]));
        let filters_on_device = tracked(self.upload(filters.clone(), [o, c, filter, filter]));
        let compute = self.compute;
        let output = compute.convolution(
            images_on_device.clone(),
            filters_on_device.clone(),
            stride,
            PADDING,
        );
        let result = download(output.clone().inner())?;
        self.compare(&what, result, &reference.output(&images, &filters));
        if gradients {
            let gradient_on_device = self.upload(gradient.clone(), [n, o, steps, steps]);
            let gradient_on_device = round(Tensor::from_inner(gradient_on_device), output.dtype());
            let grads = (output * gradient_on_device).sum().backward();
            let images_grad = images_on_device
                .grad(&grads)
                .ok_or("the backward pass returned no gradient of the images")?;
            let filters_grad = filters_on_device
                .grad(&grads)
                .ok_or("the backward pass returned no gradient of the filters")?;
            // The backward pass launches the kernels of both gradients, so a rejection cannot be attributed to one of them.
            let (images_grad, filters_grad) = (download(images_grad)?, download(filters_grad)?);
            let expected = [
                reference.images(&gradient, &filters),
                reference.filters(&images, &gradient),
            ]
            .concat();
            self.compare(
                &format!("gradients of {what}"),
                [images_grad, filters_grad].concat(),
                &expected,
            );
        }
        Ok(())
    }

    fn attentions(&mut self) -> Result<(), String> {
        for shape in [[2, 2, 64, 64], [1, 3, 37, 64], [1, 1, 128, 128]] {
            self.attention(shape)?;
        }
        Ok(())
    }

    /// Checks attention in which every query matches exactly one key: the result is the value of that key.
    fn attention(&mut self, [n, heads, sequence, width]: [usize; 4]) -> Result<(), String> {
        // The score is SCALE²/√width for the matching key and 0 for all other keys. The attention weights of the other keys are 0 in f32.
        const SCALE: f64 = 64.0;
        let matrices = n * heads;
        let matching_key = |matrix: usize, query: usize| (query * 5 + matrix * 3 + 1) % sequence;
        let mut keys = vec![0.0; matrices * sequence * width];
        let mut queries = keys.clone();
        for matrix in 0..matrices {
            for row in 0..sequence {
                let at = (matrix * sequence + row) * width;
                keys[at + row] = SCALE;
                queries[at + matching_key(matrix, row)] = SCALE;
            }
        }
        let values = self.integers(keys.len());
        let shape = [n, heads, sequence, width];
        let parts = [queries, keys, values.clone()].map(|part| self.upload(part, shape));
        let compute = self.compute.with_attention(Attention::Fused);
        let padding = Tensor::<2, Bool>::full([n, sequence], false, self.device);
        let result = download(compute.attention(parts, &AttentionMask::padded(&padding), None))?;
        let expected: Vec<f64> = (0..matrices * sequence)
            .flat_map(|at| {
                let (matrix, query) = (at / sequence, at % sequence);
                let from = (matrix * sequence + matching_key(matrix, query)) * width;
                values[from..from + width].to_vec()
            })
            .collect();
        self.compare(
            &format!("{n} × {heads} × {sequence} × {width}"),
            result,
            &expected,
        );
        Ok(())
    }
}

/// Returns a contiguous copy of a tensor.
#[cfg(feature = "cubecl")]
fn contiguous<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    // Adding zeros writes a new tensor.
    let zeros = tensor.zeros_like();
    tensor + zeros
}

#[cfg(feature = "cubecl")]
fn download<const D: usize>(tensor: Tensor<D>) -> Result<Vec<f64>, String> {
    let data = tensor.try_into_data().map_err(|error| format!("{error:?}"))?;
    Ok(data.iter::<f64>().collect())
}

/// Reference implementation of the three passes of a convolution, as loops.
#[cfg(feature = "cubecl")]
struct ConvolutionReference {
    /// Images, channels, edge of an image, filters, edge of a filter.
    shape: [usize; 5],
    steps: usize,
    stride: usize,
    padding: usize,
}

#[cfg(feature = "cubecl")]
impl ConvolutionReference {
    /// Calls `add` for every term with three indices: of the output value, the image value and the filter value.
    fn terms(&self, mut add: impl FnMut(usize, usize, usize)) {
        let ([n, c, edge, o, filter], steps) = (self.shape, self.steps);
        for output in 0..n * o * steps * steps {
            let (x, y) = (output % steps, output / steps % steps);
            let (filter_index, image) = (output / (steps * steps) % o, output / (steps * steps * o));
            for weight in 0..c * filter * filter {
                let (b, a) = (weight % filter, weight / filter % filter);
                let channel = weight / (filter * filter);
                let row = (y * self.stride + a).checked_sub(self.padding);
                let column = (x * self.stride + b).checked_sub(self.padding);
                if let (Some(row), Some(column)) = (row, column)
                    && row < edge
                    && column < edge
                {
                    let pixel = ((image * c + channel) * edge + row) * edge + column;
                    add(output, pixel, filter_index * c * filter * filter + weight);
                }
            }
        }
    }

    fn output(&self, images: &[f64], filters: &[f64]) -> Vec<f64> {
        let [n, _, _, o, _] = self.shape;
        let mut sums = vec![0.0; n * o * self.steps * self.steps];
        self.terms(|output, pixel, weight| sums[output] += images[pixel] * filters[weight]);
        sums
    }

    fn images(&self, gradient: &[f64], filters: &[f64]) -> Vec<f64> {
        let [n, c, edge, ..] = self.shape;
        let mut sums = vec![0.0; n * c * edge * edge];
        self.terms(|output, pixel, weight| sums[pixel] += gradient[output] * filters[weight]);
        sums
    }

    fn filters(&self, images: &[f64], gradient: &[f64]) -> Vec<f64> {
        let [_, c, _, o, filter] = self.shape;
        let mut sums = vec![0.0; o * c * filter * filter];
        self.terms(|output, pixel, weight| sums[weight] += gradient[output] * images[pixel]);
        sums
    }
}
