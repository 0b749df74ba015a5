//! One forward pass over a model: the layers that models share, each in the precision that its name has.

use std::cell::RefCell;

use burn::tensor::{Tensor, activation::relu};
use mantissa_precision::{Compute, Moments, PrecisionBackend, Tracked};

use super::Kept;

/// Outputs of layers by name, in the order in which they were made.
pub(crate) type Seen<B> = RefCell<Vec<(String, Tensor<B, 1>)>>;

/// Moments of batch norms by name.
pub(crate) type Norms<B> = Vec<(String, Moments<B>)>;

/// What training does otherwise than testing.
pub(crate) enum Stage<'a, B: PrecisionBackend> {
    /// Elements are dropped. Batches are normalised by their own moments, which are noted.
    Training(&'a RefCell<Norms<B>>),
    /// Nothing is dropped. Batches are normalised by their own moments.
    Observing,
    /// Nothing is dropped. Batches are normalised by running statistics.
    Testing(&'a Norms<B>),
}

/// A forward pass: parameters, and how to compute with them.
pub(crate) struct Pass<'a, B: PrecisionBackend> {
    pub parameters: &'a Tracked<B>,
    pub compute: &'a Compute,
    kept: &'a Kept,
    stage: Stage<'a, B>,
    seen: Option<&'a Seen<B>>,
}

impl<'a, B: PrecisionBackend> Pass<'a, B> {
    pub(super) fn new(
        parameters: &'a Tracked<B>,
        compute: &'a Compute,
        kept: &'a Kept,
        stage: Stage<'a, B>,
    ) -> Self {
        Self {
            parameters,
            compute,
            kept,
            stage,
            seen: None,
        }
    }

    /// The same, with the outputs of layers shown.
    pub(crate) fn seen_by(self, seen: &'a Seen<B>) -> Self {
        Self {
            seen: Some(seen),
            ..self
        }
    }

    pub(super) fn show<const D: usize>(&self, name: &str, output: Tensor<B, D>) -> Tensor<B, D> {
        if let Some(seen) = self.seen {
            let count = output.shape().num_elements();
            seen.borrow_mut()
                .push((name.to_owned(), output.clone().reshape([count])));
        }
        output
    }

    /// How a layer multiplies.
    pub(super) fn products(&self, layer: &str) -> Compute {
        if self.kept.contains(layer) {
            self.compute.in_f32()
        } else {
            *self.compute
        }
    }

    /// A share of elements to drop, which is 0 outside of training.
    pub(super) fn dropped(&self, share: f64) -> f64 {
        match self.stage {
            Stage::Training(_) => share,
            Stage::Observing | Stage::Testing(_) => 0.0,
        }
    }

    pub(super) fn dropout<const D: usize>(&self, input: Tensor<B, D>, share: f64) -> Tensor<B, D> {
        self.compute.dropout(input, self.dropped(share))
    }

    /// A linear layer with its bias.
    pub(super) fn linear(&self, input: Tensor<B, 2>, name: &str) -> Tensor<B, 2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        let bias = self.parameters.vector(&format!("{name}.bias"));
        self.show(name, self.products(name).linear(input, weight, bias))
    }

    pub(super) fn layer_norm(&self, input: Tensor<B, 2>, name: &str, epsilon: f64) -> Tensor<B, 2> {
        let [scale, shift] = self.scale_and_shift(name);
        let normal = self.compute.layer_norm(input, scale, shift, epsilon);
        self.show(name, normal)
    }

    /// A convolution without a bias; its filters are `shape`.
    pub(super) fn convolution(
        &self,
        images: Tensor<B, 4>,
        name: &str,
        shape: [usize; 4],
        stride: usize,
        padding: usize,
    ) -> Tensor<B, 4> {
        let filters = self.parameters.vector(&format!("{name}.weight")).reshape(shape);
        let output = self.products(name).convolution(images, filters, stride, padding);
        self.show(name, output)
    }

    pub(super) fn batch_norm(&self, images: Tensor<B, 4>, name: &str, epsilon: f64) -> Tensor<B, 4> {
        let [scale, shift] = self.scale_and_shift(name);
        let normal = match &self.stage {
            Stage::Testing(running) => {
                let mut norms = running.iter();
                let (_, running) = norms
                    .find(|(norm, _)| norm == name)
                    .unwrap_or_else(|| panic!("no running statistics of `{name}`"));
                self.compute.batch_norm(images, scale, shift, running, epsilon)
            }
            Stage::Training(noted) => {
                let (normal, moments) = self.compute.batch_norm_training(images, scale, shift, epsilon);
                noted.borrow_mut().push((name.to_owned(), moments));
                normal
            }
            Stage::Observing => {
                let (normal, _) = self.compute.batch_norm_training(images, scale, shift, epsilon);
                normal
            }
        };
        self.show(name, normal)
    }

    pub(super) fn relu<const D: usize>(&self, input: Tensor<B, D>) -> Tensor<B, D> {
        relu(input)
    }

    fn scale_and_shift(&self, name: &str) -> [Tensor<B, 1>; 2] {
        ["weight", "bias"].map(|part| self.parameters.vector(&format!("{name}.{part}")))
    }
}
