//! BLOOM (arXiv 2211.05100), the architecture of `bloom-560m`.
//!
//! Pre-norm causal blocks with ALiBi (arXiv 2108.12409) instead of position embeddings, and the tanh approximation of GELU. The head of a language
//! model shares the weights of the embedding table. The head of a classifier reads the last token. Dropout is applied as in transformers: to the
//! attention weights, to the output of the attention, and to the output of the feed-forward part.

use burn::tensor::{DType, Device, Tensor, TensorData};
use mantissa_core::{BloomSize, Gelu};
use mantissa_precision::transpose_heads;

use super::{Batch, CausalInput, F32Layers, Init, Network, ParameterSpec, Pass, Specs, TextHead};
use crate::{data::Tokenized, weights::Naming};

/// Standard deviation of initial weights, as in transformers.
const INIT_DEVIATION: f64 = 0.02;

/// Name of the embedding table.
const EMBEDDINGS: &str = "transformer.word_embeddings.weight";
/// Name of the norm after the embedding.
const FIRST_NORM: &str = "transformer.word_embeddings_layernorm";
/// Name of the last norm.
const LAST_NORM: &str = "transformer.ln_f";
/// Name of the language-model head, which is tied to the embedding table.
const HEAD: &str = "lm_head";
/// Name of the classification head.
const SCORE: &str = "score";

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct Bloom {
    size: BloomSize,
    head: TextHead,
    f32_layers: F32Layers,
}

impl Bloom {
    pub(crate) fn new(size: BloomSize, head: TextHead) -> Self {
        Self {
            size,
            head,
            f32_layers: F32Layers::default(),
        }
    }

    /// Returns the width of the residual stream.
    fn width(&self) -> usize {
        self.size.hidden_size as usize
    }
}

impl Network for Bloom {
    type Part = Tokenized;
    type Input = CausalInput;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (size, width) = (&self.size, self.width());
        let inner = 4 * width;
        let mut specs = Specs::default();
        let normal = Init::Normal(INIT_DEVIATION);
        specs.add(EMBEDDINGS, &[size.vocab_size as usize, width], normal);
        specs.norm(FIRST_NORM, width);
        for layer in (0..size.n_layer).map(layer_name) {
            specs.norm(&format!("{layer}.input_layernorm"), width);
            let attention = format!("{layer}.self_attention");
            specs.linear(
                &format!("{attention}.query_key_value"),
                &[3 * width, width],
                normal,
            );
            specs.linear(&format!("{attention}.dense"), &[width, width], normal);
            specs.norm(&format!("{layer}.post_attention_layernorm"), width);
            specs.linear(&format!("{layer}.mlp.dense_h_to_4h"), &[inner, width], normal);
            specs.linear(&format!("{layer}.mlp.dense_4h_to_h"), &[width, inner], normal);
        }
        specs.norm(LAST_NORM, width);
        if let TextHead::Classes(classes) = self.head {
            specs.add(format!("{SCORE}.weight"), &[classes as usize, width], normal);
        }
        specs.0
    }

    fn naming(&self) -> Naming {
        let prefix = "transformer.";
        match self.head {
            TextHead::Classes(_) => Naming {
                prefix,
                head: &["score."],
                classes: Some("score."),
                ignored: &["lm_head."],
            },
            // Ignore the language-model head, which duplicates the embedding table.
            TextHead::Tokens => Naming {
                prefix,
                head: &[],
                classes: None,
                ignored: &["lm_head.", "score."],
            },
        }
    }

    fn is_matmul_weight(name: &str) -> bool {
        !["word_embeddings", "layernorm", LAST_NORM]
            .iter()
            .any(|other| name.contains(other))
    }

    fn attention_layers(&self) -> Vec<String> {
        let layers = (0..self.size.n_layer).map(layer_name);
        layers.map(|layer| attention_name(&layer)).collect()
    }

    fn tied_head(&self) -> Option<(&'static str, &'static str)> {
        (self.head == TextHead::Tokens).then_some((HEAD, EMBEDDINGS))
    }

    fn f32_layers(&self) -> &F32Layers {
        &self.f32_layers
    }

    fn with_f32_layers(self, f32_layers: F32Layers) -> Self {
        Self { f32_layers, ..self }
    }

    fn upload(batch: &Batch<Self>, device: &Device) -> CausalInput {
        CausalInput::upload(batch, device)
    }

    fn block_count(&self) -> u32 {
        self.size.n_layer
    }

    fn embed(&self, pass: &Pass<'_>, input: &CausalInput) -> Tensor<2> {
        let table = pass.parameters.matrix(EMBEDDINGS);
        let tokens = pass.compute.embedding(table, input.ids.clone().flatten(0, 1));
        pass.layer_norm(tokens, FIRST_NORM, self.size.layer_norm_epsilon)
    }

    fn block(&self, pass: &Pass<'_>, block: u32, input: &CausalInput, hidden: Tensor<2>) -> Tensor<2> {
        let layer = layer_name(block);
        let (epsilon, dropout) = (self.size.layer_norm_epsilon, self.size.hidden_dropout);
        let normal = pass.layer_norm(hidden.clone(), &format!("{layer}.input_layernorm"), epsilon);
        let attended = self.attention(pass, normal, &attention_name(&layer), input.ids.dims());
        let hidden = pass.compute.add(pass.dropout(attended, dropout), hidden);
        let name = format!("{layer}.post_attention_layernorm");
        let normal = pass.layer_norm(hidden.clone(), &name, epsilon);
        let [first, activation, second] =
            ["dense_h_to_4h", "gelu_impl", "dense_4h_to_h"].map(|part| format!("{layer}.mlp.{part}"));
        let wide = pass.linear(normal, &first);
        // transformers truncates √(2/π) to eight digits, which makes no difference in f32.
        let wide = pass.matmul_compute(&first).gelu_as(Gelu::Tanh, wide);
        let output = pass.linear(pass.record(&activation, wide), &second);
        pass.compute.add(pass.dropout(output, dropout), hidden)
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &CausalInput) -> Tensor<2> {
        let normal = pass.layer_norm(hidden, LAST_NORM, self.size.layer_norm_epsilon);
        let rows = pass.gather_rows(normal, &input.rows);
        match self.head {
            TextHead::Classes(_) => pass.linear_without_bias(rows, SCORE),
            TextHead::Tokens => pass.tied_linear(rows, EMBEDDINGS, HEAD),
        }
    }
}

/// Hidden states have the shape `[n · sequence, width]`, so that every linear layer is one matmul.
impl Bloom {
    /// Computes causal self-attention of hidden states `[n · sequence, width]`, in the same shape.
    fn attention(
        &self,
        pass: &Pass<'_>,
        hidden: Tensor<2>,
        name: &str,
        [n, sequence]: [usize; 2],
    ) -> Tensor<2> {
        let kind = (hidden.device(), hidden.dtype());
        let bias = |keys| self.bias(keys, (&kind.0, kind.1));
        // Query, key and value of the first head, then those of the second, and so on.
        let fused = pass.linear(hidden, &format!("{name}.query_key_value"));
        let heads = self.size.n_head as usize;
        let fused = fused.reshape([n, sequence, heads, 3, self.width() / heads]);
        let parts = [0, 1, 2].map(|part| {
            let part: Tensor<4> = fused.clone().narrow(3, part, 1).squeeze_dim(3);
            transpose_heads(part)
        });
        let options = (name, self.size.attention_dropout);
        let mixed = pass.causal_attention(parts, options, Some(&bias));
        pass.linear(mixed, &format!("{name}.dense"))
    }

    /// Returns the ALiBi bias of the scores, `[heads, keys]`: the slope of the head times the position of the key. The position is equivalent to
    /// the distance, since a softmax ignores a constant that is added to all scores of a query.
    fn bias(&self, keys: usize, (device, dtype): (&Device, DType)) -> Tensor<2> {
        let dtype = match dtype {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let slopes = slopes(self.size.n_head);
        let shape = [slopes.len(), keys];
        let rows = slopes
            .into_iter()
            .flat_map(|slope| (0..keys).map(move |position| slope * position as f64));
        let data = TensorData::new(rows.collect::<Vec<f64>>(), shape);
        Tensor::from_data(data.convert_dtype(dtype), (device, dtype))
    }
}

/// Returns the ALiBi slope of each head: the increase of its score from one position to the next.
fn slopes(heads: u32) -> Vec<f64> {
    let power = 1u32 << heads.ilog2();
    let slope = |half_steps: u32| 2f64.powf(-4.0 * f64::from(half_steps) / f64::from(power));
    let first = (1..=power).map(|head| slope(2 * head));
    // If the number of heads is not a power of two, the remaining heads have the slopes 1, 3, 5, … of a model with `2 * power` heads.
    let others = (0..heads - power).map(|head| slope(2 * head + 1));
    first.chain(others).collect()
}

fn layer_name(layer: u32) -> String {
    format!("transformer.h.{layer}")
}

/// Returns the name of the attention matmuls.
fn attention_name(layer: &str) -> String {
    format!("{layer}.self_attention")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn published(head: TextHead) -> Bloom {
        Bloom::new(BloomSize::BLOOM_560M, head)
    }

    #[test]
    fn published_model_has_the_expected_parameter_count() {
        let count = |head| -> usize {
            let specs = published(head).parameters().into_iter();
            specs.map(|spec| spec.shape.iter().product::<usize>()).sum()
        };
        // Numbers of parameters as reported by Hugging Face.
        assert_eq!(count(TextHead::Tokens), 559_214_592);
        assert_eq!(count(TextHead::Classes(2)), 559_214_592 + 2 * 1024);
    }

    #[test]
    fn embeddings_and_norms_are_not_listed_as_layers() {
        for (head, name) in [(TextHead::Tokens, HEAD), (TextHead::Classes(2), SCORE)] {
            let layers = published(head).layers();
            // Four layers with weights and the attention in each block, and the head.
            assert_eq!(layers.len(), 24 * 5 + 1);
            assert_eq!(layers.iter().filter(|layer| *layer == name).count(), 1);
            assert!(
                !layers
                    .iter()
                    .any(|layer| layer.contains("norm") || layer.contains("ln_f"))
            );
            assert!(!published(head).multiplies(EMBEDDINGS));
        }
    }

    #[test]
    fn slopes_match_the_reference() {
        let assert_near = |got: Vec<f64>, expected: &[f64]| {
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(expected) {
                assert!(
                    (got / expected - 1.0).abs() < 1e-15,
                    "slope {got}, expected {expected}"
                );
            }
        };
        assert_near(slopes(1), &[2f64.powi(-8)]);
        assert_near(slopes(3), &[2f64.powi(-4), 2f64.powi(-8), 2f64.powi(-2)]);
        assert_near(slopes(4), &[-2, -4, -6, -8].map(|power| 2f64.powi(power)));
        // The slopes of eight heads, and four of the slopes of sixteen.
        let eight = [-1, -2, -3, -4, -5, -6, -7, -8].map(|power| 2f64.powi(power));
        let between = [-0.5, -1.5, -2.5, -3.5].map(|power: f64| 2f64.powf(power));
        assert_near(slopes(12), &[&eight[..], &between[..]].concat());
    }
}
