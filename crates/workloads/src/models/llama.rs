//! LLaMA (arXiv 2302.13971, 2307.09288, 2407.21783), the architecture of `Llama-2-7b` and `Llama-3.1-8B`.
//!
//! Pre-norm causal blocks with RMS norms, rotary embeddings of queries and keys, grouped-query attention, and a gated feed-forward layer. Layers
//! do not have biases, and there is no dropout.

use std::f64::consts::TAU;

use burn::tensor::{Device, Tensor};
use mantissa_core::{LlamaSize, RopeScaling};
use mantissa_precision::{Rotation, transpose_heads};

use super::{Batch, CausalInput, F32Layers, Init, Network, ParameterSpec, Pass, Specs};
use crate::{data::Tokenized, weights::Naming};

/// Standard deviation of initial weights, as in transformers.
const INIT_DEVIATION: f64 = 0.02;

/// Name of the embedding table.
const EMBEDDINGS: &str = "model.embed_tokens.weight";
/// Name of the head, which has its own matrix or is tied to the embedding table.
const HEAD: &str = "lm_head";

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct Llama {
    size: LlamaSize,
    f32_layers: F32Layers,
}

impl Llama {
    pub(crate) fn new(size: LlamaSize) -> Self {
        Self {
            size,
            f32_layers: F32Layers::default(),
        }
    }
}

impl Network for Llama {
    type Part = Tokenized;
    type Input = CausalInput;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let size = &self.size;
        let (width, inner) = (size.hidden_size as usize, size.intermediate_size as usize);
        let [queries, keys] = [size.num_attention_heads, size.num_key_value_heads]
            .map(|heads| heads as usize * size.head_dim as usize);
        let mut specs = Specs::default();
        let normal = Init::Normal(INIT_DEVIATION);
        let table = [size.vocab_size as usize, width];
        specs.add(EMBEDDINGS, &table, normal);
        for layer in (0..size.num_hidden_layers).map(layer_name) {
            let linear = [
                ("self_attn.q_proj", width, queries),
                ("self_attn.k_proj", width, keys),
                ("self_attn.v_proj", width, keys),
                ("self_attn.o_proj", queries, width),
                ("mlp.gate_proj", width, inner),
                ("mlp.up_proj", width, inner),
                ("mlp.down_proj", inner, width),
            ];
            for (part, from, to) in linear {
                specs.add(format!("{layer}.{part}.weight"), &[to, from], normal);
            }
            for norm in ["input_layernorm", "post_attention_layernorm"] {
                specs.add(format!("{layer}.{norm}.weight"), &[width], Init::Ones);
            }
        }
        specs.add("model.norm.weight", &[width], Init::Ones);
        if !size.tie_word_embeddings {
            specs.add(format!("{HEAD}.weight"), &table, normal);
        }
        specs.0
    }

    fn naming(&self) -> Naming {
        Naming {
            prefix: "model.",
            head: match self.size.tie_word_embeddings {
                true => &[],
                false => &["lm_head."],
            },
            classes: None,
            ignored: &["rotary_emb.inv_freq"],
        }
    }

    fn is_matmul_weight(name: &str) -> bool {
        name != EMBEDDINGS && !name.contains("norm")
    }

    fn attention_layers(&self) -> Vec<String> {
        let layers = (0..self.size.num_hidden_layers).map(layer_name);
        layers.map(|layer| attention_name(&layer)).collect()
    }

    fn tied_head(&self) -> Option<(&'static str, &'static str)> {
        self.size.tie_word_embeddings.then_some((HEAD, EMBEDDINGS))
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
        self.size.num_hidden_layers
    }

    fn embed(&self, pass: &Pass<'_>, input: &CausalInput) -> Tensor<2> {
        let table = pass.parameters.matrix(EMBEDDINGS);
        pass.compute.embedding(table, input.ids.clone().flatten(0, 1))
    }

    fn block(&self, pass: &Pass<'_>, block: u32, input: &CausalInput, hidden: Tensor<2>) -> Tensor<2> {
        let layer = layer_name(block);
        let epsilon = self.size.rms_norm_eps;
        let normal = pass.rms_norm(hidden.clone(), &format!("{layer}.input_layernorm"), epsilon);
        let attended = self.attention(pass, &normal, &attention_name(&layer), input.ids.dims());
        let hidden = pass.compute.add(attended, hidden);
        let name = format!("{layer}.post_attention_layernorm");
        let normal = pass.rms_norm(hidden.clone(), &name, epsilon);
        let output = gated_feed_forward(pass, normal, &format!("{layer}.mlp"));
        pass.compute.add(output, hidden)
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &CausalInput) -> Tensor<2> {
        let normal = pass.rms_norm(hidden, "model.norm", self.size.rms_norm_eps);
        let rows = pass.gather_rows(normal, &input.rows);
        match self.size.tie_word_embeddings {
            true => pass.tied_linear(rows, EMBEDDINGS, HEAD),
            false => pass.linear_without_bias(rows, HEAD),
        }
    }
}

/// Hidden states have the shape `[n · sequence, width]`, so that every linear layer is one matmul.
impl Llama {
    /// Computes causal self-attention of hidden states `[n · sequence, width]`, in the same shape.
    fn attention(
        &self,
        pass: &Pass<'_>,
        hidden: &Tensor<2>,
        name: &str,
        [n, sequence]: [usize; 2],
    ) -> Tensor<2> {
        let size = &self.size;
        let part = |projection: &str, heads: u32| {
            let projected = pass.linear_without_bias(hidden.clone(), &format!("{name}.{projection}"));
            let heads = [n, sequence, heads as usize, size.head_dim as usize];
            transpose_heads(projected.reshape(heads))
        };
        let query = part("q_proj", size.num_attention_heads);
        let key = part("k_proj", size.num_key_value_heads);
        let value = part("v_proj", size.num_key_value_heads);
        let rotation = pass.rotation(|| {
            let positions = pass.past_tokens()..pass.past_tokens() + sequence;
            let kind = (&hidden.device(), hidden.dtype());
            Rotation::new(&frequencies(size), positions, size.rope_interleaved, kind)
        });
        let [query, key] = [query, key].map(|part| pass.matmul_compute(name).rotary(part, rotation));
        let mixed = pass.causal_attention([query, key, value], (name, 0.0), None);
        pass.linear_without_bias(mixed, &format!("{name}.o_proj"))
    }
}

/// Computes the gated feed-forward layer.
fn gated_feed_forward(pass: &Pass<'_>, hidden: Tensor<2>, layer: &str) -> Tensor<2> {
    let [gate, up, down] = ["gate_proj", "up_proj", "down_proj"].map(|part| format!("{layer}.{part}"));
    let products = pass.matmul_compute(&gate);
    let open = products.silu(pass.linear_without_bias(hidden.clone(), &gate));
    let open = pass.record(&format!("{layer}.act_fn"), open);
    let wide = products.mul(open, pass.linear_without_bias(hidden, &up));
    pass.linear_without_bias(pass.record(&format!("{layer}.gated"), wide), &down)
}

/// Returns the rotation frequencies in radians per position, for each pair of elements of a head: `[head_dim / 2]`.
fn frequencies(size: &LlamaSize) -> Vec<f64> {
    let frequency = |pair: u32| {
        let share = f64::from(2 * pair) / f64::from(size.head_dim);
        let frequency = size.rope_theta.powf(share).recip();
        match &size.rope_scaling {
            Some(scaling) => scaled(frequency, scaling),
            None => frequency,
        }
    };
    (0..size.head_dim / 2).map(frequency).collect()
}

/// Scales a frequency as in LLaMA 3.1, which reduces frequencies that complete few turns (periods) within the original context length.
fn scaled(frequency: f64, scaling: &RopeScaling) -> f64 {
    let turns = f64::from(scaling.original_max_position_embeddings) * frequency / TAU;
    let (low, high) = (scaling.low_freq_factor, scaling.high_freq_factor);
    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
    (1.0 - kept) * frequency / scaling.factor + kept * frequency
}

fn layer_name(layer: u32) -> String {
    format!("model.layers.{layer}")
}

/// Returns the name of the attention matmuls.
fn attention_name(layer: &str) -> String {
    format!("{layer}.self_attn")
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn published_model_has_the_expected_parameter_count() {
        let specs = Llama::new(LlamaSize::LLAMA2_7B).parameters();
        let counts = specs.iter().map(|spec| spec.shape.iter().product::<usize>());
        // Number of parameters as reported by Hugging Face.
        assert_eq!(counts.sum::<usize>(), 6_738_415_616);
    }

    #[test]
    fn the_head_is_a_layer_with_and_without_tied_embeddings() {
        let of = |tied| {
            Llama::new(LlamaSize {
                tie_word_embeddings: tied,
                ..LlamaSize::LLAMA2_7B
            })
        };
        for tied in [false, true] {
            let layers = of(tied).layers();
            // Seven layers with weights and the attention in each block, and the head.
            assert_eq!(layers.len(), 32 * 8 + 1, "tied: {tied}");
            assert_eq!(
                layers.iter().filter(|layer| *layer == HEAD).count(),
                1,
                "tied: {tied}"
            );
            assert!(!layers.iter().any(|layer| layer.contains("norm")));
            // The embedding lookup reads the table in its original format.
            assert!(!of(tied).multiplies(EMBEDDINGS));
        }
        let heads = |tied| {
            let specs = of(tied).parameters().into_iter();
            specs.filter(|spec| spec.name == "lm_head.weight").count()
        };
        assert_eq!((heads(false), heads(true)), (1, 0));
    }

    /// Returns the model size and the frequencies that transformers computes for heads of width `head_dim`.
    fn expected(golden: &Value, head_dim: u32) -> (LlamaSize, Vec<f64>) {
        let config = &golden["config"];
        let size = LlamaSize {
            head_dim,
            rope_theta: config["rope_theta"].as_f64().unwrap(),
            rope_scaling: serde_json::from_value(config["rope_scaling"].clone()).unwrap(),
            ..LlamaSize::LLAMA2_7B
        };
        let table = golden["inverse_frequencies"].as_array().unwrap();
        (size, table.iter().map(|x| x.as_f64().unwrap()).collect())
    }

    #[test]
    fn frequencies_match_transformers_with_and_without_scaling() {
        let golden = |text: &str| -> Value {
            let mut golden: Value = serde_json::from_str(text).unwrap();
            let table = golden["float64"]["inverse_frequencies"].clone();
            golden["inverse_frequencies"] = table;
            golden
        };
        let grouped = golden(include_str!("../../tests/golden/llama-grouped.json"));
        let tied = golden(include_str!("../../tests/golden/llama-tied.json"));
        // Frequencies of the published Llama 3.1 8B, some of which are not scaled.
        let published = &tied["float64"]["llama_3_1_8b"];
        for (golden, head_dim) in [(&grouped, 4), (&tied, 6), (published, 128)] {
            let (size, expected) = expected(golden, head_dim);
            let got = frequencies(&size);
            assert_eq!(
                (got.len(), expected.len()),
                (head_dim as usize / 2, head_dim as usize / 2)
            );
            for (got, expected) in got.iter().zip(&expected) {
                assert!(
                    (got / expected - 1.0).abs() < 1e-13,
                    "frequency {got}, expected {expected}"
                );
            }
        }
        let plain = LlamaSize {
            rope_scaling: None,
            ..expected(published, 128).0
        };
        let (scaled, plain) = (frequencies(&expected(published, 128).0), frequencies(&plain));
        assert_eq!(scaled[..20], plain[..20]);
        assert_eq!(scaled[63], plain[63] / 8.0);
    }
}
