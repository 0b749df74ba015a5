//! Bytes of cached keys and values.

use mantissa_core::{Cell, GenerateTask, Model};

use super::formats::{bytes, f32_layers, matmul_format};

/// Returns the bytes of the cached keys and values after the last token is generated. The cache does not contain the last token, because
/// the model does not read it.
pub(super) fn keys_and_values(cell: &Cell, task: &GenerateTask) -> u64 {
    let (layers, width, name): (u32, u64, fn(u32) -> [String; 2]) = match &task.model {
        Model::Llama(size) => (
            size.num_hidden_layers,
            u64::from(size.num_key_value_heads) * u64::from(size.head_dim),
            |layer| ["k_proj", "v_proj"].map(|part| format!("model.layers.{layer}.self_attn.{part}")),
        ),
        Model::Gpt2(size) => (size.n_layer, size.n_embd.into(), |layer| {
            [(); 2].map(|()| format!("transformer.h.{layer}.attn.c_attn"))
        }),
        Model::Bloom(size) => (size.n_layer, size.hidden_size.into(), |layer| {
            [(); 2].map(|()| format!("transformer.h.{layer}.self_attention.query_key_value"))
        }),
        _ => return 0,
    };
    let (layers_in_f32, precision) = (f32_layers(cell), cell.setting.precision());
    // Keys and values have the format of the layers that compute them.
    let value_bytes = |layer: String| bytes(matmul_format(precision, layers_in_f32.contains(&layer)));
    let layer_bytes: u64 = (0..layers).flat_map(name).map(value_bytes).sum();
    let tokens = u64::from(task.prompt_tokens) + u64::from(task.new_tokens.saturating_sub(1));
    u64::from(cell.setting.batch()) * tokens * width * layer_bytes
}
