//! Models: their parameters by name and shape, and their forward passes.

mod bert;
mod bloom;
mod cache;
mod causal;
mod distilbert;
mod gpt2;
mod imagenet_resnet;
mod kept;
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
pub(crate) use cache::KvCache;
pub(crate) use causal::{CausalInput, TextHead};
pub(crate) use distilbert::DistilBert;
pub(crate) use gpt2::Gpt2;
pub(crate) use imagenet_resnet::ImageNetResNet;
pub(crate) use kept::Kept;
pub(crate) use llama::Llama;
pub(crate) use pass::{Norms, Pass, Seen, Stage};
pub(crate) use resnet::ResNet;
pub(crate) use vit::Vit;

/// A model that says a class, or a word, of each thing that it is asked for, as the trainer sees it: segments one after the other, each of which needs of the ones before it
/// their last hidden states alone, and a head. Hidden states between segments are matrices, a row a token or an image.
pub(crate) trait Network: Clone {
    /// The data that it takes.
    type Part: Part;
    /// A micro-batch on the device.
    type Input;
    /// Whether weights of four dimensions are the filters of convolutions. Patches of images may be multiplied as rows.
    const CONVOLVES: bool = true;

    /// Every parameter, in the names and the order of published checkpoints.
    fn parameters(&self) -> Vec<ParameterSpec>;

    /// What it starts from without a checkpoint.
    fn initial(&self, seed: u64) -> Box<dyn Iterator<Item = Weight> + '_> {
        Box::new(weights::initial(self.parameters(), seed))
    }

    /// What published checkpoints call things.
    fn naming(&self) -> Naming {
        Naming::default()
    }

    /// Whether the parameter of this name belongs to a layer that multiplies.
    fn is_multiplied(name: &str) -> bool;

    /// Layers that a mixed setting keeps in f32.
    fn kept(&self) -> &Kept;

    /// The same with other layers kept.
    fn with_kept(self, kept: Kept) -> Self;

    /// Batch norms by name, with their channels.
    fn norms(&self) -> Vec<(String, usize)> {
        vec![]
    }

    /// Whether elements are dropped at random in training.
    fn drops(&self) -> bool {
        false
    }

    /// Puts a micro-batch on a device.
    fn upload(batch: &Batch<Self>, device: &Device) -> Self::Input;

    /// Number of blocks after the first segment.
    fn block_count(&self) -> u32;

    /// Returns the hidden states after the first segment.
    fn embed(&self, pass: &Pass<'_>, input: &Self::Input) -> Tensor<2>;

    /// Returns the hidden states after a block, from those before it.
    fn block(&self, pass: &Pass<'_>, block: u32, input: &Self::Input, hidden: Tensor<2>) -> Tensor<2>;

    /// Number of segments: one before the blocks, and one per block.
    fn segments(&self) -> u32 {
        1 + self.block_count()
    }

    /// The hidden states behind a segment, from those before it; the first needs none.
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

    /// Logits `[labels, classes]` from the hidden states behind the last segment: a row for every label of a micro-batch.
    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &Self::Input) -> Tensor<2>;

    /// The same with layers that a mixed setting keeps in f32.
    ///
    /// # Errors
    /// A pattern that is the name of no layer.
    fn keeping(self, patterns: &[String]) -> Result<Self, String> {
        let kept = Kept::new(patterns, &self.layers())?;
        Ok(self.with_kept(kept))
    }

    /// The same with every layer but one in f32.
    fn keeping_all_but(self, layer: &str) -> Self {
        self.with_kept(Kept::AllBut(layer.to_owned()))
    }

    /// The layers that multiply, by name: those with a matrix of weights, and those without.
    fn layers(&self) -> Vec<String> {
        let multiplied = |spec: ParameterSpec| {
            let layer = spec.name.strip_suffix(".weight")?;
            Self::is_multiplied(&spec.name).then(|| layer.to_owned())
        };
        let weighted = self.parameters().into_iter().filter_map(multiplied);
        let tied = self.tied_head().map(|(head, _)| head.to_owned());
        weighted.chain(self.weightless()).chain(tied).collect()
    }

    /// What the layers that are kept in f32 do.
    fn kept_operations(&self, attention: Operation) -> Vec<Operation> {
        let weighted = self.parameters().into_iter().filter_map(|spec| {
            let layer = spec.name.strip_suffix(".weight")?;
            let kept = Self::is_multiplied(&spec.name) && self.kept().contains(layer);
            kept.then_some(match spec.shape.len() {
                4 if Self::CONVOLVES => Operation::Convolution,
                _ => Operation::Matmul,
            })
        });
        let weightless = self.weightless().into_iter();
        let weightless = weightless.filter(|name| self.kept().contains(name));
        let tied = self.tied_head().filter(|(head, _)| self.kept().contains(head));
        let tied = tied.map(|_| Operation::Matmul);
        let mut all = vec![];
        for operation in weighted.chain(weightless.map(|_| attention)).chain(tied) {
            if !all.contains(&operation) {
                all.push(operation);
            }
        }
        all
    }

    /// What multiplies hidden states with each other, by name.
    fn weightless(&self) -> Vec<String> {
        vec![]
    }

    /// What multiplies hidden states with the table of words, by its name and that of the table; none where the head has weights
    /// of its own.
    fn tied_head(&self) -> Option<(&'static str, &'static str)> {
        None
    }

    /// Whether a forward pass reads the parameter of this name in the format of products: under a mixed setting, a
    /// low-precision copy of it.
    fn multiplies(&self, name: &str) -> bool {
        let layer = name.rsplit_once('.').map_or(name, |(layer, _)| layer);
        Self::is_multiplied(name) && !self.kept().contains(layer)
    }

    /// A pass over the model, segment by segment.
    fn pass<'a>(&'a self, parameters: &'a Tracked, compute: &'a Compute, stage: Stage<'a>) -> Pass<'a> {
        Pass::new(parameters, compute, self.kept(), stage)
    }

    /// Logits `[labels, classes]`. Dropout is drawn from the backend's generator in training; `before` is told of every
    /// segment, and of the head as the one behind the last.
    fn forward(&self, pass: &Pass<'_>, input: &Self::Input, mut before: impl FnMut(u32)) -> Tensor<2> {
        before(0);
        let mut hidden = self.segment(pass, 0, input, None);
        for segment in 1..self.segments() {
            before(segment);
            hidden = self.segment(pass, segment, input, Some(hidden));
        }
        before(self.segments());
        self.head(pass, hidden, input)
    }
}

/// Some examples of a model's data, as the host holds them.
pub(crate) type Batch<M> = <<M as Network>::Part as Part>::Batch;

/// A parameter of a model: name as in its published checkpoints, and how it starts without one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParameterSpec {
    /// Name in checkpoints.
    pub name: String,
    /// Shape, row-major.
    pub shape: Vec<usize>,
    /// Initial values.
    pub init: Init,
}

/// The parameters of a model, in the order of its checkpoints.
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

    /// A layer with weights `[outputs, …]` and biases `[outputs]`, which start at zero.
    fn linear(&mut self, layer: &str, shape: &[usize], init: Init) {
        self.add(format!("{layer}.weight"), shape, init);
        self.add(format!("{layer}.bias"), &shape[..1], Init::Zeros);
    }

    /// A norm with a scale and a shift.
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
    /// The same, with the first row zero: the embedding of the padding token.
    NormalZeroFirstRow(f64),
    /// All zero.
    Zeros,
    /// All one.
    Ones,
}
