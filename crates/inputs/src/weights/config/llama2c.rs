//! Model size in the header of a llama2.c checkpoint.

use mantissa_core::{LlamaSize, Model};

use crate::weights::llama2c::Header;

/// Converts the header to a model.
pub(super) fn model(header: &Header) -> Result<Model, String> {
    if !(header.dim / header.n_heads).is_multiple_of(2) {
        return Err(format!(
            "width {} with {} heads has an odd head dimension; rotary embedding needs an even one",
            header.dim, header.n_heads
        ));
    }
    let to_u32 =
        |number: usize| u32::try_from(number).map_err(|_| format!("{number} is too large for a model size"));
    Ok(Model::Llama(LlamaSize {
        vocab_size: to_u32(header.vocab_size)?,
        hidden_size: to_u32(header.dim)?,
        intermediate_size: to_u32(header.hidden_dim)?,
        num_hidden_layers: to_u32(header.n_layers)?,
        num_attention_heads: to_u32(header.n_heads)?,
        num_key_value_heads: to_u32(header.n_kv_heads)?,
        head_dim: to_u32(header.dim / header.n_heads)?,
        max_position_embeddings: to_u32(header.seq_len)?,
        // Constants of llama2.c.
        rms_norm_eps: 1e-5,
        rope_theta: 10_000.0,
        rope_scaling: None,
        rope_interleaved: true,
        tie_word_embeddings: header.tied,
    }))
}
