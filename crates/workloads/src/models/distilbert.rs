//! DistilBERT for sequence classification (arXiv 1910.01108), the architecture of `distilbert-base-uncased`.
//!
//! Post-norm encoder blocks with learnt positions and exact GELU; the head reads the first token. Dropout sits where
//! the reference has it: after the embeddings' norm, on the attention weights, after the feed-forward layer, and
//! before the classifier.

use std::cell::RefCell;

use burn::tensor::{Bool, Int, Tensor};
use mantissa_core::DistilBertSize;
use mantissa_precision::{Compute, PrecisionBackend, Tracked};

use super::{Init, Kept, ParameterSpec};

/// Epsilon of every layer norm, from the reference.
const NORM_EPSILON: f64 = 1e-12;
/// Standard deviation of initial weights, from the reference.
const INIT_DEVIATION: f64 = 0.02;

/// The model's shape.
#[derive(Debug, Clone)]
pub(crate) struct DistilBert {
    size: DistilBertSize,
    vocabulary: usize,
    classes: usize,
    kept: Kept,
}

/// A padded micro-batch.
#[derive(Debug, Clone)]
pub(crate) struct TextInput<B: PrecisionBackend> {
    /// Token ids, `[n, sequence]`.
    pub ids: Tensor<B, 2, Int>,
    /// True where a token is padding, `[n, sequence]`.
    pub padding: Tensor<B, 2, Bool>,
}

impl DistilBert {
    pub(crate) fn new(size: DistilBertSize, vocabulary: u32, classes: u32) -> Self {
        Self {
            size,
            vocabulary: vocabulary as usize,
            classes: classes as usize,
            kept: Kept::default(),
        }
    }

    /// The same with layers that a mixed setting keeps in f32.
    ///
    /// # Errors
    /// A pattern that is the name of no layer.
    pub(crate) fn keeping(self, patterns: &[String]) -> Result<Self, String> {
        let kept = Kept::new(patterns, &self.layers())?;
        Ok(Self { kept, ..self })
    }

    /// The same with every layer but one in f32.
    pub(crate) fn keeping_all_but(self, layer: &str) -> Self {
        let kept = Kept::all_but(layer, &self.layers());
        Self { kept, ..self }
    }

    /// The layers that multiply, by name.
    pub(crate) fn layers(&self) -> Vec<String> {
        let multiplied = |spec: ParameterSpec| {
            let layer = spec.name.strip_suffix(".weight")?;
            is_multiplied(&spec.name).then(|| layer.to_owned())
        };
        self.parameters().into_iter().filter_map(multiplied).collect()
    }

    /// Every parameter, in Hugging Face's names and order.
    pub(crate) fn parameters(&self) -> Vec<ParameterSpec> {
        let (dim, hidden) = (self.size.dim as usize, self.size.hidden_dim as usize);
        let mut specs = vec![];
        let mut add = |name: String, shape: &[usize], init| {
            specs.push(ParameterSpec {
                name,
                shape: shape.to_vec(),
                init,
            });
        };
        let normal = Init::Normal(INIT_DEVIATION);
        let embeddings = "distilbert.embeddings";
        let words = Init::NormalZeroFirstRow(INIT_DEVIATION);
        add(
            format!("{embeddings}.word_embeddings.weight"),
            &[self.vocabulary, dim],
            words,
        );
        let positions = self.size.max_position_embeddings as usize;
        add(
            format!("{embeddings}.position_embeddings.weight"),
            &[positions, dim],
            normal,
        );
        add(format!("{embeddings}.LayerNorm.weight"), &[dim], Init::Ones);
        add(format!("{embeddings}.LayerNorm.bias"), &[dim], Init::Zeros);
        for layer in 0..self.size.n_layers {
            let layer = layer_name(layer);
            for part in ["q_lin", "k_lin", "v_lin", "out_lin"] {
                add(format!("{layer}.attention.{part}.weight"), &[dim, dim], normal);
                add(format!("{layer}.attention.{part}.bias"), &[dim], Init::Zeros);
            }
            add(format!("{layer}.sa_layer_norm.weight"), &[dim], Init::Ones);
            add(format!("{layer}.sa_layer_norm.bias"), &[dim], Init::Zeros);
            add(format!("{layer}.ffn.lin1.weight"), &[hidden, dim], normal);
            add(format!("{layer}.ffn.lin1.bias"), &[hidden], Init::Zeros);
            add(format!("{layer}.ffn.lin2.weight"), &[dim, hidden], normal);
            add(format!("{layer}.ffn.lin2.bias"), &[dim], Init::Zeros);
            add(format!("{layer}.output_layer_norm.weight"), &[dim], Init::Ones);
            add(format!("{layer}.output_layer_norm.bias"), &[dim], Init::Zeros);
        }
        add("pre_classifier.weight".into(), &[dim, dim], normal);
        add("pre_classifier.bias".into(), &[dim], Init::Zeros);
        add("classifier.weight".into(), &[self.classes, dim], normal);
        add("classifier.bias".into(), &[self.classes], Init::Zeros);
        specs
    }

    /// Whether a forward pass reads the parameter of this name in the format of products: under a mixed setting, a
    /// low-precision copy of it.
    pub(crate) fn multiplies(&self, name: &str) -> bool {
        let layer = name.rsplit_once('.').map_or(name, |(layer, _)| layer);
        is_multiplied(name) && !self.kept.contains(layer)
    }

    /// Logits `[n, classes]`. Dropout is drawn from the backend's generator if `training`; `before` is told of every
    /// segment, and of the head as the one behind the last.
    pub(crate) fn forward<B: PrecisionBackend>(
        &self,
        parameters: &Tracked<B>,
        input: &TextInput<B>,
        compute: &Compute,
        training: bool,
        mut before: impl FnMut(u32),
    ) -> Tensor<B, 2> {
        let pass = self.pass(parameters, compute, training);
        before(0);
        let mut hidden = pass.segment(0, input, None);
        for segment in 1..self.segments() {
            before(segment);
            hidden = pass.segment(segment, input, Some(hidden));
        }
        before(self.segments());
        pass.head(hidden, input)
    }

    /// Parts of the model one after the other, each of which needs of the ones before it their last hidden states alone: the
    /// embeddings and the blocks.
    pub(crate) fn segments(&self) -> u32 {
        1 + self.size.n_layers
    }

    /// A pass over the model, segment by segment.
    pub(crate) fn pass<'a, B: PrecisionBackend>(
        &'a self,
        parameters: &'a Tracked<B>,
        compute: &'a Compute,
        training: bool,
    ) -> Pass<'a, B> {
        Pass {
            size: &self.size,
            parameters,
            compute,
            kept: &self.kept,
            training,
            seen: None,
        }
    }
}

/// Whether a linear layer reads the parameter of this name.
fn is_multiplied(name: &str) -> bool {
    !["embeddings", "LayerNorm", "layer_norm"]
        .iter()
        .any(|other| name.contains(other))
}

fn layer_name(layer: u32) -> String {
    format!("distilbert.transformer.layer.{layer}")
}

/// One forward pass. Hidden states are `[n · sequence, dim]`, so that every linear layer is one matrix product.
pub(crate) struct Pass<'a, B: PrecisionBackend> {
    size: &'a DistilBertSize,
    parameters: &'a Tracked<B>,
    compute: &'a Compute,
    kept: &'a Kept,
    training: bool,
    seen: Option<&'a Seen<B>>,
}

/// Outputs of layers by name, in the order in which they were made.
pub(crate) type Seen<B> = RefCell<Vec<(String, Tensor<B, 1>)>>;

impl<'a, B: PrecisionBackend> Pass<'a, B> {
    /// The same, with the outputs of layers shown.
    pub(crate) fn seen_by(self, seen: &'a Seen<B>) -> Self {
        Self {
            seen: Some(seen),
            ..self
        }
    }

    fn show<const D: usize>(&self, name: &str, output: Tensor<B, D>) -> Tensor<B, D> {
        if let Some(seen) = self.seen {
            let count = output.shape().num_elements();
            seen.borrow_mut()
                .push((name.to_owned(), output.clone().reshape([count])));
        }
        output
    }

    /// The hidden states behind a segment, from those before it; the first needs none.
    pub(crate) fn segment(
        &self,
        segment: u32,
        input: &TextInput<B>,
        hidden: Option<Tensor<B, 2>>,
    ) -> Tensor<B, 2> {
        match hidden {
            None => self.embed(input.ids.clone()),
            Some(hidden) => self.block(hidden, &layer_name(segment - 1), &input.padding),
        }
    }

    /// Logits `[n, classes]` from the hidden states behind the last segment.
    pub(crate) fn head(&self, hidden: Tensor<B, 2>, input: &TextInput<B>) -> Tensor<B, 2> {
        let [n, sequence] = input.ids.dims();
        let first = hidden
            .reshape([n, sequence, self.size.dim as usize])
            .narrow(1, 0, 1)
            .squeeze_dim(1);
        let pooled = burn::tensor::activation::relu(self.linear(first, "pre_classifier"));
        self.linear(self.dropout(pooled, self.size.seq_classif_dropout), "classifier")
    }

    /// How a layer multiplies.
    fn products(&self, layer: &str) -> Compute {
        if self.kept.contains(layer) {
            self.compute.in_f32()
        } else {
            *self.compute
        }
    }

    fn embed(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let [n, sequence] = ids.dims();
        let dim = self.size.dim as usize;
        let words = self
            .parameters
            .matrix("distilbert.embeddings.word_embeddings.weight");
        let positions = self
            .parameters
            .matrix("distilbert.embeddings.position_embeddings.weight");
        let words = words.select(0, ids.flatten(0, 1)).reshape([n, sequence, dim]);
        let sum = words + positions.narrow(0, 0, sequence).unsqueeze();
        let normal = self.layer_norm(
            sum.reshape([n * sequence, dim]),
            "distilbert.embeddings.LayerNorm",
        );
        self.dropout(normal, self.size.dropout)
    }

    fn block(&self, hidden: Tensor<B, 2>, layer: &str, padding: &Tensor<B, 2, Bool>) -> Tensor<B, 2> {
        let attended = self.attention(hidden.clone(), layer, padding);
        let hidden = self.layer_norm(
            self.compute.add(attended, hidden),
            &format!("{layer}.sa_layer_norm"),
        );
        let wide = self
            .compute
            .gelu(self.linear(hidden.clone(), &format!("{layer}.ffn.lin1")));
        let wide = self.show(&format!("{layer}.ffn.activation"), wide);
        let narrow = self.dropout(self.linear(wide, &format!("{layer}.ffn.lin2")), self.size.dropout);
        self.layer_norm(
            self.compute.add(narrow, hidden),
            &format!("{layer}.output_layer_norm"),
        )
    }

    fn attention(&self, hidden: Tensor<B, 2>, layer: &str, padding: &Tensor<B, 2, Bool>) -> Tensor<B, 2> {
        let [n, sequence] = padding.dims();
        let heads = self.size.n_heads as usize;
        let width = self.size.dim as usize / heads;
        let split = |part: &str| {
            let projected = self.linear(hidden.clone(), &format!("{layer}.attention.{part}"));
            projected.reshape([n, sequence, heads, width]).swap_dims(1, 2)
        };
        let parts = [split("q_lin"), split("k_lin"), split("v_lin")];
        let dropout = if self.training {
            self.size.attention_dropout
        } else {
            0.0
        };
        let name = format!("{layer}.attention");
        let mixed = self.products(&name).attention(parts, padding, dropout);
        let mixed = self.show(&name, mixed);
        let joined = mixed.swap_dims(1, 2).reshape([n * sequence, heads * width]);
        self.linear(joined, &format!("{layer}.attention.out_lin"))
    }

    fn linear(&self, input: Tensor<B, 2>, name: &str) -> Tensor<B, 2> {
        let weight = self.parameters.matrix(&format!("{name}.weight"));
        let bias = self.parameters.vector(&format!("{name}.bias"));
        self.show(name, self.products(name).linear(input, weight, bias))
    }

    fn layer_norm(&self, input: Tensor<B, 2>, name: &str) -> Tensor<B, 2> {
        let (scale, shift) = (format!("{name}.weight"), format!("{name}.bias"));
        let normal = self.compute.layer_norm(
            input,
            self.parameters.vector(&scale),
            self.parameters.vector(&shift),
            NORM_EPSILON,
        );
        self.show(name, normal)
    }

    fn dropout<const D: usize>(&self, input: Tensor<B, D>, share: f64) -> Tensor<B, D> {
        if self.training {
            self.compute.dropout(input, share)
        } else {
            input
        }
    }
}
