//! Observation of matmuls and convolutions. Each pass is expressed as a matmul function, which the probe calls.

use burn::tensor::{Device, Tensor, TensorData};

use super::{
    download,
    observe::{EDGE, Observation, observe},
};
use crate::{Compute, dtype, tensor_ops::round};

/// Name and observation of each pass of an operation.
type Passes = Vec<(&'static str, Observation)>;

/// Observes two passes of a matmul as in attention, `x · wᵀ` and the gradient with respect to `x`, and two passes of a linear layer,
/// `x · wᵀ` plus a zero bias and the gradient with respect to `w`.
pub(super) fn matmul(compute: Compute, device: &Device) -> Result<Passes, String> {
    let format = compute.precision().parameters();
    let upload = |values: Vec<f64>| {
        let data = TensorData::new(values, [EDGE; 2]);
        Tensor::<2>::from_data(data, (device, dtype(format)))
    };
    // The layout is that of a linear layer: the right operand is a transposed view.
    let mut forward = |lhs: Vec<f64>, rhs_transposed: Vec<f64>| {
        download(compute.matmul_by_columns(upload(lhs), upload(rhs_transposed)))
    };
    // The gradient of `x · wᵀ` with respect to `x` is `grad · w`: a matmul of the values chosen for `grad` and `w`.
    let mut backward = |grad: Vec<f64>, rhs_transposed: Vec<f64>| {
        let zeros = vec![0.0; grad.len()];
        let x = Tensor::<2>::from_inner(upload(zeros)).require_grad();
        let w = Tensor::from_inner(upload(rhs_transposed).transpose());
        let product = compute.matmul_by_columns(x.clone(), w);
        let grad = round(Tensor::from_inner(upload(grad)), product.dtype());
        let grads = (product * grad).sum().backward();
        download(x.grad(&grads).ok_or("the backward pass returned no gradient")?)
    };
    let bias = || {
        let data = TensorData::new(vec![0.0; EDGE], [EDGE]);
        Tensor::<1>::from_data(data, (device, dtype(format)))
    };
    let mut linear = |lhs: Vec<f64>, rhs_transposed: Vec<f64>| {
        download(compute.linear(upload(lhs), upload(rhs_transposed), bias()))
    };
    // The gradient of the weights is `gradᵀ · x`; a row of `x` is an input.
    let mut weight = |grad_transposed: Vec<f64>, rhs_transposed: Vec<f64>| {
        let zeros = vec![0.0; rhs_transposed.len()];
        let weight = Tensor::<2>::from_inner(upload(zeros)).require_grad();
        let input = Tensor::from_inner(upload(transpose(&rhs_transposed)));
        let output = compute.linear(input, weight.clone(), Tensor::from_inner(bias()));
        let grad = round(
            Tensor::from_inner(upload(transpose(&grad_transposed))),
            output.dtype(),
        );
        let grads = (output * grad).sum().backward();
        download(
            weight
                .grad(&grads)
                .ok_or("the backward pass returned no gradient")?,
        )
    };
    Ok(vec![
        ("forward", observe(format, &mut forward)?),
        ("backward", observe(format, &mut backward)?),
        ("linear", observe(format, &mut linear)?),
        ("weight's gradient", observe(format, &mut weight)?),
    ])
}

/// Rows of one matmul of [`few_rows`].
const FEW_ROWS: usize = 8;

/// Terms per sum in [`few_rows`], large enough to select a backend's special kernel for few rows. All but the first [`EDGE`] are 0.
const TERMS: usize = 1024;

/// Observes `x · wᵀ` with a few rows at a time.
pub(super) fn few_rows(compute: Compute, device: &Device) -> Result<Passes, String> {
    let format = compute.precision().parameters();
    let upload = |rows: &[f64]| {
        let mut padded = vec![0.0; rows.len() / EDGE * TERMS];
        for (to, from) in padded.chunks_exact_mut(TERMS).zip(rows.chunks_exact(EDGE)) {
            to[..EDGE].copy_from_slice(from);
        }
        let data = TensorData::new(padded, [rows.len() / EDGE, TERMS]);
        Tensor::<2>::from_data(data, (device, dtype(format)))
    };
    let mut forward = |lhs: Vec<f64>, rhs_transposed: Vec<f64>| {
        let weights = upload(&rhs_transposed).transpose();
        let mut product = Vec::with_capacity(EDGE * EDGE);
        for rows in lhs.chunks(FEW_ROWS * EDGE) {
            product.extend(download(compute.matmul(upload(rows), weights.clone()))?);
        }
        Ok(product)
    };
    Ok(vec![("few rows", observe(format, &mut forward)?)])
}

/// Channels of an image: a window of 2 × 2 then has [`EDGE`] values.
const CHANNELS: usize = EDGE / 4;

/// Observes a convolution and both gradients. Each image is a single window, so each pass is one matmul.
pub(super) fn convolution(compute: Compute, device: &Device) -> Result<Passes, String> {
    let format = compute.precision().parameters();
    let upload = |values: Vec<f64>, shape: [usize; 4]| {
        Tensor::<4>::from_data(TensorData::new(values, shape), (device, dtype(format)))
    };
    let windows = |values| upload(values, [EDGE, CHANNELS, 2, 2]);
    let results = |values| upload(values, [EDGE, EDGE, 1, 1]);
    let mut forward =
        |lhs, rhs_transposed| download(compute.convolution(windows(lhs), windows(rhs_transposed), 1, 0));
    // The gradient of the images is `grad · filters`; a row of `filters` is a filter.
    let mut images = |grad: Vec<f64>, rhs_transposed: Vec<f64>| {
        let zeros = vec![0.0; grad.len()];
        let images = Tensor::<4>::from_inner(windows(zeros)).require_grad();
        let filters = Tensor::from_inner(windows(transpose(&rhs_transposed)));
        let output = compute.convolution(images.clone(), filters, 1, 0);
        let grad = round(Tensor::from_inner(results(grad)), output.dtype());
        let grads = (output * grad).sum().backward();
        download(
            images
                .grad(&grads)
                .ok_or("the backward pass returned no gradient")?,
        )
    };
    // The gradient of the filters is `gradᵀ · images`; a row of `images` is an image.
    let mut filters = |grad_transposed: Vec<f64>, rhs_transposed: Vec<f64>| {
        let zeros = vec![0.0; rhs_transposed.len()];
        let filters = Tensor::<4>::from_inner(windows(zeros)).require_grad();
        let images = Tensor::from_inner(windows(transpose(&rhs_transposed)));
        let output = compute.convolution(images, filters.clone(), 1, 0);
        let grad = round(
            Tensor::from_inner(results(transpose(&grad_transposed))),
            output.dtype(),
        );
        let grads = (output * grad).sum().backward();
        download(
            filters
                .grad(&grads)
                .ok_or("the backward pass returned no gradient")?,
        )
    };
    Ok(vec![
        ("convolution", observe(format, &mut forward)?),
        ("images' gradient", observe(format, &mut images)?),
        ("filters' gradient", observe(format, &mut filters)?),
    ])
}

/// Transposes a matrix of [`EDGE`] × [`EDGE`].
fn transpose(matrix: &[f64]) -> Vec<f64> {
    (0..EDGE * EDGE)
        .map(|at| matrix[at % EDGE * EDGE + at / EDGE])
        .collect()
}
