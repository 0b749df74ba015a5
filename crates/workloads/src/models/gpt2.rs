//! GPT-2 (Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"), the architecture of `gpt2`.
//!
//! Pre-norm causal blocks with learned positions and the tanh approximation of GELU. The head is tied to the embedding table. Dropout is applied as
//! in transformers: after the embeddings, to the attention weights, and after the last layer of attention and feed-forward part.

use burn::tensor::{Device, Tensor};
use mantissa_core::{Gelu, Gpt2Size};
use mantissa_precision::transpose_heads;

use super::{Batch, CausalInput, F32Layers, Init, Network, ParameterSpec, Pass, Specs};
use crate::{data::Tokenized, weights::Naming};

/// Standard deviation of initial weights, as in transformers.
const INIT_DEVIATION: f64 = 0.02;

/// Name of the embedding table.
const EMBEDDINGS: &str = "transformer.wte.weight";
/// Name of the position embeddings.
const POSITIONS: &str = "transformer.wpe.weight";
/// Name of the last norm.
const LAST_NORM: &str = "transformer.ln_f";
/// Name of the head, which is tied to the embedding table.
const HEAD: &str = "lm_head";

/// Architecture with its shape.
#[derive(Debug, Clone)]
pub(crate) struct Gpt2 {
    size: Gpt2Size,
    f32_layers: F32Layers,
}

impl Gpt2 {
    pub(crate) fn new(size: Gpt2Size) -> Self {
        Self {
            size,
            f32_layers: F32Layers::default(),
        }
    }

    /// Returns the width of the residual stream.
    fn width(&self) -> usize {
        self.size.n_embd as usize
    }
}

impl Network for Gpt2 {
    type Part = Tokenized;
    type Input = CausalInput;

    fn parameters(&self) -> Vec<ParameterSpec> {
        let (size, width) = (&self.size, self.width());
        let inner = size.n_inner as usize;
        let mut specs = Specs::default();
        let normal = Init::Normal(INIT_DEVIATION);
        // Initial weights of layers that write to the residual stream are smaller in deeper models.
        let residual = Init::Normal(INIT_DEVIATION / f64::from(2 * size.n_layer).sqrt());
        specs.add(EMBEDDINGS, &[size.vocab_size as usize, width], normal);
        specs.add(POSITIONS, &[size.n_positions as usize, width], normal);
        // GPT-2 stores matrices as `[inputs, outputs]`.
        let add_transposed = |specs: &mut Specs, name: String, shape: [usize; 2], init| {
            specs.add(format!("{name}.weight"), &shape, init);
            specs.add(format!("{name}.bias"), &shape[1..], Init::Zeros);
        };
        for layer in (0..size.n_layer).map(layer_name) {
            specs.norm(&format!("{layer}.ln_1"), width);
            add_transposed(
                &mut specs,
                format!("{layer}.attn.c_attn"),
                [width, 3 * width],
                normal,
            );
            add_transposed(
                &mut specs,
                format!("{layer}.attn.c_proj"),
                [width, width],
                residual,
            );
            specs.norm(&format!("{layer}.ln_2"), width);
            add_transposed(&mut specs, format!("{layer}.mlp.c_fc"), [width, inner], normal);
            add_transposed(
                &mut specs,
                format!("{layer}.mlp.c_proj"),
                [inner, width],
                residual,
            );
        }
        specs.norm(LAST_NORM, width);
        specs.0
    }

    fn naming(&self) -> Naming {
        Naming {
            prefix: "transformer.",
            head: &[],
            classes: None,
            // Ignore the causal mask and `lm_head`, which duplicates the embedding table.
            ignored: &[".attn.bias", ".attn.masked_bias", "lm_head."],
        }
    }

    fn is_matmul_weight(name: &str) -> bool {
        ![EMBEDDINGS, POSITIONS].contains(&name) && !name.contains(".ln_")
    }

    fn attention_layers(&self) -> Vec<String> {
        let layers = (0..self.size.n_layer).map(layer_name);
        layers.map(|layer| attention_name(&layer)).collect()
    }

    fn tied_head(&self) -> Option<(&'static str, &'static str)> {
        Some((HEAD, EMBEDDINGS))
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
        let [n, sequence] = input.ids.dims();
        let table = pass.parameters.matrix(EMBEDDINGS);
        let tokens = pass.compute.embedding(table, input.ids.clone().flatten(0, 1));
        let positions = pass.parameters.matrix(POSITIONS);
        let positions = positions.narrow(0, pass.past_tokens(), sequence);
        let positions = pass.compute.repeated(positions, n);
        let embedded = pass.compute.add(tokens, positions.flatten(0, 1));
        pass.dropout(embedded, self.size.embd_pdrop)
    }

    fn block(&self, pass: &Pass<'_>, block: u32, input: &CausalInput, hidden: Tensor<2>) -> Tensor<2> {
        let layer = layer_name(block);
        let (epsilon, dropout) = (self.size.layer_norm_epsilon, self.size.resid_pdrop);
        let normal = pass.layer_norm(hidden.clone(), &format!("{layer}.ln_1"), epsilon);
        let attended = self.attention(pass, normal, &attention_name(&layer), input.ids.dims());
        let hidden = pass.compute.add(pass.dropout(attended, dropout), hidden);
        let normal = pass.layer_norm(hidden.clone(), &format!("{layer}.ln_2"), epsilon);
        let [first, activation, second] = ["c_fc", "act", "c_proj"].map(|part| format!("{layer}.mlp.{part}"));
        let wide = pass.transposed_linear(normal, &first);
        let wide = pass.matmul_compute(&first).gelu_as(Gelu::Tanh, wide);
        let output = pass.transposed_linear(pass.record(&activation, wide), &second);
        pass.compute.add(pass.dropout(output, dropout), hidden)
    }

    fn head(&self, pass: &Pass<'_>, hidden: Tensor<2>, input: &CausalInput) -> Tensor<2> {
        let normal = pass.layer_norm(hidden, LAST_NORM, self.size.layer_norm_epsilon);
        pass.tied_linear(pass.gather_rows(normal, &input.rows), EMBEDDINGS, HEAD)
    }
}

/// Hidden states have the shape `[n · sequence, width]`, so that every linear layer is one matmul.
impl Gpt2 {
    /// Computes causal self-attention of hidden states `[n · sequence, width]`, in the same shape.
    fn attention(
        &self,
        pass: &Pass<'_>,
        hidden: Tensor<2>,
        name: &str,
        [n, sequence]: [usize; 2],
    ) -> Tensor<2> {
        // Queries, keys and values are concatenated along the columns.
        let fused = pass.transposed_linear(hidden, &format!("{name}.c_attn"));
        let (heads, width) = (self.size.n_head as usize, self.width());
        let parts = [0, 1, 2].map(|part| {
            let part = fused.clone().narrow(1, part * width, width);
            let heads = [n, sequence, heads, width / heads];
            transpose_heads(part.reshape(heads))
        });
        let mixed = pass.causal_attention(parts, (name, self.size.attn_pdrop), None);
        pass.transposed_linear(mixed, &format!("{name}.c_proj"))
    }
}

fn layer_name(layer: u32) -> String {
    format!("transformer.h.{layer}")
}

/// Returns the name of the attention matmuls.
fn attention_name(layer: &str) -> String {
    format!("{layer}.attn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Gpt2 {
        Gpt2::new(Gpt2Size::SMALL)
    }

    #[test]
    fn published_model_has_the_expected_parameter_count() {
        let specs = small().parameters();
        let counts = specs.iter().map(|spec| spec.shape.iter().product::<usize>());
        // Number of parameters as reported by Hugging Face.
        assert_eq!(counts.sum::<usize>(), 124_439_808);
    }

    #[test]
    fn embeddings_and_norms_are_not_listed_as_layers() {
        let layers = small().layers();
        // Four layers with weights and the attention in each block, and the head.
        assert_eq!(layers.len(), 12 * 5 + 1);
        assert_eq!(layers.last().unwrap(), HEAD);
        assert!(!layers.iter().any(|layer| layer.contains("ln_")));
        assert!(!small().multiplies(EMBEDDINGS) && !small().multiplies(POSITIONS));
    }
}
