//! BERT for sequence classification and masked language modelling (arXiv 1810.04805), the architecture of `bert-base-uncased`.
//!
//! Post-norm encoder blocks with learned positions and exact GELU. All tokens have token type 0. The classification head applies a linear layer
//! and tanh to the first token. The language-model head transforms the masked positions and multiplies them by the embedding table.

use burn::tensor::{Device, Tensor, activation};
use mantissa_core::BertSize;

use super::{Batch, F32Layers, Init, Network, ParameterSpec, Pass, Specs, TextHead, distilbert::TextInput};
use crate::{data::Tokenized, weights::Naming};

/// Standard deviation of initial weights, as in transformers.
const INIT_DEVIATION: f64 = 0.02;
/// Number of token types: first and second sentence.
const TYPES: usize = 2;

/// Name of the embedding table.
const EMBEDDINGS: &str = "bert.embeddings.word_embeddings.weight";
/// Name prefix of the layers that transform hidden states before the decoder.
const TRANSFORM: &str = "cls.predictions.transform";
/// Name of the decoder, which is tied to the embedding table.
const DECODER: &str = "cls.predictions.decoder";
/// Name of the decoder's bias.
const DECODER_BIAS: &str = "cls.predictions.bias";

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct Bert {
    size: BertSize,
    vocabulary: usize,
    head: TextHead,
    f32_layers: F32Layers,
}

impl Bert {
    pub(crate) fn new(size: BertSize, vocabulary: u32, head: TextHead) -> Self {
        Self {
            size,
            vocabulary: vocabulary as usize,
            head,
            f32_layers: F32Layers::default(),
        }
    }
}

impl Network for Bert {
    type Part = Tokenized;
    type Input = TextInput;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (dim, inner) = (
            self.size.hidden_size as usize,
            self.size.intermediate_size as usize,
        );
        let mut specs = Specs::default();
        let normal = Init::Normal(INIT_DEVIATION);
        let embeddings = "bert.embeddings";
        let token_init = Init::NormalZeroFirstRow(INIT_DEVIATION);
        specs.add(EMBEDDINGS, &[self.vocabulary, dim], token_init);
        let positions = self.size.max_position_embeddings as usize;
        specs.add(
            format!("{embeddings}.position_embeddings.weight"),
            &[positions, dim],
            normal,
        );
        specs.add(
            format!("{embeddings}.token_type_embeddings.weight"),
            &[TYPES, dim],
            normal,
        );
        specs.norm(&format!("{embeddings}.LayerNorm"), dim);
        for layer in (0..self.size.num_hidden_layers).map(layer_name) {
            for part in ["self.query", "self.key", "self.value", "output.dense"] {
                specs.linear(&format!("{layer}.attention.{part}"), &[dim, dim], normal);
            }
            specs.linear(&format!("{layer}.intermediate.dense"), &[inner, dim], normal);
            specs.linear(&format!("{layer}.output.dense"), &[dim, inner], normal);
        }
        match self.head {
            TextHead::Classes(classes) => {
                specs.linear("bert.pooler.dense", &[dim, dim], normal);
                specs.linear("classifier", &[classes as usize, dim], normal);
            }
            TextHead::Tokens => specs.linear(&format!("{TRANSFORM}.dense"), &[dim, dim], normal),
        }
        for layer in (0..self.size.num_hidden_layers).map(layer_name) {
            specs.norm(&format!("{layer}.attention.output.LayerNorm"), dim);
            specs.norm(&format!("{layer}.output.LayerNorm"), dim);
        }
        if self.head == TextHead::Tokens {
            specs.norm(&format!("{TRANSFORM}.LayerNorm"), dim);
            specs.add(DECODER_BIAS, &[self.vocabulary], Init::Zeros);
        }
        specs.0
    }

    fn naming(&self) -> Naming {
        let prefix = "bert.";
        match self.head {
            TextHead::Classes(_) => Naming {
                prefix,
                head: &["classifier."],
                classes: Some("classifier."),
                ignored: &["cls.", "position_ids"],
            },
            // Ignore the tensors of the decoder, which duplicate the embedding table and the bias.
            TextHead::Tokens => Naming {
                prefix,
                head: &["cls.predictions."],
                classes: None,
                ignored: &[
                    "cls.predictions.decoder.",
                    "cls.seq_relationship.",
                    "pooler.",
                    "classifier.",
                    "position_ids",
                ],
            },
        }
    }

    fn is_matmul_weight(name: &str) -> bool {
        !["embeddings", "LayerNorm", DECODER_BIAS]
            .iter()
            .any(|other| name.contains(other))
    }

    fn attention_layers(&self) -> Vec<String> {
        let attention = |layer| format!("{}.attention", layer_name(layer));
        (0..self.size.num_hidden_layers).map(attention).collect()
    }

    fn tied_head(&self) -> Option<(&'static str, &'static str)> {
        (self.head == TextHead::Tokens).then_some((DECODER, EMBEDDINGS))
    }

    fn f32_layers(&self) -> &F32Layers {
        &self.f32_layers
    }

    fn with_f32_layers(self, f32_layers: F32Layers) -> Self {
        Self { f32_layers, ..self }
    }

    fn upload(batch: &Batch<Self>, device: &Device) -> TextInput {
        TextInput::upload(batch, device)
    }

    fn block_count(&self) -> u32 {
        self.size.num_hidden_layers
    }

    fn embed(&self, pass: &Pass<'_>, input: &TextInput) -> Tensor<2> {
        let [n, sequence] = input.ids.dims();
        let table = |kind: &str| {
            pass.parameters
                .matrix(&format!("bert.embeddings.{kind}_embeddings.weight"))
        };
        let tokens = pass
            .compute
            .embedding(table("word"), input.ids.clone().flatten(0, 1));
        let first = pass
            .compute
            .repeated(table("token_type").narrow(0, 0, 1), n * sequence);
        let positions = pass.compute.repeated(table("position").narrow(0, 0, sequence), n);
        let typed = pass.compute.add(tokens, first.flatten(0, 1));
        let rows = pass.compute.add(typed, positions.flatten(0, 1));
        let normal = pass.layer_norm(rows, "bert.embeddings.LayerNorm", self.size.layer_norm_eps);
        pass.dropout(normal, self.size.hidden_dropout_prob)
    }

    fn block(&self, pass: &Pass<'_>, block: u32, input: &TextInput, hidden: Tensor<2>) -> Tensor<2> {
        let layer = layer_name(block);
        let (compute, size) = (pass.compute, &self.size);
        let projections = ["query", "key", "value"].map(|part| format!("{layer}.attention.self.{part}"));
        let name = format!("{layer}.attention");
        let heads = size.num_attention_heads as usize;
        let options = (name.as_str(), heads, size.attention_probs_dropout_prob);
        let mixed = pass.attention(&hidden, projections, options, &input.padding);
        let attended = pass.linear(mixed, &format!("{name}.output.dense"));
        let attended = pass.dropout(attended, size.hidden_dropout_prob);
        let name = format!("{name}.output.LayerNorm");
        let hidden = pass.layer_norm(compute.add(attended, hidden), &name, self.size.layer_norm_eps);
        let [first, activation, second] = ["intermediate.dense", "intermediate.activation", "output.dense"]
            .map(|part| format!("{layer}.{part}"));
        let output = pass.feed_forward(hidden.clone(), &first, &activation, &second);
        let output = pass.dropout(output, size.hidden_dropout_prob);
        let name = format!("{layer}.output.LayerNorm");
        pass.layer_norm(compute.add(output, hidden), &name, self.size.layer_norm_eps)
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &TextInput) -> Tensor<2> {
        match self.head {
            TextHead::Classes(_) => self.class(pass, hidden, input.ids.dims()),
            TextHead::Tokens => token_logits(
                pass,
                pass.gather_rows(hidden, &input.rows),
                self.size.layer_norm_eps,
            ),
        }
    }
}

/// Hidden states have the shape `[n · sequence, dim]`, so that every linear layer is one matmul.
impl Bert {
    /// Returns the class logits, computed from the first token of each text.
    fn class(&self, pass: &Pass<'_>, hidden: Tensor<2>, [n, sequence]: [usize; 2]) -> Tensor<2> {
        let first = hidden
            .reshape([n, sequence, self.size.hidden_size as usize])
            .narrow(1, 0, 1)
            .squeeze_dim(1);
        let pooled = activation::tanh(pass.linear(first, "bert.pooler.dense"));
        pass.linear(pass.dropout(pooled, self.size.hidden_dropout_prob), "classifier")
    }
}

/// Returns the logits of all tokens of the vocabulary, computed from hidden states `[positions, dim]`.
fn token_logits(pass: &Pass<'_>, hidden: Tensor<2>, epsilon: f64) -> Tensor<2> {
    let [dense, activation, norm] =
        ["dense", "transform_act_fn", "LayerNorm"].map(|part| format!("{TRANSFORM}.{part}"));
    let transformed = pass.matmul_compute(&dense).gelu(pass.linear(hidden, &dense));
    let normal = pass.layer_norm(pass.record(&activation, transformed), &norm, epsilon);
    let (table, bias) = (
        pass.parameters.matrix(EMBEDDINGS),
        pass.parameters.vector(DECODER_BIAS),
    );
    pass.record(DECODER, pass.matmul_compute(DECODER).linear(normal, table, bias))
}

fn layer_name(layer: u32) -> String {
    format!("bert.encoder.layer.{layer}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(head: TextHead) -> Bert {
        Bert::new(BertSize::BASE, 30_522, head)
    }

    #[test]
    fn published_model_has_the_expected_parameter_counts() {
        let count = |head| -> usize {
            let specs = base(head).parameters().into_iter();
            specs.map(|spec| spec.shape.iter().product::<usize>()).sum()
        };
        // Numbers of parameters as reported by Hugging Face.
        assert_eq!(count(TextHead::Classes(2)), 109_483_778);
        assert_eq!(count(TextHead::Tokens), 109_514_298);
    }

    #[test]
    fn tied_decoder_is_a_layer_but_its_table_is_not_cast() {
        let model = base(TextHead::Tokens);
        let layers = model.layers();
        // Six layers with weights and the attention in each block, the transform and the decoder.
        assert_eq!(layers.len(), 12 * 7 + 2);
        assert!(layers.iter().any(|layer| layer == DECODER));
        // The decoder casts the embedding table at its matmul, so forward passes do not read a low-precision copy of the table.
        assert!(!model.multiplies(EMBEDDINGS) && !model.multiplies(DECODER_BIAS));
        assert!(
            !base(TextHead::Classes(2))
                .layers()
                .iter()
                .any(|layer| layer.starts_with("cls."))
        );
    }
}
