//! DistilBERT for sequence classification (arXiv 1910.01108), the architecture of `distilbert-base-uncased`.
//!
//! Post-norm encoder blocks with learned positions and exact GELU. The head reads the first token. Dropout is applied as in transformers: after the
//! embeddings' norm, to the attention weights, after the feed-forward layer, and before the classifier. Hidden states have the shape
//! `[n · sequence, dim]`, so that every linear layer is one matmul.

use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use mantissa_core::DistilBertSize;

use super::{Batch, F32Layers, Init, Network, ParameterSpec, Pass, Specs, causal::upload_rows};
use crate::{
    data::{TokenBatch, Tokenized},
    weights::Naming,
};

/// Epsilon of every layer norm, as in transformers.
const NORM_EPSILON: f64 = 1e-12;
/// Standard deviation of initial weights, as in transformers.
const INIT_DEVIATION: f64 = 0.02;

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct DistilBert {
    size: DistilBertSize,
    vocabulary: usize,
    classes: usize,
    f32_layers: F32Layers,
}

/// Padded micro-batch.
#[derive(Debug, Clone)]
pub(crate) struct TextInput {
    /// Token ids, `[n, sequence]`.
    pub ids: Tensor<2, Int>,
    /// True for padding tokens, `[n, sequence]`.
    pub padding: Tensor<2, Bool>,
    /// Rows of hidden states `[n · sequence, width]` for which the head computes logits.
    pub rows: Tensor<1, Int>,
}

impl TextInput {
    /// Uploads a micro-batch to a device.
    pub(super) fn upload(batch: &TokenBatch, device: &Device) -> Self {
        let n = batch.lengths.len();
        let sequence = batch.ids.len() / n;
        let ids = Tensor::from_data(TensorData::new(batch.ids.clone(), [n, sequence]), device);
        let lengths = batch.lengths.iter();
        let padding = lengths
            .flat_map(|&length| (0..sequence as i32).map(move |position| position >= length))
            .collect();
        let padding = Tensor::from_data(TensorData::new::<bool, _>(padding, [n, sequence]), device);
        Self {
            ids,
            padding,
            rows: upload_rows(batch, device),
        }
    }
}

impl DistilBert {
    pub(crate) fn new(size: DistilBertSize, vocabulary: u32, classes: u32) -> Self {
        Self {
            size,
            vocabulary: vocabulary as usize,
            classes: classes as usize,
            f32_layers: F32Layers::default(),
        }
    }
}

impl Network for DistilBert {
    type Part = Tokenized;
    type Input = TextInput;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (dim, inner) = (self.size.dim as usize, self.size.hidden_dim as usize);
        let mut specs = Specs::default();
        let normal = Init::Normal(INIT_DEVIATION);
        let embeddings = "distilbert.embeddings";
        let token_init = Init::NormalZeroFirstRow(INIT_DEVIATION);
        specs.add(
            format!("{embeddings}.word_embeddings.weight"),
            &[self.vocabulary, dim],
            token_init,
        );
        let positions = self.size.max_position_embeddings as usize;
        specs.add(
            format!("{embeddings}.position_embeddings.weight"),
            &[positions, dim],
            normal,
        );
        specs.norm(&format!("{embeddings}.LayerNorm"), dim);
        for layer in (0..self.size.n_layers).map(layer_name) {
            for part in ["q_lin", "k_lin", "v_lin", "out_lin"] {
                specs.linear(&format!("{layer}.attention.{part}"), &[dim, dim], normal);
            }
            specs.norm(&format!("{layer}.sa_layer_norm"), dim);
            specs.linear(&format!("{layer}.ffn.lin1"), &[inner, dim], normal);
            specs.linear(&format!("{layer}.ffn.lin2"), &[dim, inner], normal);
            specs.norm(&format!("{layer}.output_layer_norm"), dim);
        }
        specs.linear("pre_classifier", &[dim, dim], normal);
        specs.linear("classifier", &[self.classes, dim], normal);
        specs.0
    }

    fn naming(&self) -> Naming {
        Naming {
            prefix: "distilbert.",
            head: &["pre_classifier.", "classifier."],
            classes: Some("classifier."),
            ignored: &[
                "vocab_transform.",
                "vocab_layer_norm.",
                "vocab_projector.",
                "position_ids",
            ],
        }
    }

    fn is_matmul_weight(name: &str) -> bool {
        !["embeddings", "LayerNorm", "layer_norm"]
            .iter()
            .any(|other| name.contains(other))
    }

    fn attention_layers(&self) -> Vec<String> {
        let attention = |layer| format!("{}.attention", layer_name(layer));
        (0..self.size.n_layers).map(attention).collect()
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
        self.size.n_layers
    }

    fn embed(&self, pass: &Pass<'_>, input: &TextInput) -> Tensor<2> {
        let [n, sequence] = input.ids.dims();
        let table = pass
            .parameters
            .matrix("distilbert.embeddings.word_embeddings.weight");
        let positions = pass
            .parameters
            .matrix("distilbert.embeddings.position_embeddings.weight");
        let tokens = pass.compute.embedding(table, input.ids.clone().flatten(0, 1));
        let positions = pass.compute.repeated(positions.narrow(0, 0, sequence), n);
        let rows = pass.compute.add(tokens, positions.flatten(0, 1));
        let normal = pass.layer_norm(rows, "distilbert.embeddings.LayerNorm", NORM_EPSILON);
        pass.dropout(normal, self.size.dropout)
    }

    fn block(&self, pass: &Pass<'_>, block: u32, input: &TextInput, hidden: Tensor<2>) -> Tensor<2> {
        let layer = layer_name(block);
        let compute = pass.compute;
        let projections = ["q_lin", "k_lin", "v_lin"].map(|part| format!("{layer}.attention.{part}"));
        let name = format!("{layer}.attention");
        let options = (
            name.as_str(),
            self.size.n_heads as usize,
            self.size.attention_dropout,
        );
        let mixed = pass.attention(&hidden, projections, options, &input.padding);
        let attended = pass.linear(mixed, &format!("{name}.out_lin"));
        let name = format!("{layer}.sa_layer_norm");
        let hidden = pass.layer_norm(compute.add(attended, hidden), &name, NORM_EPSILON);
        let [first, activation, second] =
            ["lin1", "activation", "lin2"].map(|part| format!("{layer}.ffn.{part}"));
        let output = pass.feed_forward(hidden.clone(), &first, &activation, &second);
        let output = pass.dropout(output, self.size.dropout);
        let name = format!("{layer}.output_layer_norm");
        pass.layer_norm(compute.add(output, hidden), &name, NORM_EPSILON)
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &TextInput) -> Tensor<2> {
        let [n, sequence] = input.ids.dims();
        let first = hidden
            .reshape([n, sequence, self.size.dim as usize])
            .narrow(1, 0, 1)
            .squeeze_dim(1);
        let pooled = pass.relu(pass.linear(first, "pre_classifier"));
        pass.linear(pass.dropout(pooled, self.size.seq_classif_dropout), "classifier")
    }
}

fn layer_name(layer: u32) -> String {
    format!("distilbert.transformer.layer.{layer}")
}

#[cfg(test)]
mod tests {
    use mantissa_precision::Operation;

    use super::*;

    #[test]
    fn f32_operations_are_those_of_the_f32_layers() {
        let size = DistilBertSize {
            n_layers: 2,
            dim: 16,
            n_heads: 2,
            hidden_dim: 32,
            max_position_embeddings: 16,
            dropout: 0.0,
            attention_dropout: 0.0,
            seq_classif_dropout: 0.0,
        };
        let model = DistilBert::new(size, 1, 1);
        let kept = |patterns: &[&str]| {
            let patterns: Vec<String> = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
            let model = model.clone().keep_in_f32(&patterns).unwrap();
            model.f32_operations(Operation::FusedAttention)
        };
        assert_eq!(kept(&[]), []);
        assert_eq!(kept(&["classifier"]), [Operation::Matmul]);
        assert_eq!(
            kept(&["distilbert.transformer.layer.0.attention"]),
            [Operation::Matmul, Operation::FusedAttention]
        );
    }
}
