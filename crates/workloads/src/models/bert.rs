//! BERT for sequence classification (arXiv 1810.04805), the architecture of `bert-base-uncased`.
//!
//! Post-norm encoder blocks with learnt positions and exact GELU. Every token is of the first type. The head reads the
//! first token through a layer with a hyperbolic tangent.

use burn::tensor::{Bool, Int, Tensor, activation};
use mantissa_core::BertSize;
use mantissa_precision::PrecisionBackend;

use super::{Batch, Init, Kept, Network, ParameterSpec, Pass, distilbert::TextInput};
use crate::{data::Tokenized, weights::Naming};

/// Epsilon of every layer norm, from the reference.
const NORM_EPSILON: f64 = 1e-12;
/// Standard deviation of initial weights, from the reference.
const INIT_DEVIATION: f64 = 0.02;
/// Types of tokens: first and second sentence.
const TYPES: usize = 2;

/// The model's shape.
#[derive(Debug, Clone)]
pub(crate) struct Bert {
    size: BertSize,
    vocabulary: usize,
    classes: usize,
    kept: Kept,
}

impl Bert {
    pub(crate) fn new(size: BertSize, vocabulary: u32, classes: u32) -> Self {
        Self {
            size,
            vocabulary: vocabulary as usize,
            classes: classes as usize,
            kept: Kept::default(),
        }
    }
}

impl Network for Bert {
    type Part = Tokenized;
    type Input<B: PrecisionBackend> = TextInput<B>;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (dim, inner) = (
            self.size.hidden_size as usize,
            self.size.intermediate_size as usize,
        );
        let mut specs = vec![];
        let mut add = |name: String, shape: &[usize], init| {
            specs.push(ParameterSpec {
                name,
                shape: shape.to_vec(),
                init,
            });
        };
        let normal = Init::Normal(INIT_DEVIATION);
        let embeddings = "bert.embeddings";
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
        add(
            format!("{embeddings}.token_type_embeddings.weight"),
            &[TYPES, dim],
            normal,
        );
        add(format!("{embeddings}.LayerNorm.weight"), &[dim], Init::Ones);
        add(format!("{embeddings}.LayerNorm.bias"), &[dim], Init::Zeros);
        let mut linear = |name: String, shape: &[usize]| {
            add(format!("{name}.weight"), shape, normal);
            add(format!("{name}.bias"), &shape[..1], Init::Zeros);
        };
        for layer in 0..self.size.num_hidden_layers {
            let layer = layer_name(layer);
            for part in ["self.query", "self.key", "self.value", "output.dense"] {
                linear(format!("{layer}.attention.{part}"), &[dim, dim]);
            }
            linear(format!("{layer}.intermediate.dense"), &[inner, dim]);
            linear(format!("{layer}.output.dense"), &[dim, inner]);
        }
        linear("bert.pooler.dense".into(), &[dim, dim]);
        linear("classifier".into(), &[self.classes, dim]);
        for layer in 0..self.size.num_hidden_layers {
            for norm in ["attention.output.LayerNorm", "output.LayerNorm"] {
                let norm = format!("{}.{norm}", layer_name(layer));
                add(format!("{norm}.weight"), &[dim], Init::Ones);
                add(format!("{norm}.bias"), &[dim], Init::Zeros);
            }
        }
        specs
    }

    fn naming(&self) -> Naming {
        Naming {
            prefix: "bert.",
            head: &["classifier."],
            beside: &["cls.", "position_ids"],
        }
    }

    fn is_multiplied(name: &str) -> bool {
        !["embeddings", "LayerNorm"]
            .iter()
            .any(|other| name.contains(other))
    }

    fn drops(&self) -> bool {
        self.size.hidden_dropout_prob > 0.0 || self.size.attention_probs_dropout_prob > 0.0
    }

    fn weightless(&self) -> Vec<String> {
        let attention = |layer| format!("{}.attention", layer_name(layer));
        (0..self.size.num_hidden_layers).map(attention).collect()
    }

    fn kept(&self) -> &Kept {
        &self.kept
    }

    fn with_kept(self, kept: Kept) -> Self {
        Self { kept, ..self }
    }

    fn upload<B: PrecisionBackend>(batch: &Batch<Self>, device: &B::Device) -> TextInput<B> {
        TextInput::upload(batch, device)
    }

    /// The embeddings and the blocks.
    fn segments(&self) -> u32 {
        1 + self.size.num_hidden_layers
    }

    fn segment<B: PrecisionBackend>(
        &self,
        pass: &Pass<'_, B>,
        segment: u32,
        input: &TextInput<B>,
        hidden: Option<Tensor<B, 2>>,
    ) -> Tensor<B, 2> {
        match hidden {
            None => self.embed(pass, input.ids.clone()),
            Some(hidden) => self.block(pass, hidden, &layer_name(segment - 1), &input.padding),
        }
    }

    fn head<B: PrecisionBackend>(
        &self,
        pass: &Pass<'_, B>,
        hidden: Tensor<B, 2>,
        input: &TextInput<B>,
    ) -> Tensor<B, 2> {
        let [n, sequence] = input.ids.dims();
        let first = hidden
            .reshape([n, sequence, self.size.hidden_size as usize])
            .narrow(1, 0, 1)
            .squeeze_dim(1);
        let pooled = activation::tanh(pass.linear(first, "bert.pooler.dense"));
        pass.linear(pass.dropout(pooled, self.size.hidden_dropout_prob), "classifier")
    }
}

/// The parts of a pass. Hidden states are `[n · sequence, dim]`, so that every linear layer is one matrix product.
impl Bert {
    fn embed<B: PrecisionBackend>(&self, pass: &Pass<'_, B>, ids: Tensor<B, 2, Int>) -> Tensor<B, 2> {
        let [n, sequence] = ids.dims();
        let table = |kind: &str| {
            pass.parameters
                .matrix(&format!("bert.embeddings.{kind}_embeddings.weight"))
        };
        let words = pass.compute.embedding(table("word"), ids.flatten(0, 1));
        let first = pass
            .compute
            .repeated(table("token_type").narrow(0, 0, 1), n * sequence);
        let places = pass.compute.repeated(table("position").narrow(0, 0, sequence), n);
        let typed = pass.compute.add(words, first.flatten(0, 1));
        let rows = pass.compute.add(typed, places.flatten(0, 1));
        let normal = pass.layer_norm(rows, "bert.embeddings.LayerNorm", NORM_EPSILON);
        pass.dropout(normal, self.size.hidden_dropout_prob)
    }

    fn block<B: PrecisionBackend>(
        &self,
        pass: &Pass<'_, B>,
        hidden: Tensor<B, 2>,
        layer: &str,
        padding: &Tensor<B, 2, Bool>,
    ) -> Tensor<B, 2> {
        let (compute, size) = (pass.compute, &self.size);
        let projections = ["query", "key", "value"].map(|part| format!("{layer}.attention.self.{part}"));
        let name = format!("{layer}.attention");
        let heads = size.num_attention_heads as usize;
        let of_attention = (name.as_str(), heads, size.attention_probs_dropout_prob);
        let mixed = pass.attention(&hidden, projections, of_attention, padding);
        let attended = pass.linear(mixed, &format!("{name}.output.dense"));
        let attended = pass.dropout(attended, size.hidden_dropout_prob);
        let name = format!("{name}.output.LayerNorm");
        let hidden = pass.layer_norm(compute.add(attended, hidden), &name, NORM_EPSILON);
        let [first, activation, second] = ["intermediate.dense", "intermediate.activation", "output.dense"]
            .map(|part| format!("{layer}.{part}"));
        let narrow = pass.feed_forward(hidden.clone(), &first, &activation, &second);
        let narrow = pass.dropout(narrow, size.hidden_dropout_prob);
        let name = format!("{layer}.output.LayerNorm");
        pass.layer_norm(compute.add(narrow, hidden), &name, NORM_EPSILON)
    }
}

fn layer_name(layer: u32) -> String {
    format!("bert.encoder.layer.{layer}")
}
