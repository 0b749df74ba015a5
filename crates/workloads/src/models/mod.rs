//! Models: names and shapes of their parameters, and their forward passes.

mod bert;
mod bloom;
mod built_in;
mod cache;
mod causal;
mod distilbert;
mod f32_layers;
mod gpt2;
mod imagenet_resnet;
mod llama;
mod pass;
mod resnet;
mod vit;

use burn::tensor::{Device, Tensor};
use mantissa_inputs::weights::Weight;
use mantissa_precision::{Compute, Operation, Tracked};

use crate::{
    data::Part,
    weights::{self, Naming},
};

pub(crate) use bert::Bert;
pub(crate) use bloom::Bloom;
pub(crate) use built_in::{BuiltInModel, with_model, with_text_generator};
pub(crate) use cache::KvCache;
pub(crate) use causal::{CausalInput, TextHead};
pub(crate) use distilbert::DistilBert;
pub(crate) use f32_layers::F32Layers;
pub(crate) use gpt2::Gpt2;
pub(crate) use imagenet_resnet::ImageNetResNet;
pub(crate) use llama::Llama;
pub(crate) use pass::{LayerOutputs, Norms, Pass, Stage};
pub(crate) use resnet::ResNet;
pub(crate) use vit::Vit;

/// Model that predicts classes or tokens. A model is a sequence of segments and a head, so that the trainer can checkpoint segments. Each segment
/// depends only on the input and the hidden states of the previous segment. Hidden states are matrices with a row per token or image.
pub(crate) trait Network: Clone {
    /// Data of the model.
    type Part: Part;
    /// Micro-batch on the device.
    type Input;
    /// True if four-dimensional weights are filters of convolutions. False if the model computes a matmul with them, such as a patch
    /// projection.
    const CONVOLVES: bool = true;

    /// Returns all parameters, with the names and in the order of published checkpoints.
    fn parameters(&self) -> Vec<ParameterSpec>;

    /// Returns the initial weights without a checkpoint.
    fn initial(&self, seed: u64) -> Box<dyn Iterator<Item = Weight> + '_> {
        Box::new(weights::initial(self.parameters(), seed))
    }

    /// Returns the naming of published checkpoints.
    fn naming(&self) -> Naming {
        Naming::default()
    }

    /// Returns true if the parameter belongs to a layer that computes a matmul or convolution.
    fn is_matmul_weight(name: &str) -> bool;

    /// Returns the layers that a mixed setting keeps in f32.
    fn f32_layers(&self) -> &F32Layers;

    /// Replaces the set of layers that a mixed setting keeps in f32.
    fn with_f32_layers(self, f32_layers: F32Layers) -> Self;

    /// Returns the batch norms by name, with their channels.
    fn norms(&self) -> Vec<(String, usize)> {
        vec![]
    }

    /// Returns true if the model may draw from the random generator of the device.
    fn may_draw_random_numbers(&self) -> bool {
        false
    }

    /// Uploads a micro-batch to a device.
    fn upload(batch: &Batch<Self>, device: &Device) -> Self::Input;

    /// Returns the number of blocks after the first segment.
    fn block_count(&self) -> u32;

    /// Returns the hidden states after the first segment.
    fn embed(&self, pass: &Pass<'_>, input: &Self::Input) -> Tensor<2>;

    /// Returns the hidden states after a block. `hidden` are the hidden states before it.
    fn block(&self, pass: &Pass<'_>, block: u32, input: &Self::Input, hidden: Tensor<2>) -> Tensor<2>;

    /// Returns the number of segments: one before the blocks, and one per block.
    fn segments(&self) -> u32 {
        1 + self.block_count()
    }

    /// Returns the hidden states after a segment. `hidden` are the hidden states before it, `None` for the first segment.
    fn segment(
        &self,
        pass: &Pass<'_>,
        segment: u32,
        input: &Self::Input,
        hidden: Option<Tensor<2>>,
    ) -> Tensor<2> {
        match hidden {
            None => self.embed(pass, input),
            Some(hidden) => self.block(pass, segment - 1, input, hidden),
        }
    }

    /// Returns logits `[labels, classes]`, with a row per label of the micro-batch. `hidden` are the hidden states after the last segment.
    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &Self::Input) -> Tensor<2>;

    /// Returns the model with the layers that match `patterns` kept in f32.
    ///
    /// # Errors
    /// A pattern does not match any layer.
    fn keep_in_f32(self, patterns: &[String]) -> Result<Self, String> {
        let f32_layers = F32Layers::new(patterns, &self.layers())?;
        Ok(self.with_f32_layers(f32_layers))
    }

    /// Returns the model with every layer but one kept in f32.
    fn keep_in_f32_except(self, layer: &str) -> Self {
        self.with_f32_layers(F32Layers::AllBut(layer.to_owned()))
    }

    /// Returns the names of all layers that compute matmuls or convolutions, including attention, which has no weight matrix.
    fn layers(&self) -> Vec<String> {
        let multiplied = |spec: ParameterSpec| {
            let layer = spec.name.strip_suffix(".weight")?;
            Self::is_matmul_weight(&spec.name).then(|| layer.to_owned())
        };
        let weighted = self.parameters().into_iter().filter_map(multiplied);
        let tied = self.tied_head().map(|(head, _)| head.to_owned());
        weighted.chain(self.attention_layers()).chain(tied).collect()
    }

    /// Returns the operations of the layers that are kept in f32.
    fn f32_operations(&self, attention: Operation) -> Vec<Operation> {
        let weighted = self.parameters().into_iter().filter_map(|spec| {
            let layer = spec.name.strip_suffix(".weight")?;
            let kept = Self::is_matmul_weight(&spec.name) && self.f32_layers().contains(layer);
            kept.then_some(match spec.shape.len() {
                4 if Self::CONVOLVES => Operation::Convolution,
                _ => Operation::Matmul,
            })
        });
        let weightless = self.attention_layers().into_iter();
        let weightless = weightless.filter(|name| self.f32_layers().contains(name));
        let tied = self
            .tied_head()
            .filter(|(head, _)| self.f32_layers().contains(head));
        let tied = tied.map(|_| Operation::Matmul);
        let mut all = vec![];
        for operation in weighted.chain(weightless.map(|_| attention)).chain(tied) {
            if !all.contains(&operation) {
                all.push(operation);
            }
        }
        all
    }

    /// Returns the names of the attention layers. Their matmuls multiply hidden states by hidden states instead of by weights.
    fn attention_layers(&self) -> Vec<String> {
        vec![]
    }

    /// Returns the names of a tied head and of its embedding table, or `None` if the head has its own weights.
    fn tied_head(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Returns true if a forward pass reads the parameter in the matmul format. Under a mixed setting, the pass then reads a low-precision copy.
    fn multiplies(&self, name: &str) -> bool {
        let layer = name.rsplit_once('.').map_or(name, |(layer, _)| layer);
        Self::is_matmul_weight(name) && !self.f32_layers().contains(layer)
    }

    /// Creates a pass over the model.
    fn pass<'a>(&'a self, parameters: &'a Tracked, compute: &'a Compute, stage: Stage<'a>) -> Pass<'a> {
        Pass::new(parameters, compute, self.f32_layers(), stage)
    }

    /// Computes logits `[labels, classes]`.
    fn forward(&self, pass: &Pass<'_>, input: &Self::Input) -> Tensor<2> {
        pass.start_segment(0);
        let mut hidden = self.segment(pass, 0, input, None);
        for segment in 1..self.segments() {
            pass.start_segment(segment);
            hidden = self.segment(pass, segment, input, Some(hidden));
        }
        pass.start_segment(self.segments());
        self.head(pass, hidden, input)
    }
}

/// Batch of a model's examples in host memory.
pub(crate) type Batch<M> = <<M as Network>::Part as Part>::Batch;

/// Name, shape and initial values of a model parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParameterSpec {
    /// Name in checkpoints.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Initial values.
    pub init: Init,
}

/// Parameters of a model, in the order of its checkpoints.
#[derive(Default)]
struct Specs(Vec<ParameterSpec>);

impl Specs {
    fn add(&mut self, name: impl Into<String>, shape: &[usize], init: Init) {
        self.0.push(ParameterSpec {
            name: name.into(),
            shape: shape.to_vec(),
            init,
        });
    }

    /// Adds a linear layer with weights `[outputs, …]` and biases `[outputs]`, which are initially zero.
    fn linear(&mut self, layer: &str, shape: &[usize], init: Init) {
        self.add(format!("{layer}.weight"), shape, init);
        self.add(format!("{layer}.bias"), &shape[..1], Init::Zeros);
    }

    /// Adds a norm with a scale and a shift.
    fn norm(&mut self, layer: &str, width: usize) {
        self.add(format!("{layer}.weight"), &[width], Init::Ones);
        self.add(format!("{layer}.bias"), &[width], Init::Zeros);
    }
}

/// Initial values of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Init {
    /// Normal with mean 0 and this standard deviation.
    Normal(f64),
    /// Same as `Normal`, with the first row zero: the embedding of the padding token.
    NormalZeroFirstRow(f64),
    /// All zero.
    Zeros,
    /// All one.
    Ones,
}
