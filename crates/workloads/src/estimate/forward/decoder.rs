//! Decoders: GPT-2, BLOOM and LLaMA.

use mantissa_core::{BloomSize, Gpt2Size, LlamaSize};

use super::{Forward, transformer_block::Block};
use crate::estimate::ledger::SavedTensor;

impl Forward {
    pub(super) fn gpt2(&mut self, size: &Gpt2Size) -> Vec<SavedTensor> {
        let placed = self.embed(size.n_embd);
        let mut hidden = vec![self.ledger.dropout(placed, size.embd_pdrop)];
        self.causal_mask();
        for layer in 0..size.n_layer {
            let name = |part: &str| format!("transformer.h.{layer}.{part}");
            let block = Block {
                projections: vec![name("attn.c_attn")],
                attention: name("attn"),
                layers: ["attn.c_proj", "mlp.c_fc", "mlp.c_proj"].map(name),
                heads: size.n_head.into(),
                width: size.n_embd.into(),
                inner: size.n_inner.into(),
                dropout: [size.attn_pdrop, size.resid_pdrop, size.resid_pdrop],
            };
            hidden.push(self.pre_norm(&block, hidden[layer as usize]));
        }
        let last = hidden[size.n_layer as usize];
        let normal = self.ledger.layer_norm(last, self.tokens());
        let predicted = self.predicted_rows(normal, size.n_embd);
        self.tied_head(predicted, "lm_head", (size.vocab_size.into(), size.n_embd));
        hidden
    }

    pub(super) fn bloom(&mut self, size: &BloomSize) -> Vec<SavedTensor> {
        let width = size.hidden_size;
        let embedded = self.embed(width);
        let mut hidden = vec![self.ledger.layer_norm(embedded, self.tokens())];
        self.causal_mask();
        for layer in 0..size.n_layer {
            let name = |part: &str| format!("transformer.h.{layer}.{part}");
            let block = Block {
                projections: vec![name("self_attention.query_key_value")],
                attention: name("self_attention"),
                layers: ["self_attention.dense", "mlp.dense_h_to_4h", "mlp.dense_4h_to_h"].map(name),
                heads: size.n_head.into(),
                width: width.into(),
                inner: 4 * u64::from(width),
                dropout: [size.attention_dropout, size.hidden_dropout, size.hidden_dropout],
            };
            hidden.push(self.pre_norm(&block, hidden[layer as usize]));
        }
        let last = hidden[size.n_layer as usize];
        let normal = self.ledger.layer_norm(last, self.tokens());
        if self.predicts_tokens {
            let predicted = self.predicted_rows(normal, width);
            self.tied_head(predicted, "lm_head", (size.vocab_size.into(), width));
        } else {
            // BLOOM classifies the last token of each example, which it selects by index.
            self.ledger.indices(self.n);
            let last_tokens = self.token_per_example(normal, width);
            self.classify(last_tokens, "score");
        }
        hidden
    }

    pub(super) fn llama(&mut self, size: &LlamaSize) -> Vec<SavedTensor> {
        let (tokens, width) = (self.tokens(), size.hidden_size);
        let head_dim = u64::from(size.head_dim);
        let (heads, shared) = (
            u64::from(size.num_attention_heads),
            u64::from(size.num_key_value_heads),
        );
        let values = tokens * u64::from(width);
        let mut hidden = vec![self.embed(width)];
        self.causal_mask();
        // Cosines and sines of the rotary embedding.
        self.ledger.constants(self.sequence * head_dim);
        for layer in 0..size.num_hidden_layers {
            let name = |part: &str| format!("model.layers.{layer}.{part}");
            let before = hidden[layer as usize];
            let normal = self.ledger.rms_norm(before, tokens);
            let projections = [("q_proj", heads), ("k_proj", shared), ("v_proj", shared)];
            let [query, key, value] = projections.map(|(part, heads)| {
                let part = name(&format!("self_attn.{part}"));
                self.ledger.layer(normal, &part, tokens * heads * head_dim)
            });
            let [query, key] = [query, key].map(|part| self.ledger.unsaved(part));
            let scores = (tokens * heads * self.sequence, heads / shared);
            let mixed = self
                .ledger
                .attention([query, key, value], &name("self_attn"), scores, 0.0);
            let attended = self.ledger.layer(mixed, &name("self_attn.o_proj"), values);
            let between = self.ledger.sum([attended, before]);
            let normal = self.ledger.rms_norm(between, tokens);
            let wide = tokens * u64::from(size.intermediate_size);
            let gate = self.ledger.layer(normal, &name("mlp.gate_proj"), wide);
            let open = self.ledger.silu(gate);
            let up = self.ledger.layer(normal, &name("mlp.up_proj"), wide);
            let gated = self.ledger.product([open, up]);
            let narrow = self.ledger.layer(gated, &name("mlp.down_proj"), values);
            hidden.push(self.ledger.sum([narrow, between]));
        }
        let last = hidden[size.num_hidden_layers as usize];
        let normal = self.ledger.rms_norm(last, tokens);
        let (predicted, rows) = self.predicted_rows(normal, width);
        let vocabulary_size = u64::from(size.vocab_size);
        if size.tie_word_embeddings {
            self.tied_head((predicted, rows), "lm_head", (vocabulary_size, width));
        } else {
            let logits = self.ledger.layer(predicted, "lm_head", rows * vocabulary_size);
            self.ledger.cross_entropy(logits, rows);
        }
        hidden
    }

    /// Adds the causal mask, which all layers share.
    fn causal_mask(&mut self) {
        self.ledger.mask(self.sequence * self.sequence);
    }
}
